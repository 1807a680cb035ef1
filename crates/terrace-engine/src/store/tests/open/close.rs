//! Closing: after failures, beside a writer, and with a thread that syncs at intervals.

use std::time::Duration;

use terrace_env::{CrashPolicy, Fault, FaultEffect, FaultErrno, FaultPlan, JobClass, Operation};

use crate::Error;
use crate::options::Durability;
use crate::store::tests::*;

#[test]
fn a_range_that_syncs_at_intervals_settles_and_closes() -> Result<()> {
    simulate(13, |env| {
        let durability = Durability::Interval(Duration::from_millis(5));
        let store = open(env, &Options { durability, ..small() })?;
        for round in 0..300 {
            put(&store, &format!("{round}"), &"x".repeat(100))?;
        }
        // It used to wait for the thread that syncs until the range closes, that is for ever.
        store.settle();
        store.close()
    })
}

#[test]
fn a_close_beside_a_failed_write_leaves_a_range_that_opens() -> Result<()> {
    for seed in 0..20 {
        let disk = with_faults(seed, |sim, faults, env| {
            let store = open(env, &small())?;
            put_synced(&store, "a", "1")?;
            store.settle();
            let faults_of_write =
                [FaultEffect::Delay(Duration::from_millis(1)), FaultEffect::Error(FaultErrno::Io)]
                    .map(|effect| Fault::nth(Operation::Write, 1, effect).on(".log"));
            faults.set_plan(FaultPlan { faults: faults_of_write.to_vec() });
            let client = {
                let store = store.clone();
                let job = Box::new(move || drop(put(&store, "b", "2")));
                env.spawn(JobClass::Client, "client", job)?
            };
            env.sleep(Duration::from_micros(500));
            assert!(store.close().is_err());
            assert!(client.join());
            Ok::<_, Error>(sim.disk().crash(CrashPolicy::ProcessKill, 0))
        })?;
        after_crash(disk, |env| {
            let store = open(env, &small())?;
            assert_eq!(get(&store, "a")?.as_deref(), Some("1"), "seed {seed}");
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}

#[test]
fn a_close_mends_a_manifest_that_a_full_disk_broke() -> Result<()> {
    with_faults(15, |_, faults, env| {
        let store = open(env, &small())?;
        put(&store, "a", "1")?;
        let fault = Fault::nth(Operation::Write, 1, FaultEffect::ShortWrite(FaultErrno::NoSpace));
        faults.set_plan(FaultPlan::one(fault.on(".manifest")));
        assert!(matches!(store.flush(), Err(Error::NoSpace(_))));
        store.close()?;
        drop(store);
        let store = open(env, &small())?;
        assert!(store.recovery().was_closed);
        assert_eq!(get(&store, "a")?.as_deref(), Some("1"));
        Ok(())
    })
}
