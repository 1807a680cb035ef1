//! RocksDB with its optimistic transactions.

use std::path::Path;

use rocksdb::{
    ErrorKind, FlushOptions, OptimisticTransactionDB, OptimisticTransactionOptions, Options,
    ReadOptions, SingleThreaded, WaitForCompactOptions, WriteOptions,
};
use terrace_bench::{Counters, Store, StoreError};

use super::Peer;
use super::rocksdb::set_up;
use crate::cells::Setup;

pub(super) struct RocksDbTransactions {
    db: OptimisticTransactionDB<SingleThreaded>,
    write: WriteOptions,
    transaction: OptimisticTransactionOptions,
}

impl RocksDbTransactions {
    pub(super) fn open(
        dir: &Path,
        setup: &Setup,
        tuned: bool,
    ) -> Result<RocksDbTransactions, StoreError> {
        let options = set_up(setup, tuned, Options::default())?;
        let mut write = WriteOptions::default();
        write.set_sync(setup.sync);
        // Each read counts from its own moment on, so at the commit all of them are still so.
        let transaction = OptimisticTransactionOptions::default();
        Ok(RocksDbTransactions {
            db: OptimisticTransactionDB::open(&options, dir)?,
            write,
            transaction,
        })
    }

    /// Whether it committed.
    fn try_once(&self, keys: [&[u8]; 2], value: &[u8]) -> Result<bool, StoreError> {
        let tx = self.db.transaction_opt(&self.write, &self.transaction);
        for key in keys {
            // Its reads count only if they are said to be for an update.
            tx.get_pinned_for_update(key, true)?;
        }
        for key in keys {
            tx.put(key, value)?;
        }
        match tx.commit() {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::TryAgain) => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Store for RocksDbTransactions {
    fn get(&self, key: &[u8]) -> Result<Option<usize>, StoreError> {
        Ok(self.db.get_pinned(key)?.map(|value| value.len()))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        Ok(self.db.put_opt(key, value, &self.write)?)
    }

    fn scan(&self, start: &[u8], count: u64) -> Result<u64, StoreError> {
        let mut iter = self.db.raw_iterator_opt(ReadOptions::default());
        iter.seek(start);
        let mut found = 0;
        while found < count && iter.item().is_some() {
            found += 1;
            iter.next();
        }
        iter.status()?;
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

impl Peer for RocksDbTransactions {
    fn settle(&self) -> Result<(), StoreError> {
        let mut flush = FlushOptions::default();
        flush.set_wait(true);
        self.db.flush_opt(&flush)?;
        Ok(self.db.wait_for_compact(&WaitForCompactOptions::default())?)
    }
}
