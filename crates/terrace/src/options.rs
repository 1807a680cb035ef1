use terrace_engine::options::{L0Kind, Options as EngineOptions, ProcessOptions};
use terrace_engine::table::{Compression, TableOptions};

use crate::merge::{MergeOperators, engine_operators};
use crate::{Durability, Result};

/// How a database is opened. The defaults serve a machine with a few cores and gigabytes.
///
/// ```
/// use terrace::{Durability, Options};
///
/// let careful = Options { durability: Durability::Sync, ..Options::default() };
/// assert!(careful.validate().is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// What an acknowledged write survives, unless the write itself says otherwise. Default:
    /// [`Durability::Buffered`], a killed process.
    pub durability: Durability,
    /// Whether a directory that holds no database gets one. Default: yes.
    pub create_if_missing: bool,
    /// Whether the database is only read: several processes may do that at once, none of them
    /// changes a byte, and none may write meanwhile. Default: no.
    pub read_only: bool,
    /// Bytes of the cache for blocks of tables. Default: 256 MiB. Raising it saves reads; the
    /// kernel's page cache helps too.
    pub cache_bytes: usize,
    /// Bytes of memory that all parts together may take: the block cache, memtables, filters and
    /// indexes, buffers, and a server's requests and replies. Default: as much as `cache_bytes` and
    /// 1.75 GiB. What the others leave is what memtables may take, two of them at the least: near
    /// the limit writers are slowed down, and at it they wait for a flush.
    pub memory_bytes: Option<usize>,
    /// Bytes of a memtable, 16 KiB to 2 GiB. Default: 64 MiB. Up to four exist at a time. Raising
    /// it makes flushes and compactions rarer and a start after a crash longer.
    pub memtable_bytes: usize,
    /// Into how many dranges keys are divided for writing, at most 255. Default: 0, which is four for
    /// each core, fewer with small memtables; 1 for none. Where they are divided follows the writes,
    /// and a key that is written very often has several.
    pub dranges: usize,
    /// Whether memtables of keys that are overwritten all the time are merged in memory instead of
    /// being flushed, as long as that pays. Default: no. It saves writes to tables, takes up to half a
    /// memtable of memory, keeps up to half of the log (four times `memtable_bytes`), so that a start
    /// after a crash takes longer, and has each flush sync the log.
    pub memtable_merging: bool,
    /// How many memtables' worth of bytes stay in memory, frozen, before they are flushed together.
    /// Default: 0. What is overwritten meanwhile is never written to a table; it takes that much more
    /// memory, and a start after a crash takes longer.
    pub memtables_kept: usize,
    /// Bytes of the lookup index, by which a read of one key skips the memtables and the tables of L0 that
    /// do not hold it. A key in them takes 8 bytes of it, and with less it excludes less; 0 for none.
    /// Default: 0.
    pub lookup_index_bytes: u64,
    /// Whether a scan opens the memtables of one drange at a time. Default: yes; no is a baseline for
    /// measurements.
    pub range_index: bool,
    /// With how many threads a start replays the log, at most 8. Default: 0, which is one for each core.
    /// More than two or three bring little.
    pub recovery_threads: usize,
    /// Whether tables of new data hold every version of a key until they are compacted. Default: no.
    /// A baseline of measurements, without use besides; not with `memtable_merging`.
    pub flush_all_versions: bool,
    /// What L0 is: tables in files (the default), or rows in the pages of a container, out of which small
    /// slices are compacted all the time; or tables in files again, and memtables of half of `l0_bytes`
    /// each instead of `memtable_bytes`. A database may be opened with another kind than before.
    pub l0_kind: L0Kind,
    /// Bytes of L0's container; what it has no room for goes into tables. Default: 256 MiB. One that holds rows keeps its
    /// size.
    pub l0_bytes: u64,
    /// The directory of L0's container: persistent memory (a DAX file system), or a file system in memory
    /// that stands in for it. That one does not survive a power cut, and neither does the database then.
    /// Default: none, which puts it into the database's own directory. With plain tables it is where those
    /// of L0 go, and `l0_bytes` is how many they may take; with memtables of half of `l0_bytes` it is where
    /// those are.
    pub l0_path: Option<String>,
    /// The directory of a medium for the log: persistent memory (a DAX file system), where a write that is
    /// synced waits for no disk, or a file system in memory that stands in for it. That one does not
    /// survive a power cut, and neither does the database then, nor an orderly restart of the machine.
    /// The log goes into a directory of the database's own there. Default: none, which puts it into the
    /// database's directory. A database may be opened with another one than before: what of the log lies
    /// elsewhere is read there, and stays until it is in tables.
    pub log_path: Option<String>,
    /// Whether all of L0 is compacted at once, by one thread, and from four tables over one key on, as plain
    /// tables are elsewhere; writers are slowed down and stopped at as many tables as in RocksDB (20 and 36),
    /// or with memtables on persistent memory as in LevelDB (8 and 12). Default: no; yes is a baseline for
    /// measurements.
    pub l0_cut_all: bool,
    /// About how many bytes the first level below L0 should hold before there is another one. Default: 0,
    /// which is four memtables' worth, or as much as L0's container, if there is one.
    pub level_bytes: u64,
    /// Bits of a filter for each key of a table, at most 48; 0 for no filters. Default: 10. With fewer more
    /// tables are searched for keys that they do not hold.
    pub filter_bits_per_key: u32,
    /// How blocks of tables are compressed. Default: not at all.
    pub compression: Compression,
    /// The name of the database's merge operator, for [`Db::merge`](crate::Db::merge). Default:
    /// none, or the one that the database has. A database takes the first that it is opened with,
    /// and keeps it for ever: what the stored operands mean depends on it. `add-i64`, `append` and
    /// `max` are always known.
    pub merge_operator: Option<String>,
    /// Further merge operators that this program knows. Default: none. A database that was created
    /// with one of them is opened only by programs that bring it.
    pub merge_operators: MergeOperators,
}

