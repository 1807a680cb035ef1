use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use terrace_base::{EntryRef, Expiry, SeqNo};
use terrace_engine::Error as EngineError;
use terrace_engine::store::{PinnedItem, ReadSet};

use super::iter::TransactionIter;
use super::own::{Own, OwnWrites, Under};
use crate::db::Shared;
use crate::keyspace::handle::check_owner;
use crate::keyspace::{Space, split};
use crate::view::{Prefix, Value};
use crate::{Batch, Db, Error, KeyRange, Keyspace, Result, Snapshot, WriteOptions};

/// Reads at one moment, and writes that are done only if nothing of what was read has changed by
/// then: as if nobody else had been there. Made by [`Db::begin`]; [`Db::transaction`] also repeats
/// it on a conflict.
///
/// ```
/// use terrace::{Db, ErrorKind};
///
/// # fn main() -> terrace::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// let db = Db::open(directory.path())?;
/// let (seats, guests) = (db.keyspace("seats")?, db.keyspace("guests")?);
/// seats.put("4A", "free")?;
///
/// let mut booking = db.begin();
/// if booking.get(&seats, "4A")?.is_some_and(|state| state == "free") {
///     booking.put(&seats, "4A", "Ada").put(&guests, "Ada", "4A");
/// }
/// // Somebody else is faster.
/// seats.put("4A", "Grace")?;
/// let error = booking.commit().expect_err("the seat was read, and is taken");
/// assert_eq!(error.kind(), ErrorKind::Conflict);
/// assert_eq!(error.key(), Some(&b"4A"[..]));
/// assert!(guests.get("Ada")?.is_none());
/// # Ok(())
/// # }
/// ```
///
/// # What it promises
/// Transactions that commit are serializable: in the order of their numbers each read what it would
/// have read had they run one after the other. Keys that were read count, found or not, and so do
/// intervals as far as they were walked: a key that appears where an iterator found none is a
/// conflict. Two transactions that write the same key without reading it do not conflict: the later
/// one wins.
///
/// It holds up nobody: who only reads, or writes without a transaction, notices nothing. So it
/// suits work that is short and seldom meets; where many change one key, [`Keyspace::update`] and
/// [`Keyspace::merge`] are better. While it lives, versions that its snapshot shows are kept.
///
/// Own writes are visible to its own reads; what they show bears the number 0. Expiry is no
/// conflict: what has expired since it was read was there when it was read.
///
/// Writes fail for no entry, as those of a [`Batch`]: [`Transaction::commit`] refuses all of them
/// if one cannot be written. Dropping the transaction undoes it.
pub struct Transaction {
    pub(super) shared: Arc<Shared>,
    pub(super) reads: RefCell<ReadSet>,
    /// The keyspaces that it read, each once.
    read_spaces: RefCell<SmallVec<[Arc<Space>; 2]>>,
    writes: Batch,
    pub(super) own: OwnWrites,
}

/// A point in a transaction to go back to; see [`Transaction::savepoint`].
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    len: usize,
    is_refused: bool,
}

impl Db {
    /// Begins a transaction, which reads everything as it is now.
    #[must_use]
    pub fn begin(&self) -> Transaction {
        Transaction {
            shared: Arc::clone(&self.shared),
            reads: RefCell::new(ReadSet::new(&self.store().snapshot())),
            read_spaces: RefCell::default(),
            writes: Batch::new(),
            own: OwnWrites::default(),
        }
    }
}

