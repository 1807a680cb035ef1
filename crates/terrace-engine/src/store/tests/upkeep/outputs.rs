//! The tables that a compaction writes: their number, and those that it only moves.

use terrace_base::KeyRange;

use crate::store::tests::*;
use crate::table::Compression;

/// The number of outputs was bounded by twice the bytes that are read. Whoever turned compression
/// off had compactions that failed for ever.
#[test]
fn tables_may_grow_when_they_are_no_longer_compressed() -> Result<()> {
    simulate(14, |env| {
        let mut options = Options { table_bytes: 4 << 10, memtable_bytes: 1 << 20, ..small() };
        options.table.compression = Compression::Zstd;
        let store = open(env, &options)?;
        for round in 0..60 {
            put(&store, &format!("{round:03}"), &"x".repeat(5000))?;
        }
        store.close()?;
        drop(store);
        options.table.compression = Compression::None;
        let store = open(env, &options)?;
        put(&store, "000", "so that there is something to merge")?;
        store.compact(&KeyRange::all())?;
        assert_eq!(get(&store, "059")?.map(|value| value.len()), Some(5000));
        Ok(())
    })
}

#[test]
fn a_table_that_only_moves_down_stays_open() -> Result<()> {
    simulate(20, |env| {
        let options = Options { l0_rows_per_cut: 2, l0_rows_slow: 2, ..lazy() };
        let store = open(env, &options)?;
        put(&store, "a", "1")?;
        store.flush()?;
        let table = |store: &Store| {
            let version = store.inner.versions.current();
            let mut tables: Vec<_> = version.tables().map(Arc::clone).collect();
            tables.sort_by_key(|table| table.meta().id);
            tables.remove(0)
        };
        let before = table(&store);
        put(&store, "b", "2")?;
        store.flush()?;
        store.settle();
        assert_eq!(store.stats().compaction_count, 0, "the rows share no key");
        assert_eq!(store.inner.versions.current().l0().rows().len(), 0);
        assert!(Arc::ptr_eq(&before, &table(&store)));
        Ok(())
    })
}
