//! Goal: what is dead goes, and soon, so that scans do not step over it for ever. Method: entries
//! that the merged tables still hold are counted, not time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::{Expiry, KeyRange, WallTime};
use terrace_env::SharedEnv;

use crate::store::tests::*;
use crate::store::{IterOptions, Store, StoreStats};

fn options() -> Options {
    Options {
        memtable_bytes: 256 << 10,
        table_bytes: 64 << 10,
        level_bytes_base: 256 << 10,
        ..small()
    }
}

fn entries(stats: &StoreStats) -> (u64, u64) {
    let entries = stats.levels.iter().map(|level| level.entry_count).sum();
    (entries, stats.levels.iter().map(|level| level.tombstone_count).sum())
}

fn key(index: u32) -> String {
    format!("{index:06}")
}

/// Facebook/rocksdb#10300: after the deletes of many neighbours a seek had to step over all of
/// their tombstones, since none of their levels was full.
#[test]
fn neighbours_that_are_deleted_leave_nothing_to_step_over() -> Result<()> {
    simulate(51, |env| {
        let store = open(env, &options())?;
        for index in 0..6000 {
            put(&store, &key(index), "v")?;
        }
        store.flush()?;
        store.settle();
        for index in 500..5500 {
            delete(&store, &key(index))?;
        }
        store.flush()?;
        store.settle();
        // The last flush may bring a few that are not worth a compaction, over as many keys.
        let (count, tombstones) = entries(&store.stats());
        assert!(tombstones < 100 && count == 1000 + 2 * tombstones, "{}", store.stats());
        let mut iter = store.iter(IterOptions::default())?;
        iter.seek(key(500).as_bytes())?;
        assert_eq!(iter.entry().map(|entry| entry.key.to_vec()), Some(key(5500).into_bytes()));
        assert!(store.check(&mut |_, _| ())?.is_clean());
        Ok(())
    })
}

/// Deletes in a memtable that is far from full: a scan that has to step over all of them sees to it
/// that the next one has not.
#[test]
fn a_scan_over_many_dead_entries_has_them_cleared_up() -> Result<()> {
    simulate(54, |env| {
        let options = Options {
            memtable_bytes: 16 << 20,
            log_segment_bytes: 4 << 20,
            log_bytes_max: 64 << 20,
            ..options()
        };
        let store = open(env, &options)?;
        for index in 0..13_000 {
            put(&store, &key(index), "v")?;
        }
        store.flush()?;
        store.settle();
        for index in 0..12_000 {
            delete(&store, &key(index))?;
        }
        let dead_met = || -> Result<u64> {
            let before = store.stats().scan_hidden_count;
            let mut iter = store.iter(IterOptions::default())?;
            iter.seek(b"")?;
            assert_eq!(
                iter.entry().map(|entry| entry.key.to_vec()),
                Some(key(12_000).into_bytes())
            );
            drop(iter);
            Ok(store.stats().scan_hidden_count - before)
        };
        assert_eq!(dead_met()?, 12_000);
        store.settle();
        assert_eq!(entries(&store.stats()), (1000, 0), "{}", store.stats());
        assert_eq!(dead_met()?, 0);
        Ok(())
    })
}

/// As long as a snapshot sees what was deleted, it stays, and nothing is written in vain; when the
/// snapshot has gone, the next work takes it away.
#[test]
fn what_a_snapshot_sees_stays_until_it_goes() -> Result<()> {
    simulate(52, |env| {
        let store = open(env, &options())?;
        for index in 0..2000 {
            put(&store, &key(index), "v")?;
        }
        store.flush()?;
        let snapshot = store.snapshot();
        for index in 0..2000 {
            delete(&store, &key(index))?;
        }
        store.flush()?;
        store.settle();
        let before = store.stats();
        assert_eq!(entries(&before), (4000, 2000), "{before}");
        store.settle();
        assert_eq!(store.stats().compaction_count, before.compaction_count);
        let seen = snapshot.get(key(7).as_bytes(), &crate::store::GetOptions::default())?;
        assert_eq!(seen.map(|item| item.value), Some(b"v".to_vec()));
        drop(snapshot);
        store.settle();
        assert_eq!(entries(&store.stats()), (0, 0), "{}", store.stats());
        Ok(())
    })
}

/// A table whose entries have all expired goes without waiting until its level is full.
#[test]
fn tables_of_expired_entries_go() -> Result<()> {
    simulate(53, |env| {
        let store = open(env, &options())?;
        let later = terrace_base::WallTime(env.wall_time().0 + 5000);
        for index in 0..500 {
            let mut batch = WriteBatch::new();
            let expiry = Some(terrace_base::Expiry::at(later));
            batch.put_with_expiry(key(index).as_bytes(), b"v", expiry)?;
            store.write(&batch, &WriteOptions::default())?;
        }
        store.flush()?;
        store.settle();
        assert_eq!(entries(&store.stats()).0, 500);
        env.sleep(Duration::from_secs(6));
        store.settle();
        assert_eq!(entries(&store.stats()).0, 0, "{}", store.stats());
        assert!(store.check(&mut |_, _| ())?.is_clean());
        Ok(())
    })
}

