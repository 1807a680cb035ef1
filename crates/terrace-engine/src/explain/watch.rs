use std::cell::Cell;
use std::time::Duration;

use super::slow::SlowLog;

/// Of about this number of operations of a thread one is timed, whether or not it waits. How many
/// lie between two is drawn anew each time: else of operations that take turns one kind would be
/// timed always, and the others never.
pub const SAMPLE_EVERY: u32 = 1024;

thread_local! {
    /// Whose operations this thread counts, and how many are left until one is sampled.
    ///
    /// With another process (of ranges, that is: another simulation) it begins anew, so that what
    /// is sampled depends on nothing that happened before.
    static LEFT: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
    /// What the next number is drawn from.
    static DRAWN: Cell<u64> = const { Cell::new(0) };
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
        let is_new = process != self.process();
        let before = if is_new { 0 } else { DRAWN.get() };
        let drawn =
            before.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        DRAWN.set(drawn);
        // From half of it to one and a half, and so as many on average.
        let left = SAMPLE_EVERY / 2 + (drawn >> 33) as u32 % (SAMPLE_EVERY + 1);
        LEFT.set((self.process(), left));
        !is_new
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
    /// The key that it came to by its last seek, if it is timed.
    pub(crate) place: Option<Box<[u8]>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_operation_in_so_many_is_due_in_each_process() {
        let count = |process| {
            let log = SlowLog::new(process);
            (0..1000 * SAMPLE_EVERY).map(|_| log.is_due(1)).collect::<Vec<bool>>()
        };
        let due = |drawn: &[bool]| drawn.iter().filter(|is_due| **is_due).count();
        let first = count(1);
        assert!((950..=1050).contains(&due(&first)), "{}", due(&first));
        assert_eq!(count(2), first, "what is sampled depends on nothing that happened before");
        let log = SlowLog::new(3);
        let heavy: Vec<bool> = (0..100 * SAMPLE_EVERY).map(|_| log.is_due(16)).collect();
        assert!((1450..=1750).contains(&due(&heavy)), "{}", due(&heavy));
    }

    /// A get, a put, a get, a put: each of them is due as often as the other.
    #[test]
    fn operations_that_take_turns_are_due_alike() {
        let log = SlowLog::new(4);
        for turns in [2, 3, 4, 16] {
            let mut due = vec![0; turns];
            for operation in 0..1000 * SAMPLE_EVERY as usize {
                due[operation % turns] += u32::from(log.is_due(1));
            }
            let fair = 1000 / turns as u32;
            assert!(due.iter().all(|count| count.abs_diff(fair) < fair / 2 + 5), "{due:?}");
        }
    }
}
