//! How the tree is laid out.

use std::path::PathBuf;

use terrace_engine::options::{
    CloudOptions, L0Options, Options as EngineOptions, ProcessOptions, ValueLogOptions,
};

/// How the tree is laid out: where its parts lie, and how large they are. The defaults serve
/// ordinary disks; [`Plan`](crate::Plan) computes others from what a database will hold.
///
/// As with [`Options`](crate::Options), each field has a method of its name to be chained.
///
/// ```
/// use terrace::{Db, L0Options, Layout};
///
/// let layout = Layout::new().l0(L0Options::container("/mnt/pmem", 256 << 20));
/// let options = Db::options().layout(layout);
/// assert!(options.validate().is_ok());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Layout {
    /// Where new writes go when they leave memory. The default, plain tables in files, serves
    /// ordinary disks; a container is made for persistent memory. A database may be opened with
    /// another form than before.
    pub l0: L0Options,
    /// The directory of a medium for the log: persistent memory (a DAX file system), where a write
    /// that is synced waits for no disk, or a file system in memory that stands in for it. The
    /// latter does not survive a power cut, nor an orderly restart of the machine, and neither does
    /// the database then. The log goes into a directory of the database's own there. The default is
    /// none: it lies in the database's directory. A database may be opened with another one than
    /// before: what of the log lies elsewhere is read there, and stays until it is in tables.
    pub log_path: Option<PathBuf>,
    /// The directory of a volume for the log, where it is ordinary files in a directory of the
    /// database's own: another disk, or a block device that outlives this machine. Beside a mirror
    /// in an object store ([`CloudOptions::mirror`]) writes of the class
    /// [`Durability::Durable`](crate::Durability::Durable) are acknowledged when the volume has
    /// them, which costs what a sync costs, and whoever goes on with the database on an empty
    /// directory, with the volume, finds them all. The log on it is kept until the store has a
    /// moment with what is in it; writers wait when it comes to twice its usual length before that.
    /// Not together with `log_path` or [`CloudOptions::log`]. The default is none. *Source:*
    /// RocksMash (TACO 2022), section 3.4.
    pub log_volume: Option<PathBuf>,
    /// The value log: large values stand in files of their own, and tables point to them, so that a
    /// compaction does not write them again. The default is none. It helps where values have a
    /// kilobyte and more and are written often; reads take a step more, scans one for each value.
    /// What is in it is found whatever an open chooses. *Source:* Tebis (EuroSys 2022), section 2.
    pub value_log: Option<ValueLogOptions>,
    /// The object store for the lower levels of a database that is larger than the local disk, and
    /// how much may stay there. S3, Google Cloud Storage and Azure need the feature `cloud`;
    /// `file:///DIR` does not. The default is the store that the directory was last opened with, as
    /// it stands; a new database has none. *Source:* RocksMash (TACO 2022), sections 2 and 3.1.
    pub cloud: Option<CloudOptions>,
    /// Bits of a filter for each key of a table, at most 48; 0 is for no filters. The default
    /// is 10. With fewer, more tables are searched for keys that they do not hold; more take more
    /// memory.
    pub filter_bits_per_key: u32,
    /// About how many bytes the first level below L0 should hold before there is another one. The
    /// default is 0: four memtables' worth, or as much as the container of L0, if there is one.
    /// With more, fewer bytes are written; with less, what is overwritten or deleted takes less
    /// space.
    pub level_bytes_base: u64,
    /// The number of dranges, which are the intervals that keys are divided into for writing; at
    /// most 255. The default is 0: four for each core, fewer with small memtables. 1 is for none.
    /// Where they are divided follows the writes, and a key that is written very often has several.
    /// With more, more threads write side by side, and memtables are smaller. *Source:* Nova-LSM
    /// (SIGMOD 2021), θ = 64.
    pub dranges: usize,
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
    /// Bytes of the lookup index, by which a read of one key skips the memtables and the tables of
    /// L0 that do not hold it; at most 64 GiB. The default is 0: there is none. A key in them takes
    /// 8 bytes of it, and a smaller index excludes less. *Source:* Nova-LSM (SIGMOD 2021), section
    /// 4.1.1.
    pub lookup_index_bytes: u64,
    /// The number of threads with which a start replays the log, at most 8. The default is 0: one
    /// for each core. More than two or three bring little.
    pub recovery_threads: usize,
}

impl Default for Layout {
    fn default() -> Layout {
        let engine = EngineOptions::default();
        Layout {
            l0: engine.l0,
            log_path: None,
            log_volume: None,
            value_log: None,
            cloud: None,
            filter_bits_per_key: engine.table.filter_bits_per_key,
            level_bytes_base: 0,
            dranges: engine.dranges,
            memtables_kept: engine.memtables_kept,
            memtable_merging: engine.memtable_merging,
            lookup_index_bytes: engine.lookup_index_bytes,
            recovery_threads: ProcessOptions::default().recovery_threads,
        }
    }
}

/// The methods to chain; each sets the field of its name.
impl Layout {
    /// The defaults.
    #[must_use]
    pub fn new() -> Layout {
        Layout::default()
    }

    /// Sets where new writes go when they leave memory.
    #[must_use]
    pub fn l0(self, l0: L0Options) -> Layout {
        Layout { l0, ..self }
    }

    /// Sets the directory of a medium for the log.
    #[must_use]
    pub fn log_path(self, log_path: impl Into<PathBuf>) -> Layout {
        Layout { log_path: Some(log_path.into()), ..self }
    }

    /// Sets the directory of a volume for the log.
    #[must_use]
    pub fn log_volume(self, log_volume: impl Into<PathBuf>) -> Layout {
        Layout { log_volume: Some(log_volume.into()), ..self }
    }

    /// Sets which values stand in the value log.
    #[must_use]
    pub fn value_log(self, value_log: ValueLogOptions) -> Layout {
        Layout { value_log: Some(value_log), ..self }
    }

    /// Sets the object store for the lower levels.
    #[must_use]
    pub fn cloud(self, cloud: CloudOptions) -> Layout {
        Layout { cloud: Some(cloud), ..self }
    }

    /// Sets the bits of a filter for each key.
    #[must_use]
    pub fn filter_bits_per_key(self, filter_bits_per_key: u32) -> Layout {
        Layout { filter_bits_per_key, ..self }
    }

    /// Sets what the first level below L0 should hold.
    #[must_use]
    pub fn level_bytes_base(self, level_bytes_base: u64) -> Layout {
        Layout { level_bytes_base, ..self }
    }

    /// Sets the number of dranges.
    #[must_use]
    pub fn dranges(self, dranges: usize) -> Layout {
        Layout { dranges, ..self }
    }

    /// Sets how much stays in memory before it is flushed.
    #[must_use]
    pub fn memtables_kept(self, memtables_kept: usize) -> Layout {
        Layout { memtables_kept, ..self }
    }

    /// Sets whether memtables are merged in memory.
    #[must_use]
    pub fn memtable_merging(self, memtable_merging: bool) -> Layout {
        Layout { memtable_merging, ..self }
    }

    /// Sets the size of the lookup index.
    #[must_use]
    pub fn lookup_index_bytes(self, lookup_index_bytes: u64) -> Layout {
        Layout { lookup_index_bytes, ..self }
    }

    /// Sets the number of threads with which a start replays the log.
    #[must_use]
    pub fn recovery_threads(self, recovery_threads: usize) -> Layout {
        Layout { recovery_threads, ..self }
    }
}
