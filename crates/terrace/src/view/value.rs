//! What reads give: values, keys, and entries where they lie.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::time::SystemTime;

use smallvec::SmallVec;
use terrace_base::{EntryRef as EngineEntry, Expiry, SeqNo};
use terrace_engine::store::PinnedItem;

/// A value, as bytes: it dereferences to `[u8]` and compares with whatever is bytes.
///
/// A value of up to 24 bytes is a copy. A longer one that was read by its key stays where it lies,
/// in a memtable or in a cached block, which stays in memory for as long as this lives: keep it
/// briefly, or take a copy ([`Value::into_vec`]).
///
/// ```
/// # fn main() -> terrace::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let db = terrace::Db::open(directory.path())?;
/// db.put("apple", "red")?;
/// let value = db.get("apple")?.expect("it was put");
/// assert_eq!(value, "red");
/// assert_eq!(value.len(), 3);
/// assert_eq!(value.expires_at(), None);
/// # Ok(())
/// # }
/// ```
pub struct Value(pub(crate) PinnedItem);

impl Value {
    /// When it goes, if ever.
    #[must_use]
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.expiry().map(Expiry::to_system_time)
    }

    /// When it goes, as the database keeps it.
    #[must_use]
    pub fn expiry(&self) -> Option<Expiry> {
        self.0.expiry()
    }

    /// The number of the write that it comes from: later writes have greater numbers.
    #[must_use]
    pub fn seqno(&self) -> SeqNo {
        self.0.seqno()
    }

    /// A copy that holds on to nothing.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        self.to_vec()
    }
}

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Value {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl Eq for Value {}

impl From<Value> for Vec<u8> {
    fn from(value: Value) -> Vec<u8> {
        value.into_vec()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

/// A key, as bytes: it dereferences to `[u8]` and is ordered as keys are. One of up to 24 bytes
/// costs no allocation.
#[derive(Clone)]
pub struct Key(SmallVec<[u8; 24]>);

impl Key {
    /// A copy as a vector.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        self.0.into_vec()
    }
}

impl From<&[u8]> for Key {
    fn from(key: &[u8]) -> Key {
        Key(SmallVec::from_slice(key))
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Key {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

/// A key and its value where they lie: what a [`Cursor`](crate::Cursor) and
/// [`View::look`](crate::View::look) show, without a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    expiry: Option<Expiry>,
    seqno: SeqNo,
}

impl<'a> EntryRef<'a> {
    /// The entry of `key`, as its caller knows the key.
    #[inline]
    pub(crate) fn of(key: &'a [u8], entry: &EngineEntry<'a>) -> EntryRef<'a> {
        EntryRef { key, value: entry.value, expiry: entry.expiry, seqno: entry.seqno }
    }

    /// When it goes, if ever.
    #[must_use]
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.expiry.map(Expiry::to_system_time)
    }

    /// When it goes, as the database keeps it.
    #[must_use]
    pub fn expiry(&self) -> Option<Expiry> {
        self.expiry
    }

    /// The number of the write that it comes from.
    #[must_use]
    pub fn seqno(&self) -> SeqNo {
        self.seqno
    }
}

impl fmt::Debug for EntryRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" = \"{}\"", self.key.escape_ascii(), self.value.escape_ascii())
    }
}
