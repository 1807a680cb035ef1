//! fjall with its optimistic transactions.

use std::path::Path;

use fjall::{
    KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, PersistMode, Readable,
};
use terrace_bench::{Counters, Store, StoreError};

use super::Peer;
use super::fjall::{MEMTABLES, settle};
use crate::cells::Setup;

pub(super) struct FjallTransactions {
    db: OptimisticTxDatabase,
    keyspace: OptimisticTxKeyspace,
    sync: bool,
}

impl FjallTransactions {
    pub(super) fn open(dir: &Path, setup: &Setup) -> Result<FjallTransactions, StoreError> {
        let cores = std::thread::available_parallelism()?.get();
        let db = OptimisticTxDatabase::builder(dir)
            .cache_size(setup.cache_bytes)
            .worker_threads(cores)
            .open()?;
        let memtable_bytes = setup.memtable_bytes / MEMTABLES;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(memtable_bytes);
        let keyspace = db.keyspace("bench", options)?;
        Ok(FjallTransactions { db, keyspace, sync: setup.sync })
    }

    /// Whether it committed.
    fn try_once(&self, keys: [&[u8]; 2], value: &[u8]) -> Result<bool, StoreError> {
        let mut tx = self.db.write_tx()?;
        if self.sync {
            tx = tx.durability(Some(PersistMode::SyncData));
        }
        for key in keys {
            tx.get(&self.keyspace, key)?;
        }
        for key in keys {
            tx.insert(&self.keyspace, key, value);
        }
        Ok(tx.commit()?.is_ok())
    }
}

impl Store for FjallTransactions {
    fn get(&self, key: &[u8]) -> Result<Option<usize>, StoreError> {
        Ok(self.keyspace.get(key)?.map(|value| value.len()))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        // A transaction of its own, as fjall does it: else it would not count.
        self.keyspace.insert(key, value)?;
        if self.sync {
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    fn scan(&self, start: &[u8], count: u64) -> Result<u64, StoreError> {
        let mut found = 0;
        let snapshot = self.db.read_tx();
        for item in snapshot.range(&self.keyspace, start..).take(usize::try_from(count)?) {
            let (_key, _value) = item.into_inner()?;
            found += 1;
        }
        Ok(found)
    }

    fn transact(&self, keys: [&[u8]; 2], value: &[u8]) -> Result<u64, StoreError> {
        let mut conflicts = 0;
        while !self.try_once(keys, value)? {
            conflicts += 1;
        }
        Ok(conflicts)
    }

    fn counters(&self) -> Option<Counters> {
        None
    }
}

impl Peer for FjallTransactions {
    fn settle(&self) -> Result<(), StoreError> {
        settle(self.db.inner(), self.keyspace.inner())
    }
}
