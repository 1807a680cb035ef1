use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use terrace::{
    CompactionRecord, DataCacheStats, Db, Durability, Layout, RequestCounts, Stats, ValueLogOptions,
};
use terrace_bench::{StaticTrees, StoreError, TerraceStore};

use super::{Held, MEMTABLES, Peer};
use crate::cells::Setup;

/// The field of a report with the MB of memory for filters, indexes and tries.
pub const TABLE_MEMORY: &str = "table_memory_mb";

/// The field of a report with the MB that compactions wrote since the open.
pub const COMPACTION_WRITTEN: &str = "compaction_mb_written";

pub(super) const OPTIONS: &str = "defaults, with the cache and memtable memory of the cell";

pub(super) const VALUE_LOG: &str = "the same, with a value log and its options by default";

pub(super) fn open(
    dir: &Path,
    setup: &Setup,
    value_log: Option<ValueLogOptions>,
) -> Result<TerraceStore, StoreError> {
    let mut layout = Layout::new();
    layout.value_log = value_log;
    let options = Db::options()
        .layout(layout)
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

    fn requests(&self) -> Option<RequestCounts> {
        self.db().admin().stats().cloud.as_ref().map(|cloud| cloud.requests)
    }

    fn near_reads(&self) -> Option<DataCacheStats> {
        let stats = self.db().admin().stats();
        stats.cloud.as_ref()?.near.map(|near| near.data)
    }

    fn kept_log_bytes(&self) -> Option<u64> {
        let stats = self.db().admin().stats();
        let volume = stats.cloud.as_ref().and_then(|cloud| cloud.volume);
        Some(volume.map_or(stats.log_live_bytes, |log| log.kept_bytes))
    }

    fn hold(&self) -> Result<Box<dyn Held + '_>, StoreError> {
        Ok(Box::new(self.db().snapshot()))
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        let dranges = self.db().admin().dranges();
        let stats = self.db().admin().stats();
        let table_memory = stats.memory.pools.get("tables").map_or(0, |pool| pool.used_bytes);
        let (values, cloud) = (stats.value_log, stats.cloud.clone().unwrap_or_default());
        let recovery = self.db().admin().recovery();
        let millis = |phase: Duration| Value::from(phase.as_secs_f64() * 1e3);
        vec![
            ("recovery_manifest_ms", millis(recovery.phases.manifest)),
            ("recovery_tables_ms", millis(recovery.phases.tables)),
            ("recovery_log_ms", millis(recovery.phases.log)),
            ("recovery_begin_ms", millis(recovery.phases.begin)),
            ("recovery_replayed_entries", recovery.replayed_entries.into()),
            ("compaction_mb_read", (stats.compaction_read_bytes as f64 / 1e6).into()),
            (COMPACTION_WRITTEN, (stats.compaction_write_bytes as f64 / 1e6).into()),
            (TABLE_MEMORY, (table_memory as f64 / 1e6).into()),
            ("far_first_level", cloud.first_level.into()),
            ("far_table_count", cloud.table_count.into()),
            ("far_table_bytes", cloud.table_bytes.into()),
            ("far_dropped_count", cloud.dropped_count.into()),
            ("value_file_count", values.file_count.into()),
            ("value_files_of_log_count", values.in_log_count.into()),
            ("value_file_bytes", values.bytes.into()),
            ("value_live_bytes", values.live_bytes.into()),
            ("value_rewritten_bytes", values.rewritten_bytes.into()),
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
