//! The options of one open range.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::l0::require_text;
use super::{
    CloudOptions, Durability, FormatOptions, L0Kind, L0Options, Research, ValueLogOptions, require,
};
use crate::Result;
use crate::compaction::filter::FilterOption;
use crate::events::Listeners;
use crate::merge::MergeOperators;
use crate::table::{Compression, TableOptions, check_built_in};

/// A log record names the dranges of a batch by a byte.
pub(crate) const DRANGES_MAX: usize = 255;

/// The options of one range. But for `format`, each open may choose them anew.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is fixed when the range is created.
    pub format: FormatOptions,

    // What changes behaviour.
    /// What the acknowledgement of a write promises, unless the write itself says otherwise. The
    /// default is [`Durability::Buffered`].
    pub durability: Durability,
    /// Whether a directory that holds no range yet gets one, which is the default.
    pub create_if_missing: bool,
    /// Whether a directory that holds a range already is refused. The default is no.
    pub error_if_exists: bool,
    /// Whether the range is only read: nothing in the directory changes, not even after a crash.
    /// The default is no.
    pub read_only: bool,
    /// The merge operators that this program knows beside the built-in ones. The default is none.
    pub merge_operators: MergeOperators,
    /// The filter that compactions ask about values. The default is none. It may change with each
    /// open: nothing in the range depends on it.
    pub compaction_filter: FilterOption,
    /// The listeners that are told what background work does (default: none).
    pub listeners: Listeners,
    /// What L0 is. The default is plain tables.
    pub l0: L0Options,
    /// The directory of the medium for the log: persistent memory (a DAX file system), or a file
    /// system in memory that stands in for it and does not survive a power cut. New segments are
    /// mapped there, in a directory of the range's own, and a sync is a fence. The default is none:
    /// segments are files in the range's own directory. Segments stay where they are when this
    /// changes, and are read there.
    pub log_path: Option<PathBuf>,
    /// The directory of a volume for the log, where its segments are ordinary files in a directory
    /// of the range's own: another disk, or a block device that outlives this machine and can be
    /// attached to another one. With a mirror in the object store ([`CloudOptions::mirror`]) writes
    /// of the class [`Durability::Durable`] are acknowledged when this volume has them, and whoever
    /// takes the range over on an empty directory finds them there; the log is kept until a moment
    /// in the store has what is in it. At most one of this and `log_path`. The default is none.
    ///
    /// *Source:* RocksMash (TACO 2022), section 3.4.
    pub log_volume: Option<PathBuf>,
    /// The value log, for values that are large. The default is none: every value stands in the
    /// tables. A range that has one keeps what is in it, whatever an open chooses; without the
    /// option new values stand in the tables again.
    pub value_log: Option<ValueLogOptions>,
    /// The object store for the levels that the local disk has no room for. The default is none:
    /// everything is local. A range whose tables lie in a store opens only with it.
    pub cloud: Option<CloudOptions>,
    /// The part of the file system, in percent of what the range could use, that stays free for
    /// compaction, at most 50. The default is 5. With more, writes are refused earlier and
    /// compactions have more room.
    pub reserved_percent: u64,

    // What changes performance.
    /// Bytes of all active memtables together, from 16 KiB to 2 GiB: when they are full, all are
    /// frozen and flushed as one row. The default is 64 MiB. Larger ones make flushes and rows of
    /// L0 rarer and replays longer. *Source:* Nova-LSM (SIGMOD 2021), τ = 16 MB for each of its
    /// memtables.
    pub memtable_bytes: usize,
    /// The number of times `memtable_bytes` may wait frozen before writers wait, at least 1. The
    /// default is
    /// 3. More of them bridge longer flushes, and take that much more memory.
    pub frozen_memtables_max: usize,
    /// The number of times `memtable_bytes` stay in memory, frozen, before the oldest are flushed;
    /// fewer than `frozen_memtables_max`. The default is 0: they are flushed at once. With more,
    /// what is overwritten meanwhile is never written to a table, and a replay takes longer.
    pub memtables_kept: usize,
    /// Whether memtables of hot dranges are merged in memory instead of being flushed, as long as
    /// that pays. The default is no (decision 19). It keeps up to half of `memtable_bytes` of
    /// memory, and half of `log_bytes_max` of the log, which each flush has to sync then. *Source:*
    /// Nova-LSM (SIGMOD 2021), section 4.2.
    pub memtable_merging: bool,
    /// The number of dranges that the range is divided into when its first memtable is full, at
    /// most 255. The default is 0: four for each core, fewer if memtables are small. Where it is
    /// divided follows the writes. Duplicates, which hot keys have, count among them. With more,
    /// more writers go on side by side, and each memtable is smaller. *Source:* Nova-LSM (SIGMOD
    /// 2021), θ = 64.
    pub dranges: usize,
    /// The keys at which the range is divided into dranges instead, ascending, from the open on and
    /// however the writes are spread; at most 254. The default is none.
    pub drange_boundaries: Vec<Vec<u8>>,
    /// Bytes of the lookup index, which lets a get skip the memtables and rows of L0 that do not
    /// hold its key, at most 64 GiB. The default is 0: there is none. Each key in them takes a slot
    /// of 8 bytes; with fewer slots the index excludes less. *Source:* Nova-LSM (SIGMOD 2021),
    /// section 4.1.1.
    pub lookup_index_bytes: u64,
    /// Bytes of a log segment, from 4 KiB to 1 GiB. The default is 32 MiB. Larger ones are changed
    /// less often; smaller ones give space back sooner.
    pub log_segment_bytes: u64,
    /// Bytes of the log, at least two segments, above which the memtables of its oldest segment are
    /// flushed. The default is 512 MiB. With more, rarely written dranges are flushed less often,
    /// and a replay takes longer.
    pub log_bytes_max: u64,
    /// Bytes of a table, at least 4 KiB. The default is 32 MiB. Larger ones mean fewer files and
    /// larger compactions.
    pub table_bytes: u64,
    /// How tables are built.
    pub table: TableOptions,
    /// The number of rows of a plain L0 over one key at which a cut is due, at least 1. The default
    /// is 6: with 4 a fifth more is written, and reads are no faster that one could tell.
    pub l0_rows_per_cut: usize,
    /// The number of rows of a plain L0 over one key from which on writers are slowed down, at
    /// least `l0_rows_per_cut`. The default is 12. A lower number keeps reads fast beside many
    /// writes.
    pub l0_rows_slow: usize,
    /// The number of rows of a plain L0 over one key at which writers wait, more than
    /// `l0_rows_slow`. The default is 24.
    pub l0_rows_stop: usize,
    /// How full a container of L0 is, in percent from 1 to 90, when cuts are due. The default
    /// is 60. Writers are slowed down from a quarter of the rest on. A higher share makes cuts
    /// larger, and leaves less room for bursts. *Source:* TriangleKV (TPDS 2022), section 3.1.
    pub l0_start_percent: u64,
    /// About how many bytes one cut out of L0 takes at most, those that it meets in the level below
    /// included. The default is 0: there is no bound but that of a container. A lower bound means
    /// shorter jobs and less in L0, but the level below is met more often, and so a tenth more is
    /// written.
    pub cut_bytes: u64,
    /// About how many bytes the first level below L0 should hold, at least `table_bytes`: no level
    /// is made that would be smaller than a fraction of it. The default is 256 MiB. With less, what
    /// is dead takes less space; with more, fewer bytes are written.
    pub level_bytes_base: u64,
    /// Each level should be this many times larger than the one above it, counted from the last; at
    /// least 2. The default is 10. With more, there are fewer levels, and each compaction meets
    /// more.
    pub level_ratio: u64,
    /// The longest delay that the gate's pace adds to one write of up to 64 KiB, and to each
    /// further 64 KiB of a larger one, at most 1 s. The default is 10 ms; 0 leaves nothing but the
    /// stops. It is a bound as long as background work makes progress: a write that meets a stop
    /// waits for its end. A shorter delay lets many writers at once outrun the pace, and so meet
    /// stops.
    pub write_delay_max: Duration,

    /// The baselines that the range is opened with. The default is none.
    pub research: Research,
}

