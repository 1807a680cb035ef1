//! What a follower shows, step by step.

use terrace_env::{Fault, FaultEffect, FaultErrno, FaultPlan, Operation};

use crate::Error;
use crate::options::ValueLogOptions;
use crate::store::tests::workload::content;
use crate::store::tests::*;
use crate::store::{Follower, IterOptions};
use crate::wal::{LocalLogStore, LogStore, ReadOn};

fn follow(env: &SharedEnv) -> Result<Follower> {
    Follower::open(&process(env)?, Path::new(DIR), small())
}

fn seen(follower: &Follower, key: &str) -> Result<Option<String>> {
    get(follower.store(), key)
}

#[test]
fn writes_are_seen_after_a_catch_up_and_not_before() -> Result<()> {
    simulate(1, |env| {
        let store = open(env, &small())?;
        put(&store, "a", "1")?;
        let mut follower = follow(env)?;
        assert_eq!(seen(&follower, "a")?.as_deref(), Some("1"));
        assert!(!follower.catch_up()?, "nothing is new");
        put(&store, "a", "2")?;
        put(&store, "b", "3")?;
        assert_eq!(seen(&follower, "a")?.as_deref(), Some("1"));
        assert_eq!(seen(&follower, "b")?, None);
        assert!(follower.catch_up()?);
        assert_eq!(seen(&follower, "a")?.as_deref(), Some("2"));
        assert_eq!(seen(&follower, "b")?.as_deref(), Some("3"));
        store.flush()?;
        assert!(follower.catch_up()?, "they are in a table by now");
        assert_eq!(seen(&follower, "a")?.as_deref(), Some("2"));
        delete_range(&store, "a", "b")?;
        assert!(follower.catch_up()?);
        assert_eq!(seen(&follower, "a")?, None);
        assert_eq!(seen(&follower, "b")?.as_deref(), Some("3"));
        store.close()?;
        follower.catch_up()?;
        assert_eq!(seen(&follower, "b")?.as_deref(), Some("3"), "the writer is gone");
        Ok(())
    })
}

/// An operand that a flush has folded, and that stands in the log still, counts once.
#[test]
fn operands_count_once() -> Result<()> {
    simulate(2, |env| {
        let store = open(env, &small())?;
        let mut follower = follow(env)?;
        let mut expected = String::new();
        for round in 0..30 {
            merge(&store, "k", &format!("{round},"))?;
            expected += &format!("{round},");
            if round % 3 == 0 {
                store.flush()?;
            }
            if round % 2 == 0 {
                follower.catch_up()?;
                assert_eq!(seen(&follower, "k")?.as_ref(), Some(&expected), "round {round}");
            }
        }
        Ok(())
    })
}

/// A catch-up that fails has added records already; the next one does not count them twice, though
/// its memtables are smaller than the writer's.
#[test]
fn operands_count_once_after_a_catch_up_that_failed() -> Result<()> {
    let mut failures = 0;
    for nth in 1..=12 {
        failures += with_faults(nth, |_, faults, env| {
            let store = open(env, &Options { memtable_bytes: 256 << 10, ..small() })?;
            let mut follower = follow(env)?;
            let mut expected = String::new();
            for round in 0..400 {
                let operand = format!("{round}{},", "-".repeat(100));
                merge(&store, "k", &operand)?;
                expected += &operand;
            }
            let io = FaultEffect::Error(FaultErrno::Io);
            faults.set_plan(FaultPlan::one(Fault::from_nth(Operation::Open, nth, io).on(".log")));
            let has_failed = follower.catch_up().is_err();
            faults.set_plan(FaultPlan::default());
            merge(&store, "k", "end")?;
            expected += "end";
            follower.catch_up()?;
            assert_eq!(seen(&follower, "k")?, Some(expected), "open {nth}");
            store.close()?;
            Ok::<_, Error>(usize::from(has_failed))
        })?;
    }
    assert!(failures > 0, "no open of a segment failed");
    Ok(())
}

/// A recovery flushes the front of a memtable of the open before: what of it the follower has read
/// is in tables by then, and the rest is not.
#[test]
fn operands_count_once_after_a_recovery_that_divides_a_memtable() -> Result<()> {
    simulate(6, |env| {
        let large = Options {
            log_bytes_max: 4 << 20,
            log_segment_bytes: 1 << 20,
            memtable_bytes: 1 << 20,
            dranges: 1,
            ..small()
        };
        let store = open(env, &large)?;
        for key in 0..30 {
            put(&store, &key.to_string(), "base,")?;
        }
        store.flush()?;
        for round in 0..1500 {
            merge(&store, &format!("{}", round % 30), &format!("{round:20},"))?;
        }
        // The next record says that all before it is durable, and the follower's mark stands there:
        // so the open writes nothing again that was read.
        put_synced(&store, "synced", "1")?;
        let mut follower = follow(env)?;
        put(&store, "later", "1")?;
        store.settle();
        let expected = content(&store)?;
        // The process dies: its lock goes.
        drop(store.inner.held.lock().take());
        let begin = store.inner.versions.current().log_start().position;
        let store = open(
            env,
            &Options {
                frozen_memtables_max: 16,
                memtables_kept: 0,
                memtable_merging: false,
                ..small()
            },
        )?;
        store.settle();
        let version = store.inner.versions.current();
        assert!(version.log_start().position > begin, "no memtable was flushed");
        // They were folded over what stood below.
        assert!(version.runs().any(|(_, run)| !run.is_empty()), "nothing was compacted");
        assert!(store.inner.view.load().memtables().iter().any(|one| !one.is_empty()));
        assert!(follower.catch_up()?);
        assert_eq!(content(follower.store())?, expected);
        merge(&store, "7", "last")?;
        follower.catch_up()?;
        assert!(seen(&follower, "7")?.is_some_and(|value| value.ends_with(",last")));
        Ok(())
    })
}

