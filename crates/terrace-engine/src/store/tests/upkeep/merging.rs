//! Memtables of hot dranges are merged in memory, and lose nothing by it.

use terrace_base::KeyRange;
use terrace_env::SeededRng;

use crate::options::Options;
use crate::store::tests::workload::content;
use crate::store::tests::{delete, get, merge, open, put, simulate, small};
use crate::store::{Store, WriteOptions};
use crate::{Result, WriteBatch};

/// Room in the log for some memtables.
fn options() -> Options {
    Options { log_bytes_max: 1 << 20, dranges: 1, memtable_merging: true, ..small() }
}

/// Overwrites ten keys until `merges` memtables were merged; the last value of each.
fn overwrite(store: &Store, random: &mut SeededRng, merges: u64) -> Result<Vec<String>> {
    let mut last = vec![String::new(); 10];
    for round in 0..100_000 {
        if store.stats().memtable_merge_count >= merges && last.iter().all(|v| !v.is_empty()) {
            return Ok(last);
        }
        let key = random.below(10) as usize;
        last[key] = format!("{round}-{}", "v".repeat(60));
        put(store, &format!("hot{key}"), &last[key])?;
    }
    panic!("nothing was merged");
}

fn check_hot(store: &Store, last: &[String]) -> Result<()> {
    for (key, value) in last.iter().enumerate() {
        assert_eq!(get(store, &format!("hot{key}"))?.as_deref(), Some(value.as_str()));
    }
    assert_eq!(content(store)?.len(), last.len());
    Ok(())
}

#[test]
fn hot_keys_stay_in_memory_until_a_flush_is_asked_for() -> Result<()> {
    simulate(31, |env| {
        let store = open(env, &options())?;
        let last = overwrite(&store, &mut SeededRng::new(31), 6)?;
        store.settle();
        check_hot(&store, &last)?;
        let stats = store.stats();
        assert_eq!((stats.flush_count, stats.l0_row_count), (0, 0));
        assert_eq!(stats.merged_memtable_count, 1);
        assert!(stats.merged_away_count > 100 && stats.unflushed_bytes > 0, "{stats:?}");
        store.flush()?;
        check_hot(&store, &last)?;
        let stats = store.stats();
        assert_eq!((stats.flush_count, stats.merged_memtable_count), (1, 0));
        assert!(stats.flush_bytes < 8 << 10, "{}", stats.flush_bytes);
        Ok(())
    })
}

#[test]
fn what_was_merged_is_in_the_log_until_it_is_flushed() -> Result<()> {
    simulate(32, |env| {
        let mut random = SeededRng::new(32);
        let mut last = Vec::new();
        // The log holds what merges have dropped since, and a replay has room for that, too.
        let options = Options { frozen_memtables_max: 100, ..options() };
        for _ in 0..3 {
            let store = open(env, &options)?;
            if !last.is_empty() {
                check_hot(&store, &last)?;
            }
            last = overwrite(&store, &mut random, 4)?;
            assert_eq!(store.stats().flush_count, 0, "what is replayed is not flushed for it");
        }
        Ok(())
    })
}

#[test]
fn the_log_lets_go_of_what_was_merged_when_it_grows_too_long() -> Result<()> {
    simulate(33, |env| {
        let options = options();
        let store = open(env, &options)?;
        let mut random = SeededRng::new(33);
        let last = overwrite(&store, &mut random, 200)?;
        store.settle();
        let stats = store.stats();
        assert!(stats.flush_count > 1, "{stats:?}");
        assert!(stats.log_live_bytes <= options.log_bytes_max, "{stats:?}");
        assert!(stats.memtable_merge_count > 3 * stats.flush_count, "{stats:?}");
        check_hot(&store, &last)
    })
}

#[test]
fn keys_that_cool_down_are_flushed() -> Result<()> {
    simulate(34, |env| {
        let store = open(env, &options())?;
        let mut last = overwrite(&store, &mut SeededRng::new(34), 3)?;
        for key in 0..2000 {
            put(&store, &format!("once{key}"), &"v".repeat(60))?;
            last.push(String::new());
        }
        store.settle();
        assert_eq!(store.stats().merged_memtable_count, 0);
        assert_eq!(content(&store)?.len(), last.len());
        Ok(())
    })
}

#[test]
fn a_snapshot_sees_what_it_saw_and_operands_count_once() -> Result<()> {
    simulate(35, |env| {
        let store = open(env, &options())?;
        put(&store, "log", "a")?;
        let before = overwrite(&store, &mut SeededRng::new(35), 2)?;
        merge(&store, "log", "b")?;
        delete(&store, "hot3")?;
        let snapshot = store.snapshot();
        for letter in ["c", "d"] {
            overwrite(&store, &mut SeededRng::new(36), store.stats().memtable_merge_count + 2)?;
            merge(&store, "log", letter)?;
        }
        let merges = store.stats().memtable_merge_count;
        overwrite(&store, &mut SeededRng::new(37), merges + 2)?;
        assert_eq!(get(&store, "log")?.as_deref(), Some("abcd"));
        let seen = crate::store::tests::workload::walk(snapshot.iter(Default::default())?)?;
        assert_eq!(seen.len(), 10);
        assert!(seen.contains(&(b"log".to_vec(), b"ab".to_vec())));
        for (key, value) in before.iter().enumerate().filter(|(key, _)| *key != 3) {
            assert!(seen.contains(&(format!("hot{key}").into(), value.clone().into())), "hot{key}");
        }
        drop((snapshot, store));
        let store = open(env, &options())?;
        assert_eq!(get(&store, "log")?.as_deref(), Some("abcd"));
        Ok(())
    })
}

#[test]
fn a_memtable_with_range_tombstones_is_flushed_and_hides_what_was_merged() -> Result<()> {
    simulate(36, |env| {
        let store = open(env, &options())?;
        overwrite(&store, &mut SeededRng::new(38), 3)?;
        let mut batch = WriteBatch::new();
        batch.delete_range(b"hot", b"hou")?;
        store.write(&batch, &WriteOptions::default())?;
        assert!(content(&store)?.is_empty());
        let merges = store.stats().memtable_merge_count;
        while store.stats().flush_count == 0 {
            put(&store, "hot5", &"w".repeat(60))?;
        }
        assert_eq!(store.stats().memtable_merge_count, merges);
        assert_eq!(content(&store)?.len(), 1);
        store.compact(&KeyRange::all())?;
        assert_eq!(content(&store)?.len(), 1);
        Ok(())
    })
}

#[test]
fn merging_can_be_switched_off() -> Result<()> {
    simulate(37, |env| {
        let store = open(env, &Options { memtable_merging: false, ..options() })?;
        for round in 0..3000 {
            put(&store, &format!("hot{}", round % 10), &"v".repeat(60))?;
        }
        store.settle();
        let stats = store.stats();
        assert!(stats.flush_count > 3 && stats.memtable_merge_count == 0, "{stats:?}");
        Ok(())
    })
}
