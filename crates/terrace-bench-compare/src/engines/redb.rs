use std::path::Path;

use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use terrace_bench::{Counters, Store, StoreError};

use super::Peer;
use crate::cells::Setup;

pub(super) const OPTIONS: &str = "one transaction for each operation, cache of the cell's cache \
     and memtable memory together; Durability::Immediate in the cell that syncs, else None";

const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bench");

pub(super) struct Redb {
    db: Database,
    durability: Durability,
}

impl Redb {
    pub(super) fn open(dir: &Path, setup: &Setup) -> Result<Redb, StoreError> {
        let memory = usize::try_from(setup.cache_bytes + setup.memtable_bytes)?;
        let db = Database::builder().set_cache_size(memory).create(dir.join("bench.redb"))?;
        let txn = db.begin_write()?;
        txn.open_table(RECORDS)?;
        txn.commit()?;
        let durability = if setup.sync { Durability::Immediate } else { Durability::None };
        Ok(Redb { db, durability })
    }
}

impl Store for Redb {
    fn get(&self, key: &[u8]) -> Result<Option<usize>, StoreError> {
        let table = self.db.begin_read()?.open_table(RECORDS)?;
        Ok(table.get(key)?.map(|value| value.value().len()))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(self.durability)?;
        txn.open_table(RECORDS)?.insert(key, value)?;
        Ok(txn.commit()?)
    }

    fn scan(&self, start: &[u8], count: u64) -> Result<u64, StoreError> {
        let table = self.db.begin_read()?.open_table(RECORDS)?;
        let mut found = 0;
        for item in table.range(start..)?.take(usize::try_from(count)?) {
            item?;
            found += 1;
        }
        Ok(found)
    }

    fn counters(&self) -> Option<Counters> {
        None
    }
}

impl Peer for Redb {
    fn settle(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
