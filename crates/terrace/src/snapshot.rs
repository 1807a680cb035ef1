use terrace_base::KeyRange;
use terrace_engine::store::{IterOptions, Snapshot as EngineSnapshot};

use crate::keyspace::Keyspace;
use crate::{Item, Iter, ReadOptions, Result};

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

    /// The keys of an interval as they were.
    pub fn iter(&self, range: KeyRange, options: &ReadOptions) -> Result<Iter> {
        let range = self.keyspace.stored_range(&range);
        let inner = self.inner.iter(IterOptions { range, wait: options.wait })?;
        Ok(Iter::new(inner, self.keyspace))
    }
}
