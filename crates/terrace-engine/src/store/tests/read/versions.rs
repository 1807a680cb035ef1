//! Goal: the baseline that flushes every version writes every version, and reads as any other.
//! Method: the entries of tables are counted; that reads are right is in `model.rs` as well.

use terrace_base::KeyRange;

use crate::store::tests::workload::content;
use crate::store::tests::*;

/// Ten keys, each put `rounds` times and merged once, in two memtables that are flushed as one row.
fn fill(store: &Store, rounds: u32) -> Result<()> {
    for round in 0..rounds {
        for key in 0..10 {
            put(store, &format!("key{key}"), &format!("{round}"))?;
        }
        if round == rounds / 2 {
            store.inner.freeze_all()?;
        }
    }
    (0..10).try_for_each(|key| merge(store, &format!("key{key}"), "+"))
}

fn check(store: &Store) -> Result<()> {
    let found = content(store)?;
    assert_eq!(found.len(), 10);
    assert!(found.iter().all(|(_, value)| value == b"19+"), "{found:?}");
    assert_eq!(get(store, "key3")?.as_deref(), Some("19+"));
    Ok(())
}

fn entries(store: &Store) -> u64 {
    store.stats().levels.iter().map(|level| level.entry_count).sum()
}

#[test]
fn a_flush_of_all_versions_writes_them_and_a_compaction_drops_them() -> Result<()> {
    // Every put and every operand; without the option one entry a key.
    for (flush_all_versions, flushed) in [(true, 210), (false, 10)] {
        simulate(61, |env| {
            let options = Options {
                research: Research { flush_all_versions, ..Research::default() },
                memtable_bytes: 256 << 10,
                dranges: 1,
                ..small()
            };
            let store = open(env, &options)?;
            fill(&store, 20)?;
            store.flush()?;
            assert_eq!(entries(&store), flushed);
            check(&store)?;
            drop(store);
            let store = open(env, &options)?;
            check(&store)?;
            store.compact(&KeyRange::all())?;
            assert_eq!(entries(&store), 10);
            check(&store)
        })?;
    }
    Ok(())
}
