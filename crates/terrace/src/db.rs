use std::cell::Cell;
use std::fmt;
use std::path::Path;

use terrace_base::KeyRange;
use terrace_engine::process::{MemoryPool, PoolName, Process};
use terrace_engine::store::{IterOptions, Store, Update as EngineUpdate};
use terrace_env::{DiskEnv, DiskProfile, RealEnv, SharedEnv};

use crate::batch::check_key;
use crate::keyspace::Keyspace;
use crate::{
    CheckReport, CheckpointReport, CompactionRecord, DrangesReport, GetExplanation, Item, ItemRef,
    Iter, L0Report, Options, PinnedItem, ReadOptions, RecoveryReport, Result, ScanExplanation,
    SlowOperation, Snapshot, Stats, WriteBatch, WriteOptions, explain,
};

/// An open database: a cheap handle, which threads may share and clone.
///
/// [`Db::close`], or dropping the last handle, closes it cleanly. A program that dies instead
/// loses nothing that the [`Durability`](crate::Durability) of its writes promised.
#[derive(Clone)]
pub struct Db {
    pub(crate) store: Store,
    pub(crate) keyspace: Keyspace,
}

/// A thread keeps the memory of its last single write for the next one, if it is no more than this.
const SPARE_BYTES_MAX: usize = 64 << 10;

/// What a conditional write decided on; see [`Db::update`].
#[derive(Debug)]
pub enum Update {
    /// Write this.
    Write(WriteBatch),
    /// Change nothing.
    Keep,
}

