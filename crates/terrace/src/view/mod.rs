//! Reading: one key, several, intervals; now or at a snapshot.
//!
//! Whatever reads is a [`View`]: a database and a keyspace are views of what there is now, and
//! [`Keyspace::at`](crate::Keyspace::at) gives one of the past. So a function over `&View` takes
//! all of them.

mod cursor;
mod iter;
mod range;
mod snapshot;
mod value;

use std::fmt;
use std::sync::Arc;

use terrace_base::{EntryRef as EngineEntry, KeyRange as OwnedRange};
use terrace_engine::store::{IterOptions, Snapshot as EngineSnapshot, Store};

pub use cursor::Cursor;
pub use iter::{Iter, Keys};
pub use range::{KeyRange, Prefix, RangeEnd};
pub use snapshot::Snapshot;
pub use value::{EntryRef, Key, Value};

use crate::keyspace::{ScanTally, Space, StoredPlace};
use crate::{RangeSize, ReadOptions, Result};

/// A keyspace to read: as it is now, or as it was at a snapshot. A cheap handle, which threads may
/// share and clone.
///
/// ```
/// use terrace::{Db, Key, Result, Value, View};
///
/// /// The last rows of a prefix, the greatest key first.
/// fn last(view: &View, prefix: &str, count: usize) -> Result<Vec<(Key, Value)>> {
///     view.prefix(prefix).rev().take(count).collect()
/// }
///
/// # fn main() -> Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// let db = Db::open(directory.path().join("shop"))?;
/// let orders = db.keyspace("orders")?;
/// orders.put("2026-11-24", "1 bicycle")?;
/// let snapshot = db.snapshot();
/// assert_eq!(last(&orders, "2026-", 10)?.len(), 1);
/// assert_eq!(last(&orders.at(&snapshot), "2026-", 10)?.len(), 1);
/// assert_eq!(last(&db, "2026-", 10)?.len(), 0);
/// # Ok(())
/// # }
/// ```
///
/// Errors of all reads: `Corruption` (stored bytes are damaged; other keys can be read), `Merge`
/// (the operands of a key cannot be folded), `NeedsIo` (only if it [may not
/// wait](ReadOptions::no_wait)), `Io`, `Closed`.
#[derive(Clone)]
pub struct View {
    store: Store,
    space: Arc<Space>,
    /// The moment, if it is not now.
    at: Option<EngineSnapshot>,
    options: ReadOptions,
}

impl View {
    pub(crate) fn now(store: &Store, space: Arc<Space>) -> View {
        View { store: store.clone(), space, at: None, options: ReadOptions::new() }
    }

    pub(crate) fn at(&self, snapshot: &Snapshot) -> View {
        View { at: Some(snapshot.0.clone()), ..self.clone() }
    }

    pub(crate) fn space(&self) -> &Arc<Space> {
        &self.space
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn options(&self) -> ReadOptions {
        self.options
    }

    pub(crate) fn snapshot_of_engine(&self) -> Option<&EngineSnapshot> {
        self.at.as_ref()
    }

    /// The same view, read in another way.
    #[must_use]
    pub fn with(&self, options: ReadOptions) -> View {
        View { options, ..self.clone() }
    }

    /// The value of `key`; `None` if there is none.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// db.put("apple", "red")?;
    /// assert!(db.get("apple")?.is_some_and(|value| value == "red"));
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_bytes(key.as_ref())
    }

