use terrace::{Batch, Db};

use crate::CloudRequests;
use crate::store::{Counters, Delays, Store, StoreError};

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

    /// The database.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
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
        let mut cursor = self.db.cursor(start..);
        let mut found = 0;
        while found < count && cursor.next()?.is_some() {
            found += 1;
        }
        Ok(found)
    }

    fn write_pair(&self, keys: [&[u8]; 2], value: &[u8]) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        keys.iter().try_for_each(|key| self.db.get(key).map(|_| ()))?;
        for key in keys {
            batch.put(&self.db, key, value);
        }
        self.db.write(&batch)?;
        Ok(())
    }

    fn transact(&self, keys: [&[u8]; 2], value: &[u8]) -> Result<u64, StoreError> {
        let mut tries = 0;
        self.db.transaction(|tx| {
            tries += 1;
            keys.iter().try_for_each(|key| tx.get(&self.db, key).map(|_| ()))?;
            for key in keys {
                tx.put(&self.db, key, value);
            }
            Ok::<(), terrace::Error>(())
        })?;
        Ok(tries - 1)
    }

    fn counters(&self) -> Option<Counters> {
        let stats = self.db.admin().stats();
        Some(Counters { user_bytes: stats.write_bytes, written_bytes: stats.written_bytes() })
    }

    fn delays(&self) -> Option<Delays> {
        let causes = &self.db.admin().stats().stalls.causes;
        let by_cause = causes.iter().map(|(name, stats)| (*name, stats.delayed_us)).collect();
        Some(Delays { by_cause })
    }

    fn cloud_requests(&self) -> Option<CloudRequests> {
        let cloud = self.db.admin().stats().cloud.clone()?;
        Some(CloudRequests { counts: cloud.requests, prices: cloud.prices })
    }

    fn memory_bytes(&self) -> Option<u64> {
        Some(self.db.admin().stats().memory.used_bytes)
    }
}