impl Db {
    /// Opens the database in `dir`, recovering what a crash left, or creates it there.
    ///
    /// Errors: `Invalid` (an option; another merge operator than the database has; no database
    /// there and none may be created), `Locked` (another process has it open), `Corruption`,
    /// `Unsupported`, `NoSpace`, `Io`.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_in(RealEnv::new(), dir, &options)
    }

    /// As [`Db::open`], in an environment of the caller's: a simulated one, or one with faults.
    pub fn open_in(env: SharedEnv, dir: impl AsRef<Path>, options: &Options) -> Result<Db> {
        options.validate()?;
        let process = Process::start(env, &options.process())?;
        let store = Store::open(&process, dir.as_ref(), options.engine())?;
        Ok(Db { store, keyspace: Keyspace::default() })
    }

    /// As [`Db::open`], on an emulated disk that is slower than the machine's: for measurements.
    /// The media of L0 and of the log ([`Options::l0`], [`Options::log_path`]) are none.
    pub fn open_on_disk(
        dir: impl AsRef<Path>,
        options: &Options,
        profile: DiskProfile,
    ) -> Result<Db> {
        let media = options.media();
        Db::open_in(DiskEnv::beside(RealEnv::new(), profile, media), dir, options)
    }

    /// Opens another database in the process of this one: the environment, the block cache, the
    /// limit of memory and the background threads are this one's and serve both, whatever `options`
    /// say of the cache and of memory. Each is closed for itself, in any order.
    ///
    /// ```
    /// use terrace::{Db, Options};
    ///
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// let users = Db::open(directory.path().join("users"), Options::default())?;
    /// let orders = users.open_beside(directory.path().join("orders"), &Options::default())?;
    /// orders.put(b"1", b"paid")?;
    /// assert_eq!(users.get(b"1")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Errors: as [`Db::open`].
    pub fn open_beside(&self, dir: impl AsRef<Path>, options: &Options) -> Result<Db> {
        options.validate()?;
        let store = Store::open(self.store.process(), dir.as_ref(), options.engine())?;
        Ok(Db { store, keyspace: Keyspace::default() })
    }

    /// Closes the database cleanly: ends background work, syncs, and marks the directory. Other
    /// handles answer `Closed` from now on. Closing twice does nothing.
    pub fn close(&self) -> Result<()> {
        Ok(self.store.close()?)
    }

    /// A handle on another keyspace: a separate set of keys in the same tree. Keyspace 0 is the
    /// default, and what the command line and database 0 of the server show.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path(), terrace::Options::default())?;
    /// let sessions = db.keyspace(1);
    /// sessions.put(b"key", b"there")?;
    /// assert_eq!(db.get(b"key")?, None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn keyspace(&self, number: u16) -> Db {
        Db { store: self.store.clone(), keyspace: Keyspace(number) }
    }

    /// The value of `key`; `None` if there is none.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let key = self.keyspace.stored(key);
        let options = ReadOptions::default().engine();
        Ok(self.store.get_with(key.as_slice(), &options, |entry| entry.value.to_vec())?)
    }

    /// The value of `key` where it lies, without a copy: in a memtable or in a cached block, which
    /// stays in memory for as long as the answer lives. Keep it briefly.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path(), terrace::Options::default())?;
    /// db.put(b"apple", b"red")?;
    /// assert_eq!(db.get_pinned(b"apple")?.as_deref(), Some(&b"red"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_pinned(&self, key: &[u8]) -> Result<Option<PinnedItem>> {
        let key = self.keyspace.stored(key);
        Ok(self.store.get_pinned(key.as_slice(), &ReadOptions::default().engine())?)
    }

    /// The values of `keys`, in their order and by reference, all as they were at one moment;
    /// `None` where there is none. Cheaper than a single get for each key, since their cache misses
    /// overlap.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path(), terrace::Options::default())?;
    /// db.put(b"apple", b"red")?;
    /// let values = db.multi_get(&["apple", "quince"])?;
    /// assert_eq!(values[0].as_deref(), Some(&b"red"[..]));
    /// assert!(values[1].is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<PinnedItem>>> {
        let keys: Vec<_> = keys.iter().map(|key| self.keyspace.stored(key.as_ref())).collect();
        let keys: Vec<_> = keys.iter().map(|key| key.as_slice()).collect();
        Ok(self.store.multi_get(&keys, &ReadOptions::default().engine())?)
    }

    /// The value of `key` with its expiry and sequence number.
    pub fn get_with(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Item>> {
        let key = self.keyspace.stored(key);
        Ok(self.store.get(key.as_slice(), &options.engine())?)
    }

    /// What `read` makes of the entry of `key` where it lies, without a copy of its value; `None`
    /// if there is none. `read` must not call the database.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path(), terrace::Options::default())?;
    /// db.put(b"key", b"value")?;
    /// let bytes = db.look(b"key", &Default::default(), |item| item.value.len())?;
    /// assert_eq!(bytes, Some(5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn look<T>(
        &self,
        key: &[u8],
        options: &ReadOptions,
        read: impl FnOnce(ItemRef<'_>) -> T,
    ) -> Result<Option<T>> {
        let key = self.keyspace.stored(key);
        Ok(self.store.get_with(key.as_slice(), &options.engine(), |entry| read(entry.into()))?)
    }

    /// Sets `key` to `value`. Errors: as [`Db::write`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write_one(|batch| batch.put(key, value))
    }

    /// Merges `operand` into `key` without reading it: cheaper than [`Db::update`], and never in
    /// the way of other writers. Readers see what the operator that
    /// [`FormatOptions::merge_operator`](crate::FormatOptions::merge_operator) names makes of the
    /// newest value and the operands above it. `add-i64` counts, `append` appends, `max` keeps the
    /// greatest; a program may bring its own [`MergeOperator`](crate::MergeOperator).
    ///
    /// ```
    /// use terrace::{Db, FormatOptions, Options};
    ///
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// let format = FormatOptions { merge_operator: Some("add-i64".into()) };
    /// let options = Options { format, ..Options::default() };
    /// let db = Db::open(directory.path().join("visits"), options)?;
    /// db.merge(b"page", b"1")?;
    /// db.merge(b"page", b"2")?;
    /// assert_eq!(db.get(b"page")?.as_deref(), Some(&b"3"[..]));
    ///
    /// // A put sets the value, and a delete ends it, together with the operands so far.
    /// db.put(b"page", b"40")?;
    /// db.merge(b"page", b"+2")?;
    /// assert_eq!(db.get(b"page")?.as_deref(), Some(&b"42"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// An operand never expires by itself. If the value below it does, the key goes on with what
    /// the operands make of nothing.
    ///
    /// Errors: as [`Db::write`]; `Invalid` if the database has no merge operator, or the operator
    /// refuses the operand. If the operator cannot fold the operand over what the key holds, the
    /// reads that follow answer `Merge` until the key is put or deleted.
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.merge(key, operand)?;
        self.write(batch, &WriteOptions::default())
    }

    /// Deletes `key`; it need not exist. Errors: as [`Db::write`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.write_one(|batch| batch.delete(key))
    }

    /// Writes a batch of one entry in memory that the thread used for the last one.
    fn write_one(&self, fill: impl FnOnce(&mut WriteBatch) -> Result<()>) -> Result<()> {
        thread_local! {
            static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
        }
        let mut batch = WriteBatch::reusing(SPARE.take(), self.keyspace);
        fill(&mut batch)?;
        let batch = batch.into_engine();
        let outcome = self.store.write(&batch, &WriteOptions::default().engine());
        let buffer = batch.into_buffer();
        if buffer.capacity() <= SPARE_BYTES_MAX {
            SPARE.set(buffer);
        }
        Ok(outcome?)
    }

    /// Deletes every key from `start` up to, not including, `end`; without an end, every key from
    /// `start` on. One entry, however many keys there are. Errors: as [`Db::write`].
    pub fn delete_range(&self, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        self.write_one(|batch| batch.delete_range(start, end))
    }

    /// Writes a batch atomically. On return all of it is visible to every thread, and as durable
    /// as its class promises.
    ///
    /// Errors: `Invalid` (a merge without a merge operator, or with an operand that the operator
    /// refuses), `NoSpace`, `WouldBlock`, `ReadOnly`, `Poisoned`, `Closed` (nothing was written);
    /// `Unknown` (a failure in the middle: find out after the next open).
    pub fn write(&self, batch: WriteBatch, options: &WriteOptions) -> Result<()> {
        let batch = batch.into_keyspace(self.keyspace);
        Ok(self.store.write(&batch, &options.engine())?)
    }

    /// Reads `keys`, lets `decide` choose, and writes its choice, with no other write of these
    /// keys in between. `decide` gets one value a key, in the order of `keys`; expired keys show
    /// as `None`. It writes only keys that were named, may be called again if room had to be made,
    /// and must not call the database.
    ///
    /// ```
    /// use terrace::{Update, WriteBatch, WriteOptions};
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path(), terrace::Options::default())?;
    /// // Set the key only if nobody has.
    /// db.update(&[b"leader"], &WriteOptions::default(), |old| {
    ///     let mut batch = WriteBatch::new();
    ///     match old {
    ///         [None] if batch.put(b"leader", b"me").is_ok() => Update::Write(batch),
    ///         _ => Update::Keep,
    ///     }
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Errors: as [`Db::write`]; `NeedsIo` if the call may not wait and a value is on the disk;
    /// `Merge` if a value cannot be folded.
    pub fn update(
        &self,
        keys: &[&[u8]],
        options: &WriteOptions,
        mut decide: impl FnMut(&[Option<Item>]) -> Update,
    ) -> Result<()> {
        keys.iter().try_for_each(|key| check_key(key))?;
        let stored: Vec<_> = keys.iter().map(|key| self.keyspace.stored(key)).collect();
        let stored: Vec<&[u8]> = stored.iter().map(|key| key.as_slice()).collect();
        let updated = self.store.update(&stored, &options.engine(), |old| {
            Ok(match decide(old) {
                Update::Write(batch) => EngineUpdate::Write(batch.into_keyspace(self.keyspace)),
                Update::Keep => EngineUpdate::Keep,
            })
        });
        Ok(updated?)
    }

    /// The keys of an interval as they are now, in both directions.
    pub fn iter(&self, range: KeyRange, options: &ReadOptions) -> Result<Iter> {
        let range = self.keyspace.stored_range(&range);
        let inner = self.store.iter(IterOptions { range, wait: options.wait })?;
        Ok(Iter::new(inner, self.keyspace))
    }

    /// The keyspace as it is now, for as long as the snapshot lives.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.store.snapshot(), self.keyspace)
    }

    /// Writes all memtables to tables. Not needed for durability; it makes the next open faster.
    pub fn flush(&self) -> Result<()> {
        Ok(self.store.flush()?)
    }

    /// Makes everything durable that was acknowledged before the call, in any keyspace and of any
    /// [`Durability`](crate::Durability), and waits for that.
    ///
    /// Errors: `ReadOnly`, `Closed`, `Poisoned`: then it is in doubt what of it is durable.
    pub fn sync(&self) -> Result<()> {
        Ok(self.store.sync()?)
    }

    /// Waits until no flush, compaction or other background work is due or running: for tools that
    /// want to measure or copy a tree at rest. Writes that go on meanwhile make it wait for longer.
    pub fn settle(&self) {
        self.store.settle();
    }

    /// Flushes, and rewrites everything in `range` down to the deepest level in use: no deleted or
    /// overwritten version takes space afterwards unless a snapshot needs it. Takes as long as
    /// reading and writing all of it.
    pub fn compact(&self, range: KeyRange) -> Result<()> {
        Ok(self.store.compact(&self.keyspace.stored_range(&range))?)
    }

    /// Makes a copy of the whole database, every keyspace, at one moment in `dir`, which does not
    /// exist or is empty; see [`Db::checkpoint_with`].
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path().join("db"), terrace::Options::default())?;
    /// db.put(b"key", b"before")?;
    /// db.checkpoint(directory.path().join("copy"))?;
    /// db.put(b"key", b"after")?;
    /// let copy = terrace::Db::open(directory.path().join("copy"), terrace::Options::default())?;
    /// assert_eq!(copy.get(b"key")?.as_deref(), Some(&b"before"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<CheckpointReport> {
        self.checkpoint_with(dir, |_, _| true)
    }

    /// As [`Db::checkpoint`]; `progress` is called with the bytes of tables that the copy has and
    /// those that it will have, and ends the work by `false`.
    ///
    /// The copy shares the bytes of its tables with this database by hard links, so it costs a
    /// flush and little space; on another file system they are copied. It opens like any database,
    /// and deleting one of the two leaves the other. Everything acknowledged before the call is in
    /// it. Writers go on.
    ///
    /// Errors: `Invalid` (`dir` is not empty), `Cancelled`, `NoSpace`, `Io`, `ReadOnly`, `Closed`,
    /// `Poisoned`. After an error `dir` holds no database.
    pub fn checkpoint_with(
        &self,
        dir: impl AsRef<Path>,
        mut progress: impl FnMut(u64, u64) -> bool,
    ) -> Result<CheckpointReport> {
        Ok(self.store.checkpoint(dir.as_ref(), &mut progress)?)
    }

    /// What the database has done since it was opened, and what it holds now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::new(self.store.stats())
    }

    /// The last 4,096 compactions that merged tables since the open, in the order in which they
    /// ended.
    #[must_use]
    pub fn compactions(&self) -> Vec<CompactionRecord> {
        self.store.compactions()
    }

    /// The pool to which a server charges what it holds for its clients: part of the database's
    /// [memory](Options::memory_bytes).
    #[must_use]
    pub fn client_memory(&self) -> MemoryPool {
        self.store.process().memory().pool(PoolName::Clients).clone()
    }

    /// Reads `key`, and says what the read met on its way and why it answered as it did.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path(), terrace::Options::default())?;
    /// db.put(b"key", b"value")?;
    /// db.delete(b"key")?;
    /// let explanation = db.explain_get(b"key")?;
    /// assert!(explanation.to_string().ends_with("hidden: tombstone 2 is the newest entry"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn explain_get(&self, key: &[u8]) -> Result<GetExplanation> {
        let key = self.keyspace.stored(key);
        Ok(explain::get_as_asked(self.store.explain_get(key.as_slice())?))
    }

    /// Walks up to `limit` keys of `range`, from the last one if `reverse` is set, and says where
    /// they came from and what was stepped over.
    pub fn explain_scan(
        &self,
        range: KeyRange,
        limit: u64,
        reverse: bool,
    ) -> Result<ScanExplanation> {
        let stored = self.keyspace.stored_range(&range);
        let explanation = self.store.explain_scan(stored, limit, reverse)?;
        Ok(explain::scan_as_asked(explanation, &range))
    }

    /// How the writes are spread over the parts that keys are divided into for writing, of all
    /// keyspaces together. `Display` draws it, `Serialize` is for programs.
    #[must_use]
    pub fn dranges(&self) -> DrangesReport {
        explain::dranges_as_asked(self.store.dranges())
    }

    /// What is in L0, of all keyspaces together: what is left of each row, slice by slice, and the
    /// next cut. `Display` draws it, `Serialize` is for programs. It may wait for the disk.
    pub fn l0(&self) -> Result<L0Report> {
        Ok(explain::l0_as_asked(self.store.l0()?))
    }

    /// The slowest gets, scans and writes of the last minutes in all keyspaces, the slowest first:
    /// at most some hundred. An operation is seen if it had to wait for something, and otherwise
    /// with a chance of one in [`SAMPLE_EVERY`](crate::SAMPLE_EVERY).
    #[must_use]
    pub fn slow_operations(&self) -> Vec<SlowOperation> {
        self.store.slow_operations().into_iter().map(explain::slow_as_asked).collect()
    }

    /// Forgets the slow operations so far.
    pub fn reset_slow_operations(&self) {
        self.store.reset_slow_operations();
    }

    /// Reads every table from front to back and judges every byte; see [`Db::check_with`].
    pub fn check(&self) -> Result<CheckReport> {
        self.check_with(|_, _| ())
    }

    /// As [`Db::check`]; `progress` is called with the bytes checked and the bytes in all.
    pub fn check_with(&self, mut progress: impl FnMut(u64, u64)) -> Result<CheckReport> {
        Ok(CheckReport::new(self.store.check(&mut progress)?))
    }

    /// What the open found: a clean close, or what a crash had left.
    #[must_use]
    pub fn recovery(&self) -> &RecoveryReport {
        self.store.recovery()
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Db({}, keyspace {})", self.store.dir().display(), self.keyspace.0)
    }
}
