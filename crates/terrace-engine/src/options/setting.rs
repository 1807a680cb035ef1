//! The options that an open database can be given anew.

use std::fmt;

use super::ProcessOptions;
use crate::{Error, Result};

/// An option with a new value, for a database that stays open. What can change belongs to the
/// process: all databases that share its cache, memory and threads have it from then on.
///
/// `Display` shows it as `name=value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Setting {
    /// How many bytes a second flushes and compactions may write; `None` for no limit. It holds for
    /// what is under way.
    BackgroundIoLimit(Option<u64>),
    /// Bytes of the cache for blocks of tables. A smaller cache gives up blocks at once.
    CacheBytes(u64),
    /// Bytes of memory that all parts together may take. With a smaller limit writers may have to
    /// wait until flushes have made room.
    MemoryBytes(u64),
    /// The number of threads that compact; 0 for one for each core, at most 4. A thread that is too
    /// many ends after the job that it has.
    BackgroundThreads(usize),
}

/// Options that are chosen at an open, by the names that programs and servers know.
const AT_AN_OPEN: [&str; 18] = [
    "compression",
    "create",
    "dranges",
    "durability",
    "filter_bits_per_key",
    "l0",
    "level_bytes_base",
    "listeners",
    "log_path",
    "log_volume",
    "lookup_index_bytes",
    "memtable_bytes",
    "memtable_merging",
    "memtables_kept",
    "merge_operators",
    "read_only",
    "recovery_threads",
    "research",
];

impl Setting {
    /// The names of the options that can change.
    pub const NAMES: [&str; 4] =
        ["background_io_limit", "cache_bytes", "memory_bytes", "background_threads"];

    /// The option of this name, with a value in digits; `_` may be written as `-`, and a limit of 0
    /// is none.
    ///
    /// Errors: `Invalid` (there is no such option; it takes an open; the value is no number).
    #[doc(hidden)]
    pub fn parse(name: &str, value: &str) -> Result<Setting> {
        let known = name.to_ascii_lowercase().replace('-', "_");
        if AT_AN_OPEN.contains(&known.as_str()) {
            return Err(Error::invalid(format!(
                "{known} takes an open: close the database, and open it with the new value; what \
                 can change while it is open is {}",
                Setting::NAMES.join(", ")
            )));
        }
        if !Setting::NAMES.contains(&known.as_str()) {
            return Err(Error::invalid(format!(
                "there is no option {name}; what can change while a database is open is {}",
                Setting::NAMES.join(", ")
            )));
        }
        let number: u64 = value.parse().map_err(|_| {
            Error::invalid(format!("{known} is a whole number without a unit, and not {value:?}"))
        })?;
        Ok(match known.as_str() {
            "background_io_limit" => Setting::BackgroundIoLimit((number > 0).then_some(number)),
            "cache_bytes" => Setting::CacheBytes(number),
            "memory_bytes" => Setting::MemoryBytes(number),
            _ => Setting::BackgroundThreads(usize::try_from(number).unwrap_or(usize::MAX)),
        })
    }

    /// The name of the option.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Setting::BackgroundIoLimit(_) => Setting::NAMES[0],
            Setting::CacheBytes(_) => Setting::NAMES[1],
            Setting::MemoryBytes(_) => Setting::NAMES[2],
            Setting::BackgroundThreads(_) => Setting::NAMES[3],
        }
    }

    /// The value as a number; 0 for no limit.
    #[must_use]
    pub fn value(&self) -> u64 {
        match self {
            Setting::BackgroundIoLimit(limit) => limit.unwrap_or(0),
            Setting::CacheBytes(bytes) | Setting::MemoryBytes(bytes) => *bytes,
            Setting::BackgroundThreads(count) => *count as u64,
        }
    }

    /// Puts it among the options of a process.
    pub(crate) fn put_into(self, options: &mut ProcessOptions) {
        match self {
            Setting::BackgroundIoLimit(limit) => options.background_io_limit = limit,
            Setting::CacheBytes(bytes) => options.cache_bytes = bytes,
            Setting::MemoryBytes(bytes) => options.memory_bytes = bytes,
            Setting::BackgroundThreads(count) => options.compaction_threads = count,
        }
    }

    /// What there is in `options` of all that can change, in the order of [`Setting::NAMES`].
    pub(crate) fn all_of(options: &ProcessOptions) -> [Setting; 4] {
        [
            Setting::BackgroundIoLimit(options.background_io_limit),
            Setting::CacheBytes(options.cache_bytes),
            Setting::MemoryBytes(options.memory_bytes),
            Setting::BackgroundThreads(options.compaction_threads),
        ]
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name(), self.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_read_as_it_is_shown_and_what_takes_an_open_says_so() {
        for setting in Setting::all_of(&ProcessOptions::default()) {
            let text = setting.value().to_string();
            assert_eq!(Setting::parse(setting.name(), &text).ok(), Some(setting));
            let by_hyphens = setting.name().replace('_', "-");
            assert_eq!(Setting::parse(&by_hyphens, &text).ok(), Some(setting));
        }
        let refused = |name, value| Setting::parse(name, value).unwrap_err().to_string();
        assert!(refused("memtable-bytes", "1").starts_with("memtable_bytes takes an open"));
        assert!(refused("no_such", "1").starts_with("there is no option no_such"));
        assert!(refused("cache_bytes", "1M").contains("without a unit"));
    }
}
