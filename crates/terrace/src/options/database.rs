//! The options of a database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_engine::Error as EngineError;
use terrace_engine::merge::MergeOperator;
use terrace_engine::options::{L0Options, Options as EngineOptions, ProcessOptions, Research};
use terrace_engine::process::Process;
use terrace_engine::table::{Compression, TableOptions};
use terrace_env::{DiskEnv, DiskProfile, RealEnv, SharedEnv};

use crate::events::{Listener, Listeners};
use crate::filter::CompactionFilter;
use crate::keyspace::{CompactionFilters, FilterTable, OperatorTable};
use crate::options::{Layout, SharedResources};
use crate::{Db, Durability, MergeOperators, Result, Secondary};

/// With an object store, the bytes that may lie on the local disk are those of so many memtables at
/// least: the log takes up to a quarter of them, and L0 up to twelve memtables before writers are
/// slowed down, 24 before they wait.
const MEMTABLES_IN_LOCAL_BYTES: u64 = 32;

/// The least size of a memtable that follows from that.
const MEMTABLE_BYTES_MIN: u64 = 1 << 20;

/// The least size of tables if some lie in an object store.
const FAR_TABLE_BYTES_MIN: u64 = 4 << 20;

/// What an open does about a directory that holds a database, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Create {
    /// Opens what is there, and makes a database where there is none.
    #[default]
    IfMissing,
    /// Makes a database, and refuses a directory that holds one.
    New,
    /// Opens what is there, and refuses a directory that holds no database.
    Never,
}

/// How a database is opened. The defaults serve a machine with a few cores and gigabytes. Each open
/// may choose them anew.
///
/// Each option is a field, to be looked at, and a method, to be chained:
///
/// ```
/// use terrace::{Compression, Db, Durability};
///
/// # fn main() -> terrace::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// let db = Db::options()
///     .durability(Durability::Sync)
///     .compression(Compression::Lz4)
///     .cache_bytes(64 << 20)
///     .open(directory.path().join("careful"))?;
/// # db.close()
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// What is done about a directory that holds a database, or none.
    pub create: Create,
    /// Whether the database is only read: several processes may do that at once, none of them
    /// changes a byte, and none may write meanwhile. The default is no.
    pub read_only: bool,
    /// What an acknowledged write survives, unless the write itself says otherwise. The default is
    /// [`Durability::Buffered`]: it survives a killed process, and not a power cut.
    pub durability: Durability,
    /// Bytes of the cache for blocks of tables. The default is 256 MiB, and 0 is none. A larger one
    /// saves reads from the disk; the kernel's page cache helps too.
    pub cache_bytes: u64,
    /// Bytes of memory that all parts together may take: the block cache, memtables, filters and
    /// indexes, buffers, and a server's requests and replies. At least `cache_bytes` and 64 KiB.
    /// The default is `cache_bytes` and 1.75 GiB. Memtables take what the others leave, two of them
    /// at the least: near the limit writers are slowed down, and at it they wait for a flush. A
    /// larger limit helps while flushes are slow; a smaller one leaves more to other programs and
    /// to the kernel's page cache.
    pub memory_bytes: Option<u64>,
    /// Bytes of a memtable, from 16 KiB to 2 GiB. The default is 64 MiB. Up to four exist at a
    /// time. Larger ones make flushes and compactions rarer and a start after a crash longer;
    /// smaller ones save memory.
    pub memtable_bytes: u64,
    /// How blocks of tables are compressed. The default is not at all. Compressed tables are
    /// smaller and take time to read.
    pub compression: Compression,
    /// The number of threads that compact. The default is 0: one for each core, at most 4. More of
    /// them keep up with more writes, and take processor time from the writers.
    pub background_threads: usize,
    /// How many bytes a second flushes and compactions may write into tables, at least 64 KiB; what
    /// compactions read is about as much again. The default is none: as many as the disk takes.
    /// With less, reads and other programs have more of the disk, and what is overwritten or
    /// deleted takes space for longer. Work that holds writers up does not obey it, so that no
    /// write is slower for it, nor does what a caller waits for, but [`Admin::compact`]; backups
    /// have [a rate of their own](crate::BackupOptions).
    ///
    /// [`Admin::compact`]: crate::Admin::compact
    pub background_io_limit: Option<u64>,
    /// The merge operators that this program knows beside the [built-in](crate::merge) ones. The
    /// default is none. A keyspace that merges with one of them can be read only by programs that
    /// bring it.
    pub merge_operators: MergeOperators,
    /// The [filters](crate::filter) that compactions ask, each with the name of its keyspace. The
    /// default is none. Nothing of them is kept with the database.
    pub compaction_filters: CompactionFilters,
    /// The listeners that are told what the database does in the background; the module
    /// [`events`](crate::events) says what they may do. The default is none.
    pub listeners: Listeners,
    /// The cache, the limits and the threads of several databases, in the place of ones of its own.
    /// The default is none.
    pub shared: Option<SharedResources>,
    /// How the tree is laid out. The default serves ordinary disks.
    pub layout: Layout,
    /// The baselines of papers, to be measured. The default is none.
    #[cfg(feature = "research")]
    pub research: Research,
}

