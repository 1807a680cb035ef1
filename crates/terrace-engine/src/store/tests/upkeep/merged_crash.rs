//! Goal: what was merged in memory is neither lost nor counted twice by a crash, and hides nothing
//! before it may. Method: one history for each of three mistakes that would need long luck
//! otherwise: a merged memtable that speaks for its first source only, a manifest that forgets
//! which memtables were flushed, a merge that does not wait for publication.

use std::time::Duration;

use terrace_env::{CrashPolicy, DiskImage, JobClass, JobHandle, SharedEnv, SimEnv, SimOptions};

use crate::options::Options;
use crate::store::Store;
use crate::store::tests::{after_crash, get, killed, merge, open, put, small};
use crate::{Result, WriteBatch};

/// Keys below "m" in one drange, the others in another; room in the log for all that a test writes.
fn two_dranges() -> Options {
    Options {
        log_bytes_max: 4 << 20,
        drange_boundaries: vec![b"m".to_vec()],
        memtable_merging: true,
        ..small()
    }
}

/// Overwrites ten keys under each prefix until memtables were merged `merges` times.
fn heat(store: &Store, prefixes: &[&str], merges: u64) -> Result<()> {
    for round in 0..100_000 {
        if store.stats().memtable_merge_count >= merges {
            return Ok(());
        }
        for prefix in prefixes {
            put(store, &format!("{prefix}hot{}", round % 10), &"v".repeat(60))?;
        }
    }
    panic!("nothing was merged");
}

fn check(disk: DiskImage, key: &str, wanted: &str) -> Result<()> {
    after_crash(disk, |env| {
        let store = open(env, &two_dranges())?;
        assert_eq!(get(&store, key)?.as_deref(), Some(wanted));
        Ok(())
    })
}

/// The value and the operand over it lie in two sources, which are merged and then flushed, while
/// an older merged memtable of the other drange keeps their records in the log. If a replay took
/// the operand's record, it would count above the row that holds its outcome, and hide that.
#[test]
fn the_row_of_a_merged_memtable_covers_the_records_of_all_its_sources() -> Result<()> {
    let disk = killed(41, |env| {
        let store = open(env, &two_dranges())?;
        put(&store, "zlog", "a")?;
        heat(&store, &["a", "z"], 2)?;
        merge(&store, "zlog", "b")?;
        heat(&store, &["a", "z"], 6)?;
        store.settle();
        let stats = store.stats();
        assert_eq!((stats.merged_memtable_count, stats.flush_count), (2, 0), "{stats:?}");
        for round in 0..20_000 {
            if store.stats().flush_count > 0 {
                break;
            }
            put(&store, &format!("ahot{}", round % 10), &"v".repeat(60))?;
            put(&store, &format!("zonce{round}"), &"v".repeat(60))?;
        }
        store.settle();
        let stats = store.stats();
        assert_eq!(stats.merged_memtable_count, 1, "the other one keeps the log: {stats:?}");
        assert!(stats.flush_count > 0, "{stats:?}");
        assert_eq!(get(&store, "zlog")?.as_deref(), Some("ab"));
        Ok(store)
    });
    check(disk, "zlog", "ab")
}

/// The value was flushed before the log began, the operand over it later, and a cut has folded
/// both. A merged memtable keeps the operand's record in the log. An open begins a new manifest; if
/// that did not say that the operand's memtable is flushed, the next open would count it again.
#[test]
fn a_new_manifest_knows_which_memtables_were_flushed() -> Result<()> {
    let disk = killed(42, |env| {
        let store = open(env, &Options { l0_rows_per_cut: 1, ..two_dranges() })?;
        put(&store, "alog", "a")?;
        store.flush()?;
        heat(&store, &["z"], 2)?;
        merge(&store, "alog", "b")?;
        heat(&store, &["z"], 5)?;
        store.settle();
        let stats = store.stats();
        assert_eq!((stats.merged_memtable_count, stats.flush_count), (1, 2), "{stats:?}");
        assert_eq!(stats.l0_row_count, 0, "both rows were cut: {stats:?}");
        assert_eq!(get(&store, "alog")?.as_deref(), Some("ab"));
        Ok(store)
    });
    // Twice: the first open reads the old manifest and begins a new one.
    let disk = SimEnv::run(SimOptions { disk, ..SimOptions::new(43) }, |sim| -> Result<_> {
        let env: SharedEnv = std::sync::Arc::<SimEnv>::clone(&sim);
        let store = open(&env, &two_dranges())?;
        assert_eq!(get(&store, "alog")?.as_deref(), Some("ab"));
        let disk = sim.disk().crash(CrashPolicy::ProcessKill, 0);
        drop(store);
        Ok(disk)
    })?;
    check(disk, "alog", "ab")
}

/// A write that is under way keeps all later ones from being published. They are inserted, and the
/// memtable that holds them is frozen; a merge that went on would drop what they hide, which is all
/// that readers may see.
#[test]
fn what_is_not_published_hides_nothing_from_a_merge() -> Result<()> {
    SimEnv::run(SimOptions::new(44), |sim| {
        let env: SharedEnv = sim;
        let options = Options { dranges: 1, drange_boundaries: Vec::new(), ..two_dranges() };
        let store = open(&env, &options)?;
        put(&store, "hot0", "old")?;
        let inner = &store.inner;
        let held = inner.sequencer.take(1, 64, inner.log()?).expect("there is room");
        let writers: Vec<JobHandle> = (0..4)
            .map(|client| {
                let store = store.clone();
                let job = Box::new(move || {
                    let mut batch = WriteBatch::new();
                    for round in 0..80 {
                        let key = format!("hot{}", round % 10);
                        batch.put(key.as_bytes(), &[b'v'; 60]).expect("short");
                    }
                    store.write(&batch, &Default::default()).expect("it is published later");
                });
                env.spawn(JobClass::Client, &client.to_string(), job).expect("a thread")
            })
            .collect();
        for _ in 0..20 {
            env.sleep(Duration::from_millis(100));
            assert_eq!(get(&store, "hot0")?.as_deref(), Some("old"));
        }
        assert!(!store.inner.view.load().frozen().is_empty(), "a memtable was full and frozen");
        assert_eq!(store.stats().memtable_merge_count, 0, "the merge waits");
        inner.sequencer.finish(&held, true);
        assert!(writers.into_iter().all(JobHandle::join));
        store.settle();
        assert_eq!(get(&store, "hot0")?.as_deref(), Some("v".repeat(60).as_str()));
        assert!(store.stats().memtable_merge_count > 0, "it has gone on");
        Ok(())
    })
}
