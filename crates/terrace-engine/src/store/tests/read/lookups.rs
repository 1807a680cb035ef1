//! The lookup index of a range, memtables that are kept, and scans without the division by key.

use crate::explain::StepAnswer;
use crate::options::{Options, Research};
use crate::store::tests::{delete, get, open, put, simulate, small};
use crate::store::{IterOptions, Store, WriteOptions};
use crate::{Result, WriteBatch};

fn indexed() -> Options {
    // No compaction by itself, and room in the log.
    Options {
        lookup_index_bytes: 64 << 10,
        dranges: 1,
        log_bytes_max: 1 << 20,
        frozen_memtables_max: 8,
        l0_rows_per_cut: 20,
        l0_rows_slow: 30,
        l0_rows_stop: 40,
        ..small()
    }
}

/// How many memtables and tables a get of `key` passes by for what the index says, of how many.
fn passed_by(store: &Store, key: &str) -> Result<(usize, usize)> {
    let steps = store.explain_get(key.as_bytes())?.steps;
    let is_passed = |step: &&crate::explain::Step| step.answer == StepAnswer::NotIndexed;
    Ok((steps.iter().filter(is_passed).count(), steps.len()))
}

#[test]
fn a_get_passes_by_what_does_not_hold_its_key() -> Result<()> {
    simulate(1, |env| {
        let store = open(env, &Options { memtables_kept: 7, ..indexed() })?;
        for round in ["a", "b", "c"] {
            put(&store, round, round)?;
            put(&store, "both", round)?;
            store.inner.freeze_all()?;
        }
        assert_eq!(passed_by(&store, "a")?, (3, 4), "the active one, c's and b's");
        assert_eq!(passed_by(&store, "c")?, (1, 2));
        assert_eq!(passed_by(&store, "both")?, (1, 2));
        assert_eq!(passed_by(&store, "nobody")?, (4, 4));
        store.flush()?;
        assert_eq!(passed_by(&store, "a")?, (1, 2), "one row has all");
        assert_eq!(passed_by(&store, "nobody")?, (1, 2), "the row does not span it");
        delete(&store, "a")?;
        assert_eq!(get(&store, "a")?, None);
        let mut batch = WriteBatch::new();
        batch.delete_range(b"b", b"c")?;
        store.write(&batch, &WriteOptions::default())?;
        assert_eq!(get(&store, "b")?, None, "range tombstones are in no index");
        assert_eq!(get(&store, "c")?.as_deref(), Some("c"));
        Ok(())
    })
}

#[test]
fn what_was_there_before_the_open_is_noted_while_the_store_serves() -> Result<()> {
    simulate(2, |env| {
        let store = open(env, &indexed())?;
        put(&store, "in-a-row", "1")?;
        store.flush()?;
        put(&store, "in-the-log", "2")?;
        store.close()?;
        drop(store);
        let store = open(env, &indexed())?;
        assert!(store.stats().lookup_index.is_some_and(|index| index.is_incomplete));
        assert_eq!(get(&store, "in-a-row")?.as_deref(), Some("1"));
        store.settle();
        let index = store.stats().lookup_index.expect("there is one");
        assert!(!index.is_incomplete, "{index:?}");
        assert_eq!(index.live_slots, 2);
        assert_eq!(get(&store, "in-a-row")?.as_deref(), Some("1"));
        assert_eq!(get(&store, "in-the-log")?.as_deref(), Some("2"));
        assert_eq!(passed_by(&store, "in-between")?, (1, 2), "the row does not span it");
        Ok(())
    })
}

/// A drange that is made wider has the frozen memtables of many narrow ones. Found by a benchmark:
/// they were few bytes and so were kept, they were too many and so writers were stopped.
#[test]
fn memtables_that_are_kept_never_stop_writers() -> Result<()> {
    simulate(3, |env| {
        let options = Options {
            frozen_memtables_max: 2,
            memtables_kept: 1,
            memtable_bytes: 64 << 10,
            ..indexed()
        };
        let store = open(env, &options)?;
        let keys: Vec<String> = (0..12).map(|key| format!("k{key:02}")).collect();
        store.divide_at(keys[1..].iter().map(|key| key.as_bytes().to_vec()).collect())?;
        for round in 0..8 {
            for key in &keys {
                put(&store, key, &format!("{round}"))?;
            }
            store.inner.freeze_all()?;
            store.inner.schedule_flush();
        }
        store.divide_at(Vec::new())?;
        for key in &keys {
            put(&store, key, "last")?;
        }
        for key in &keys {
            assert_eq!(get(&store, key)?.as_deref(), Some("last"));
        }
        Ok(())
    })
}

/// What is kept is flushed together when it is more than may be kept: what was overwritten is
/// written once.
#[test]
fn what_is_overwritten_while_it_is_kept_is_written_once() -> Result<()> {
    let flushed = |kept: usize| {
        simulate(4, |env| {
            let options = Options { memtables_kept: kept, ..indexed() };
            let store = open(env, &options)?;
            for round in 0..6 {
                for key in 0..100 {
                    put(&store, &format!("k{key:03}"), &format!("{round}").repeat(100))?;
                }
                store.inner.freeze_all()?;
                store.inner.schedule_flush();
                store.settle();
            }
            let before = store.stats().flush_count;
            store.flush()?;
            Ok::<_, crate::Error>((before, store.stats().flush_bytes))
        })
    };
    let (at_once, all_bytes) = flushed(0)?;
    let (kept, bytes) = flushed(6)?;
    assert_eq!((at_once, kept), (6, 0));
    assert!(bytes * 2 < all_bytes, "{bytes} of {all_bytes}");
    Ok(())
}

#[test]
fn a_scan_without_the_range_index_opens_every_memtable_and_shows_the_same() -> Result<()> {
    simulate(5, |env| {
        let boundaries = vec![b"g".to_vec(), b"p".to_vec()];
        let mut seen = Vec::new();
        for scan_all_memtables in [false, true] {
            let options = Options {
                research: Research { scan_all_memtables, ..Research::default() },
                drange_boundaries: boundaries.clone(),
                ..indexed()
            };
            let store = open(env, &options)?;
            for (key, value) in [("a", "1"), ("h", "2"), ("z", "3")] {
                put(&store, key, value)?;
            }
            let range = terrace_base::KeyRange::new("h", Some(b"i".to_vec()));
            let sources = store.explain_scan(range.clone(), 10, false)?.sources.len();
            let mut iter = store.iter(IterOptions { range, ..IterOptions::default() })?;
            iter.seek_to_first()?;
            seen.push((sources, iter.entry().map(|entry| entry.value.to_vec())));
            drop(iter);
            store.close()?;
        }
        assert!(seen[0].0 < seen[1].0, "{seen:?}");
        assert_eq!(seen[0].1.as_deref(), Some(b"2".as_slice()));
        assert_eq!(seen[0].1, seen[1].1);
        Ok(())
    })
}
