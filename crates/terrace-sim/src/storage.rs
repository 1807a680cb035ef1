//! What outlives a process.

use terrace_env::{CrashPolicy, DiskImage, ObjectImage, SimEnv};

/// What the disk of a machine and the object stores hold at one moment.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    /// The disk.
    pub disk: DiskImage,
    /// The object stores.
    pub objects: ObjectImage,
}

impl Storage {
    /// As it is now.
    #[must_use]
    pub fn of(sim: &SimEnv) -> Storage {
        Storage { disk: sim.disk(), objects: sim.object_image() }
    }

    /// After a crash of the machine, which takes nothing from the stores.
    #[must_use]
    pub fn crash(&self, policy: CrashPolicy, seed: u64) -> Storage {
        Storage { disk: self.disk.crash(policy, seed), objects: self.objects.clone() }
    }
}
