use std::fmt;
use std::time::Duration;

use terrace_base::WallTime;

use super::disk::DiskImage;
use super::io::IoHook;
use super::objects::{ObjectFaults, ObjectImage};
use super::scheduler::Limits;

/// 2030-01-01T00:00:00Z: a moment that no test takes for the present.
const WALL_START_DEFAULT: WallTime = WallTime(1_893_456_000_000);

/// How a simulation runs. Everything in it is part of what a seed replays.
pub struct SimOptions {
    /// Decides everything that is left open.
    pub seed: u64,
    /// The disk at the start; empty by default. Handles and locks of an earlier run are gone.
    pub disk: DiskImage,
    /// What the object stores hold at the start; nothing by default.
    pub objects: ObjectImage,
    /// Another thread gets its turn once in this many ordinary calls: 4 by default. 1 tries it at
    /// every call; 0 switches only where a thread blocks.
    pub switch_one_in: u32,
    /// Whether a thread may also lose its turn where it takes a [`Latch`](crate::Latch) while it
    /// holds none, and at a [`yield_point`](crate::yield_point): no by default. Finds orders of
    /// events that calls of the environment alone do not separate. Means something in builds with
    /// debug assertions only; without them a latch costs nothing more.
    pub switch_at_latches: bool,
    /// A read that must not wait finds nothing once in this many times: 4 by default, never for 0.
    pub try_read_miss_one_in: u32,
    /// Each call of the file system takes up to this much virtual time; none by default.
    pub io_delay_max: Duration,
    /// Each request to an object store takes up to this much virtual time; none by default.
    pub object_delay_max: Duration,
    /// What each part of an object but the last one has at least, if it comes in parts: 5 MiB by
    /// default, as in the real ones.
    pub object_part_bytes_min: u64,
    /// How often a request to an object store goes wrong; never by default.
    pub object_faults: ObjectFaults,
    /// The disk lies: once in this many times a sync of a file or a directory says that it was done
    /// and does nothing. Never for 0, the default.
    pub sync_lie_one_in: u32,
    /// What [`LogFile::is_mapped`](crate::LogFile::is_mapped) says: true by default.
    pub mapped_logs: bool,
    /// Whether the caches of the processor survive a power cut (eADR), so that a store to
    /// persistent memory is durable at once: no by default (ADR).
    pub pmem_keeps_stores: bool,
    /// What [`Env::parallelism`](crate::Env::parallelism) says: 2 by default.
    pub parallelism: usize,
    /// The wall clock at the start.
    pub wall_start: WallTime,
    /// A run that makes more calls than this has failed: 20 million by default.
    pub steps_max: u64,
    /// A run has failed in which a thread still runs when this much virtual time has passed since
    /// the main one ended: a minute by default.
    pub linger_max: Duration,
    /// Whether to keep the trace as text too; see [`SimEnv::trace`](super::SimEnv::trace).
    pub with_trace: bool,
    /// Called before each change of the disk, or of what an object store holds.
    pub on_io: Option<IoHook>,
    /// Bugs that are planted in what runs here; none by default.
    #[cfg(feature = "planted-bugs")]
    pub planted: Vec<crate::PlantedBug>,
}

impl SimOptions {
    /// The defaults with this seed.
    #[must_use]
    pub fn new(seed: u64) -> SimOptions {
        SimOptions {
            seed,
            disk: DiskImage::new(),
            objects: ObjectImage::new(),
            switch_one_in: 4,
            switch_at_latches: false,
            try_read_miss_one_in: 4,
            io_delay_max: Duration::ZERO,
            object_delay_max: Duration::ZERO,
            object_part_bytes_min: 5 << 20,
            object_faults: ObjectFaults::default(),
            sync_lie_one_in: 0,
            mapped_logs: true,
            pmem_keeps_stores: false,
            parallelism: 2,
            wall_start: WALL_START_DEFAULT,
            steps_max: 20_000_000,
            linger_max: Duration::from_secs(60),
            with_trace: false,
            on_io: None,
            #[cfg(feature = "planted-bugs")]
            planted: Vec::new(),
        }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            switch_one_in: self.switch_one_in,
            switch_at_latches: self.switch_at_latches,
            steps_max: self.steps_max,
            linger_max: self.linger_max,
            #[cfg(feature = "planted-bugs")]
            planted: self.planted.iter().fold(0, |planted, bug| planted | 1 << *bug as u8),
        }
    }
}

impl Default for SimOptions {
    fn default() -> SimOptions {
        SimOptions::new(0)
    }
}

impl fmt::Debug for SimOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimOptions").field("seed", &self.seed).finish_non_exhaustive()
    }
}
