//! The options of a database.

use std::path::{Path, PathBuf};

use terrace_engine::options::{
    FormatOptions, L0Options, Options as EngineOptions, ProcessOptions, Research,
};
use terrace_engine::table::{Compression, TableOptions};

use crate::events::Listeners;
use crate::merge::{MergeOperators, engine_operators};
use crate::{Durability, Result};

/// How a database is opened. The defaults serve a machine with a few cores and gigabytes.
///
/// The options up to [`log_path`](Options::log_path) change what the database does, and those after
/// it only how fast it does that. But for [`format`](Options::format), each open may choose them
/// anew.
///
/// ```
/// use terrace::{Durability, Options};
///
/// let careful = Options { durability: Durability::Sync, ..Options::default() };
/// assert!(careful.validate().is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// What is fixed when the database is created.
    pub format: FormatOptions,
    /// What an acknowledged write survives, unless the write itself says otherwise. The default is
    /// [`Durability::Buffered`]: it survives a killed process, and not a power cut.
    pub durability: Durability,
    /// Whether a directory that holds no database gets one, which is the default.
    pub create_if_missing: bool,
    /// Whether the database is only read: several processes may do that at once, none of them
    /// changes a byte, and none may write meanwhile. The default is no.
    pub read_only: bool,
    /// The merge operators that this program knows beside the built-in ones. The default is none. A
    /// database that was created with one of them is opened only by programs that bring it.
    pub merge_operators: MergeOperators,
    /// The listeners that are told what the database does in the background; the module
    /// [`events`](crate::events) says what they may do. Default: none.
    pub listeners: Listeners,
    /// Where new writes go when they leave memory. The default, plain tables in files, serves
    /// ordinary disks; a container is made for persistent memory. A database may be opened with
    /// another form than before.
    ///
    /// ```
    /// use terrace::{L0Options, Options};
    ///
    /// let on_pmem =
    ///     Options { l0: L0Options::container("/mnt/pmem", 256 << 20), ..Options::default() };
    /// assert!(on_pmem.validate().is_ok());
    /// ```
    pub l0: L0Options,
    /// The directory of a medium for the log: persistent memory (a DAX file system), where a write
    /// that is synced waits for no disk, or a file system in memory that stands in for it. The
    /// latter does not survive a power cut, nor an orderly restart of the machine, and neither does
    /// the database then. The log goes into a directory of the database's own there. The default is
    /// none: it lies in the database's directory. A database may be opened with another one than
    /// before: what of the log lies elsewhere is read there, and stays until it is in tables.
    pub log_path: Option<PathBuf>,
    /// Bytes of memory that all parts together may take: the block cache, memtables, filters and
    /// indexes, buffers, and a server's requests and replies. At least `cache_bytes` and 64 KiB.
    /// The default is `cache_bytes` and 1.75 GiB. Memtables take what the others leave, two of them
    /// at the least: near the limit writers are slowed down, and at it they wait for a flush. A
    /// larger limit helps while flushes are slow; a smaller one leaves more to other programs and
    /// to the kernel's page cache.
    pub memory_bytes: Option<usize>,
    /// Bytes of the cache for blocks of tables. The default is 256 MiB, and 0 is none. A larger one
    /// saves reads from the disk; the kernel's page cache helps too.
    pub cache_bytes: usize,
    /// Bytes of a memtable, from 16 KiB to 2 GiB. The default is 64 MiB. Up to four exist at a
    /// time. Larger ones make flushes and compactions rarer and a start after a crash longer;
    /// smaller ones save memory.
    pub memtable_bytes: usize,
    /// The number of memtables' worth of bytes that stay in memory, frozen, before they are flushed
    /// together. The default is 0. With more, what is overwritten meanwhile is never written to a
    /// table, but it takes that much more memory and log, and a start after a crash takes longer.
    pub memtables_kept: usize,
    /// Whether memtables of keys that are overwritten all the time are merged in memory instead of
    /// being flushed, as long as that pays. The default is no. It saves writes to tables, takes up
    /// to half a memtable of memory, keeps up to half of the log (four times `memtable_bytes`), so
    /// that a start after a crash takes longer, and has each flush sync the log. *Source:* Nova-LSM
    /// (SIGMOD 2021), section 4.2.
    pub memtable_merging: bool,
    /// The number of dranges, which are the intervals that keys are divided into for writing; at
    /// most 255. The default is 0: four for each core, fewer with small memtables. 1 is for none.
    /// Where they are divided follows the writes, and a key that is written very often has several.
    /// With more, more threads write side by side, and memtables are smaller. *Source:* Nova-LSM
    /// (SIGMOD 2021), θ = 64.
    pub dranges: usize,
    /// Bytes of the lookup index, by which a read of one key skips the memtables and the tables of
    /// L0 that do not hold it; at most 64 GiB. The default is 0: there is none. A key in them takes
    /// 8 bytes of it, and a smaller index excludes less. *Source:* Nova-LSM (SIGMOD 2021), section
    /// 4.1.1.
    pub lookup_index_bytes: u64,
    /// The number of threads with which a start replays the log, at most 8. The default is 0: one
    /// for each core. More than two or three bring little.
    pub recovery_threads: usize,
    /// About how many bytes the first level below L0 should hold before there is another one. The
    /// default is 0: four memtables' worth, or as much as the container of L0, if there is one.
    /// With more, fewer bytes are written; with less, what is overwritten or deleted takes less
    /// space.
    pub level_bytes_base: u64,
    /// Bits of a filter for each key of a table, at most 48; 0 is for no filters. The default
    /// is 10. With fewer, more tables are searched for keys that they do not hold; more take more
    /// memory.
    pub filter_bits_per_key: u32,
    /// How blocks of tables are compressed. The default is not at all. Compressed tables are
    /// smaller and take time to read.
    pub compression: Compression,
    /// The baselines of papers, to be measured. The default is none.
    #[cfg(feature = "research")]
    pub research: Research,
}

