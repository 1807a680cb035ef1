//! An environment with a slower disk than the machine has.
//!
//! # Why
//! What a store does on a disk that is the bottleneck can only be measured where it is. So the
//! calls of the file system take as long as on a device with a given bandwidth and a given number
//! of operations in a second. What is measured with it is said to be emulated.
//!
//! # How
//! ```text
//!                      bytes / bandwidth      1 / iops
//!   reads   ──────►  ├── lane of reads  ──┤ ├         ├
//!   writes  ──────►  ├── lane of writes ──┤ ├  lane   ├   each lane: a token bucket, kept as the
//!   syncs   ──────►                         ├ of ops  ├   moment at which it will be full again
//! ```
//! * A read waits until the device has done it. Every read goes to the device: there is no page
//!   cache. One that must not wait ([`ReadFile::try_read_at`]) is done if the lanes are idle.
//! * A write goes into the system's pages: it waits only for the device to be at most a tenth of a
//!   second behind (the bucket's depth), as a kernel makes writers wait that dirty pages too fast.
//!   A mapped log is no exception: its pages have to be written too.
//! * A sync waits until everything that was written before is on the device.
//! * A fence of persistent memory that is the kernel's pages of a file writes the flushed ones, and
//!   waits as a sync does. Other persistent memory is as fast as it is.
//!
//! Other calls, those on names, cost an operation. Nothing is ever faster than in the inner
//! environment.
//!
//! # Invariants
//! 1. Over any stretch of time no more bytes, and no more operations, pass than the bounds allow
//!    for it and for one bucket more.
//! 2. All waits are the inner environment's, so that a simulation sees them.

mod files;
mod profile;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use terrace_base::WallTime;

use self::files::DiskFileSystem;
pub use self::profile::DiskProfile;
use crate::{
    Env, EnvResult, FileSystem, Job, JobClass, JobHandle, ObjectStores, SharedEnv, WaitFactory,
};

/// How far writes may run ahead of the device.
const AHEAD_MAX: Duration = Duration::from_millis(100);

/// Another environment, whose disk is emulated; see the module.
pub struct DiskEnv {
    device: Arc<Device>,
    fs: DiskFileSystem,
}

/// The device.
struct Device {
    inner: SharedEnv,
    profile: DiskProfile,
    /// What lies below them is elsewhere.
    media: Vec<PathBuf>,
    /// Never held while the inner environment is called.
    lanes: Mutex<Lanes>,
}

/// When each lane has done what it was given.
#[derive(Clone, Copy, Debug, Default)]
struct Lanes {
    reads: Duration,
    writes: Duration,
    operations: Duration,
}

/// The time that `amount` takes.
fn time_of(amount: u64, per_s: Option<u64>) -> Duration {
    match per_s {
        Some(per_s) => Duration::from_nanos(
            u64::try_from(u128::from(amount) * 1_000_000_000 / u128::from(per_s))
                .unwrap_or(u64::MAX),
        ),
        None => Duration::ZERO,
    }
}

/// Gives a lane work that takes `time`; when that is done.
fn give(lane: &mut Duration, now: Duration, time: Duration) -> Duration {
    *lane = (*lane).max(now) + time;
    *lane
}

impl DiskEnv {
    /// `inner`, on a disk of this profile.
    #[must_use]
    pub fn new(inner: SharedEnv, profile: DiskProfile) -> Arc<DiskEnv> {
        DiskEnv::beside(inner, profile, Vec::new())
    }

    /// As [`DiskEnv::new`], but files below `media` are on other devices, which are as fast as they
    /// are: the memory of an L0, or of a log, above the disk.
    #[must_use]
    pub fn beside(inner: SharedEnv, profile: DiskProfile, media: Vec<PathBuf>) -> Arc<DiskEnv> {
        let lanes = Mutex::new(Lanes::default());
        let device = Arc::new(Device { inner, profile, media, lanes });
        Arc::new(DiskEnv { fs: DiskFileSystem::new(Arc::clone(&device)), device })
    }
}

