//! Goal: nothing of a range stays on a medium when the range has left it. Method: an open that
//! leaves a medium fails halfway, and another one comes after it.

use terrace_env::{Fault, FaultEffect, FaultErrno, FaultPlan, Operation};

use crate::options::L0Kind;
use crate::store::tests::*;

const MEDIUM: &str = "/medium";

/// What is on the medium but for the range's claim.
fn left(env: &SharedEnv) -> Result<Vec<String>> {
    let entries = env.fs().list(Path::new(MEDIUM))?.into_iter().map(|entry| entry.name);
    Ok(entries.filter(|name| !name.ends_with(".claim")).collect())
}

#[test]
fn a_container_that_could_not_be_removed_is_removed_by_the_next_open() -> Result<()> {
    with_faults(71, |_, faults, env| {
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        let container = of_kind(small(), L0Kind::Container, MEDIUM, 128 << 10);
        open(env, &container)?.close()?;
        assert_eq!(left(env)?.len(), 1, "the container");
        let path_contains = Some(".rows".to_string());
        let fault = Fault::nth(Operation::Remove, 1, FaultEffect::Error(FaultErrno::Io));
        faults.set_plan(FaultPlan::one(Fault { path_contains, ..fault }));
        open(env, &small()).expect_err("the container cannot be removed");
        faults.set_plan(FaultPlan::default());
        open(env, &small())?.close()?;
        assert!(left(env)?.is_empty(), "{:?}", left(env)?);
        Ok(())
    })
}