/// Memtables of fewer bytes are not worth a drange of their own.
const DRANGE_BYTES_MIN: usize = 256 << 10;

impl Default for Options {
    fn default() -> Options {
        const MIB: u64 = 1 << 20;
        Options {
            format: FormatOptions::default(),
            durability: Durability::Buffered,
            create_if_missing: true,
            error_if_exists: false,
            read_only: false,
            merge_operators: MergeOperators::default(),
            compaction_filter: FilterOption::default(),
            listeners: Listeners::new(),
            l0: L0Options::PLAIN,
            log_path: None,
            log_volume: None,
            value_log: None,
            cloud: None,
            reserved_percent: 5,
            memtable_bytes: 64 << 20,
            frozen_memtables_max: 3,
            memtables_kept: 0,
            memtable_merging: false,
            dranges: 0,
            drange_boundaries: Vec::new(),
            lookup_index_bytes: 0,
            log_segment_bytes: 32 * MIB,
            log_bytes_max: 512 * MIB,
            table_bytes: 32 * MIB,
            table: TableOptions { compression: Compression::None, ..TableOptions::default() },
            l0_rows_per_cut: 6,
            l0_rows_slow: 12,
            l0_rows_stop: 24,
            l0_start_percent: 60,
            cut_bytes: 0,
            level_bytes_base: 256 * MIB,
            level_ratio: 10,
            write_delay_max: Duration::from_millis(10),
            research: Research::default(),
        }
    }
}

