//! Goal: what is written after a rotation of the log that failed is refused, or there after the
//! next open. Method: the header of the new segment cannot be written, and the next record is too
//! large for it, so that it would go to the segment behind it.

use terrace_env::{CrashPolicy, Fault, FaultEffect, FaultErrno, FaultPlan, Operation};

use crate::Result;
use crate::store::tests::support::{after_crash, get, open, put, put_synced, small, with_faults};

#[test]
fn nothing_is_acknowledged_behind_a_segment_that_has_no_header() -> Result<()> {
    let large = "x".repeat(200 << 10);
    for failing in 1..=2 {
        let (disk, was_taken) = with_faults(failing, |sim, faults, env| -> Result<_> {
            let store = open(env, &small())?;
            for number in 0..40 {
                put(&store, &format!("k{number}"), &"v".repeat(1000))?;
            }
            let fault = Fault::nth(Operation::Write, failing, FaultEffect::Error(FaultErrno::Io));
            faults.set_plan(FaultPlan::one(fault.on(".log")));
            let flushed = store.flush();
            assert!(!faults.injected().is_empty() && flushed.is_err(), "{flushed:?}");
            faults.set_plan(FaultPlan::default());
            let was_taken = put_synced(&store, "large", &large).is_ok();
            Ok((sim.disk(), was_taken))
        })?;
        after_crash(disk.crash(CrashPolicy::ProcessKill, failing), |env| -> Result<()> {
            let store = open(env, &small())?;
            assert!(get(&store, "k39")?.is_some());
            assert!(!was_taken || get(&store, "large")?.is_some());
            Ok(())
        })?;
    }
    Ok(())
}
