use parking_lot::Mutex;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// How many simulations of this process run on each processor.
static IN_USE: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// One processor for all threads of one simulation, while this lives.
///
/// Only one of them runs at a time, so they lose nothing; and a turn that is given to a thread on
/// the same processor is a plain switch, many times cheaper than waking another processor.
pub(super) struct OneCpu {
    cpu: usize,
}

impl OneCpu {
    /// Binds this thread, and so the threads that it will start, to the processor with the fewest
    /// simulations, at best the one it runs on. `None` if the system does not let it.
    pub fn bind() -> Option<OneCpu> {
        let allowed = sched_getaffinity(None).ok()?;
        let current = sched_getcpu();
        let mut in_use = IN_USE.lock();
        in_use.resize(CpuSet::MAX_CPU, 0);
        let cpu = (0..CpuSet::MAX_CPU)
            .filter(|&cpu| allowed.is_set(cpu))
            .min_by_key(|&cpu| (in_use[cpu], cpu != current))?;
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(None, &only).ok()?;
        in_use[cpu] += 1;
        Some(OneCpu { cpu })
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        IN_USE.lock()[self.cpu] -= 1;
    }
}
