//! Goal: an open after a failed sync builds on nothing that never came to the disk, though the
//! system goes on showing it and a later sync of it says that all is well. Method: a machine on
//! which a sync of the log fails, the range opened again on it, written to and synced, and the
//! power cut.

use terrace_env::{CrashPolicy, Fault, FaultEffect, FaultErrno, FaultPlan, Operation};

use crate::Result;
use crate::store::tests::support::{after_crash, get, open, put, put_synced, small, with_faults};

#[test]
fn what_an_open_found_after_a_failed_sync_is_on_the_disk() -> Result<()> {
    let disk = with_faults(1, |sim, faults, env| -> Result<_> {
        let store = open(env, &small())?;
        put_synced(&store, "a", "synced")?;
        put(&store, "b", "acknowledged")?;
        let fault = Fault::nth(Operation::Sync, 1, FaultEffect::Error(FaultErrno::Io));
        faults.set_plan(FaultPlan::one(fault));
        assert!(put_synced(&store, "c", "in doubt").is_err());
        faults.set_plan(FaultPlan::default());
        drop(store);
        let store = open(env, &small())?;
        assert_eq!(get(&store, "c")?.as_deref(), Some("in doubt"), "the system shows it");
        put_synced(&store, "d", "rests on all that")?;
        Ok(sim.disk())
    })?;
    for seed in 0..20 {
        for policy in [CrashPolicy::SyncedOnly, CrashPolicy::Sectors, CrashPolicy::Pages] {
            after_crash(disk.crash(policy, seed), |env| -> Result<()> {
                let store = open(env, &small())?;
                for key in ["a", "b", "c", "d"] {
                    assert!(get(&store, key)?.is_some(), "{policy:?}, seed {seed}: {key}");
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}