impl Default for Options {
    fn default() -> Options {
        let engine = EngineOptions::default();
        let process = ProcessOptions::default();
        Options {
            format: engine.format,
            durability: engine.durability,
            create_if_missing: engine.create_if_missing,
            read_only: engine.read_only,
            merge_operators: MergeOperators::new(),
            listeners: Listeners::new(),
            l0: engine.l0,
            log_path: None,
            memory_bytes: None,
            cache_bytes: process.cache_bytes as usize,
            memtable_bytes: engine.memtable_bytes,
            memtables_kept: engine.memtables_kept,
            memtable_merging: engine.memtable_merging,
            dranges: engine.dranges,
            lookup_index_bytes: engine.lookup_index_bytes,
            recovery_threads: process.recovery_threads,
            level_bytes_base: 0,
            filter_bits_per_key: engine.table.filter_bits_per_key,
            compression: engine.table.compression,
            #[cfg(feature = "research")]
            research: engine.research,
        }
    }
}

impl Options {
    /// Says what is wrong with the options, if anything. Errors: `Invalid`.
    pub fn validate(&self) -> Result<()> {
        self.engine().validate()?;
        Ok(self.process().validate()?)
    }

    /// The directories of media that are not the database's own.
    pub(crate) fn media(&self) -> Vec<PathBuf> {
        let engine = self.engine();
        let media = [engine.l0_medium(), engine.log_path.as_deref()];
        media.into_iter().flatten().map(Path::to_path_buf).collect()
    }

    fn research(&self) -> Research {
        #[cfg(feature = "research")]
        return self.research.clone();
        #[cfg(not(feature = "research"))]
        Research::default()
    }

    pub(crate) fn engine(&self) -> EngineOptions {
        let defaults = EngineOptions::default();
        let table_bytes = (self.memtable_bytes as u64 / 2).clamp(1 << 20, 32 << 20);
        let kept = self.memtables_kept as u64;
        let research = self.research();
        let own_rows = [defaults.l0_rows_per_cut, defaults.l0_rows_slow, defaults.l0_rows_stop];
        let [l0_rows_per_cut, l0_rows_slow, l0_rows_stop] = research.l0_rows().unwrap_or(own_rows);
        EngineOptions {
            format: self.format.clone(),
            durability: self.durability,
            create_if_missing: self.create_if_missing,
            read_only: self.read_only,
            merge_operators: engine_operators(&self.merge_operators),
            listeners: self.listeners.clone(),
            l0: self.l0.clone(),
            log_path: self.log_path.clone(),
            memtable_bytes: self.memtable_bytes,
            frozen_memtables_max: defaults.frozen_memtables_max + self.memtables_kept,
            memtables_kept: self.memtables_kept,
            memtable_merging: self.memtable_merging,
            dranges: self.dranges,
            lookup_index_bytes: self.lookup_index_bytes,
            // So small beside a memtable that little waits to be used, or to be released; and so
            // large that a fast writer needs a new file seldom.
            log_segment_bytes: (self.memtable_bytes as u64 / 2).clamp(256 << 10, 64 << 20),
            log_bytes_max: (self.memtable_bytes as u64 * (8 + 2 * kept)).max(64 << 20),
            table_bytes,
            table: TableOptions {
                compression: self.compression,
                filter_bits_per_key: self.filter_bits_per_key,
                ..defaults.table
            },
            l0_rows_per_cut,
            l0_rows_slow,
            l0_rows_stop,
            level_bytes_base: self.level_bytes().max(table_bytes),
            research,
            ..defaults
        }
    }

    /// What `level_bytes_base` comes to.
    fn level_bytes(&self) -> u64 {
        match (self.level_bytes_base, &self.l0) {
            (0, L0Options::Plain { .. }) => (self.memtable_bytes as u64 * 4).max(16 << 20),
            (0, L0Options::Container { bytes, .. }) => *bytes,
            (bytes, _) => bytes,
        }
    }

    pub(crate) fn process(&self) -> ProcessOptions {
        let defaults = ProcessOptions::default();
        let beside_the_cache = defaults.memory_bytes - defaults.cache_bytes;
        let cache_bytes = self.cache_bytes as u64;
        let limit = self.memory_bytes.map(|bytes| bytes as u64);
        ProcessOptions {
            cache_bytes,
            memory_bytes: limit.unwrap_or(cache_bytes.saturating_add(beside_the_cache)),
            recovery_threads: self.recovery_threads,
            ..defaults
        }
    }
}
