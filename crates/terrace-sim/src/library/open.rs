//! Opening a database, and reading all of one.

use std::path::Path;
use std::sync::Arc;

use terrace::{Db, EntryRef, KeyspaceOptions, Layout, Options, Result, Value, merge};
use terrace_env::SharedEnv;

use super::filtered::{ByFirstByte, SPACE};
use crate::oracle::{Content, Found, What};
use crate::setup::Setup;

/// The options of the library that come nearest to those of a setup.
pub fn options(setup: &Setup) -> Options {
    let own = &setup.options;
    let mut layout = Layout::new()
        .l0(own.l0.clone())
        .filter_bits_per_key(own.table.filter_bits_per_key)
        .dranges(own.dranges)
        .memtables_kept(own.memtables_kept)
        .memtable_merging(own.memtable_merging)
        .lookup_index_bytes(own.lookup_index_bytes)
        .recovery_threads(setup.process.recovery_threads);
    layout.log_path.clone_from(&own.log_path);
    layout.log_volume.clone_from(&own.log_volume);
    layout.value_log = own.value_log;
    let options = Options::new();
    let options =
        if setup.filtered { options.compaction_filter(SPACE, ByFirstByte) } else { options };
    options
        .durability(own.durability)
        .memtable_bytes(own.memtable_bytes as u64)
        .cache_bytes(setup.process.cache_bytes)
        .compression(own.table.compression)
        .background_threads(setup.process.compaction_threads)
        .layout(layout)
}

/// Opens the database in `dir`.
pub fn open(setup: &Setup, env: &SharedEnv, dir: &Path) -> Result<Db> {
    options(setup).open_in(Arc::clone(env), dir)
}

/// How every keyspace is made.
pub fn appending() -> KeyspaceOptions {
    KeyspaceOptions::new().merge_operator(merge::APPEND)
}

/// What a value is, for the record.
pub fn found_in(value: &Value) -> Found {
    Found::of(value.seqno().0, value.expiry().map(|expiry| expiry.time()), value)
}

/// What an entry is, for the record.
pub fn found_at(entry: &EntryRef<'_>) -> Found {
    Found::of(entry.seqno().0, entry.expiry().map(|expiry| expiry.time()), entry.value)
}

/// Everything that a database holds now, while nobody writes, but for what is filtered.
pub fn whole(env: &SharedEnv, db: &Db) -> Result<What> {
    let seqno = db.snapshot().seqno().0;
    let from = env.wall_time();
    let mut content = Content::new();
    for name in db.keyspaces()?.into_iter().filter(|name| name != SPACE) {
        let mut rows = Vec::new();
        for row in db.keyspace(&name)?.iter() {
            let (key, value) = row?;
            rows.push((key.into_vec(), found_in(&value)));
        }
        content.insert(name, rows);
    }
    Ok(What::Whole { seqno, from, until: env.wall_time(), content })
}
