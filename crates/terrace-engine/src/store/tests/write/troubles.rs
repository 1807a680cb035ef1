//! Goal: what was refused, what fails in the background and what is held for long shows in the
//! figures. Method: a disk on which tables cannot be made, and virtual time.

use std::time::Duration;

use terrace_env::{Fault, FaultEffect, FaultErrno, FaultPlan, Operation};

use crate::store::tests::*;
use crate::store::{Item, WriteOptions};
use crate::{Error, Result};

#[test]
fn refused_writes_are_counted_by_their_cause() -> Result<()> {
    simulate(1, |env| {
        let store = open(env, &small())?;
        put(&store, "a", "1")?;
        let refusing = |_: &mut [Option<Item>]| Err(Error::invalid("no"));
        assert!(store.update(&[b"a"], &WriteOptions::default(), refusing).is_err());
        let refused = store.stats().refused_writes;
        assert_eq!(refused.values().sum::<u64>(), 1, "{refused:?}");
        assert_eq!(refused["invalid"], 1);
        store.close()?;
        assert!(matches!(put(&store, "a", "2"), Err(Error::Closed)));
        assert_eq!(store.stats().refused_writes["closed"], 1);
        assert!(store.stats().to_string().starts_with("refused writes: 1 closed, 1 invalid\n"));
        Ok(())
    })
}

#[test]
fn background_work_that_fails_says_what_and_how_often() {
    with_faults(2, |_, faults, env| {
        let store = open(env, &small())?;
        let no_space = FaultEffect::Error(FaultErrno::NoSpace);
        let fails = Fault::from_nth(Operation::Create, 1, no_space).on(".table");
        faults.set_plan(FaultPlan::one(fails));
        for index in 0..60 {
            put(&store, &format!("{index:03}"), &"v".repeat(500))?;
        }
        env.sleep(Duration::from_secs(2));
        let stats = store.stats();
        let flush = &stats.failed_work["flush"];
        assert!(flush.count > 1 && flush.is_failing, "{flush:?}");
        assert!(!flush.last_error.is_empty());
        assert_eq!(stats.failed_work["log"].count, 0);
        let text = stats.to_string();
        assert!(text.starts_with("attention: flush has failed "), "{text}");
        faults.set_plan(FaultPlan::default());
        env.sleep(Duration::from_secs(2));
        let healed = store.stats().failed_work["flush"].clone();
        assert!(healed.count > 1 && !healed.is_failing, "{healed:?}");
        store.close()
    })
    .expect("the disk heals");
}

#[test]
fn the_oldest_snapshot_has_an_age_and_a_number() -> Result<()> {
    simulate(3, |env| {
        let store = open(env, &small())?;
        put(&store, "a", "1")?;
        assert_eq!(store.stats().snapshots.snapshot_count, 0);
        let snapshot = store.snapshot();
        env.sleep(Duration::from_secs(90));
        for _ in 0..5 {
            put(&store, "a", "2")?;
        }
        let held = store.stats().snapshots;
        assert_eq!((held.snapshot_count, held.iterator_count), (1, 0));
        assert_eq!((held.oldest_age_ms, held.entries_since), (90_000, 5));
        assert_eq!(held.oldest_seqno, Some(snapshot.seqno().0));
        drop(snapshot);
        assert_eq!(store.stats().snapshots, Default::default());
        store.close()
    })
}
