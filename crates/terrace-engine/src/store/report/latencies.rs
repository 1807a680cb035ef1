//! How long operations took: of those that are timed from their beginning, one in about
//! [`SAMPLE_EVERY`](crate::explain::SAMPLE_EVERY), so that the others pay nothing.
//!
//! ```text
//!   bucket  0        1 .. 4                 5 .. 8                    four for each power of two
//!   nanos   < 256    256 320 384 448 (512)  512 640 768 896 (1024)    … up to 17 s and beyond
//! ```

use std::time::Duration;

use terrace_env::atomic::{AtomicU64, Ordering};

use crate::explain::OperationKind;
use crate::store::Store;

/// The first bucket ends below this power of two of nanoseconds.
const FIRST: u32 = 8;
/// The last bucket begins at this one.
const LAST: u32 = 34;
/// Buckets for each power of two; a power of two itself.
const PARTS_LOG2: u32 = 2;
const PARTS: usize = 1 << PARTS_LOG2;
const BUCKETS: usize = 2 + (LAST - FIRST) as usize * PARTS;

/// The latencies of each kind of operation.
#[derive(Debug)]
pub struct Latencies([Buckets; 3]);

#[derive(Debug)]
struct Buckets {
    counts: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        let buckets = || Buckets {
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            nanos: AtomicU64::new(0),
        };
        Latencies(std::array::from_fn(|_| buckets()))
    }
}

impl Latencies {
    /// An operation that was timed from its beginning took this long.
    pub fn add(&self, kind: OperationKind, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let buckets = &self.0[kind as usize];
        buckets.counts[bucket_of(nanos)].fetch_add(1, Ordering::Relaxed);
        buckets.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    fn of(&self, kind: OperationKind) -> LatencyHistogram {
        let buckets = &self.0[kind as usize];
        LatencyHistogram {
            counts: buckets.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum: Duration::from_nanos(buckets.nanos.load(Ordering::Relaxed)),
        }
    }
}

fn bucket_of(nanos: u64) -> usize {
    if nanos < 1 << FIRST {
        return 0;
    }
    let power = nanos.ilog2();
    if power >= LAST {
        return BUCKETS - 1;
    }
    let part = (nanos >> (power - PARTS_LOG2)) as usize % PARTS;
    1 + (power - FIRST) as usize * PARTS + part
}

/// Where a bucket ends; none for the last one.
fn end_of(bucket: usize) -> Option<Duration> {
    if bucket == BUCKETS - 1 {
        return None;
    }
    let power = FIRST + (bucket / PARTS) as u32;
    let parts = (PARTS + bucket % PARTS) as u64;
    Some(Duration::from_nanos(parts << (power - PARTS_LOG2)))
}

/// How long operations of one kind took: the samples by their length.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LatencyHistogram {
    counts: Vec<u64>,
    sum: Duration,
}

impl LatencyHistogram {
    /// How many operations were timed: about one in
    /// [`SAMPLE_EVERY`](crate::explain::SAMPLE_EVERY), of iterators sixteen times as many.
    #[must_use]
    pub fn sample_count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of their lengths.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// What this share of them, from 0 to 1, did not exceed, to a fifth; none if there were no
    /// samples. What took more than 17 seconds counts as that.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = (share * self.sample_count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let is_reached = |count: &u64| {
            seen += count;
            seen >= rank
        };
        let bucket = self.counts.iter().position(is_reached)?;
        end_of(bucket).or(end_of(bucket - 1))
    }

    /// How many were shorter than each power of two of nanoseconds from 256 on, ascending.
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let mut below = 0;
        let upto = self.counts.iter().enumerate().map(move |(bucket, count)| {
            below += count;
            (bucket, below)
        });
        let whole = upto.filter(|(bucket, _)| bucket.is_multiple_of(PARTS));
        whole.filter_map(|(bucket, below)| Some((end_of(bucket)?, below)))
    }
}

impl Store {
    /// How long gets, scans or writes took since the open. A scan counts with the time in which
    /// its iterator worked.
    #[must_use]
    pub fn latencies(&self, kind: OperationKind) -> LatencyHistogram {
        self.inner.meters.latencies.of(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_lies_in_the_bucket_that_ends_after_it() {
        let mut lengths = vec![0, 1, 255, 256, 257, 319, 320, 511, 512, 1000, u64::MAX];
        lengths.extend((8..=40).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]));
        for nanos in lengths {
            let bucket = bucket_of(nanos);
            let length = Duration::from_nanos(nanos);
            assert!(end_of(bucket).is_none_or(|end| length < end), "{nanos} in {bucket}");
            let before = bucket.checked_sub(1).and_then(end_of);
            assert!(before.is_none_or(|end| length >= end), "{nanos} in {bucket}");
        }
    }

    #[test]
    fn quantiles_are_right_to_a_fifth() {
        let latencies = Latencies::default();
        assert_eq!(latencies.of(OperationKind::Get).quantile(0.5), None);
        for micros in 1..=1000 {
            latencies.add(OperationKind::Get, Duration::from_micros(micros));
        }
        let got = latencies.of(OperationKind::Get);
        assert_eq!((got.sample_count(), got.sum()), (1000, Duration::from_micros(500_500)));
        for (share, right) in [(0.0, 1), (0.5, 500), (0.99, 990), (1.0, 1000)] {
            let (low, quantile) = (Duration::from_micros(right), got.quantile(share));
            let quantile = quantile.expect("there are samples");
            assert!(quantile >= low && quantile <= low + low / 4, "{share}: {quantile:?}");
        }
        let cumulative: Vec<_> = got.cumulative().collect();
        assert_eq!(cumulative[0], (Duration::from_nanos(256), 0));
        assert_eq!(cumulative[2], (Duration::from_nanos(1024), 1));
        assert_eq!(cumulative.last().map(|(_, count)| *count), Some(1000));
        assert_eq!(latencies.of(OperationKind::Write).sample_count(), 0);
    }
}
