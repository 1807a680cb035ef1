use terrace_base::KeyRange;
use terrace_engine::store::{IterOptions, Snapshot as EngineSnapshot};

use crate::keyspace::Keyspace;
use crate::{GetExplanation, Item, ItemRef, Iter, ReadOptions, Result, explain};

/// A keyspace as it was at one moment. Costs no memory and blocks nobody; versions that it may
/// still show are kept until it is dropped. Expiry goes on. Clones share it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    inner: EngineSnapshot,
    keyspace: Keyspace,
}

impl Snapshot {
    pub(crate) fn new(inner: EngineSnapshot, keyspace: Keyspace) -> Snapshot {
        Snapshot { inner, keyspace }
    }

    /// The value that `key` had.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.get_with(key, &ReadOptions::default())?.map(|item| item.value))
    }

    /// The value that `key` had, with its expiry and sequence number.
    pub fn get_with(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Item>> {
        let key = self.keyspace.stored(key);
        Ok(self.inner.get(key.as_slice(), &options.engine())?)
    }

    /// What `read` makes of the entry that `key` had, where it lies; see [`Db::look`].
    ///
    /// [`Db::look`]: crate::Db::look
    pub fn look<T>(
        &self,
        key: &[u8],
        options: &ReadOptions,
        read: impl FnOnce(ItemRef<'_>) -> T,
    ) -> Result<Option<T>> {
        let key = self.keyspace.stored(key);
        Ok(self.inner.get_with(key.as_slice(), &options.engine(), |entry| read(entry.into()))?)
    }

    /// As [`Db::explain_get`](crate::Db::explain_get), of what `key` was.
    pub fn explain_get(&self, key: &[u8]) -> Result<GetExplanation> {
        let key = self.keyspace.stored(key);
        Ok(explain::get_as_asked(self.inner.explain_get(key.as_slice())?))
    }

    /// The keys of an interval as they were.
    pub fn iter(&self, range: KeyRange, options: &ReadOptions) -> Result<Iter> {
        let range = self.keyspace.stored_range(&range);
        let inner = self.inner.iter(IterOptions { range, wait: options.wait })?;
        Ok(Iter::new(inner, self.keyspace))
    }
}