impl Default for Options {
    fn default() -> Options {
        let engine = EngineOptions::default();
        let process = ProcessOptions::default();
        Options {
            create: Create::IfMissing,
            read_only: engine.read_only,
            durability: engine.durability,
            cache_bytes: process.cache_bytes,
            memory_bytes: None,
            memtable_bytes: engine.memtable_bytes as u64,
            compression: engine.table.compression,
            background_threads: process.compaction_threads,
            background_io_limit: process.background_io_limit,
            merge_operators: MergeOperators::new(),
            compaction_filters: CompactionFilters::new(),
            listeners: Listeners::new(),
            shared: None,
            layout: Layout::default(),
            #[cfg(feature = "research")]
            research: engine.research,
        }
    }
}

/// The methods to chain; each sets the field of its name.
impl Options {
    /// The defaults.
    #[must_use]
    pub fn new() -> Options {
        Options::default()
    }

    /// Sets what is done about a directory that holds a database, or none.
    #[must_use]
    pub fn create(self, create: Create) -> Options {
        Options { create, ..self }
    }

    /// Only reads, beside others that do.
    #[must_use]
    pub fn read_only(self) -> Options {
        Options { read_only: true, ..self }
    }

    /// Sets what an acknowledged write survives.
    #[must_use]
    pub fn durability(self, durability: Durability) -> Options {
        Options { durability, ..self }
    }

    /// Sets the size of the block cache.
    #[must_use]
    pub fn cache_bytes(self, cache_bytes: u64) -> Options {
        Options { cache_bytes, ..self }
    }

    /// Sets what all parts together may take of memory.
    #[must_use]
    pub fn memory_bytes(self, memory_bytes: u64) -> Options {
        Options { memory_bytes: Some(memory_bytes), ..self }
    }

    /// Sets the size of a memtable.
    #[must_use]
    pub fn memtable_bytes(self, memtable_bytes: u64) -> Options {
        Options { memtable_bytes, ..self }
    }

    /// Sets how blocks of tables are compressed.
    #[must_use]
    pub fn compression(self, compression: Compression) -> Options {
        Options { compression, ..self }
    }

    /// Sets the number of threads that compact.
    #[must_use]
    pub fn background_threads(self, background_threads: usize) -> Options {
        Options { background_threads, ..self }
    }

    /// Sets how many bytes a second flushes and compactions may write.
    #[must_use]
    pub fn background_io_limit(self, bytes_per_second: u64) -> Options {
        Options { background_io_limit: Some(bytes_per_second), ..self }
    }

    /// Makes an operator known, by its name.
    #[must_use]
    pub fn merge_operator(mut self, operator: impl MergeOperator + 'static) -> Options {
        self.merge_operators.push(Arc::new(operator));
        self
    }

    /// Has compactions ask a filter about the values of the keyspace with this name; the default
    /// one is called `default`. A keyspace has at most one.
    #[must_use]
    pub fn compaction_filter(
        mut self,
        keyspace: impl Into<String>,
        filter: impl CompactionFilter + 'static,
    ) -> Options {
        self.compaction_filters.push((keyspace.into(), Arc::new(filter)));
        self
    }

    /// Adds a listener; an [`Arc`] of one is one.
    #[must_use]
    pub fn listener(self, listener: impl Listener + 'static) -> Options {
        Options { listeners: self.listeners.with(Arc::new(listener)), ..self }
    }

    /// Sets how the tree is laid out.
    #[must_use]
    pub fn layout(self, layout: Layout) -> Options {
        Options { layout, ..self }
    }

    /// Sets which baselines of papers are in the place of what is better.
    #[cfg(feature = "research")]
    #[must_use]
    pub fn research(self, research: Research) -> Options {
        Options { research, ..self }
    }

