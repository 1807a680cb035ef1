//! What one scan met.

use std::fmt;

use super::get::{BlockRead, Source};
use super::text::{self, Key};
use super::totals::ReadTotals;
use crate::cloud::CloudCost;

/// Why a scan steps over the newest entry of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// It is a tombstone.
    Tombstone,
    /// It has expired.
    Expired,
    /// A range tombstone covers it.
    RangeTombstone,
}

/// How many keys a scan stepped over, by what hid them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct HiddenCounts {
    /// Tombstones.
    pub tombstones: u64,
    /// Expired entries.
    pub expired: u64,
    /// Entries under a range tombstone.
    pub range_tombstones: u64,
}

impl HiddenCounts {
    pub(crate) fn add(&mut self, why: Hidden) {
        match why {
            Hidden::Tombstone => self.tombstones += 1,
            Hidden::Expired => self.expired += 1,
            Hidden::RangeTombstone => self.range_tombstones += 1,
        }
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.tombstones + self.expired + self.range_tombstones
    }
}

/// Where a scan took its keys from, and what it stepped over. `Display` shows it to people as a
/// tree, `Serialize` to programs; there, keys are escaped as `\xHH \t \n \r \\ \' \"`.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ScanExplanation {
    /// The first key of the interval.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::explain::text::escaped"))]
    pub start: Vec<u8>,
    /// The first key behind it, if there is one.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::explain::text::escaped_bound"))]
    pub end: Option<Vec<u8>>,
    /// Whether it went from the last key to the first.
    pub reverse: bool,
    /// The most keys that were wanted.
    pub limit: u64,
    /// The number that it was read at.
    pub read_point: u64,
    /// How many keys it showed.
    pub key_count: u64,
    /// The bytes of these keys and their values.
    pub bytes: u64,
    /// The keys that it stepped over.
    pub hidden: HiddenCounts,
    /// Entries that it stepped over because another source had a newer one of the same key.
    pub shadowed: u64,
    /// Entries within one table that it stepped over because the table has a newer one, or because
    /// they are newer than the read point. (Over many of one key it leaps: those are not counted.)
    pub versions: u64,
    /// How many range tombstones it had to ask about.
    pub range_tombstone_count: u64,
    /// Where the keys came from.
    pub sources: Vec<SourceTally>,
    /// The blocks that were read, by level.
    pub levels: Vec<LevelBlocks>,
    /// What all of it comes to.
    pub totals: ReadTotals,
    /// What the scan asked of the object store, and about what that costs; `None` if it asked
    /// nothing. What it asked for ahead is in it, whether or not it came to it.
    pub cloud: Option<CloudCost>,
    /// Why it ended.
    pub ended_by: ScanEnd,
    /// How long all of it took, in microseconds.
    pub us: f64,
}

/// What one source gave to a scan.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SourceTally {
    /// Which one.
    pub source: Source,
    /// How many keys it stood on, the first one behind the end included.
    pub met: u64,
    /// Of how many keys it had the newest entry.
    pub newest: u64,
    /// Blocks that were in the cache.
    pub cached_blocks: u64,
    /// Blocks that were read from files.
    pub file_blocks: u64,
    /// The bytes of these in the files.
    pub file_bytes: u64,
    /// How long it worked, in microseconds.
    pub us: f64,
}

/// The blocks of one level that a scan looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LevelBlocks {
    /// The level.
    pub level: u8,
    /// Blocks that were in the cache.
    pub cached_blocks: u64,
    /// Blocks that were read from files.
    pub file_blocks: u64,
    /// The bytes of these in the files.
    pub file_bytes: u64,
}

/// Why a scan ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ScanEnd {
    /// There were all the keys that were wanted.
    Limit,
    /// The interval has no more.
    #[default]
    Interval,
}

impl SourceTally {
    pub(super) fn new(source: Source) -> SourceTally {
        SourceTally {
            source,
            met: 0,
            newest: 0,
            cached_blocks: 0,
            file_blocks: 0,
            file_bytes: 0,
            us: 0.0,
        }
    }

    pub(super) fn block(&mut self, block: &BlockRead) {
        if block.was_cached {
            self.cached_blocks += 1;
        } else {
            self.file_blocks += 1;
            self.file_bytes += block.file_bytes;
        }
    }
}

/// The sums of the sources by level, L0 first.
pub(super) fn by_level(sources: &[SourceTally]) -> Vec<LevelBlocks> {
    let mut levels: Vec<LevelBlocks> = Vec::new();
    for tally in sources {
        let level = match tally.source {
            Source::Table { level, .. } | Source::Level { level, .. } => level,
            Source::Row { .. } => 0,
            _ => continue,
        };
        let index = levels.iter().position(|blocks| blocks.level == level).unwrap_or_else(|| {
            levels.push(LevelBlocks { level, cached_blocks: 0, file_blocks: 0, file_bytes: 0 });
            levels.len() - 1
        });
        levels[index].cached_blocks += tally.cached_blocks;
        levels[index].file_blocks += tally.file_blocks;
        levels[index].file_bytes += tally.file_bytes;
    }
    levels.sort_by_key(|blocks| blocks.level);
    levels
}

impl fmt::Display for ScanExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.start.as_slice(), &self.end) {
            ([], None) => write!(f, "SCAN of all keys")?,
            (start, None) => write!(f, "SCAN from '{}' on", Key(start))?,
            (start, Some(end)) => write!(f, "SCAN from '{}' up to '{}'", Key(start), Key(end))?,
        }
        if self.reverse {
            f.write_str(", backwards")?;
        }
        writeln!(f, ", at number {}; {}", self.read_point, text::time(self.us).trim_start())?;
        writeln!(f, "├─ {:32}  {:>8} {:>8} {:>8} {:>8}", "", "keys", "newest", "blocks", "from")?;
        writeln!(
            f,
            "├─ {:32}  {:>8} {:>8} {:>8} {:>8} {:>10} {:>9}",
            "source", "met", "entries", "cached", "files", "bytes", "time"
        )?;
        for tally in &self.sources {
            writeln!(
                f,
                "├─ {:32}  {:>8} {:>8} {:>8} {:>8} {:>10} {}",
                tally.source.to_string(),
                tally.met,
                tally.newest,
                tally.cached_blocks,
                tally.file_blocks,
                text::bytes(tally.file_bytes),
                text::time(tally.us)
            )?;
        }
        let hidden = &self.hidden;
        writeln!(
            f,
            "├─ stepped over {}, {}, {} under range tombstones",
            text::count(hidden.tombstones, "tombstone", "tombstones"),
            text::count(hidden.expired, "expired entry", "expired entries"),
            hidden.range_tombstones
        )?;
        writeln!(
            f,
            "├─ stepped over {} with a newer one elsewhere, {} within a table",
            text::count(self.shadowed, "entry", "entries"),
            self.versions
        )?;
        if self.range_tombstone_count > 0 {
            let asked =
                text::count(self.range_tombstone_count, "range tombstone", "range tombstones");
            writeln!(f, "├─ asked about {asked}")?;
        }
        writeln!(f, "├─ {}", self.totals)?;
        if let Some(cloud) = &self.cloud {
            writeln!(f, "├─ object store: {cloud}")?;
        }
        let why = match self.ended_by {
            ScanEnd::Limit => "the limit",
            ScanEnd::Interval => "the end of the interval",
        };
        let keys = text::count(self.key_count, "key", "keys");
        write!(f, "└─ {keys}, {}, until {why}", text::bytes(self.bytes))
    }
}
