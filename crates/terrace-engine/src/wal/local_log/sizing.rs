//! How large segments are, and how many wait to be used: what is written in a quarter of a second.
//!
//! ```text
//!   64 KiB ─► 256 KiB ─► 1 MiB ─► … ─► the option's size          one step is a factor of 4
//! ```
//! A segment that lasts for a while is prepared in time by a job; one that lasts for longer only
//! takes space. At the option's size the number of spares follows the rate instead.

use std::time::Duration;

use terrace_base::LogPosition;

/// Bytes of the smallest segment.
pub(super) const SEGMENT_BYTES_MIN: u64 = 64 << 10;

/// One step from a size to the next.
const STEP: u64 = 4;

/// How many steps the size changes by at once: a rate that was measured for a moment may be wrong.
const STEPS_MAX: u32 = 2;

/// The time for which what is ready should last.
const LEAD: Duration = Duration::from_millis(250);

/// A rate is not measured over less.
const MEASURED_MIN: Duration = Duration::from_millis(1);

/// How many spares there are at the most.
const SPARES_MAX: u64 = 4;

/// What the rate of writes asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Bytes of the next segment.
    pub segment_bytes: u64,
    /// How many segments should wait to be used.
    pub spare_count: usize,
}

/// The policy, and what it has seen so far.
#[derive(Debug)]
pub(super) struct Sizing {
    segment_bytes_max: u64,
    wanted: Wanted,
    /// Where the log ended when its rate was measured last, and when that was.
    end: LogPosition,
    at: Duration,
}

impl Sizing {
    /// Begins with the smallest segment.
    pub fn new(segment_bytes_max: u64, end: LogPosition, now: Duration) -> Sizing {
        let segment_bytes = SEGMENT_BYTES_MIN.min(segment_bytes_max);
        let wanted = Wanted { segment_bytes, spare_count: 1 };
        Sizing { segment_bytes_max, wanted, end, at: now }
    }

    pub fn wanted(&self) -> Wanted {
        self.wanted
    }

    /// The log ends at `end` now: measures how fast it grows, if it grew by much, or time went by.
    pub fn measure(&mut self, end: LogPosition, now: Duration) -> Wanted {
        let grown = end.0.saturating_sub(self.end.0);
        let took = now.saturating_sub(self.at);
        if grown < self.wanted.segment_bytes / 2 && took < LEAD {
            return self.wanted;
        }
        (self.end, self.at) = (end, now);
        let took = took.max(MEASURED_MIN);
        let ahead = u128::from(grown) * LEAD.as_micros() / took.as_micros();
        let ahead = u64::try_from(ahead).unwrap_or(u64::MAX);
        let segment_bytes = self.size_for(ahead);
        let is_largest = segment_bytes == self.segment_bytes_max;
        let spares = ahead.div_ceil(segment_bytes.max(1)).clamp(1, SPARES_MAX);
        let spare_count = if is_largest { spares as usize } else { 1 };
        self.wanted = Wanted { segment_bytes, spare_count };
        self.wanted
    }

    /// Nothing was written for a while.
    pub fn rest(&mut self, end: LogPosition, now: Duration) {
        *self = Sizing::new(self.segment_bytes_max, end, now);
    }

    /// The smallest size that holds `bytes`, not too far from the present one.
    fn size_for(&self, bytes: u64) -> u64 {
        let far = STEP.pow(STEPS_MAX);
        let now = self.wanted.segment_bytes;
        let mut size = SEGMENT_BYTES_MIN.min(self.segment_bytes_max);
        while size < self.segment_bytes_max && (size < bytes || size < now / far) {
            size = (size * STEP).min(self.segment_bytes_max);
            if size >= now.saturating_mul(far) {
                break;
            }
        }
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn after(sizing: &mut Sizing, bytes: u64, millis: u64) -> Wanted {
        let (end, at) = (sizing.end.0 + bytes, sizing.at + Duration::from_millis(millis));
        sizing.measure(LogPosition(end), at)
    }

    #[test]
    fn segments_grow_with_the_rate_of_writes_and_shrink_with_it() {
        let mut sizing = Sizing::new(8 * MIB, LogPosition(7), Duration::from_secs(1));
        assert_eq!(sizing.wanted(), Wanted { segment_bytes: 64 << 10, spare_count: 1 });
        let sizes = |sizing: &mut Sizing, bytes, millis| {
            let mut seen = Vec::new();
            for _ in 0..4 {
                seen.push(after(sizing, bytes, millis).segment_bytes >> 10);
            }
            seen
        };
        assert_eq!(sizes(&mut sizing, MIB, 5), [1024, 8192, 8192, 8192], "200 MB/s");
        assert_eq!(sizing.wanted().spare_count, 4, "200 MB/s");
        assert_eq!(after(&mut sizing, 8 * MIB, 100).spare_count, 3, "80 MB/s");
        assert_eq!(sizes(&mut sizing, MIB, 1000), [1024, 256, 256, 256], "1 MB/s");
        assert_eq!(sizes(&mut sizing, 100, 1000), [64, 64, 64, 64], "hardly any");
    }

    #[test]
    fn a_moment_in_which_little_was_written_changes_nothing() {
        let mut sizing = Sizing::new(8 * MIB, LogPosition(0), Duration::ZERO);
        after(&mut sizing, MIB, 5);
        let before = sizing.wanted();
        assert_eq!(after(&mut sizing, 0, 0), before);
        assert_eq!(after(&mut sizing, 100, 1), before);
    }

    #[test]
    fn a_log_of_small_segments_has_small_ones_at_any_rate() {
        for bytes in [4 << 10, 16 << 10, 64 << 10] {
            let mut sizing = Sizing::new(bytes, LogPosition(0), Duration::ZERO);
            assert_eq!(sizing.wanted().segment_bytes, bytes);
            assert_eq!(after(&mut sizing, 1 << 30, 0).segment_bytes, bytes);
            assert_eq!(after(&mut sizing, 0, 10_000).segment_bytes, bytes);
        }
    }
}