    /// Opens the database in `dir`, recovering what a crash left, or makes one there.
    ///
    /// Errors: `Invalid` (an option; a merge operator that this program does not know; no database
    /// there and none may be made, or one and it should be new), `Locked` (another process has it
    /// open), `Corruption`, `Unsupported`, `NoSpace`, `Io`.
    pub fn open(&self, dir: impl AsRef<Path>) -> Result<Db> {
        if let Some(url) = url_in(dir.as_ref()) {
            return Err(EngineError::invalid(format!(
                "{url} is an object store, and a database is written through a directory that has \
                 it as its `Layout::cloud`; to read what lies there, use `Options::open_secondary`"
            ))
            .into());
        }
        match &self.shared {
            Some(shared) => self.open_sharing(&shared.process, dir.as_ref()),
            None => self.open_in(RealEnv::new(), dir),
        }
    }

    /// As [`Options::open`], in the process of another database: the environment, the block cache,
    /// the limits of memory and of background I/O and the background threads are that one's and
    /// serve both, whatever these options say of them. Each is closed for itself, in any order.
    ///
    /// ```
    /// use terrace::Db;
    ///
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// let users = Db::open(directory.path().join("users"))?;
    /// let orders = Db::options().open_beside(&users, directory.path().join("orders"))?;
    /// orders.put("1", "paid")?;
    /// assert_eq!(users.get("1")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Options::share`] does the same without one database that is the first.
    ///
    /// Errors: as [`Options::open`].
    pub fn open_beside(&self, other: &Db, dir: impl AsRef<Path>) -> Result<Db> {
        self.open_sharing(other.store().process(), dir.as_ref())
    }

    /// Opens the database in `dir` to read it beside the process that writes it, as it is now; see
    /// [`Secondary`]. Of these options those of writing, and what makes a database, mean nothing.
    ///
    /// In the place of a directory, `dir` may be the URL of an object store that has one database:
    /// then this is [`Options::open_cloud`] and
    /// [`CloudDatabase::open`](crate::CloudDatabase::open).
    ///
    /// Cost: that of reading the log, and of opening all tables: the process needs a file
    /// descriptor for each (`ulimit -n`), and for a moment two after a new manifest has begun.
    ///
    /// Errors: `Invalid` (no database there), `Unsupported` (it lies where it cannot be followed;
    /// of a later version), `Outdated` (it was replaced meanwhile, or its writer was faster all the
    /// time), `Corruption`, `Io`.
    pub fn open_secondary(&self, dir: impl AsRef<Path>) -> Result<Secondary> {
        if let Some(url) = url_in(dir.as_ref()) {
            return self.open_cloud(url, None)?.open();
        }
        self.open_secondary_sharing(&self.process_for(RealEnv::new())?, dir.as_ref())
    }

    /// As [`Options::open_secondary`], in an environment of the caller's. Nothing is shared.
    #[doc(hidden)]
    pub fn open_secondary_in(&self, env: SharedEnv, dir: impl AsRef<Path>) -> Result<Secondary> {
        let process = Process::start(env, &self.process())?;
        self.open_secondary_sharing(&process, dir.as_ref())
    }

    /// The process that is shared, or one of these options.
    pub(crate) fn process_for(&self, env: SharedEnv) -> Result<Arc<Process>> {
        match &self.shared {
            Some(shared) => Ok(Arc::clone(&shared.process)),
            None => Ok(Process::start(env, &self.process())?),
        }
    }

    fn open_secondary_sharing(&self, process: &Arc<Process>, dir: &Path) -> Result<Secondary> {
        self.validate()?;
        Secondary::open_in_process(process, dir, self)
    }

    fn open_sharing(&self, process: &Arc<Process>, dir: &Path) -> Result<Db> {
        self.validate()?;
        Db::open_in_process(process, dir, self)
    }

    /// As [`Options::open`], on an emulated disk that is slower than the machine's: for
    /// measurements. The media of L0 and of the log ([`Layout::l0`], [`Layout::log_path`]) are
    /// none. Nothing is shared.
    #[doc(hidden)]
    pub fn open_on_disk(&self, dir: impl AsRef<Path>, profile: DiskProfile) -> Result<Db> {
        self.open_in(DiskEnv::beside(RealEnv::new(), profile, self.media()), dir)
    }

    /// As [`Options::open`], in an environment of the caller's: a simulated one, or one with
    /// faults. Nothing is shared.
    #[doc(hidden)]
    pub fn open_in(&self, env: SharedEnv, dir: impl AsRef<Path>) -> Result<Db> {
        self.validate()?;
        let process = Process::start(env, &self.process())?;
        Db::open_in_process(&process, dir.as_ref(), self)
    }

    /// Says what is wrong with the options, if anything. Errors: `Invalid`.
    pub fn validate(&self) -> Result<()> {
        self.engine(&OperatorTable::default()).validate()?;
        FilterTable::validate(&self.compaction_filters)?;
        Ok(self.process().validate()?)
    }

