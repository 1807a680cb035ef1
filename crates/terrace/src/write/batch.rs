use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use terrace_base::{EntryKind, Expiry, SeqNo};
use terrace_engine::{Error as EngineError, WriteBatch as EngineBatch};

use crate::keyspace::handle::{check_key, check_owner, check_there};
use crate::keyspace::{Keyspace, Owner, PREFIX_BYTES, Space, WriteTally, Written, split};
use crate::options::Life;
use crate::view::KeyRange;
use crate::{Error, Result};

/// Entries that are written together or not at all, in any keyspaces of one database; see
/// [`Db::write`](crate::Db::write).
///
/// Later entries win over earlier ones for the same key. Filling it fails for no entry: one that
/// cannot be written, such as a key that is too long, is left out, and [`Db::write`] refuses the
/// batch because of it.
///
/// ```
/// use terrace::{Batch, Db};
///
/// # fn main() -> terrace::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// let db = Db::open(directory.path())?;
/// let (users, by_email) = (db.keyspace("users")?, db.keyspace("by_email")?);
/// let mut batch = Batch::new();
/// batch.put(&users, "1", "ada@example.org").put(&by_email, "ada@example.org", "1");
/// db.write(&batch)?;
///
/// // The next one takes the same memory.
/// batch.clear();
/// batch.delete(&users, "1").delete(&by_email, "ada@example.org");
/// db.write(&batch)?;
/// # Ok(())
/// # }
/// ```
///
/// [`Db::write`]: crate::Db::write
#[derive(Clone, Default)]
pub struct Batch {
    inner: EngineBatch,
    /// The keyspaces of its entries.
    parts: SmallVec<[Part; 1]>,
    /// Why the first of its entries that cannot be written cannot be.
    refused: Option<String>,
}

/// What a batch writes into one keyspace.
#[derive(Clone)]
struct Part {
    space: Arc<Space>,
    tally: WriteTally,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Sets `key` to `value`.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Batch {
        self.put_living(keyspace, key.as_ref(), value.as_ref(), Life::Default)
    }

    /// Sets `key` to `value` for this long, counted from this call in milliseconds.
    pub fn put_ttl(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> &mut Batch {
        self.put_living(keyspace, key.as_ref(), value.as_ref(), Life::For(ttl))
    }

    /// Sets `key` to `value` until this moment; without one, for ever.
    pub fn put_until(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: impl Into<Option<Expiry>>,
    ) -> &mut Batch {
        let life = expiry.into().map_or(Life::ForEver, Life::Until);
        self.put_living(keyspace, key.as_ref(), value.as_ref(), life)
    }

    pub(crate) fn put_living(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        life: Life,
    ) -> &mut Batch {
        let expiry = life.expiry(keyspace.space().ttl(), || keyspace.shared.now());
        let what = (Written::Put, key.len() + value.len());
        self.add(keyspace, key, what, |batch, key| batch.put_with_expiry(key, value, expiry))
    }

    /// Deletes `key`; it need not exist.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> &mut Batch {
        let key = key.as_ref();
        self.add(keyspace, key, (Written::Delete, key.len()), |batch, key| batch.delete(key))
    }

    /// Deletes every key of an interval. Costs one entry, however many keys there are.
    pub fn delete_range(&mut self, keyspace: &Keyspace, range: impl KeyRange) -> &mut Batch {
        let stored = keyspace.space().number.stored_range(&range);
        let end = stored.end().expect("a keyspace has an end");
        let what = (Written::RangeDelete, 0);
        self.add(keyspace, b"", what, |batch, _| batch.delete_range(stored.start(), end))
    }

    /// Merges `operand` into `key`; see [`Keyspace::merge`].
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> &mut Batch {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        let what = (Written::Merge, key.len() + operand.len());
        self.add(keyspace, key, what, |batch, key| batch.merge(key, operand))
    }

    /// Adds an entry by its stored key, or notes why it cannot be written. `what` it does counts
    /// for its keyspace once it is written, with the bytes of its key and value.
    fn add(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        what: (Written, usize),
        add: impl FnOnce(&mut EngineBatch, &[u8]) -> terrace_engine::Result<()>,
    ) -> &mut Batch {
        let space = keyspace.space();
        let part = self.part_of(space);
        let added = check_key(key).and_then(|()| {
            let key = space.number.stored(key);
            Ok(add(&mut self.inner, key.as_slice())?)
        });
        match added {
            Ok(()) => self.parts[part].tally.add(what.0, what.1),
            Err(error) => drop(self.refused.get_or_insert_with(|| error.to_string())),
        }
        self
    }

    /// Which part is of this keyspace.
    #[inline]
    fn part_of(&mut self, space: &Arc<Space>) -> usize {
        let known = self.parts.iter().rposition(|part| Arc::ptr_eq(&part.space, space));
        known.unwrap_or_else(|| {
            self.parts.push(Part { space: Arc::clone(space), tally: WriteTally::default() });
            self.parts.len() - 1
        })
    }

    /// How many entries it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Removes all entries, and keeps the memory for the next ones.
    pub fn clear(&mut self) {
        self.inner.clear();
        self.parts.clear();
        self.refused = None;
    }

    /// Why an entry was left out, if one was; the batch can be written without it after that.
    pub fn take_refused(&mut self) -> Option<Error> {
        Some(EngineError::invalid(self.refused.take()?).into())
    }

    /// The engine's batch, if it can be written to the database of `owner`.
    pub(crate) fn checked(&self, owner: &Arc<Owner>) -> Result<&EngineBatch> {
        if let Some(refused) = &self.refused {
            return Err(EngineError::invalid(refused.clone()).into());
        }
        for Part { space, .. } in &self.parts {
            check_owner(space, owner)?;
            check_there(space)?;
        }
        Ok(&self.inner)
    }

    /// Whether an entry was left out because it cannot be written.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// The entries, to be looked at.
    pub(crate) fn engine(&self) -> &EngineBatch {
        &self.inner
    }

    /// Removes all entries but the first `len`, and forgets those that were left out unless one of
    /// them `is_refused` for good.
    pub(crate) fn truncate(&mut self, len: usize, is_refused: bool) {
        self.inner.truncate(len);
        self.refused.take_if(|_| !is_refused);
        self.parts.iter_mut().for_each(|part| part.tally = WriteTally::default());
        for entry in self.inner.entries(SeqNo::ZERO) {
            let (number, _) = split(entry.key);
            let bytes = entry.key.len() - PREFIX_BYTES + entry.value.len();
            let (kind, bytes) = match entry.kind {
                EntryKind::Value | EntryKind::ValuePointer => (Written::Put, bytes),
                EntryKind::Tombstone => (Written::Delete, bytes),
                EntryKind::MergeOperand => (Written::Merge, bytes),
                EntryKind::RangeTombstone => (Written::RangeDelete, 0),
            };
            if let Some(part) = self.parts.iter_mut().find(|part| part.space.number.0 == number) {
                part.tally.add(kind, bytes);
            }
        }
    }

    /// The engine's batch, and one without entries in its place, which still knows what they come
    /// to; see [`Batch::count`].
    pub(crate) fn take(&mut self) -> EngineBatch {
        std::mem::take(&mut self.inner)
    }

    /// All entries were written: they count for their keyspaces.
    pub(crate) fn count(&self) {
        self.parts.iter().for_each(|part| part.space.counters.wrote(&part.tally));
    }

    /// The same, by a transaction.
    pub(crate) fn count_commit(&self) {
        self.count();
        let written = self.parts.iter().filter(|part| !part.tally.is_empty());
        written.for_each(|part| part.space.counters.committed());
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} entries)", self.len())
    }
}
