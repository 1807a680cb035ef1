//! How fast background work pays off, measured while it does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::nanos;

/// Work that begins within this time after the end of the work before it had been waiting for it.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Nothing is taken for faster than 2 GiB/s or slower than 1 MiB/s: a measurement that says so
/// caught something else than the work.
const NANOS_PER_KIB: std::ops::RangeInclusive<u64> = 477..=1_000_000;

/// The time in which a KiB drains, as a moving mean over some pieces of work.
#[derive(Debug)]
pub struct Drain {
    nanos_per_kib: AtomicU64,
    /// When the last piece of work ended, in nanoseconds.
    ended: AtomicU64,
}

impl Drain {
    /// What is assumed until something was measured.
    #[must_use]
    pub fn new(nanos_per_kib: u64) -> Drain {
        Drain { nanos_per_kib: AtomicU64::new(nanos_per_kib), ended: AtomicU64::new(0) }
    }

    /// The time in which a KiB drains now.
    #[must_use]
    pub fn nanos_per_kib(&self) -> u64 {
        self.nanos_per_kib.load(Ordering::Relaxed)
    }

    /// Work from `began` to `now` paid off `bytes`. One caller at a time; of two at once, one
    /// measurement may be lost.
    pub fn note(&self, began: Duration, now: Duration, bytes: u64) {
        let before = Duration::from_nanos(self.ended.swap(nanos(now), Ordering::Relaxed));
        if bytes < 1024 {
            return;
        }
        // Order of the two ends: work that ran beside other work counts from the end of that.
        let waited = began <= before + PAUSE_MAX && before <= now;
        let took = nanos(now.saturating_sub(if waited { before } else { began }));
        let measured = took / (bytes / 1024);
        // What was assumed counts for nothing against what was measured.
        let is_first = before.is_zero();
        let mean = smoothed((!is_first).then(|| self.nanos_per_kib()), measured);
        self.nanos_per_kib.store(mean, Ordering::Relaxed);
    }
}

/// The moving mean after one more measurement.
fn smoothed(mean: Option<u64>, measured: u64) -> u64 {
    let measured = measured.clamp(*NANOS_PER_KIB.start(), *NANOS_PER_KIB.end());
    mean.map_or(measured, |mean| (3 * mean + measured) / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_the_work_and_leaves_pauses_out() {
        let drain = Drain::new(10_000);
        let ms = Duration::from_millis;
        let mut now = ms(1_000_000);
        for _ in 0..20 {
            // 1 MiB in 100 ms, with a long pause before each.
            now += ms(5_000);
            drain.note(now, now + ms(100), 1 << 20);
            now += ms(100);
        }
        assert!((97_000..98_000).contains(&drain.nanos_per_kib()), "{drain:?}");
        for _ in 0..20 {
            // The same with 100 ms of waiting for a thread before each.
            drain.note(now + ms(100), now + ms(200), 1 << 20);
            now += ms(200);
        }
        assert!((194_000..196_000).contains(&drain.nanos_per_kib()), "{drain:?}");
    }

    #[test]
    fn nonsense_moves_the_mean_only_so_far() {
        assert_eq!(smoothed(Some(8_000), 0), 6_119);
        assert_eq!(smoothed(Some(8_000), u64::MAX), 256_000);
        assert_eq!(smoothed(None, 5_000), 5_000, "the first one is all that is known");
        let drain = Drain::new(8_000);
        drain.note(Duration::ZERO, Duration::from_secs(9), 10);
        assert_eq!(drain.nanos_per_kib(), 8_000, "nothing was drained");
    }
}
