use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::WallTime;

use crate::{EnvResult, FileSystem, ObjectStores, WaitFactory};

/// An environment that many rooms share.
pub type SharedEnv = Arc<dyn Env>;

/// What a thread runs.
pub type Job = Box<dyn FnOnce() + Send>;

/// What a thread is for. Real threads carry it in their name, and the background classes run
/// below the priority of the threads that serve clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobClass {
    /// Serves a client or a test; ordinary priority.
    Client,
    /// Prepares log segments and syncs the log; ordinary priority.
    Log,
    /// Writes memtables to L0.
    Flush,
    /// Moves entries down the levels; lowest priority.
    Compaction,
    /// Deletes what nothing needs any more, keeps periods.
    Maintenance,
}

impl JobClass {
    /// The word for this class in the names of threads.
    fn word(self) -> &'static str {
        match self {
            JobClass::Client => "client",
            JobClass::Log => "log",
            JobClass::Flush => "flush",
            JobClass::Compaction => "compaction",
            JobClass::Maintenance => "maintenance",
        }
    }
}

/// The name that a thread shows to the operating system and in reports.
pub(crate) fn thread_name(class: JobClass, name: &str) -> String {
    format!("terrace-{}-{name}", class.word())
}

/// The outside world. All methods may be called from any thread (in a simulation: from any thread
/// of that simulation).
pub trait Env: Send + Sync + fmt::Debug {
    /// The file system.
    fn fs(&self) -> &dyn FileSystem;

    /// The object stores.
    fn objects(&self) -> &dyn ObjectStores;

    /// Time since an arbitrary origin; never goes back.
    fn now(&self) -> Duration;

    /// The processor time that this thread has used. Costs a system call. A simulated thread works
    /// in no time, and has used none.
    fn thread_cpu_time(&self) -> Duration;

    /// The wall clock. May jump; use it for expiry and reports only.
    fn wall_time(&self) -> WallTime;

    /// The next random number.
    fn random_u64(&self) -> u64;

    /// The next two random numbers as one, the first of them above the second: an identity that
    /// nothing else has.
    fn random_u128(&self) -> u128 {
        let high = self.random_u64();
        u128::from(high) << 64 | u128::from(self.random_u64())
    }

    /// How many threads can run at once (at least 1).
    fn parallelism(&self) -> usize;

    /// Starts a thread. Errors: the operating system refuses another thread.
    fn spawn(&self, class: JobClass, name: &str, job: Job) -> EnvResult<JobHandle>;

    /// Lets threads run that wait for this thread's core. Costs a system call, of half a
    /// microsecond if nobody waits. A simulated thread has its core for itself.
    fn yield_now(&self);

    /// Blocks this thread for at least `duration`.
    fn sleep(&self, duration: Duration);

    /// Says that the caller stands at a named point, before or after a durable step. Does nothing,
    /// but for the real environment: there the variable `TERRACE_FAIL_POINT=name:n` kills the
    /// process the n-th time that it gets there. Exists with the feature `fail-points` only.
    #[cfg(feature = "fail-points")]
    fn reach(&self, _point: &'static str) {}

    /// The locks and signals of this environment.
    fn waits(&self) -> WaitFactory;
}

/// A started thread. Dropping the handle lets the thread run on by itself.
pub struct JobHandle {
    join: Box<dyn FnOnce() -> bool + Send>,
}

impl JobHandle {
    /// A handle whose `join` blocks until the thread has ended and says whether it ended without
    /// a panic.
    #[must_use]
    pub fn new(join: Box<dyn FnOnce() -> bool + Send>) -> JobHandle {
        JobHandle { join }
    }

    /// Blocks until the thread has ended; `false` if it panicked.
    #[must_use]
    pub fn join(self) -> bool {
        (self.join)()
    }
}

impl fmt::Debug for JobHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobHandle")
    }
}
