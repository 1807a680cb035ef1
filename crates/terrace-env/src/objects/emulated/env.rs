use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::WallTime;

use super::store::EmulatedStores;
use super::{ObjectsPace, ObjectsProfile};
use crate::{
    Env, EnvResult, FileSystem, Job, JobClass, JobHandle, ObjectStores, SharedEnv, WaitFactory,
};

/// Another environment, whose object stores are emulated ones; see the module.
pub struct ObjectsEnv {
    inner: SharedEnv,
    stores: EmulatedStores,
}

impl ObjectsEnv {
    /// `inner`, with object stores of this profile. All of them share one line.
    #[must_use]
    pub fn new(inner: SharedEnv, profile: ObjectsProfile) -> Arc<ObjectsEnv> {
        let stores = EmulatedStores::new(&inner, ObjectsPace::new(profile));
        Arc::new(ObjectsEnv { inner, stores })
    }
}

impl Env for ObjectsEnv {
    fn fs(&self) -> &dyn FileSystem {
        self.inner.fs()
    }

    fn objects(&self) -> &dyn ObjectStores {
        &self.stores
    }

    fn now(&self) -> Duration {
        self.inner.now()
    }

    fn thread_cpu_time(&self) -> Duration {
        self.inner.thread_cpu_time()
    }

    fn wall_time(&self) -> WallTime {
        self.inner.wall_time()
    }

    fn random_u64(&self) -> u64 {
        self.inner.random_u64()
    }

    fn parallelism(&self) -> usize {
        self.inner.parallelism()
    }

    fn spawn(&self, class: JobClass, name: &str, job: Job) -> EnvResult<JobHandle> {
        self.inner.spawn(class, name, job)
    }

    fn yield_now(&self) {
        self.inner.yield_now();
    }

    fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration);
    }

    #[cfg(feature = "fail-points")]
    fn reach(&self, point: &'static str) {
        self.inner.reach(point);
    }

    fn waits(&self) -> WaitFactory {
        self.inner.waits()
    }
}

impl fmt::Debug for ObjectsEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectsEnv")
            .field("profile", self.stores.profile())
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
