use std::path::Path;
use std::time::Duration;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use terrace_bench::{Counters, Store, StoreError};

use super::Peer;
use crate::cells::Setup;

pub(super) const OPTIONS: &str = "defaults (10-bit filters), workers = cores, with the cell's cache, \
     memtables of a quarter of the cell's memory (it has no limit for all of them), a journal record in the kernel for each write";

/// Memtables that would share the memory, as elsewhere.
pub(super) const MEMTABLES: u64 = 4;

pub(super) struct Fjall {
    db: Database,
    keyspace: Keyspace,
    sync: bool,
}

impl Fjall {
    pub(super) fn open(dir: &Path, setup: &Setup) -> Result<Fjall, StoreError> {
        let cores = std::thread::available_parallelism()?.get();
        let db =
            Database::builder(dir).cache_size(setup.cache_bytes).worker_threads(cores).open()?;
        let memtable_bytes = setup.memtable_bytes / MEMTABLES;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(memtable_bytes);
        let keyspace = db.keyspace("bench", options)?;
        Ok(Fjall { db, keyspace, sync: setup.sync })
    }
}

impl Store for Fjall {
    fn get(&self, key: &[u8]) -> Result<Option<usize>, StoreError> {
        Ok(self.keyspace.get(key)?.map(|value| value.len()))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.keyspace.insert(key, value)?;
        if self.sync {
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    fn scan(&self, start: &[u8], count: u64) -> Result<u64, StoreError> {
        let mut found = 0;
        for item in self.keyspace.range(start..).take(usize::try_from(count)?) {
            let (_key, _value) = item.into_inner()?;
            found += 1;
        }
        Ok(found)
    }

    fn counters(&self) -> Option<Counters> {
        None
    }
}

impl Peer for Fjall {
    fn settle(&self) -> Result<(), StoreError> {
        settle(&self.db, &self.keyspace)
    }
}

/// Writes out the memtable and waits until the database is at rest.
pub(super) fn settle(db: &Database, keyspace: &Keyspace) -> Result<(), StoreError> {
    keyspace.rotate_memtable_and_wait()?;
    // At rest when nothing has run for a while.
    let mut quiet = 0;
    while quiet < 10 {
        std::thread::sleep(Duration::from_millis(20));
        let is_busy = db.outstanding_flushes() > 0 || db.active_compactions() > 0;
        quiet = if is_busy { 0 } else { quiet + 1 };
    }
    Ok(())
}
