//! The operating system.
//!
//! # Why
//! Linux offers several ways to do each thing the engine asks for, and most of them fail late or
//! wait where it hurts. The choices are made here, once:
//! * Space is reserved before it is used, so that a full disk shows as an error of the call that
//!   asks for space and never as a failed sync.
//! * A log is written through a shared mapping where the file system promises that a write to
//!   reserved space cannot fail: no system call for a record, and the bytes are in the kernel's
//!   pages when the copy ends, so they survive a killed process.
//! * A read that must not wait asks the page cache only (`RWF_NOWAIT`).
//! * A lock dies with its process (`flock`).
//! * Background threads run below the priority of those that serve clients.
//!
//! # Invariants
//! 1. No mapping leaves this module: callers hand in bytes, which are copied.
//! 2. A file whose sync failed answers every later sync with that failure: after it, the kernel
//!    counts the lost pages as clean, and a second sync would succeed without them.
//! 3. A call that was interrupted by a signal is repeated here.
//!
//! Start reading at `log_file.rs` for the log, `files.rs` for the rest.

mod dir_lock;
#[cfg(feature = "fail-points")]
mod fail_point;
mod files;
mod fs;
mod log_file;
mod mapping;
mod objects;
mod pmem;
mod threads;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::rand::{GetRandomFlags, getrandom};
use terrace_base::WallTime;

use self::fs::RealFileSystem;
use self::objects::RealObjectStores;
use crate::{
    Env, EnvError, EnvResult, FileSystem, Job, JobClass, JobHandle, ObjectStores, Operation,
    WaitFactory,
};

/// The environment of the operating system.
pub struct RealEnv {
    fs: RealFileSystem,
    objects: RealObjectStores,
    origin: Instant,
    /// Asked once: it takes several files of the kernel's.
    parallelism: usize,
    #[cfg(feature = "fail-points")]
    fail_point: Option<fail_point::FailPoint>,
}

impl RealEnv {
    /// The environment of this process. Any number of them may exist.
    #[must_use]
    pub fn new() -> Arc<RealEnv> {
        Arc::new(RealEnv {
            fs: RealFileSystem,
            objects: RealObjectStores::default(),
            origin: Instant::now(),
            parallelism: thread::available_parallelism().map_or(1, usize::from),
            #[cfg(feature = "fail-points")]
            fail_point: fail_point::FailPoint::from_environment(),
        })
    }
}

impl Env for RealEnv {
    fn fs(&self) -> &dyn FileSystem {
        &self.fs
    }

    fn objects(&self) -> &dyn ObjectStores {
        &self.objects
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn thread_cpu_time(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        // The kernel's counts are never negative.
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    fn wall_time(&self) -> WallTime {
        // A clock before 1970 is a clock that was not set.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallTime(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn random_u64(&self) -> u64 {
        random_u64()
    }

    fn parallelism(&self) -> usize {
        self.parallelism
    }

    fn spawn(&self, class: JobClass, name: &str, job: Job) -> EnvResult<JobHandle> {
        let handle = threads::spawn(class, name, job)
            .map_err(|error| EnvError::new(Operation::Spawn, Path::new(name), error))?;
        Ok(JobHandle::new(Box::new(move || handle.join().is_ok())))
    }

    fn yield_now(&self) {
        thread::yield_now();
    }

    fn sleep(&self, duration: Duration) {
        thread::sleep(duration);
    }

    fn waits(&self) -> WaitFactory {
        WaitFactory::real()
    }

    #[cfg(feature = "fail-points")]
    fn reach(&self, point: &'static str) {
        if let Some(armed) = &self.fail_point {
            armed.reach(point);
        }
    }
}

/// The next random number of the kernel.
fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    let count = rustix::io::retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty()));
    assert_eq!(count, Ok(bytes.len()), "Linux has random numbers for every process");
    u64::from_ne_bytes(bytes)
}

impl fmt::Debug for RealEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RealEnv")
    }
}

#[cfg(test)]
mod tests;