impl Device {
    /// Whether a file is on another device.
    fn is_elsewhere(&self, path: &Path) -> bool {
        self.media.iter().any(|medium| path.starts_with(medium))
    }

    /// Waits until `until`.
    fn wait(&self, until: Duration, now: Duration) {
        if until > now {
            self.inner.sleep(until - now);
        }
    }

    /// One operation without bytes.
    fn operation(&self) {
        let now = self.inner.now();
        let time = time_of(1, self.profile.iops);
        let done = give(&mut self.lanes.lock().operations, now, time);
        self.wait(done, now);
    }

    /// A read of `bytes` bytes; returns when the device has done it.
    fn read(&self, bytes: usize) {
        let now = self.inner.now();
        let done = self.give_read(bytes, now, &mut self.lanes.lock());
        self.wait(done, now);
    }

    fn give_read(&self, bytes: usize, now: Duration, lanes: &mut Lanes) -> Duration {
        let time = time_of(bytes as u64, self.profile.read_bytes_per_s);
        let read = give(&mut lanes.reads, now, time);
        read.max(give(&mut lanes.operations, now, time_of(1, self.profile.iops)))
    }

    /// Takes a read that must not wait, if the device is idle.
    fn try_read(&self, bytes: usize) -> bool {
        let now = self.inner.now();
        let mut lanes = self.lanes.lock();
        let is_idle = lanes.reads <= now && lanes.operations <= now;
        if is_idle {
            // It is not waited for, so that the next one has to.
            self.give_read(bytes, now, &mut lanes);
        }
        is_idle
    }

    /// Bytes on their way to the device. `operations`: how many, for a log that is written page by
    /// page none before its sync.
    fn write(&self, bytes: usize, operations: u64) {
        let now = self.inner.now();
        let done = {
            let mut lanes = self.lanes.lock();
            let time = time_of(bytes as u64, self.profile.write_bytes_per_s);
            let written = give(&mut lanes.writes, now, time);
            let time = time_of(operations, self.profile.iops);
            written.max(give(&mut lanes.operations, now, time))
        };
        self.wait(done.saturating_sub(AHEAD_MAX), now);
    }

    /// Returns when a few pages are on the device: those that wait behind them may stay.
    fn sync_some(&self) {
        self.operation();
    }

    /// Returns when everything that was written is on the device.
    fn sync(&self) {
        let now = self.inner.now();
        let done = {
            let mut lanes = self.lanes.lock();
            let time = time_of(1, self.profile.iops);
            let written = lanes.writes;
            written.max(give(&mut lanes.operations, now, time))
        };
        self.wait(done, now);
    }
}

impl Env for DiskEnv {
    fn fs(&self) -> &dyn FileSystem {
        &self.fs
    }

    fn objects(&self) -> &dyn ObjectStores {
        self.device.inner.objects()
    }

    fn now(&self) -> Duration {
        self.device.inner.now()
    }

    fn thread_cpu_time(&self) -> Duration {
        self.device.inner.thread_cpu_time()
    }

    fn wall_time(&self) -> WallTime {
        self.device.inner.wall_time()
    }

    fn random_u64(&self) -> u64 {
        self.device.inner.random_u64()
    }

    fn parallelism(&self) -> usize {
        self.device.inner.parallelism()
    }

    fn spawn(&self, class: JobClass, name: &str, job: Job) -> EnvResult<JobHandle> {
        self.device.inner.spawn(class, name, job)
    }

    fn yield_now(&self) {
        self.device.inner.yield_now();
    }

    fn sleep(&self, duration: Duration) {
        self.device.inner.sleep(duration);
    }

    #[cfg(feature = "fail-points")]
    fn reach(&self, point: &'static str) {
        self.device.inner.reach(point);
    }

    fn waits(&self) -> WaitFactory {
        self.device.inner.waits()
    }
}

impl fmt::Debug for DiskEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskEnv")
            .field("profile", &self.device.profile)
            .field("inner", &self.device.inner)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