    fn get_bytes(&self, key: &[u8]) -> Result<Option<Value>> {
        let mut place = StoredPlace::new();
        let stored = self.space.number.stored_in(key, &mut place);
        let options = self.options.engine();
        // Left here by the search and not handed back through it, which would move it at each step.
        let (mut value, mut found_bytes) = (None, None);
        let take = |entry: &EngineEntry<'_>, pinned| {
            found_bytes = Some(key.len().wrapping_add(entry.value.len()));
            value = Some(Value(pinned));
        };
        let found = match &self.at {
            None => self.store.get_pinned_with(stored, &options, take),
            Some(snapshot) => snapshot.get_pinned_with(stored, &options, take),
        };
        match found {
            Ok(_) => {
                self.space.counters.got(found_bytes);
                Ok(value)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The values of `keys`, in their order, all as they were at one moment; `None` where there is
    /// none. Cheaper than a single get for each key, since their cache misses overlap.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// db.put("apple", "red")?;
    /// let values = db.get_many(&["apple", "quince"])?;
    /// assert_eq!(values[0].as_deref(), Some(&b"red"[..]));
    /// assert!(values[1].is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        let stored: Vec<_> =
            keys.iter().map(|key| self.space.number.stored(key.as_ref())).collect();
        let stored: Vec<_> = stored.iter().map(|key| key.as_slice()).collect();
        let options = self.options.engine();
        let found = match &self.at {
            None => self.store.multi_get(&stored, &options),
            Some(snapshot) => snapshot.multi_get(&stored, &options),
        }?;
        let each = keys.iter().zip(&found);
        let found_bytes =
            each.filter_map(|(key, item)| Some(key.as_ref().len() + item.as_ref()?.len()));
        self.space.counters.got_many(keys.len(), found_bytes);
        Ok(found.into_iter().map(|item| item.map(Value)).collect())
    }

    /// What `read` makes of the entry of `key` where it lies: nothing is copied, and nothing is
    /// held on to. `None` if there is none. `read` must not call the database.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// db.put("key", "value")?;
    /// assert_eq!(db.look("key", |entry| entry.value.len())?, Some(5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn look<T>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(EntryRef<'_>) -> T,
    ) -> Result<Option<T>> {
        let key = key.as_ref();
        let stored = self.space.number.stored(key);
        let (stored, options) = (stored.as_slice(), self.options.engine());
        let mut found_bytes = None;
        let read = |entry: &EngineEntry<'_>| {
            found_bytes = Some(key.len().wrapping_add(entry.value.len()));
            read(EntryRef::of(key, entry))
        };
        let found = match &self.at {
            None => self.store.get_with(stored, &options, read),
            Some(snapshot) => snapshot.get_with(stored, &options, read),
        };
        match found {
            Ok(found) => {
                self.space.counters.got(found_bytes);
                Ok(found)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether there is `key`.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.look(key, |_| ())?.is_some())
    }

    /// The first key with its value; `None` if there is none.
    pub fn first(&self) -> Result<Option<(Key, Value)>> {
        self.iter().next().transpose()
    }

    /// The last key with its value; `None` if there is none.
    pub fn last(&self) -> Result<Option<(Key, Value)>> {
        self.iter().next_back().transpose()
    }

    /// About how much there is in an interval now, also in a view of the past: bytes of tables and
    /// of memory, and entries. Of tables it is right to a block at either end. What was overwritten
    /// or deleted counts until a compaction drops it.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// db.put("apple", "red")?;
    /// let size = db.approximate_size("a".."b")?;
    /// assert_eq!((size.entry_count, size.memory_bytes), (1, 3 + 5 + 3));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Cost: a search in each table that reaches over an end of the interval; an exact count is
    /// that of [`View::range`].
    pub fn approximate_size(&self, range: impl KeyRange) -> Result<RangeSize> {
        Ok(self.store.range_size(&self.space.number.stored_range(&range))?)
    }

    /// All keys and values.
    #[must_use]
    pub fn iter(&self) -> Iter {
        self.range(..)
    }

    /// The keys and values of an interval. An error of opening is the first item.
    #[must_use]
    pub fn range(&self, range: impl KeyRange) -> Iter {
        Iter::new(self.cursor(range))
    }

    /// The keys that begin with `prefix`, and their values.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.range(Prefix(prefix))
    }

    /// A cursor over an interval, before its first key. An error of opening is that of its first
    /// step.
    #[must_use]
    pub fn cursor(&self, range: impl KeyRange) -> Cursor {
        self.cursor_over(self.space.number.stored_range(&range))
    }

    /// A cursor over an interval of stored keys.
    pub(crate) fn cursor_over(&self, range: OwnedRange) -> Cursor {
        let options = IterOptions { range, mode: self.options.mode() };
        let opened = match &self.at {
            None => self.store.iter(options),
            Some(snapshot) => snapshot.iter(options),
        };
        Cursor::new(opened, ScanTally::new(&self.space))
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({} of {}", self.space.name, self.store.dir().display())?;
        match &self.at {
            Some(snapshot) => write!(f, ", {snapshot:?})"),
            None => f.write_str(")"),
        }
    }
}
