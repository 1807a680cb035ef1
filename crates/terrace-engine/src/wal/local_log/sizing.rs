//! How large segments are, and how many wait to be used: what is written in a quarter of a second.
//!
//! ```text
//!   64 KiB ─► 256 KiB ─► 1 MiB ─► … ─► the option's size          one step is a factor of 4
//! ```
//! A segment that lasts for a while is prepared in time by a job; one that lasts for longer only
//! takes space. At the option's size two numbers follow the rate instead: how many spares are
//! prepared beforehand, which is one unless segments are small for the rate, and how many files
//! that were released wait to be used again. A flush gives up the segments of a whole memtable at
//! once, and the next memtable uses as many: to delete them and make others costs more than to
//! keep them, and spares that are made beforehand would take the place of those that are kept.

use std::time::Duration;

use terrace_base::LogPosition;

/// Bytes of the smallest segment.
pub(super) const SEGMENT_BYTES_MIN: u64 = 64 << 10;

/// One step from a size to the next.
const STEP: u64 = 4;

/// How many steps the size changes by at once: a rate that was measured for a moment may be wrong.
const STEPS_MAX: u32 = 2;

/// The time for which a segment should last.
const LEAD: Duration = Duration::from_millis(250);

/// The time for which spares of the largest size should last, beside the segment that is written:
/// preparing one takes some milliseconds, or some ten if its pages are brought in.
const PREPARED_LEAD: Duration = Duration::from_millis(30);

/// A file that is used within this time is kept, if segments have the largest size.
const KEPT_LEAD: Duration = Duration::from_secs(1);

/// A rate is not measured over less.
const MEASURED_MIN: Duration = Duration::from_millis(1);

/// How many spares there are at the most, and how many files wait beside one that is ready.
const SPARES_MAX: u64 = 4;

/// What the rate of writes asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Bytes of the next segment.
    pub segment_bytes: u64,
    /// How many segments should be ready to be used.
    pub spare_count: usize,
    /// How many files may wait to be used, spares among them: a file that is released is deleted if
    /// as many wait already.
    pub kept_count: usize,
}

impl Wanted {
    /// What is wanted at first, and of segments below the largest size: one is ready, and one more
    /// waits.
    const SMALL: Wanted =
        Wanted { segment_bytes: SEGMENT_BYTES_MIN, spare_count: 1, kept_count: 2 };
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
        let wanted = Wanted { segment_bytes, ..Wanted::SMALL };
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
        let segments_in = |lead: Duration| {
            let bytes = u128::from(ahead) * lead.as_micros() / LEAD.as_micros();
            let count = bytes.div_ceil(u128::from(segment_bytes.max(1)));
            count.clamp(1, u128::from(SPARES_MAX)) as usize
        };
        self.wanted = match is_largest {
            true => Wanted {
                segment_bytes,
                spare_count: segments_in(PREPARED_LEAD),
                kept_count: segments_in(KEPT_LEAD) + 1,
            },
            false => Wanted { segment_bytes, ..Wanted::SMALL },
        };
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
        assert_eq!(
            sizing.wanted(),
            Wanted { segment_bytes: 64 << 10, spare_count: 1, kept_count: 2 }
        );
        let sizes = |sizing: &mut Sizing, bytes, millis| {
            let mut seen = Vec::new();
            for _ in 0..4 {
                seen.push(after(sizing, bytes, millis).segment_bytes >> 10);
            }
            seen
        };
        assert_eq!(sizes(&mut sizing, MIB, 5), [1024, 8192, 8192, 8192], "200 MB/s");
        assert_eq!(sizes(&mut sizing, MIB, 1000), [1024, 256, 256, 256], "1 MB/s");
        assert_eq!(sizes(&mut sizing, 100, 1000), [64, 64, 64, 64], "hardly any");
    }

    #[test]
    fn released_files_are_kept_for_the_rate_and_one_spare_is_made_beforehand() {
        let largest = |bytes, millis| {
            let mut sizing = Sizing::new(8 * MIB, LogPosition(0), Duration::ZERO);
            for _ in 0..4 {
                after(&mut sizing, bytes, millis);
            }
            assert_eq!(sizing.wanted().segment_bytes, 8 * MIB);
            (sizing.wanted().spare_count, sizing.wanted().kept_count)
        };
        assert_eq!(largest(8 * MIB, 200), (1, 5), "40 MB/s");
        assert_eq!(largest(8 * MIB, 300), (1, 5), "27 MB/s");
        assert_eq!(largest(8 * MIB, 40), (1, 5), "200 MB/s");
        assert_eq!(largest(8 * MIB, 20), (2, 5), "400 MB/s: one lasts for 20 ms");
        assert_eq!(largest(64 * MIB, 20), (4, 5), "3 GB/s: one lasts for 3 ms");
    }

    #[test]
    fn below_the_largest_size_one_file_waits_beside_the_spare() {
        let mut sizing = Sizing::new(8 * MIB, LogPosition(0), Duration::ZERO);
        for _ in 0..4 {
            after(&mut sizing, 8 * MIB, 100);
        }
        for (bytes, millis) in [(MIB, 500), (MIB, 1000), (100, 1000)] {
            let Wanted { segment_bytes, spare_count, kept_count } =
                after(&mut sizing, bytes, millis);
            assert!(segment_bytes < 8 * MIB, "{bytes} bytes in {millis} ms");
            assert_eq!((spare_count, kept_count), (1, 2), "{bytes} bytes in {millis} ms");
        }
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
