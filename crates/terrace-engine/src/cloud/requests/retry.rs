use std::time::Duration;

/// How often a request is tried again, and after what waits.
///
/// The n-th wait is drawn between half of `first * 2^n` and all of it, and at most `longest`, so
/// that those who failed together do not come back together. No attempt begins later than `total`
/// after the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The first wait, at most.
    pub first: Duration,
    /// The longest one.
    pub longest: Duration,
    /// After this long, a failure is the answer.
    pub total: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            first: Duration::from_millis(50),
            longest: Duration::from_secs(2),
            total: Duration::from_secs(30),
        }
    }
}

impl RetryPolicy {
    /// The wait after `failures` failed attempts, `passed` after the first one began; `None` if
    /// nothing is tried any more. `random` decides what is drawn.
    #[must_use]
    pub(super) fn wait(&self, failures: u32, passed: Duration, random: u64) -> Option<Duration> {
        let doublings = failures.saturating_sub(1).min(30);
        let most = self.first.saturating_mul(1 << doublings).min(self.longest);
        let half = most / 2;
        let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX - 1);
        let wait = half + Duration::from_nanos(random % (nanos + 1));
        (passed.saturating_add(wait) <= self.total).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_end() {
        let policy = RetryPolicy {
            first: Duration::from_millis(100),
            longest: Duration::from_millis(500),
            total: Duration::from_secs(3),
        };
        let bounds = [(1, 50, 100), (2, 100, 200), (3, 200, 400), (4, 250, 500), (99, 250, 500)];
        for (failures, least, most) in bounds {
            for random in [0, 1, 49_999_999, 50_000_000, u64::MAX / 2, u64::MAX] {
                let wait = policy.wait(failures, Duration::ZERO, random).unwrap();
                let (least, most) = (Duration::from_millis(least), Duration::from_millis(most));
                assert!((least..=most).contains(&wait), "{failures} failures: {wait:?}");
            }
        }
        let late = Duration::from_millis(2951);
        assert_eq!(policy.wait(1, late, 0), None, "it would begin too late");
        assert!(policy.wait(1, late - Duration::from_millis(1), 0).is_some());
    }
}