impl Options {
    /// The number of dranges that a range is divided into on a machine with this many cores.
    #[must_use]
    pub fn drange_count(&self, cores: usize) -> usize {
        match self.dranges {
            0 => (4 * cores).min(self.memtable_bytes / DRANGE_BYTES_MIN).clamp(1, 64),
            count => count,
        }
    }

    /// The options that follow from the baselines: large memtables, if they take a medium, and a
    /// log that reaches as far back.
    #[must_use]
    pub(crate) fn with_baselines(self) -> Options {
        let mut options = self.with_local_log();
        if options.research.log_unbounded {
            options.log_bytes_max = u64::MAX;
        }
        let Some(medium) = &options.research.pmem_memtables else {
            return options;
        };
        let memtable_bytes = usize::try_from(medium.bytes / 2).unwrap_or(usize::MAX);
        let log_bytes_max = options.log_bytes_max.max(medium.bytes.saturating_mul(2));
        Options { memtable_bytes, frozen_memtables_max: 1, log_bytes_max, ..options }
    }

    /// Whether the log lies on a medium of its own, and takes nothing of the local disk.
    #[must_use]
    pub(crate) fn log_is_apart(&self) -> bool {
        self.log_path.is_some() || self.log_volume.is_some()
    }

    /// The log takes at most a share of what the range may take on the local disk.
    fn with_local_log(self) -> Options {
        let Some(cloud) = &self.cloud else { return self };
        if self.log_is_apart() {
            return self;
        }
        let least = 2 * self.log_segment_bytes;
        let log_bytes_max = self.log_bytes_max.min(cloud.log_bytes_max().max(least));
        Options { log_bytes_max, ..self }
    }

    /// What L0 is, baselines included.
    #[must_use]
    pub fn l0_kind(&self) -> L0Kind {
        self.research.l0_kind(&self.l0)
    }

    /// The directory of the medium for plain tables of L0, if they have one of their own, and the
    /// bytes that they may take there.
    #[must_use]
    pub(crate) fn row_medium(&self) -> Option<(&Path, u64)> {
        match &self.l0 {
            L0Options::Plain { medium: Some(medium) } => Some((&medium.path, medium.bytes)),
            _ => None,
        }
    }

    /// The directory of the medium for memtables, if they have one.
    #[must_use]
    pub(crate) fn memtable_medium(&self) -> Option<&Path> {
        self.research.pmem_memtables.as_ref().map(|medium| medium.path.as_path())
    }

    /// The directory of the medium of L0, or of memtables in its place, if there is one.
    #[must_use]
    pub fn l0_medium(&self) -> Option<&Path> {
        self.memtable_medium().or_else(|| self.l0.path())
    }

