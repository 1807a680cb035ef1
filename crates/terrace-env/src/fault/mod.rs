//! An environment in which chosen calls fail.
//!
//! # Why
//! Every call to the outside can fail, and the code that handles it runs almost never. A sweep
//! runs a workload once to count its calls, then once for each call and kind of failure:
//!
//! ```text
//!   FaultEnv ── counts the call ── plan says: wait, fail, write half ── inner environment
//!      counts()  calls()  injected()  set_plan()
//! ```
//!
//! # Invariants
//! 1. Every call of the file system, and every start of a thread, is counted once for each thing
//!    that is asked: creating a file with reserved space is a `Create` and a `Preallocate`. A fence
//!    of persistent memory is a `Sync`; its stores and flushes are no calls.
//! 2. A call that fails by plan leaves the inner environment as it was, but for the first half of
//!    a short write.
//! 3. After a sync that failed by plan, later syncs of the same handle succeed and do nothing, as
//!    a kernel's do that has dropped the dirty pages. Code that tries a failed sync again loses
//!    data in a crash, and a test can see it.
//! 4. Log files say that they are not mapped, because their writes can fail.

mod files;
mod plan;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use terrace_base::WallTime;

use self::files::FaultFileSystem;
use self::plan::Ledger;
pub use self::plan::{Fault, FaultEffect, FaultErrno, FaultPlan, InjectedFault};
use crate::{
    Env, EnvError, EnvResult, FileSystem, Job, JobClass, JobHandle, ObjectStores, Operation,
    SharedEnv, WaitFactory,
};

/// Another environment whose calls fail by plan.
pub struct FaultEnv {
    judge: Arc<Judge>,
    fs: FaultFileSystem,
}

/// Decides the fate of each call.
struct Judge {
    inner: SharedEnv,
    /// Never held while the inner environment is called.
    ledger: Mutex<Ledger>,
}

impl FaultEnv {
    /// `inner`, with the faults of `plan`.
    #[must_use]
    pub fn new(inner: SharedEnv, plan: FaultPlan) -> Arc<FaultEnv> {
        let mut ledger = Ledger::default();
        ledger.set_plan(plan);
        let judge = Arc::new(Judge { inner, ledger: Mutex::new(ledger) });
        Arc::new(FaultEnv { fs: FaultFileSystem::new(Arc::clone(&judge)), judge })
    }

    /// Replaces the plan. The new faults count from here; counts and records go on.
    pub fn set_plan(&self, plan: FaultPlan) {
        self.judge.ledger.lock().set_plan(plan);
    }

    /// The calls so far, by what they asked for.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<Operation, u64> {
        self.judge.ledger.lock().counts().clone()
    }

    /// The number of calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.judge.ledger.lock().calls()
    }

    /// The faults that happened, in order.
    #[must_use]
    pub fn injected(&self) -> Vec<InjectedFault> {
        self.judge.ledger.lock().injected().to_vec()
    }
}

impl Judge {
    /// Counts a call; fails if it is to fail as a whole.
    fn call(&self, operation: Operation, path: &Path) -> EnvResult<()> {
        self.write_call(operation, path).map(|_| ())
    }

    /// As [`Judge::call`], but returns the failure that follows the first half of a short write.
    fn write_call(&self, operation: Operation, path: &Path) -> EnvResult<Option<EnvError>> {
        let verdict = self.ledger.lock().judge(operation, path);
        if !verdict.delay.is_zero() {
            self.inner.sleep(verdict.delay);
        }
        let error = verdict.failure.map(|failure| EnvError::new(operation, path, failure.error()));
        match error {
            Some(error) if !verdict.is_short_write => Err(error),
            error => Ok(error),
        }
    }
}

impl Env for FaultEnv {
    fn fs(&self) -> &dyn FileSystem {
        &self.fs
    }

    fn objects(&self) -> &dyn ObjectStores {
        self.judge.inner.objects()
    }

    fn now(&self) -> Duration {
        self.judge.inner.now()
    }

    fn thread_cpu_time(&self) -> Duration {
        self.judge.inner.thread_cpu_time()
    }

    fn wall_time(&self) -> WallTime {
        self.judge.inner.wall_time()
    }

    fn random_u64(&self) -> u64 {
        self.judge.inner.random_u64()
    }

    fn parallelism(&self) -> usize {
        self.judge.inner.parallelism()
    }

    fn spawn(&self, class: JobClass, name: &str, job: Job) -> EnvResult<JobHandle> {
        self.judge.call(Operation::Spawn, Path::new(name))?;
        self.judge.inner.spawn(class, name, job)
    }

    fn yield_now(&self) {
        self.judge.inner.yield_now();
    }

    fn sleep(&self, duration: Duration) {
        self.judge.inner.sleep(duration);
    }

    fn waits(&self) -> WaitFactory {
        self.judge.inner.waits()
    }
}

impl fmt::Debug for FaultEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultEnv").field("inner", &self.judge.inner).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
