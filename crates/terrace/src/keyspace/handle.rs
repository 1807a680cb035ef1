use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use terrace_base::KeyRange as OwnedRange;
use terrace_base::limits::KEY_BYTES_MAX;
use terrace_engine::{Error as EngineError, WriteBatch as EngineBatch};

use crate::db::Shared;
use crate::keyspace::{KeyspaceStats, Owner, Space, Written};
use crate::view::{KeyRange, View};
use crate::{Error, Result, Snapshot, UsageStats, WriteOptions};

/// A keyspace of an open database: a separate set of keys, which it writes; as a [`View`], which it
/// dereferences to, it reads them as they are now. A cheap handle, which threads may share and
/// clone. Made by [`Db::keyspace`](crate::Db::keyspace); the database is its own default keyspace.
///
/// ```
/// # fn main() -> terrace::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// let db = terrace::Db::open(directory.path())?;
/// let users = db.keyspace("users")?;
/// users.put("1", "Ada")?;
/// assert_eq!(users.get("1")?.as_deref(), Some(&b"Ada"[..]));
/// assert!(db.get("1")?.is_none());
/// # Ok(())
/// # }
/// ```
///
/// Errors of all writes: `Invalid` (the call is wrong, such as a key that is longer than 64 KiB or
/// a value longer than 64 MiB), `NotFound` (the keyspace was dropped), `NoSpace` (the disk is full;
/// try again when there is space), `WouldBlock` (only if it may not wait), `ReadOnly`, `Closed`,
/// `Poisoned`: nothing was written. `Unknown`: whether it was shows after the next open.
#[derive(Clone)]
pub struct Keyspace {
    now: View,
    pub(crate) shared: Arc<Shared>,
}

/// A thread keeps the memory of its last single write for the next one, if it is no more than this.
const SPARE_BYTES_MAX: usize = 64 << 10;

impl Deref for Keyspace {
    type Target = View;

    fn deref(&self) -> &View {
        &self.now
    }
}

impl Keyspace {
    pub(crate) fn new(shared: &Arc<Shared>, space: Arc<Space>) -> Keyspace {
        Keyspace { now: View::now(&shared.store, space), shared: Arc::clone(shared) }
    }