    /// The directories of media that are not the database's own.
    pub(crate) fn media(&self) -> Vec<PathBuf> {
        let engine = self.engine(&OperatorTable::default());
        let media = [engine.l0_medium(), engine.log_path.as_deref()];
        media.into_iter().flatten().map(Path::to_path_buf).collect()
    }

    fn baselines(&self) -> Research {
        #[cfg(feature = "research")]
        return self.research.clone();
        #[cfg(not(feature = "research"))]
        Research::default()
    }

    /// The options of the engine, whose merge operators find those of keyspaces in `operators`.
    pub(crate) fn engine(&self, operators: &OperatorTable) -> EngineOptions {
        let defaults = EngineOptions::default();
        let layout = &self.layout;
        let memtable_bytes = self.fitting_memtable_bytes();
        let table_bytes = (memtable_bytes / 2).clamp(self.table_bytes_min(), 32 << 20);
        let kept = layout.memtables_kept as u64;
        let research = self.baselines();
        let own_rows = [defaults.l0_rows_per_cut, defaults.l0_rows_slow, defaults.l0_rows_stop];
        let [l0_rows_per_cut, l0_rows_slow, l0_rows_stop] = research.l0_rows().unwrap_or(own_rows);
        EngineOptions {
            durability: self.durability,
            create_if_missing: self.create != Create::Never,
            error_if_exists: self.create == Create::New,
            read_only: self.read_only,
            merge_operators: operators.for_engine(&self.merge_operators),
            listeners: self.listeners.clone(),
            l0: layout.l0.clone(),
            log_path: layout.log_path.clone(),
            log_volume: layout.log_volume.clone(),
            value_log: layout.value_log,
            cloud: layout.cloud.clone(),
            memtable_bytes: usize::try_from(memtable_bytes).unwrap_or(usize::MAX),
            frozen_memtables_max: defaults.frozen_memtables_max + layout.memtables_kept,
            memtables_kept: layout.memtables_kept,
            memtable_merging: layout.memtable_merging,
            dranges: layout.dranges,
            lookup_index_bytes: layout.lookup_index_bytes,
            // So small beside a memtable that little waits to be used, or to be released; and so
            // large that a fast writer needs a new file seldom.
            log_segment_bytes: (memtable_bytes / 2).clamp(256 << 10, 64 << 20),
            log_bytes_max: (memtable_bytes * (8 + 2 * kept)).max(64 << 20),
            table_bytes,
            table: TableOptions {
                compression: self.compression,
                filter_bits_per_key: layout.filter_bits_per_key,
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

    /// The size of a memtable: as wanted, or what leaves room for the log and for L0 on the local
    /// disk.
    fn fitting_memtable_bytes(&self) -> u64 {
        let local_bytes = self.layout.cloud.as_ref().and_then(|cloud| cloud.local_bytes);
        let most = local_bytes.map_or(u64::MAX, |bytes| bytes / MEMTABLES_IN_LOCAL_BYTES);
        self.memtable_bytes.min(most.max(MEMTABLE_BYTES_MIN))
    }

    /// The least size of a table: each one in an object store costs requests.
    fn table_bytes_min(&self) -> u64 {
        if self.layout.cloud.is_some() { FAR_TABLE_BYTES_MIN } else { 1 << 20 }
    }

    /// What `level_bytes_base` comes to.
    fn level_bytes(&self) -> u64 {
        match (self.layout.level_bytes_base, &self.layout.l0) {
            (0, L0Options::Plain { .. }) => (self.fitting_memtable_bytes() * 4).max(16 << 20),
            (0, L0Options::Container { bytes, .. }) => *bytes,
            (bytes, _) => bytes,
        }
    }

    pub(crate) fn process(&self) -> ProcessOptions {
        let defaults = ProcessOptions::default();
        let beside_the_cache = defaults.memory_bytes - defaults.cache_bytes;
        let cache_bytes = self.cache_bytes;
        let limit = self.memory_bytes;
        ProcessOptions {
            cache_bytes,
            memory_bytes: limit.unwrap_or(cache_bytes.saturating_add(beside_the_cache)),
            recovery_threads: self.layout.recovery_threads,
            compaction_threads: self.background_threads,
            background_io_limit: self.background_io_limit,
            ..defaults
        }
    }
}

/// What was given as a directory and is the URL of an object store.
fn url_in(dir: &Path) -> Option<&str> {
    dir.to_str().filter(|text| text.contains("://"))
}