/// Writes entries that expire after this long, and flushes them.
fn flush_expiring(env: &SharedEnv, store: &Store, after: Duration) -> Result<()> {
    let later = WallTime(env.wall_time().0 + after.as_millis() as u64);
    for index in 0..100 {
        let mut batch = WriteBatch::new();
        batch.put_with_expiry(key(index).as_bytes(), b"v", Some(Expiry::at(later)))?;
        store.write(&batch, &WriteOptions::default())?;
    }
    store.flush()
}

/// Nobody writes, reads or asks for anything: the clock alone says that there is something to do.
#[test]
fn tables_of_expired_entries_go_while_nothing_else_happens() -> Result<()> {
    simulate(55, |env| {
        let store = open(env, &options())?;
        flush_expiring(env, &store, Duration::from_secs(60))?;
        store.settle();
        env.sleep(Duration::from_secs(50));
        assert_eq!(entries(&store.stats()).0, 100);
        env.sleep(Duration::from_secs(20));
        assert_eq!(entries(&store.stats()).0, 0, "{}", store.stats());
        store.close()
    })
}

#[test]
fn tables_of_expired_entries_go_after_an_open_and_once_no_reader_keeps_them() -> Result<()> {
    simulate(56, |env| {
        let store = open(env, &options())?;
        flush_expiring(env, &store, Duration::from_secs(60))?;
        store.close()?;
        drop(store);
        let store = open(env, &options())?;
        let snapshot = store.snapshot();
        // Its read point lies below what is written now, which goes down to the deepest level.
        flush_expiring(env, &store, Duration::from_secs(60))?;
        store.compact(&KeyRange::all())?;
        env.sleep(Duration::from_secs(70));
        assert!(entries(&store.stats()).0 > 0, "the snapshot keeps them: {}", store.stats());
        drop(snapshot);
        env.sleep(Duration::from_secs(20));
        assert_eq!(entries(&store.stats()).0, 0, "{}", store.stats());
        store.close()
    })
}

/// Who waits for an expiry keeps no range open, and a close does not wait for it.
#[test]
fn a_close_does_not_wait_for_an_expiry() -> Result<()> {
    simulate(57, |env| {
        let process = process(env)?;
        let began = env.now();
        let store = Store::open(&process, Path::new(DIR), options())?;
        flush_expiring(env, &store, Duration::from_secs(600))?;
        store.settle();
        let inner = Arc::downgrade(&store.inner);
        store.close()?;
        drop(store);
        assert!(env.now() - began < Duration::from_secs(60));
        assert!(inner.upgrade().is_none(), "nothing keeps the range");
        // The moment comes, and finds nobody.
        env.sleep(Duration::from_secs(700));
        Ok(())
    })
}

/// A table that a newer range tombstone covers wholly is not even read.
#[test]
fn a_covered_table_goes_unread() -> Result<()> {
    for seed in 0..4 {
        simulate(60 + seed, |env| {
            let store = open(env, &options())?;
            for index in 0..3000 {
                put(&store, &key(index), &"v".repeat(40))?;
            }
            store.compact(&KeyRange::all())?;
            let snapshot = (seed % 2 == 1).then(|| store.snapshot());
            let mut batch = WriteBatch::new();
            batch.delete_range(key(0).as_bytes(), key(2900).as_bytes())?;
            store.write(&batch, &WriteOptions::default())?;
            let before = store.stats();
            store.compact(&KeyRange::all())?;
            let read = store.stats().compaction_read_bytes - before.compaction_read_bytes;
            let held: u64 = before.levels.iter().map(|level| level.bytes).sum();
            if let Some(snapshot) = snapshot {
                let seen = snapshot.get(key(7).as_bytes(), &crate::store::GetOptions::default())?;
                assert_eq!(seen.map(|item| item.value), Some("v".repeat(40).into_bytes()));
                assert!(read > held / 2, "seed {seed}: the snapshot needs what is covered");
            } else {
                assert!(read < held / 2, "seed {seed}: {read} of {held} bytes read");
                assert_eq!(entries(&store.stats()).0, 100);
            }
            assert_eq!(get(&store, &key(7))?, None);
            assert_eq!(get(&store, &key(2900))?, Some("v".repeat(40)));
            assert!(store.check(&mut |_, _| ())?.is_clean());
            Ok::<_, crate::Error>(())
        })?;
    }
    Ok(())
}