    /// The name, as it was when the handle was made.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.space().name
    }

    /// What it was asked since the open: exact counts of all that was done by any of its handles,
    /// snapshots, batches and transactions. How much it holds says [`View::approximate_size`].
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// let users = db.keyspace("users")?;
    /// users.put("1", "Ada")?;
    /// users.get("1")?;
    /// users.get("2")?;
    /// let stats = users.stats();
    /// assert_eq!((stats.put_count, stats.write_bytes), (1, 4));
    /// assert_eq!((stats.get_found_count, stats.get_missed_count), (1, 1));
    /// assert_eq!(db.stats().get_count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A keyspace that is renamed keeps its counts; one that is dropped and made anew begins with
    /// none. Cost: a look at 19 numbers for each thread that used it.
    #[must_use]
    pub fn stats(&self) -> KeyspaceStats {
        self.space().counters.stats()
    }

    /// About how much was read and written in it since the open, by those operations that are
    /// timed, one in about [`SAMPLE_EVERY`](crate::SAMPLE_EVERY). [`UsageStats`] says how far off
    /// it may be; [`Keyspace::stats`] has exact counts.
    #[must_use]
    pub fn usage(&self) -> UsageStats {
        self.shared.store.usage(self.space().number.0.to_be_bytes())
    }

    /// The keyspace as it was at the moment of a snapshot.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// let users = db.keyspace("users")?;
    /// let before = db.snapshot();
    /// users.put("1", "Ada")?;
    /// assert!(users.at(&before).get("1")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A snapshot of another database shows that one's keyspace of the same number.
    #[must_use]
    pub fn at(&self, snapshot: &Snapshot) -> View {
        self.now.at(snapshot)
    }

    /// Sets `key` to `value`.
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_bytes(key.as_ref(), value.as_ref(), &WriteOptions::new())
    }

    /// Sets `key` to `value`, for some time or in another class of durability.
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.put_bytes(key.as_ref(), value.as_ref(), options)
    }

    /// Deletes `key`; it need not exist.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key.as_ref(), &WriteOptions::new())
    }

    /// Deletes every key of an interval. Costs one entry, however many keys there are.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// use terrace::Prefix;
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// # db.put("user:1", "Ada")?;
    /// db.delete_range("a".."f")?;
    /// db.delete_range(Prefix("user:"))?;
    /// assert!(db.get("user:1")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        let stored = self.space().number.stored_range(&range);
        self.delete_stored_range(&stored, &WriteOptions::new())
    }

    pub(crate) fn delete_stored_range(
        &self,
        stored: &OwnedRange,
        options: &WriteOptions,
    ) -> Result<()> {
        let end = stored.end().expect("a keyspace has an end");
        self.write_one(options, (Written::RangeDelete, 0), |batch| {
            batch.delete_range(stored.start(), end)
        })
    }

    /// Deletes every key.
    pub fn clear(&self) -> Result<()> {
        self.delete_range(..)
    }

    /// Merges `operand` into `key` without reading it: cheaper than [`Keyspace::update`], and never
    /// in the way of other writers. Readers see what the keyspace's operator makes of the newest
    /// value and the operands above it. There are operators that [count, append, and keep the
    /// greatest](crate::merge); a program may bring its own
    /// [`MergeOperator`](crate::MergeOperator).
    ///
    /// ```
    /// use terrace::{Db, KeyspaceOptions, merge};
    ///
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// let db = Db::open(directory.path().join("visits"))?;
    /// let counting = KeyspaceOptions::new().merge_operator(merge::ADD_I64_LE);
    /// let hits = db.keyspace_with("hits", counting)?;
    /// hits.merge("page", 1i64.to_le_bytes())?;
    /// hits.merge("page", 2i64.to_le_bytes())?;
    /// assert!(hits.get("page")?.is_some_and(|value| value == 3i64.to_le_bytes()));
    ///
    /// // A put sets the value, and a delete ends it, together with the operands so far.
    /// hits.put("page", 40i64.to_le_bytes())?;
    /// hits.merge("page", 2i64.to_le_bytes())?;
    /// assert!(hits.get("page")?.is_some_and(|value| value == 42i64.to_le_bytes()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// An operand never expires by itself. If the value below it does, the key goes on with what
    /// the operands make of nothing.
    ///
    /// Errors: those of all writes; `Invalid` if the keyspace has no merge operator, or the
    /// operator refuses the operand. If the operator cannot fold the operand over what the key
    /// holds, the reads that follow answer `Merge` until the key is put or deleted.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_with(key.as_ref(), operand.as_ref(), &WriteOptions::new())
    }

    pub(crate) fn merge_with(
        &self,
        key: &[u8],
        operand: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        check_key(key)?;
        let what = (Written::Merge, key.len() + operand.len());
        let key = self.space().number.stored(key);
        self.write_one(options, what, |batch| batch.merge(key.as_slice(), operand))
    }

    #[inline]
    fn put_bytes(&self, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<()> {
        check_key(key)?;
        let expiry = options.life().expiry(self.space().ttl(), || self.shared.now());
        let what = (Written::Put, key.len() + value.len());
        let key = self.space().number.stored(key);
        self.write_one(options, what, |batch| batch.put_with_expiry(key.as_slice(), value, expiry))
    }

    pub(crate) fn delete_with(&self, key: &[u8], options: &WriteOptions) -> Result<()> {
        check_key(key)?;
        let what = (Written::Delete, key.len());
        let key = self.space().number.stored(key);
        self.write_one(options, what, |batch| batch.delete(key.as_slice()))
    }

    /// Writes a batch of one entry in memory that the thread used for the last one. `what` it does
    /// is counted, with the bytes of its key and value.
    #[inline]
    fn write_one(
        &self,
        options: &WriteOptions,
        what: (Written, usize),
        fill: impl FnOnce(&mut EngineBatch) -> terrace_engine::Result<()>,
    ) -> Result<()> {
        thread_local! {
            static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
        }
        check_there(self.space())?;
        let mut batch = EngineBatch::reusing(SPARE.take());
        fill(&mut batch)?;
        let outcome = self.shared.store.write(&batch, &options.engine());
        let buffer = batch.into_buffer();
        if buffer.capacity() <= SPARE_BYTES_MAX {
            SPARE.set(buffer);
        }
        outcome?;
        self.space().counters.wrote_one(what.0, what.1);
        Ok(())
    }
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyspace({} of {})", self.name(), self.shared.store.dir().display())
    }
}

/// Errors: `Invalid` for a key that is too long.
#[inline]
pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    if key.len() <= KEY_BYTES_MAX { Ok(()) } else { Err(too_long(key)) }
}

#[cold]
fn too_long(key: &[u8]) -> Error {
    let bytes = key.len();
    EngineError::invalid(format!("the key has {bytes} bytes, at most {KEY_BYTES_MAX} are allowed"))
        .into()
}

/// Errors: `Invalid` for a keyspace that is not of `owner`'s database.
#[inline]
pub(crate) fn check_owner(space: &Space, owner: &Arc<Owner>) -> Result<()> {
    if Arc::ptr_eq(&space.owner, owner) { Ok(()) } else { Err(foreign(space)) }
}

#[cold]
fn foreign(space: &Space) -> Error {
    let name = &space.name;
    EngineError::invalid(format!(
        "the keyspace {name} belongs to another database, or to another opening of this one"
    ))
    .into()
}

/// Errors: `NotFound` for a keyspace that was dropped.
#[inline]
pub(crate) fn check_there(space: &Space) -> Result<()> {
    if space.is_dropped() { Err(dropped(space)) } else { Ok(()) }
}

#[cold]
fn dropped(space: &Space) -> Error {
    Error::not_found(format!(
        "the keyspace {} was dropped; Db::keyspace makes one of that name anew",
        space.name
    ))
}
