//! The clock that paced writers share.
//!
//! A write that costs time takes the next piece of this clock for itself and waits for the end of
//! its piece. What is too short to be slept is not slept: the clock stands a little ahead of the
//! time then, and the next ones start from there, until somebody stands so far ahead that a sleep
//! can keep it. So nothing is lost, and each pays for itself.
//!
//! ```text
//!                   now                      ◄ piece of D ►
//!  time  ───────────┼──────┬──────┬──────┬───────────────┬──────
//!            A, B and C:   A      B      C               D     the clock after each
//!            less than SLEEP_MIN ahead: go on            sleeps until here
//! ```
//!
//! Whoever is woken too late has gone ahead of nobody: up to [`LATE_MAX`] the clock may stand
//! behind the time, and is caught up with for free.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::nanos;

/// No clock sleeps for less with any accuracy.
pub const SLEEP_MIN: Duration = Duration::from_micros(100);

/// How far behind the time the clock may stand: what late wake-ups took too much.
const LATE_MAX: Duration = Duration::from_millis(1);

/// How far ahead of the time the clock may stand: what more is owed than this is forgiven, and the
/// stop is what is left.
const AHEAD_MAX: Duration = Duration::from_secs(1);

/// Up to here a write is small: its delay has the bound as it is. A larger one is as many small
/// ones.
const SMALL_WRITE_BYTES: usize = 64 << 10;

/// The shared clock of paced writers, in nanoseconds of the environment's time.
#[derive(Debug, Default)]
pub struct Pacer {
    end: AtomicU64,
}

/// What a write has to pay.
#[derive(Clone, Copy, Debug)]
pub struct Price {
    /// Bytes of the write.
    pub bytes: usize,
    /// The time that a KiB costs.
    pub nanos_per_kib: u64,
    /// The longest delay of a small write.
    pub delay_max: Duration,
}

impl Price {
    fn cost(self) -> u64 {
        let nanos = u128::from(self.nanos_per_kib) * self.bytes as u128 / 1024;
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// The longest delay that this write is given.
    fn bound(self) -> u64 {
        nanos(self.delay_max).saturating_mul(self.bytes.div_ceil(SMALL_WRITE_BYTES).max(1) as u64)
    }
}

impl Pacer {
    /// Takes the time that a write costs, and says how long to sleep for it. `None` if it would
    /// have to sleep and `wait` is off: nothing is taken then.
    #[must_use]
    pub fn take(&self, now: Duration, price: Price, wait: bool) -> Option<Duration> {
        let now = nanos(now);
        let cost = price.cost();
        let mut sleep = Some(Duration::ZERO);
        // Order: relaxed, since the clock orders nothing but itself.
        let _ = self.end.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| {
            let start = before.max(now.saturating_sub(nanos(LATE_MAX)));
            let end = start.saturating_add(cost);
            let delay = Duration::from_nanos(end.saturating_sub(now).min(price.bound()));
            sleep = match delay >= SLEEP_MIN {
                true => wait.then_some(delay),
                false => Some(Duration::ZERO),
            };
            sleep?;
            Some(end.min(before.max(now.saturating_add(nanos(AHEAD_MAX)))))
        });
        sleep
    }
}

#[cfg(test)]
mod tests {
    //! Goal: no delay is lost, none is slept that is too short, none goes over the bound, and each
    //! pays for itself. Method: writers on a clock of the test's own.

    use super::*;

    const MAX: Duration = Duration::from_millis(10);

    fn price(bytes: usize, nanos_per_kib: u64) -> Price {
        Price { bytes, nanos_per_kib, delay_max: MAX }
    }

    #[test]
    fn short_delays_are_saved_up_and_none_is_lost() {
        let pacer = Pacer::default();
        let start = Duration::from_secs(100);
        let mut now = start;
        let mut sleeps = 0;
        for _ in 0..10_000 {
            // 3 us each, for a writer that needs 1 us for its work.
            let slept = pacer.take(now, price(1024, 3_000), true).unwrap();
            assert!(slept.is_zero() || slept >= SLEEP_MIN, "{slept:?}");
            sleeps += u32::from(!slept.is_zero());
            now += slept + Duration::from_micros(1);
        }
        let (took, owed) = (now - start, Duration::from_millis(30));
        assert!(took + LATE_MAX + SLEEP_MIN >= owed, "{took:?}");
        assert!(took <= owed + SLEEP_MIN, "{took:?}");
        assert!(sleeps < 500, "{sleeps} sleeps");
    }

    #[test]
    fn a_late_wake_up_is_made_good() {
        let pacer = Pacer::default();
        let start = Duration::from_secs(1);
        let mut now = start;
        for _ in 0..1000 {
            let slept = pacer.take(now, price(1024, 200_000), true).unwrap();
            if !slept.is_zero() {
                now += slept + Duration::from_micros(60);
            }
        }
        let took = now - start;
        assert!(took <= Duration::from_millis(200) + SLEEP_MIN, "{took:?}");
        assert!(took >= Duration::from_millis(198), "{took:?}");
    }

    #[test]
    fn writers_at_the_same_moment_pay_each_for_itself_up_to_the_bound() {
        let pacer = Pacer::default();
        let now = Duration::from_secs(5);
        let delays: Vec<_> =
            (0..64).map(|_| pacer.take(now, price(1024, 1_000_000), true).unwrap()).collect();
        assert!(delays.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(delays[0] <= Duration::from_millis(1), "the first one pays for nobody else");
        assert_eq!(delays[63], MAX, "the bound holds");
    }

    #[test]
    fn a_large_write_pays_for_itself_and_not_the_next_one_for_it() {
        let pacer = Pacer::default();
        let now = Duration::from_secs(5);
        let large = pacer.take(now, price(1 << 20, 100_000), true).unwrap();
        assert!(large > Duration::from_millis(100), "{large:?}");
        let small = pacer.take(now, price(100, 100_000), true).unwrap();
        assert_eq!(small, MAX);
        let later = now + large + Duration::from_millis(1);
        assert_eq!(pacer.take(later, price(100, 100_000), true), Some(Duration::ZERO));
    }

    #[test]
    fn whoever_may_not_wait_is_refused_and_pays_nothing() {
        let pacer = Pacer::default();
        let now = Duration::from_secs(5);
        assert_eq!(pacer.take(now, price(10 << 10, 1_000_000), false), None);
        assert_eq!(pacer.take(now, price(100, 1_000), false), Some(Duration::ZERO));
        let slept = pacer.take(now, price(10 << 10, 1_000_000), true).unwrap();
        assert!(slept <= Duration::from_millis(10), "{slept:?}");
    }
}
