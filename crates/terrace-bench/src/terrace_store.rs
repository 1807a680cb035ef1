use terrace::{Db, KeyRange, ReadOptions};

use crate::store::{Counters, Store, StoreError};

/// Terrace itself, measured through the library.
pub struct TerraceStore {
    db: Db,
}

impl TerraceStore {
    /// The database to measure; the caller closes it.
    #[must_use]
    pub fn new(db: Db) -> TerraceStore {
        TerraceStore { db }
    }
}

impl Store for TerraceStore {
    fn get(&self, key: &[u8]) -> Result<Option<usize>, StoreError> {
        Ok(self.db.get(key)?.map(|value| value.len()))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        Ok(self.db.put(key, value)?)
    }

    fn scan(&self, start: &[u8], count: u64) -> Result<u64, StoreError> {
        let mut iter = self.db.iter(KeyRange::new(start, None), &ReadOptions::default())?;
        iter.seek(start)?;
        let mut found = 0;
        while found < count && iter.item().is_some() {
            found += 1;
            if found < count {
                iter.next()?;
            }
        }
        Ok(found)
    }

    fn counters(&self) -> Option<Counters> {
        let stats = self.db.stats();
        Some(Counters { user_bytes: stats.write_bytes, written_bytes: stats.written_bytes() })
    }
}
