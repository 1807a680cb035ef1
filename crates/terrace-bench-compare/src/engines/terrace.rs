use std::path::Path;

use terrace::{Db, Durability, Options};
use terrace_bench::{Counters, Store, StoreError, TerraceStore};

use super::Peer;
use crate::cells::Setup;

pub(super) const OPTIONS: &str = "defaults, with the cache and memtable memory of the cell";

/// Up to so many memtables exist at a time.
const MEMTABLES: u64 = 4;

pub(super) struct Terrace {
    db: Db,
    store: TerraceStore,
}

impl Terrace {
    pub(super) fn open(dir: &Path, setup: &Setup) -> Result<Terrace, StoreError> {
        let options = Options {
            durability: if setup.sync { Durability::Sync } else { Durability::Buffered },
            cache_bytes: usize::try_from(setup.cache_bytes)?,
            memtable_bytes: usize::try_from(setup.memtable_bytes / MEMTABLES)?,
            ..Options::default()
        };
        let db = Db::open(dir, options)?;
        Ok(Terrace { store: TerraceStore::new(db.clone()), db })
    }
}

impl Store for Terrace {
    fn get(&self, key: &[u8]) -> Result<Option<usize>, StoreError> {
        self.store.get(key)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.store.put(key, value)
    }

    fn scan(&self, start: &[u8], count: u64) -> Result<u64, StoreError> {
        self.store.scan(start, count)
    }

    fn counters(&self) -> Option<Counters> {
        self.store.counters()
    }
}

impl Peer for Terrace {
    fn settle(&self) -> Result<(), StoreError> {
        self.db.flush()?;
        self.db.settle();
        Ok(())
    }
}