/// A reading that finds the log changed under its hands says that it may lack something. Method:
/// the writer goes on while the first record is handed over.
#[test]
fn a_log_that_changes_while_it_is_read_is_not_whole() -> Result<()> {
    type GoOn = fn(&SharedEnv, Store) -> Result<Store>;
    let writes: GoOn = |_, store| put(&store, "later", "1").map(|()| store);
    let releases: GoOn = |_, store| {
        for round in 0..20 {
            put(&store, "other", &"y".repeat(4000))?;
            if round % 5 == 0 {
                store.flush()?;
                store.settle();
            }
        }
        Ok(store)
    };
    let begins_anew: GoOn = |env, store| {
        drop(store.inner.held.lock().take());
        let store = open(env, &Options { dranges: 1, ..small() })?;
        for _ in 0..20 {
            put(&store, "other", &"y".repeat(500))?;
        }
        store.settle();
        Ok(store)
    };
    for (name, go_on, is_quiet) in [
        ("writes", writes, true),
        ("releases", releases, false),
        ("begins anew", begins_anew, false),
    ] {
        simulate(7, |env| {
            let large = Options { memtable_bytes: 1 << 20, dranges: 1, ..small() };
            let store = open(env, &large)?;
            for index in 0..40 {
                put(&store, &format!("{index}"), &"x".repeat(500))?;
            }
            store.settle();
            let facts = store.inner.versions.current().log_facts();
            let log = LocalLogStore {
                env: Arc::clone(env),
                dir: DIR.into(),
                segment_bytes: 16 << 10,
                medium: None,
            };
            let (mut store, mut failed) = (Some(store), Ok(()));
            let mut count = 0;
            let read = log.read_on(&facts, None, u64::MAX, &mut |_| {
                count += 1;
                if count == 1 {
                    let gone_on = store.take().map(|store| go_on(env, store));
                    match gone_on.transpose() {
                        Ok(gone_on) => store = gone_on,
                        Err(error) => failed = Err(error),
                    }
                }
                Ok(())
            })?;
            failed?;
            let is_whole = matches!(read, ReadOn::To { is_whole: true, .. });
            assert_eq!(is_whole, is_quiet, "{name}: {count} records, {read:?}");
            assert!(!is_quiet || count >= 40, "{name}: {count} records");
            Ok::<_, crate::Error>(())
        })?;
    }
    Ok(())
}

#[test]
fn a_moment_stays_as_it_was_for_its_snapshots_and_iterators() -> Result<()> {
    simulate(3, |env| {
        let store = open(env, &small())?;
        for index in 0..200 {
            put(&store, &format!("{index:03}"), "old")?;
        }
        store.flush()?;
        let mut follower = follow(env)?;
        let snapshot = follower.store().snapshot();
        let mut iter = follower.store().iter(IterOptions::default())?;
        iter.seek_to_first()?;
        for round in 0..5 {
            for index in 0..200 {
                put(&store, &format!("{index:03}"), &format!("new {round}"))?;
            }
            store.flush()?;
            store.compact(&terrace_base::KeyRange::all())?;
            store.settle();
            assert!(follower.catch_up()?);
            assert_eq!(seen(&follower, "199")?, Some(format!("new {round}")));
        }
        let mut count = 0;
        while let Some(entry) = iter.entry() {
            assert_eq!(entry.value, b"old");
            count += 1;
            iter.next()?;
        }
        assert_eq!(count, 200);
        let old = snapshot.get(b"100", &crate::store::GetOptions::default())?;
        assert_eq!(old.map(|item| item.value), Some(b"old".to_vec()));
        Ok(())
    })
}

#[test]
fn large_values_are_read_from_their_files() -> Result<()> {
    simulate(4, |env| {
        let value_log = ValueLogOptions {
            large_bytes: 100,
            space_ratio_percent: 130,
            ..ValueLogOptions::default()
        };
        let store = open(env, &Options { value_log: Some(value_log), ..small() })?;
        let mut follower = follow(env)?;
        for round in 0..6 {
            for index in 0..60 {
                put(&store, &format!("{index:03}"), &format!("{round} {}", "x".repeat(300)))?;
            }
            store.flush()?;
            store.settle();
            follower.catch_up()?;
            for index in 0..60 {
                let value = seen(&follower, &format!("{index:03}"))?;
                assert_eq!(value, Some(format!("{round} {}", "x".repeat(300))));
            }
        }
        assert!(!files_with(env, ".values").is_empty(), "there is no value file");
        Ok(())
    })
}

#[test]
fn who_follows_changes_no_byte_and_keeps_nobody_out() -> Result<()> {
    SimEnv::run(SimOptions::new(5), |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let store = open(&env, &small())?;
        for index in 0..300 {
            put(&store, &format!("{index}"), &"x".repeat(100))?;
        }
        store.settle();
        let before = sim.disk().files();
        let mut followers = [follow(&env)?, follow(&env)?];
        for follower in &mut followers {
            follower.catch_up()?;
            assert_eq!(seen(follower, "299")?, Some("x".repeat(100)));
            assert!(matches!(follower.store().flush(), Err(crate::Error::ReadOnly)));
            follower.store().close()?;
            assert!(matches!(seen(follower, "299"), Err(crate::Error::Closed)));
        }
        assert_eq!(sim.disk().files(), before);
        store.close()?;
        open(&env, &small())?.close()
    })
}