    /// Says what is wrong with the options, and what would be right.
    pub fn validate(&self) -> Result<()> {
        require(self.memtable_bytes >= 16 << 10, "memtable_bytes must be at least 16 KiB")?;
        require(self.memtable_bytes <= 2 << 30, "memtable_bytes must be at most 2 GiB")?;
        require(self.frozen_memtables_max >= 1, "frozen_memtables_max must be at least 1")?;
        require(
            self.memtables_kept < self.frozen_memtables_max || self.memtables_kept == 0,
            "memtables_kept must be below frozen_memtables_max",
        )?;
        require(self.lookup_index_bytes <= 64 << 30, "lookup_index_bytes must be at most 64 GiB")?;
        require(self.reserved_percent <= 50, "reserved_percent must be at most 50")?;
        require(
            self.write_delay_max <= Duration::from_secs(1),
            "write_delay_max must be at most 1 s",
        )?;
        self.validate_log()?;
        self.value_log.as_ref().map_or(Ok(()), ValueLogOptions::validate)?;
        self.cloud.as_ref().map_or(Ok(()), CloudOptions::validate)?;
        let has_log = self.cloud.as_ref().is_some_and(|cloud| cloud.log.is_some());
        let is_mirrored = self.cloud.as_ref().is_some_and(|cloud| cloud.mirror.is_some());
        let outlives = has_log || self.log_volume.is_some() && (is_mirrored || self.read_only);
        require(
            outlives || self.durability != Durability::Durable,
            "the class \"durable\" needs a log that outlives the machine: in an object store \
             (cloud.log, --cloud-log), or on a volume (log_volume, --log-volume) beside a mirror \
             (cloud.mirror, --cloud-mirror)",
        )?;
        require(
            !has_log || (self.log_path.is_none() && self.log_volume.is_none()),
            "cloud.log needs the log in the database's own directory: leave log_path and log_volume out",
        )?;
        require(
            !is_mirrored || matches!(self.l0, L0Options::Plain { .. }),
            "cloud.mirror does not go with a container of L0, whose pages are no files",
        )?;
        self.validate_tree()?;
        self.validate_dranges()?;
        self.research.validate(self)?;
        self.compaction_filter.validate()?;
        self.merge_operators.validate()?;
        self.merge_operators.choose(self.format.merge_operator.as_deref(), None).map(|_| ())
    }

    fn validate_log(&self) -> Result<()> {
        require(self.log_segment_bytes >= 4 << 10, "log_segment_bytes must be at least 4 KiB")?;
        require(self.log_segment_bytes <= 1 << 30, "log_segment_bytes must be at most 1 GiB")?;
        require(
            self.log_bytes_max >= 2 * self.log_segment_bytes,
            "log_bytes_max must be at least two segments",
        )?;
        require(
            self.log_path.is_none() || self.log_volume.is_none(),
            "the log lies on persistent memory (log_path) or on a volume (log_volume), not on both",
        )?;
        self.log_volume.as_deref().map_or(Ok(()), |path| require_text("log_volume", path))?;
        self.log_path.as_deref().map_or(Ok(()), |path| require_text("log_path", path))
    }

    fn validate_tree(&self) -> Result<()> {
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
        self.l0.validate()?;
        check_built_in(self.table.compression)?;
        require(
            self.level_bytes_base >= self.table_bytes,
            "level_bytes_base must be at least table_bytes",
        )?;
        require(self.level_ratio >= 2, "level_ratio must be at least 2")
    }

    fn validate_dranges(&self) -> Result<()> {
        let ascending = self.drange_boundaries.windows(2).all(|pair| pair[0] < pair[1]);
        let nonempty = self.drange_boundaries.first().is_none_or(|first| !first.is_empty());
        require(ascending && nonempty, "drange_boundaries must ascend and not be empty keys")?;
        require(
            self.drange_boundaries.len() < DRANGES_MAX,
            "drange_boundaries must be at most 254",
        )?;
        require(self.dranges <= DRANGES_MAX, "dranges must be at most 255")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn the_defaults_are_valid_and_nonsense_is_refused() {
        assert!(Options::default().validate().is_ok());
        let unknown = FormatOptions { merge_operator: Some("no-such".into()) };
        let nonsense = [
            Options { memtable_bytes: 1, ..Options::default() },
            Options { memtables_kept: 3, ..Options::default() },
            Options { level_ratio: 1, ..Options::default() },
            Options { l0_rows_slow: 30, ..Options::default() },
            Options { format: unknown, ..Options::default() },
            Options { drange_boundaries: vec![b"b".into(), b"a".into()], ..Options::default() },
            Options { l0: L0Options::container("/pmem", 1 << 10), ..Options::default() },
            Options { l0_start_percent: 0, ..Options::default() },
            Options { l0_start_percent: 91, ..Options::default() },
        ];
        for options in nonsense {
            assert!(matches!(options.validate(), Err(Error::Invalid(_))), "{options:?}");
        }
    }
}
