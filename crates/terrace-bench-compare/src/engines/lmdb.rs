use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, WithTls};
use terrace_bench::{Counters, Store, StoreError};

use super::Peer;
use crate::cells::Setup;

pub(super) const OPTIONS: &str = "one transaction for each operation, writable map, no read-ahead; \
     synced at commit in the cell that syncs, else never (MDB_NOSYNC): survives a killed process";

/// Address space for the map.
const MAP_BYTES: usize = 32 << 30;

pub(super) struct Lmdb {
    env: Env<WithTls>,
    records: Database<Bytes, Bytes>,
}

impl Lmdb {
    pub(super) fn open(dir: &Path, setup: &Setup) -> Result<Lmdb, StoreError> {
        let unsynced = if setup.sync { EnvFlags::empty() } else { EnvFlags::NO_SYNC };
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES).max_readers(512);
        // Safety: the directory is this process's own, and nothing else maps its file; without
        // syncs only a crash of the machine could harm it, and then it is thrown away.
        let env = unsafe {
            options.flags(EnvFlags::WRITE_MAP | EnvFlags::NO_READ_AHEAD | unsynced).open(dir)?
        };
        let mut txn = env.write_txn()?;
        let records = env.create_database(&mut txn, None)?;
        txn.commit()?;
        Ok(Lmdb { env, records })
    }
}

impl Store for Lmdb {
    fn get(&self, key: &[u8]) -> Result<Option<usize>, StoreError> {
        let txn = self.env.read_txn()?;
        Ok(self.records.get(&txn, key)?.map(<[u8]>::len))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let mut txn = self.env.write_txn()?;
        self.records.put(&mut txn, key, value)?;
        Ok(txn.commit()?)
    }

    fn scan(&self, start: &[u8], count: u64) -> Result<u64, StoreError> {
        let txn = self.env.read_txn()?;
        let mut found = 0;
        let from = (Bound::Included(start), Bound::Unbounded);
        for item in self.records.range(&txn, &from)?.take(usize::try_from(count)?) {
            item?;
            found += 1;
        }
        Ok(found)
    }

    fn counters(&self) -> Option<Counters> {
        None
    }
}

impl Peer for Lmdb {
    fn settle(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
