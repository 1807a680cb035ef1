//! How many bytes cuts read: what a cut costs, and so how long one takes at most.

use std::collections::VecDeque;

use terrace_env::Latch;

/// The median is that of this number of cuts, the last ones.
const REMEMBERED: usize = 1024;

/// What was read for cuts since the open. Any thread may add; a short latch, once a cut.
#[derive(Debug, Default)]
pub(super) struct CutCounters(Latch<Counted>);

#[derive(Debug, Default)]
struct Counted {
    stats: CutStats,
    /// Bytes of the last cuts.
    last: VecDeque<u64>,
}

/// What was read for cuts out of L0 since the open, in bytes of entries as they lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CutStats {
    /// Number of cuts that were installed.
    pub count: u64,
    /// Bytes read out of L0.
    pub l0_bytes: u64,
    /// Bytes read out of tables below L0.
    pub below_bytes: u64,
    /// Bytes read for the smallest cut, out of L0 and below; 0 before the first cut.
    pub bytes_min: u64,
    /// Median size of the last 1,024 cuts, in bytes.
    pub bytes_median: u64,
    /// Bytes read for the largest cut, out of L0 and below.
    pub bytes_max: u64,
}

impl CutCounters {
    pub(in crate::store) fn add(&self, l0_bytes: u64, below_bytes: u64) {
        let bytes = l0_bytes + below_bytes;
        let mut counted = self.0.lock();
        let stats = &mut counted.stats;
        stats.bytes_min = if stats.count == 0 { bytes } else { stats.bytes_min.min(bytes) };
        stats.bytes_max = stats.bytes_max.max(bytes);
        stats.count += 1;
        stats.l0_bytes += l0_bytes;
        stats.below_bytes += below_bytes;
        if counted.last.len() == REMEMBERED {
            counted.last.pop_front();
        }
        counted.last.push_back(bytes);
    }

    pub(in crate::store) fn stats(&self) -> CutStats {
        let (stats, mut last) = {
            let counted = self.0.lock();
            (counted.stats, counted.last.iter().copied().collect::<Vec<_>>())
        };
        if last.is_empty() {
            return stats;
        }
        let middle = (last.len() - 1) / 2;
        CutStats { bytes_median: *last.select_nth_unstable(middle).1, ..stats }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_median_and_greatest_are_told_apart() {
        let counters = CutCounters::default();
        assert_eq!(counters.stats(), CutStats::default());
        for (l0_bytes, below_bytes) in [(5, 5), (1, 2), (100, 0), (7, 4)] {
            counters.add(l0_bytes, below_bytes);
        }
        let stats = counters.stats();
        assert_eq!((stats.count, stats.l0_bytes, stats.below_bytes), (4, 113, 11));
        assert_eq!((stats.bytes_min, stats.bytes_median, stats.bytes_max), (3, 10, 100));
        for _ in 0..REMEMBERED {
            counters.add(40, 2);
        }
        let stats = counters.stats();
        assert_eq!((stats.bytes_min, stats.bytes_median, stats.bytes_max), (3, 42, 100));
    }
}
