use std::cell::Cell;
use std::time::Duration;

use super::slow::SlowLog;

/// Of this number of operations of a thread one is timed, whether or not it waits.
pub const SAMPLE_EVERY: u32 = 1024;

thread_local! {
    /// Whose operations this thread counts, and how many are left until one is sampled.
    ///
    /// With another process (of ranges, that is: another simulation) it begins anew, so that what
    /// is sampled depends on nothing that happened before.
    static LEFT: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

impl SlowLog {
    /// Counts an operation of the calling thread, which weighs as much as `weight` gets; whether it
    /// is to be timed.
    #[inline]
    pub(crate) fn is_due(&self, weight: u32) -> bool {
        let (process, left) = LEFT.get();
        if process == self.process() && left > weight {
            LEFT.set((process, left - weight));
            return false;
        }
        self.begin_anew(process)
    }

    #[cold]
    fn begin_anew(&self, process: u64) -> bool {
        LEFT.set((self.process(), SAMPLE_EVERY));
        process == self.process()
    }
}

/// How an iterator is timed while it lives.
#[derive(Debug, Default)]
pub(crate) struct ScanWatch {
    /// Whether all of its work is timed; else what it waits for.
    pub(crate) is_sampled: bool,
    /// How long its calls took, if they are timed.
    pub(crate) busy: Duration,
    /// What they waited for.
    pub(crate) waits: super::waits::WaitTimes,
    /// How many keys it showed.
    pub(crate) shown: u64,
    /// How many it stepped over.
    pub(crate) hidden: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_operation_in_so_many_is_due_in_each_process() {
        for process in [1, 2] {
            let log = SlowLog::new(process);
            let due: Vec<u32> = (1..=3 * SAMPLE_EVERY).filter(|_| log.is_due(1)).collect();
            assert_eq!(due, [SAMPLE_EVERY + 1, 2 * SAMPLE_EVERY + 1]);
        }
        let log = SlowLog::new(3);
        assert_eq!((0..SAMPLE_EVERY).filter(|_| log.is_due(16)).count(), 15);
    }
}
