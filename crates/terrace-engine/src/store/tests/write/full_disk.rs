//! A full disk: what it refuses, what it does not lose, and how the range goes on.

use std::time::Duration;

use terrace_env::{Fault, FaultEffect, FaultErrno, FaultPlan, Operation};

use crate::Error;
use crate::store::tests::*;

#[test]
fn a_full_disk_refuses_writes_and_loses_nothing_and_writing_resumes() -> Result<()> {
    SimEnv::run(SimOptions::new(8), |env| {
        let shared: SharedEnv = Arc::<SimEnv>::clone(&env);
        env.set_capacity(400 << 10);
        let store = open(&shared, &small())?;
        let value = "x".repeat(500);
        let mut written = 0;
        let refused = loop {
            match put(&store, &format!("{written:06}"), &value) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
            assert!(written < 10_000, "the disk never fills");
        };
        assert!(matches!(refused, Error::NoSpace(_)), "{refused}");
        assert!(refused.to_string().contains("disk is full"), "{refused}");
        for index in 0..written {
            assert_eq!(get(&store, &format!("{index:06}"))?.as_deref(), Some(value.as_str()));
        }
        env.set_capacity(10 << 20);
        shared.sleep(Duration::from_secs(2));
        for index in written..written + 500 {
            put(&store, &format!("{index:06}"), &value)?;
        }
        drop(store);
        let store = open(&shared, &small())?;
        for index in 0..written + 500 {
            assert_eq!(get(&store, &format!("{index:06}"))?.as_deref(), Some(value.as_str()));
        }
        Ok(())
    })
}

#[test]
fn a_full_disk_is_not_asked_for_space_at_every_write() -> Result<()> {
    with_faults(23, |_, faults, env| {
        let options = Options {
            memtable_bytes: 4 << 20,
            log_segment_bytes: 1 << 20,
            log_bytes_max: 4 << 20,
            ..small()
        };
        let store = open(env, &options)?;
        store.settle();
        let full = FaultEffect::Error(FaultErrno::NoSpace);
        faults.set_plan(FaultPlan::one(Fault::from_nth(Operation::Preallocate, 1, full)));
        let mut written = 0;
        let refused = loop {
            match put(&store, &format!("{written:06}"), &"x".repeat(500)) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::NoSpace(_)), "{refused}");
        let asked = faults.injected().len();
        assert!(asked < 20, "asked {asked} times during {written} writes");
        faults.set_plan(FaultPlan::default());
        put(&store, "after", "there is space")?;
        Ok(())
    })
}

#[test]
fn a_range_that_filled_its_disk_opens_again() -> Result<()> {
    SimEnv::run(SimOptions::new(7), |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        sim.set_capacity(400 << 10);
        let mut store = open(&env, &small())?;
        let mut written = 0;
        while put(&store, &format!("{written:06}"), &"x".repeat(500)).is_ok() {
            written += 1;
            assert!(written < 10_000, "the disk never fills");
        }
        for _ in 0..5 {
            drop(store);
            store = open(&env, &small())?;
            for index in 0..written {
                assert!(get(&store, &format!("{index:06}"))?.is_some());
            }
        }
        Ok(())
    })
}
