use std::path::Path;

use terrace::{Db, Durability, Options};
use terrace_bench::{StoreError, TerraceStore};

use super::Peer;
use crate::cells::Setup;

pub(super) const OPTIONS: &str = "defaults, with the cache and memtable memory of the cell";

/// Up to so many memtables exist at a time.
const MEMTABLES: u64 = 4;

pub(super) fn open(dir: &Path, setup: &Setup) -> Result<TerraceStore, StoreError> {
    let options = Options {
        durability: if setup.sync { Durability::Sync } else { Durability::Buffered },
        cache_bytes: usize::try_from(setup.cache_bytes)?,
        memtable_bytes: usize::try_from(setup.memtable_bytes / MEMTABLES)?,
        ..Options::default()
    };
    Ok(TerraceStore::new(Db::open(dir, options)?))
}

impl Peer for TerraceStore {
    fn settle(&self) -> Result<(), StoreError> {
        self.db().flush()?;
        self.db().settle();
        Ok(())
    }
}
