//! How a range and its process are set up. Plain data; [`Options::validate`] is the one place that
//! judges it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::merge::MergeOperators;
use crate::table::{Compression, TableOptions};
use crate::{Error, Result};

/// When a write is acknowledged, relative to what it survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// In the kernel's pages: survives a killed process, not a lost machine. The default.
    #[default]
    Buffered,
    /// As `Buffered`; and the log is synced at least this often, so a lost machine loses at most
    /// that much.
    Interval(Duration),
    /// Synced: survives a lost machine. Writes of one range that wait at the same time share a
    /// sync.
    Sync,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::Buffered => f.write_str("buffered"),
            Durability::Interval(period) => write!(f, "interval:{}", period.as_millis()),
            Durability::Sync => f.write_str("sync"),
        }
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Durability> {
        match text {
            "buffered" => return Ok(Durability::Buffered),
            "sync" => return Ok(Durability::Sync),
            _ => {}
        }
        let millis = text.strip_prefix("interval:").and_then(|millis| millis.parse().ok());
        match millis {
            Some(millis) if millis > 0 => Ok(Durability::Interval(Duration::from_millis(millis))),
            _ => Err(Error::invalid(format!(
                "\"{text}\" is no durability class: use buffered, interval:MS (at least 1) or sync"
            ))),
        }
    }
}

/// What stands behind the seam of L0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum L0Kind {
    /// Rows are tables in files.
    #[default]
    Plain,
    /// Rows lie in the pages of a container, and cuts go round ([`triangle`](crate::l0::triangle)).
    Triangle,
    /// The same, but columns are taken out of a set of rows, and what comes meanwhile waits for the next
    /// set: the baseline of the triangle.
    Matrix,
    /// Rows are tables in files, and `l0_bytes` are for memtables: two of half of them each, on the medium
    /// if `l0_path` names one, flushed to the range's own directory (the paper NoveLSM). They are mutable
    /// where they are, and the log brings them back: a baseline of measurements.
    PmemMemtable,
}

impl L0Kind {
    /// Whether rows lie in a container.
    #[must_use]
    pub fn has_container(self) -> bool {
        matches!(self, L0Kind::Triangle | L0Kind::Matrix)
    }
}

impl fmt::Display for L0Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            L0Kind::Plain => "plain",
            L0Kind::Triangle => "triangle",
            L0Kind::Matrix => "matrix",
            L0Kind::PmemMemtable => "pmem-memtable",
        })
    }
}

impl FromStr for L0Kind {
    type Err = Error;

    fn from_str(text: &str) -> Result<L0Kind> {
        let kinds = [L0Kind::Plain, L0Kind::Triangle, L0Kind::Matrix, L0Kind::PmemMemtable];
        kinds.into_iter().find(|kind| kind.to_string() == text).ok_or_else(|| {
            Error::invalid(format!(
                "\"{text}\" is no L0: use plain, triangle, matrix or pmem-memtable"
            ))
        })
    }
}

/// A log record names the dranges of a batch by a byte.
pub(crate) const DRANGES_MAX: usize = 255;

