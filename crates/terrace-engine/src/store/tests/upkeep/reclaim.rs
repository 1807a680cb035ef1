//! Tables that nothing names any more are deleted, and one that cannot be holds up no other.

use terrace_base::KeyRange;
use terrace_env::{Fault, FaultEffect, FaultErrno, FaultPlan, Operation};

use crate::store::tests::*;

#[test]
fn a_table_that_cannot_be_deleted_holds_up_no_other() -> Result<()> {
    with_faults(5, |_, faults, env| {
        let store = open(env, &lazy())?;
        for round in 0..3 {
            for index in 0..60 {
                put(&store, &format!("{index:04}"), &format!("{round}").repeat(100))?;
            }
            store.flush()?;
        }
        let fault = Fault::nth(Operation::Remove, 1, FaultEffect::Error(FaultErrno::Io));
        faults.set_plan(FaultPlan::one(fault.on(".table")));
        let _ = store.compact(&KeyRange::all());
        assert!(!faults.injected().is_empty());
        store.inner.reclaim()?;
        let files = store.inner.context.opener.store.list()?.len();
        assert_eq!(files, store.inner.versions.current().tables().count());
        Ok(())
    })
}