impl Transaction {
    /// What it reads, its own writes left out; what is read there is not noted, so a change of that
    /// is no conflict.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.reads.borrow().snapshot().clone())
    }

    /// The value of `key`; `None` if there is none. Errors: those of a [`View`](crate::View)'s
    /// reads; `Invalid` if the transaction has read more than it may remember (64 MiB of keys).
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let (space, key) = (keyspace.space(), key.as_ref());
        check_owner(space, self.shared.owner())?;
        self.note_space(space);
        let stored = space.number.stored(key);
        let stored = stored.as_slice();
        let mut found_bytes = None;
        let mut met = |bytes: usize| found_bytes = Some(key.len().wrapping_add(bytes));
        let found = match self.own.get(stored) {
            Some(own) => {
                let value = self.own_value(stored, own, || self.read(stored, |_| ()));
                value.inspect(|value| value.iter().for_each(|value| met(value.len())))
            }
            None if self.own.is_deleted(stored) => Ok(None),
            None => self.read(stored, met).map(|item| item.map(Value)),
        };
        if found.is_ok() {
            space.counters.got(found_bytes);
        }
        found
    }

    /// Something of this keyspace is read, and may be what a commit fails of.
    fn note_space(&self, space: &Arc<Space>) {
        let mut spaces = self.read_spaces.borrow_mut();
        if !spaces.iter().any(|known| Arc::ptr_eq(known, space)) {
            spaces.push(Arc::clone(space));
        }
    }

    /// Whether there is `key`; as [`Transaction::get`].
    pub fn contains_key(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(keyspace, key)?.is_some())
    }

    /// What the snapshot shows of a stored key, noted. The length of the value is `met`.
    fn read(&self, stored: &[u8], met: impl FnOnce(usize)) -> Result<Option<PinnedItem>> {
        let mut reads = self.reads.borrow_mut();
        reads.note_key(stored)?;
        let take = |entry: &EntryRef<'_>, pinned| {
            met(entry.value.len());
            pinned
        };
        Ok(reads.snapshot().get_pinned_with(stored, &Default::default(), take)?)
    }

    /// What own writes to a stored key come to, over what `read` finds under them.
    pub(super) fn own_value(
        &self,
        stored: &[u8],
        own: &Own,
        read: impl FnOnce() -> Result<Option<PinnedItem>>,
    ) -> Result<Option<Value>> {
        let is_live = |expiry: &Option<Expiry>| {
            expiry.is_none_or(|expiry| !expiry.is_expired(self.shared.now()))
        };
        let under: Option<(Vec<u8>, Option<Expiry>)> = match &own.under {
            Under::Nothing => None,
            Under::Value(value, expiry) => is_live(expiry).then(|| (value.clone(), *expiry)),
            Under::Snapshot => read()?.map(|item| (item.to_vec(), item.expiry())),
        };
        let (under, expiry) = under.map_or((None, None), |(value, expiry)| (Some(value), expiry));
        let value = if own.operands.is_empty() {
            under
        } else {
            let operands: Vec<&[u8]> = own.operands.iter().map(Vec::as_slice).collect();
            Some(self.shared.store.fold_operands(stored, under.as_deref(), &operands)?)
        };
        Ok(value.map(|value| Value(PinnedItem::copy(&value, expiry, SeqNo::ZERO))))
    }

    /// All keys and values of a keyspace, own writes among them.
    pub fn iter(&self, keyspace: &Keyspace) -> TransactionIter<'_> {
        self.range(keyspace, ..)
    }

    /// The keys and values of an interval, own writes among them.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// db.put("a", "1")?;
    /// db.put("c", "3")?;
    /// let mut tx = db.begin();
    /// tx.put(&db, "b", "2").delete(&db, "c");
    /// let rows = tx.range(&db, "a"..).collect::<terrace::Result<Vec<_>>>()?;
    /// assert_eq!(rows.len(), 2);
    /// assert_eq!(rows[1].0, "b");
    ///
    /// // A new key in what was walked over is a conflict, one behind it is none.
    /// assert!(tx.range(&db, ..).next().is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// What was walked over is noted, as far as it was shown. An error is the last item.
    pub fn range(&self, keyspace: &Keyspace, range: impl KeyRange) -> TransactionIter<'_> {
        let space = keyspace.space();
        let opened = check_owner(space, self.shared.owner());
        self.note_space(space);
        TransactionIter::new(self, space, space.number.stored_range(&range), opened)
    }

    /// The keys that begin with `prefix`, and their values, own writes among them.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> TransactionIter<'_> {
        self.range(keyspace, Prefix(prefix))
    }

    /// Sets `key` to `value`.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Transaction {
        self.write(|batch| batch.put(keyspace, key, value))
    }

    /// Sets `key` to `value` for this long, counted from this call in milliseconds.
    pub fn put_ttl(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> &mut Transaction {
        self.write(|batch| batch.put_ttl(keyspace, key, value, ttl))
    }

    /// Deletes `key`; it need not exist.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> &mut Transaction {
        self.write(|batch| batch.delete(keyspace, key))
    }

    /// Deletes every key of an interval, own ones too, and those that others put there before the
    /// commit.
    pub fn delete_range(&mut self, keyspace: &Keyspace, range: impl KeyRange) -> &mut Transaction {
        self.write(|batch| batch.delete_range(keyspace, range))
    }

    /// Merges `operand` into `key` without reading it; see [`Keyspace::merge`]. Own reads of the
    /// key show it folded, and read what lies under it.
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> &mut Transaction {
        self.write(|batch| batch.merge(keyspace, key, operand))
    }

    fn write(&mut self, write: impl FnOnce(&mut Batch) -> &mut Batch) -> &mut Transaction {
        let before = self.writes.engine().body_bytes();
        write(&mut self.writes);
        let added = self.writes.engine().entries_behind(before);
        added.for_each(|entry| self.own.add(&entry));
        self
    }

    /// A point to go back to.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// let mut tx = db.begin();
    /// tx.put(&db, "order", "1");
    /// let before = tx.savepoint();
    /// tx.put(&db, "gift", "yes").delete(&db, "order");
    /// tx.rollback_to(before);
    /// tx.commit()?;
    /// assert!(db.get("order")?.is_some());
    /// assert!(db.get("gift")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        Savepoint { len: self.writes.len(), is_refused: self.writes.is_refused() }
    }

    /// Undoes what was written since `savepoint`. What was read since stays noted: it may have
    /// decided what comes next. A savepoint that lies behind an earlier one that was gone back to
    /// undoes nothing. Cost: that of all writes before it.
    pub fn rollback_to(&mut self, savepoint: Savepoint) {
        if savepoint.len < self.writes.len() || !savepoint.is_refused {
            self.writes.truncate(savepoint.len, savepoint.is_refused);
            self.own = OwnWrites::of(self.writes.engine());
        }
    }

    /// Whether everything that was read is still so, without writing anything: for a transaction
    /// that only reads, and has to know that it is of the present. Errors: `Conflict`.
    pub fn check(&self) -> Result<()> {
        let (reads, nothing) = (self.reads.borrow(), terrace_engine::WriteBatch::new());
        let options = WriteOptions::new();
        let checked = self.shared.store.write_if_unchanged(&reads, &nothing, &options.engine());
        checked.map(drop).map_err(|error| self.refused(error))
    }

    /// Why it cannot be committed; counted, if it is for a conflict.
    #[cold]
    fn refused(&self, error: EngineError) -> Error {
        if let EngineError::Conflict(conflict) = &error {
            let (number, _) = split(&conflict.key);
            let spaces = self.read_spaces.borrow();
            if let Some(space) = spaces.iter().find(|space| space.number.0 == number) {
                space.counters.conflicted();
            }
        }
        error.into()
    }

    /// Writes all that was written, if nothing of what was read has changed; the number of the last
    /// entry. A transaction that wrote nothing read everything at one moment, and commits without a
    /// look; the number is that of the moment.
    ///
    /// Errors: `Conflict` (nothing was written; [`Error::key`](crate::Error::key) names the key;
    /// begin anew), and those of [`Db::write`].
    pub fn commit(self) -> Result<SeqNo> {
        self.commit_with(&WriteOptions::new())
    }

    /// As [`Transaction::commit`], in another class of durability, or without waiting. What the
    /// options say of expiry is for single writes.
    pub fn commit_with(self, options: &WriteOptions) -> Result<SeqNo> {
        let batch = self.writes.checked(self.shared.owner())?;
        let reads = self.reads.borrow();
        if batch.is_empty() {
            return Ok(reads.seqno());
        }
        let committed = self.shared.store.write_if_unchanged(&reads, batch, &options.engine());
        let number = committed.map_err(|error| self.refused(error))?;
        self.writes.count_commit();
        Ok(number)
    }

    /// Undoes all of it, as dropping it does.
    pub fn rollback(self) {}
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transaction({:?}, {:?})", self.reads.borrow(), self.writes)
    }
}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Transaction>();
};