/// The options of one range.
#[derive(Clone, Debug)]
pub struct Options {
    /// What an acknowledgement promises, unless the write itself says otherwise.
    pub durability: Durability,
    /// Whether a directory that holds no range yet gets one.
    pub create_if_missing: bool,
    /// Whether the range is only read: nothing in the directory changes, not even after a crash.
    pub read_only: bool,
    /// Bytes of all active memtables together: when they are full, all are frozen and flushed as
    /// one row. Raising it makes flushes and L0 rows rarer and replays longer.
    pub memtable_bytes: usize,
    /// How many times that many bytes may wait to be flushed before writers wait.
    pub frozen_memtables_max: usize,
    /// Bytes of a log segment.
    pub log_segment_bytes: u64,
    /// The directory of the medium for the log: persistent memory (a DAX file system), or a file system in
    /// memory that stands in for it, which does not survive a power cut. New segments are mapped there, in a
    /// directory of the database's own, and a sync is a fence. `None`: they are files in the range's own
    /// directory. Segments stay where they are when this changes, and are read there.
    pub log_path: Option<String>,
    /// When the log takes more space, the memtables of its oldest segment are flushed.
    pub log_bytes_max: u64,
    /// Share of the file system, in percent of what the range could use, that stays free for
    /// compaction.
    pub reserved_percent: u64,
    /// Bytes of a table.
    pub table_bytes: u64,
    /// How tables are built.
    pub table: TableOptions,
    /// A cut is due when this many rows of L0 share a key (default 6: with 4 a fifth more is written,
    /// and reads are no faster that one could tell).
    pub l0_rows_per_cut: usize,
    /// Writers are slowed down from this many rows on.
    pub l0_rows_slow: usize,
    /// Writers wait while L0 has this many rows.
    pub l0_rows_stop: usize,
    /// What L0 is.
    pub l0_kind: L0Kind,
    /// Bytes of the container, for kinds that have one (default 256 MiB). That of a range which holds
    /// rows keeps its size.
    pub l0_bytes: u64,
    /// How full a container is, in percent, when cuts are due (default 60; 1 to 90). Writers are slowed down
    /// from a quarter of the rest on. *Source:* TriangleKV (TPDS 2022), section 3.1.
    pub l0_start_percent: u64,
    /// The directory of the container: persistent memory (a DAX file system), or a file system in memory
    /// that stands in for it, which does not survive a power cut. `None`: the range's own directory, in a
    /// file of larger pages. Text, since the manifest keeps it. With plain tables: where those of L0 are,
    /// which `l0_bytes` then bounds, and not how many rows share a key. With `PmemMemtable`: where the memtables
    /// are.
    pub l0_path: Option<String>,
    /// Whether a cut takes all rows of L0 at once, plain tables as they are elsewhere, and is not divided
    /// among threads (default no). A baseline of measurements: the slices that are cut otherwise make
    /// shorter waits.
    pub l0_cut_all: bool,
    /// The longest delay that the gate's pace adds to one write of up to 64 KiB, and to as many as a
    /// larger one holds (default 10 ms, at most 1 s; 0 leaves nothing but the stops). It is a bound
    /// as long as background work makes progress: a write that meets a stop waits for its end.
    /// Lowering it lets many writers at once outrun the pace, and so meet stops.
    pub write_delay_max: Duration,
    /// About what the cuts of all of L0 bring, in bytes: no level is made that would be smaller than a
    /// fraction of it. Lower: less space for what is dead; higher: fewer bytes written.
    pub level_bytes_base: u64,
    /// Each level should be this many times larger than the one above it, counted from the last.
    pub level_ratio: u64,
    /// About how many bytes one cut out of L0 takes at most, those that it meets in the level below
    /// included; 0 (the default): no bound. Lower: shorter jobs and less in L0, but the level below is
    /// met more often, and so a tenth more is written.
    pub cut_bytes: u64,
    /// Into how many dranges the range is divided when its first memtable is full; 0: four for
    /// each core, fewer if memtables are small. Where it is divided follows the writes. Duplicates,
    /// which hot keys have, count among them.
    pub dranges: usize,
    /// Keys at which the range is divided into dranges instead, ascending, from the open on and
    /// however the writes are spread.
    pub drange_boundaries: Vec<Vec<u8>>,
    /// Whether memtables of hot dranges are merged in memory instead of being flushed, as long as that
    /// pays. It keeps up to half of `memtable_bytes` of memory, and half of `log_bytes_max` of the log,
    /// which each flush has to sync then (default no: see decision 19).
    pub memtable_merging: bool,
    /// Bytes of the lookup index, which lets a get skip the memtables and rows of L0 that do not hold its
    /// key; 0: none. A slot for each key in them takes 8 bytes, and with fewer the index excludes
    /// less.
    pub lookup_index_bytes: u64,
    /// Whether a scan opens the memtables of the drange that it stands in only. If not (a baseline), it
    /// opens those of all dranges at once.
    pub range_index: bool,
    /// How many times `memtable_bytes` of frozen memtables stay in memory before the oldest are flushed,
    /// fewer than `frozen_memtables_max` (default 0: they are flushed at once). What is overwritten
    /// meanwhile is never written to a table; a replay takes longer.
    pub frozen_memtables_kept: usize,
    /// Whether a flush writes every version of every key, also those that no read can ask for; a
    /// compaction drops them (default no). It is no faster: measurements tell by it what dropping
    /// them early saves. Not with `memtable_merging`, which drops them earlier still.
    pub flush_all_versions: bool,
    /// The name of the merge operator. A new range, and one without operator, keeps it in its
    /// manifest for ever; none takes the one that is kept there, if any.
    pub merge_operator: Option<String>,
    /// The merge operators that this program knows.
    pub merge_operators: MergeOperators,
}

/// Memtables of fewer bytes are not worth a drange of their own.
const DRANGE_BYTES_MIN: usize = 256 << 10;

