use std::fmt;
use std::path::Path;

use terrace_base::KeyRange;
use terrace_engine::process::Process;
use terrace_engine::store::{IterOptions, Store, Update as EngineUpdate};
use terrace_env::{RealEnv, SharedEnv};

use crate::batch::check_key;
use crate::keyspace::Keyspace;
use crate::{
    CheckReport, Item, Iter, Options, ReadOptions, RecoveryReport, Result, Snapshot, Stats,
    WriteBatch, WriteOptions,
};

/// An open database: a cheap handle, which threads may share and clone.
///
/// [`Db::close`], or dropping the last handle, closes it cleanly. A program that dies instead
/// loses nothing that the [`Durability`](crate::Durability) of its writes promised.
#[derive(Clone)]
pub struct Db {
    store: Store,
    keyspace: Keyspace,
}

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
    /// Errors: `Invalid` (an option; no database there and none may be created), `Locked` (another
    /// process has it open), `Corruption`, `Unsupported`, `NoSpace`, `Io`.
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

    /// The value of `key` with its expiry and sequence number.
    pub fn get_with(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Item>> {
        let key = self.keyspace.stored(key);
        Ok(self.store.get(key.as_slice(), &options.engine())?)
    }

    /// Sets `key` to `value`. Errors: as [`Db::write`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, value)?;
        self.write(batch, &WriteOptions::default())
    }

    /// Deletes `key`; it need not exist. Errors: as [`Db::write`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(key)?;
        self.write(batch, &WriteOptions::default())
    }

    /// Deletes every key from `start` up to, not including, `end`; without an end, every key from
    /// `start` on. One entry, however many keys there are. Errors: as [`Db::write`].
    pub fn delete_range(&self, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range(start, end)?;
        self.write(batch, &WriteOptions::default())
    }

    /// Writes a batch atomically. On return all of it is visible to every thread, and as durable
    /// as its class promises.
    ///
    /// Errors: `NoSpace`, `WouldBlock`, `ReadOnly`, `Poisoned`, `Closed` (nothing was written);
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
    /// Errors: as [`Db::write`]; `NeedsIo` if the call may not wait and a value is on the disk.
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

    /// What the database has done since it was opened, and what it holds now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::new(self.store.stats())
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