/// Numbers of tables over one key at which LevelDB, which NoveLSM is made of, compacts L0, slows
/// writers down, and stops them.
const ROWS_OF_LEVELDB: [usize; 3] = [4, 8, 12];
/// Numbers of tables over one key at which RocksDB does the same.
const ROWS_OF_ROCKSDB: [usize; 3] = [4, 20, 36];

impl Default for Options {
    fn default() -> Options {
        let engine = EngineOptions::default();
        Options {
            durability: engine.durability,
            create_if_missing: engine.create_if_missing,
            read_only: engine.read_only,
            cache_bytes: ProcessOptions::default().cache_bytes as usize,
            memory_bytes: None,
            memtable_bytes: engine.memtable_bytes,
            dranges: engine.dranges,
            memtable_merging: engine.memtable_merging,
            memtables_kept: engine.frozen_memtables_kept,
            lookup_index_bytes: engine.lookup_index_bytes,
            range_index: engine.range_index,
            recovery_threads: ProcessOptions::default().recovery_threads,
            flush_all_versions: engine.flush_all_versions,
            l0_kind: engine.l0_kind,
            l0_bytes: engine.l0_bytes,
            l0_path: None,
            log_path: None,
            l0_cut_all: engine.l0_cut_all,
            level_bytes: 0,
            filter_bits_per_key: engine.table.filter_bits_per_key,
            compression: engine.table.compression,
            merge_operator: None,
            merge_operators: MergeOperators::new(),
        }
    }
}

impl Options {
    /// Says what is wrong with the options, if anything. Errors: `Invalid`.
    pub fn validate(&self) -> Result<()> {
        self.engine().validate()?;
        Ok(self.process().validate()?)
    }

    pub(crate) fn engine(&self) -> EngineOptions {
        let defaults = EngineOptions::default();
        let table_bytes = (self.memtable_bytes as u64 / 2).clamp(1 << 20, 32 << 20);
        let kept = self.memtables_kept as u64;
        let own_rows = [defaults.l0_rows_per_cut, defaults.l0_rows_slow, defaults.l0_rows_stop];
        let [l0_rows_per_cut, l0_rows_slow, l0_rows_stop] = match (self.l0_cut_all, self.l0_kind) {
            (false, _) => own_rows,
            (true, L0Kind::PmemMemtable) => ROWS_OF_LEVELDB,
            (true, _) => ROWS_OF_ROCKSDB,
        };
        EngineOptions {
            durability: self.durability,
            create_if_missing: self.create_if_missing,
            read_only: self.read_only,
            memtable_bytes: self.memtable_bytes,
            // So that the log of one memtable fits a segment, as a rule: it is rotated when one is frozen.
            log_segment_bytes: (self.memtable_bytes as u64 / 4 * 5).clamp(1 << 20, 1 << 30),
            log_bytes_max: (self.memtable_bytes as u64 * (8 + 2 * kept)).max(64 << 20),
            table_bytes,
            table: TableOptions {
                compression: self.compression,
                filter_bits_per_key: self.filter_bits_per_key,
                ..defaults.table
            },
            dranges: self.dranges,
            memtable_merging: self.memtable_merging,
            frozen_memtables_kept: self.memtables_kept,
            frozen_memtables_max: defaults.frozen_memtables_max + self.memtables_kept,
            lookup_index_bytes: self.lookup_index_bytes,
            range_index: self.range_index,
            flush_all_versions: self.flush_all_versions,
            l0_kind: self.l0_kind,
            l0_bytes: self.l0_bytes,
            l0_path: self.l0_path.clone(),
            log_path: self.log_path.clone(),
            l0_cut_all: self.l0_cut_all,
            l0_rows_per_cut,
            l0_rows_slow,
            l0_rows_stop,
            level_bytes_base: match (self.level_bytes, self.l0_kind.has_container()) {
                (0, false) => (self.memtable_bytes as u64 * 4).max(16 << 20),
                (0, true) => self.l0_bytes,
                (bytes, _) => bytes,
            }
            .max(table_bytes),
            merge_operator: self.merge_operator.clone(),
            merge_operators: engine_operators(&self.merge_operators),
            ..defaults
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

/// How a key or an interval is read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Whether the call may wait for the disk (the default). If not, it answers `NeedsIo` where it
    /// would: an event loop tries that first, and moves to a thread that may wait.
    pub wait: bool,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions { wait: true }
    }
}

/// How a write is done.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// What the acknowledgement of this write promises; the database's class if none is given.
    /// A single `sync` write in a weaker database is visible before it is synced, and acknowledged
    /// after.
    pub durability: Option<Durability>,
    /// Whether the call may wait: for room, for the pace that background work sets, or for a sync
    /// (the default). If not, it answers `WouldBlock` where it would, and nothing was written.
    pub wait: bool,
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions { durability: None, wait: true }
    }
}

impl WriteOptions {
    pub(crate) fn engine(&self) -> terrace_engine::store::WriteOptions {
        terrace_engine::store::WriteOptions { durability: self.durability, wait: self.wait }
    }
}

impl ReadOptions {
    pub(crate) fn engine(&self) -> terrace_engine::store::GetOptions {
        terrace_engine::store::GetOptions { wait: self.wait }
    }
}