impl Default for Options {
    fn default() -> Options {
        const MIB: u64 = 1 << 20;
        Options {
            durability: Durability::Buffered,
            create_if_missing: true,
            read_only: false,
            memtable_bytes: 64 << 20,
            frozen_memtables_max: 3,
            log_segment_bytes: 32 * MIB,
            log_path: None,
            log_bytes_max: 512 * MIB,
            reserved_percent: 5,
            table_bytes: 32 * MIB,
            table: TableOptions { compression: Compression::None, ..TableOptions::default() },
            l0_rows_per_cut: 6,
            l0_rows_slow: 12,
            l0_rows_stop: 24,
            l0_kind: L0Kind::Plain,
            l0_bytes: 256 * MIB,
            l0_start_percent: 60,
            l0_path: None,
            l0_cut_all: false,
            write_delay_max: Duration::from_millis(10),
            level_bytes_base: 256 * MIB,
            level_ratio: 10,
            cut_bytes: 0,
            dranges: 0,
            drange_boundaries: Vec::new(),
            memtable_merging: false,
            lookup_index_bytes: 0,
            range_index: true,
            frozen_memtables_kept: 0,
            flush_all_versions: false,
            merge_operator: None,
            merge_operators: MergeOperators::default(),
        }
    }
}

impl Options {
    /// Into how many dranges a range is divided on a machine with so many cores.
    #[must_use]
    pub fn drange_count(&self, cores: usize) -> usize {
        match self.dranges {
            0 => (4 * cores).min(self.memtable_bytes / DRANGE_BYTES_MIN).clamp(1, 64),
            count => count,
        }
    }

    /// The options that follow from those of L0: large memtables, if that is its kind, and a log that
    /// reaches as far back.
    #[must_use]
    pub(crate) fn of_kind(self) -> Options {
        if self.l0_kind != L0Kind::PmemMemtable {
            return self;
        }
        let memtable_bytes = usize::try_from(self.l0_bytes / 2).unwrap_or(usize::MAX);
        let log_bytes_max = self.log_bytes_max.max(self.l0_bytes.saturating_mul(2));
        Options { memtable_bytes, frozen_memtables_max: 1, log_bytes_max, ..self }
    }

    /// The directory of the medium for tables of rows, if they have one of their own.
    #[must_use]
    pub fn row_medium(&self) -> Option<&str> {
        self.l0_path.as_deref().filter(|_| self.l0_kind == L0Kind::Plain)
    }

    /// The directory of the medium for memtables, if they have one.
    #[must_use]
    pub(crate) fn memtable_medium(&self) -> Option<&str> {
        self.l0_path.as_deref().filter(|_| self.l0_kind == L0Kind::PmemMemtable)
    }

    /// Says what is wrong with the options, and what would be right.
    pub fn validate(&self) -> Result<()> {
        let require = |holds: bool, text: &str| {
            if holds { Ok(()) } else { Err(Error::invalid(text)) }
        };
        require(self.memtable_bytes >= 16 << 10, "memtable_bytes must be at least 16 KiB")?;
        require(self.memtable_bytes <= 2 << 30, "memtable_bytes must be at most 2 GiB")?;
        require(self.frozen_memtables_max >= 1, "frozen_memtables_max must be at least 1")?;
        require(
            self.frozen_memtables_kept < self.frozen_memtables_max
                || self.frozen_memtables_kept == 0,
            "frozen_memtables_kept must be below frozen_memtables_max",
        )?;
        require(self.lookup_index_bytes <= 64 << 30, "lookup_index_bytes must be at most 64 GiB")?;
        require(self.log_segment_bytes >= 4 << 10, "log_segment_bytes must be at least 4 KiB")?;
        require(self.log_segment_bytes <= 1 << 30, "log_segment_bytes must be at most 1 GiB")?;
        require(
            self.log_bytes_max >= 2 * self.log_segment_bytes,
            "log_bytes_max must be at least two segments",
        )?;
        require(self.reserved_percent <= 50, "reserved_percent must be at most 50")?;
        require(self.table_bytes >= 4 << 10, "table_bytes must be at least 4 KiB")?;
        require(self.l0_rows_per_cut >= 1, "l0_rows_per_cut must be at least 1")?;
        require(
            self.l0_rows_per_cut <= self.l0_rows_slow && self.l0_rows_slow < self.l0_rows_stop,
            "l0_rows_per_cut <= l0_rows_slow < l0_rows_stop must hold",
        )?;
        require(
            (1..=90).contains(&self.l0_start_percent),
            "l0_start_percent must be from 1 to 90",
        )?;
        require(self.l0_bytes >= 64 << 10, "l0_bytes must be at least 64 KiB")?;
        require(
            !self.l0_kind.has_container() || self.l0_path.is_some() || self.l0_bytes >= 1 << 20,
            "l0_bytes must be at least 1 MiB for a container in a file",
        )?;
        require(
            self.l0_kind != L0Kind::PmemMemtable
                || (32 << 10..=4 << 30).contains(&self.l0_bytes) && self.frozen_memtables_kept == 0,
            "l0_bytes are two memtables of 16 KiB to 2 GiB each, of which none is kept",
        )?;
        require(
            !self.l0_cut_all || !self.l0_kind.has_container(),
            "l0_cut_all is for plain tables only",
        )?;
        require(self.l0_bytes <= 4 << 40, "l0_bytes must be at most 4 TiB")?;
        require(self.write_delay_max <= Duration::from_secs(1), "write_delay_max is over 1 s")?;
        require(
            self.level_bytes_base >= self.table_bytes,
            "level_bytes_base is below table_bytes",
        )?;
        require(self.level_ratio >= 2, "level_ratio must be at least 2")?;
        let ascending = self.drange_boundaries.windows(2).all(|pair| pair[0] < pair[1]);
        let nonempty = self.drange_boundaries.first().is_none_or(|first| !first.is_empty());
        require(ascending && nonempty, "drange_boundaries must ascend and not be empty keys")?;
        require(self.drange_boundaries.len() < DRANGES_MAX, "there are at most 255 dranges")?;
        require(self.dranges <= DRANGES_MAX, "there are at most 255 dranges")?;
        require(
            !(self.flush_all_versions && self.memtable_merging),
            "flush_all_versions is without memtable_merging",
        )?;
        self.merge_operators.validate()?;
        self.merge_operators.choose(self.merge_operator.as_deref(), None).map(|_| ())
    }
}

