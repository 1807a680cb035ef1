use std::path::Path;

use serde_json::Value;
use terrace::{CompactionRecord, Db, Durability, Stats};
use terrace_bench::{StaticTrees, StoreError, TerraceStore};

use super::{MEMTABLES, Peer};
use crate::cells::Setup;

pub(super) const OPTIONS: &str = "defaults, with the cache and memtable memory of the cell";

pub(super) fn open(dir: &Path, setup: &Setup) -> Result<TerraceStore, StoreError> {
    let options = Db::options()
        .durability(if setup.sync { Durability::Sync } else { Durability::Buffered })
        .cache_bytes(setup.cache_bytes)
        .memtable_bytes(setup.memtable_bytes / MEMTABLES);
    Ok(TerraceStore::new(options.open(dir)?))
}

impl Peer for TerraceStore {
    fn settle(&self) -> Result<(), StoreError> {
        settle(self.db())
    }

    fn table_bytes(&self) -> Option<u64> {
        Some(table_bytes(&self.db().admin().stats()))
    }

    fn disk_bytes(&self) -> Option<u64> {
        Some(self.db().admin().stats().disk_table_bytes())
    }

    fn compactions(&self) -> Vec<CompactionRecord> {
        self.db().admin().compactions()
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        let dranges = self.db().admin().dranges();
        vec![
            ("dranges", dranges.dranges.len().into()),
            ("imbalance", dranges.imbalance.into()),
            ("minor_reorganisations", dranges.minor_reorganisations.into()),
            ("major_reorganisations", dranges.major_reorganisations.into()),
        ]
    }
}

impl Peer for StaticTrees {
    fn settle(&self) -> Result<(), StoreError> {
        self.dbs().try_for_each(settle)
    }

    fn table_bytes(&self) -> Option<u64> {
        Some(self.dbs().map(|db| table_bytes(&db.admin().stats())).sum())
    }
}

fn settle(db: &Db) -> Result<(), StoreError> {
    db.admin().flush()?;
    db.admin().settle();
    Ok(())
}

fn table_bytes(stats: &Stats) -> u64 {
    stats.flush_bytes + stats.compaction_write_bytes
}
