use terrace_base::Expiry;
use terrace_engine::store::Iter as EngineIter;

use crate::Result;
use crate::keyspace::{Keyspace, PREFIX_BYTES};

/// A position among the keys of an interval, as they were at one moment. Made by
/// [`Db::iter`](crate::Db::iter) and [`Snapshot::iter`](crate::Snapshot::iter); stands nowhere
/// until it is told to seek, past either end, and after an error, but for one: `Merge`, where the
/// operands of a key cannot be folded. It shows nothing then, and the next step, either way, goes
/// on from that key.
///
/// It holds back neither writers nor background work; but versions that it may still show are
/// kept until it is dropped.
#[derive(Debug)]
pub struct Iter {
    inner: EngineIter,
    keyspace: Keyspace,
}

impl Iter {
    pub(crate) fn new(inner: EngineIter, keyspace: Keyspace) -> Iter {
        Iter { inner, keyspace }
    }

    /// Goes to the first key at or above `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        Ok(self.inner.seek(self.keyspace.stored(key).as_slice())?)
    }

    /// Goes to the last key below `bound`; without a bound, to the last of the interval.
    pub fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<()> {
        let bound = bound.map(|bound| self.keyspace.stored(bound));
        Ok(self.inner.seek_back(bound.as_ref().map(|bound| bound.as_slice()))?)
    }

    /// Goes to the next key. Errors: `Invalid` if the iterator stands nowhere; `Merge` if the key
    /// cannot be shown, and the next step goes on from it.
    #[expect(clippy::should_implement_trait, reason = "the word for it in every ordered store")]
    pub fn next(&mut self) -> Result<()> {
        Ok(self.inner.next()?)
    }

    /// Goes to the previous key. Errors: as [`Iter::next`].
    pub fn prev(&mut self) -> Result<()> {
        Ok(self.inner.prev()?)
    }

    /// Key, value and expiry where the iterator stands.
    #[must_use]
    pub fn item(&self) -> Option<(&[u8], &[u8], Option<Expiry>)> {
        let entry = self.inner.entry()?;
        Some((&entry.key[PREFIX_BYTES..], entry.value, entry.expiry))
    }
}