/// The options of a process: what its ranges share.
#[derive(Clone, Debug)]
pub struct ProcessOptions {
    /// Bytes of memory that all parts together may take (default 2 GiB); at least the cache's and
    /// 64 KiB. Memtables have what the others leave: near that the gate slows writers down, and at
    /// it they wait for a flush. Two memtables of each range are always allowed.
    pub memory_bytes: u64,
    /// Bytes of the block cache.
    pub cache_bytes: u64,
    /// Threads that flush memtables. One more prepares log segments.
    pub flush_threads: usize,
    /// Threads that compact; 0 picks the number of cores, at most 4.
    pub compaction_threads: usize,
    /// Threads that an open replays the log with, the one that opens included; 0 picks the number of
    /// cores, at most 8. Those beside it end with the replay. More than two or three bring little:
    /// one reads, and a memtable has one writer at a time.
    pub recovery_threads: usize,
}

impl Default for ProcessOptions {
    fn default() -> ProcessOptions {
        ProcessOptions {
            memory_bytes: 2 << 30,
            cache_bytes: 256 << 20,
            flush_threads: 1,
            compaction_threads: 0,
            recovery_threads: 0,
        }
    }
}

/// More threads than that find nothing to do in a replay.
const RECOVERY_THREADS_MAX: usize = 8;

impl ProcessOptions {
    /// With how many threads an open replays the log on a machine with so many cores.
    #[must_use]
    pub fn recovery_thread_count(&self, cores: usize) -> usize {
        match self.recovery_threads {
            0 => cores.clamp(1, RECOVERY_THREADS_MAX),
            count => count,
        }
    }

    /// Says what is wrong with the options, and what would be right.
    pub fn validate(&self) -> Result<()> {
        if self.memory_bytes < self.cache_bytes.saturating_add(64 << 10) {
            return Err(Error::invalid("memory_bytes must be at least cache_bytes and 64 KiB"));
        }
        if self.recovery_threads > RECOVERY_THREADS_MAX {
            return Err(Error::invalid("recovery_threads must be at most 8"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_classes_print_and_parse() {
        for text in ["buffered", "sync", "interval:250"] {
            let durability: Durability = text.parse().expect(text);
            assert_eq!(durability.to_string(), text);
        }
        for wrong in ["", "interval", "interval:0", "interval:-1", "Sync", "interval:x"] {
            assert!(wrong.parse::<Durability>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_defaults_are_valid_and_nonsense_is_refused() {
        assert!(Options::default().validate().is_ok());
        let nonsense = [
            Options { memtable_bytes: 1, ..Options::default() },
            Options { level_ratio: 1, ..Options::default() },
            Options { l0_rows_slow: 30, ..Options::default() },
            Options { merge_operator: Some("no-such".into()), ..Options::default() },
            Options { drange_boundaries: vec![b"b".into(), b"a".into()], ..Options::default() },
            Options { flush_all_versions: true, memtable_merging: true, ..Options::default() },
            Options { l0_cut_all: true, l0_kind: L0Kind::Triangle, ..Options::default() },
            Options { l0_path: Some("/pmem".into()), l0_bytes: 1 << 10, ..Options::default() },
            Options { l0_start_percent: 0, ..Options::default() },
            Options { l0_start_percent: 91, ..Options::default() },
        ];
        assert!(ProcessOptions::default().validate().is_ok());
        let too_large = ProcessOptions { cache_bytes: 2 << 30, ..ProcessOptions::default() };
        assert!(matches!(too_large.validate(), Err(Error::Invalid(_))));
        for options in nonsense {
            assert!(matches!(options.validate(), Err(Error::Invalid(_))));
        }
    }
}
