use std::sync::atomic::{AtomicU64, Ordering};

/// When somebody looks after something next, as a number that grows with time; the greatest one if
/// nobody will. Whoever wants to look earlier does so as well.
#[derive(Debug)]
pub(super) struct NextLook(AtomicU64);

impl Default for NextLook {
    fn default() -> NextLook {
        NextLook(AtomicU64::new(u64::MAX))
    }
}

impl NextLook {
    /// Notes a look at `at`, which is to come, if that is earlier than the one that is noted.
    pub fn is_earlier(&self, at: u64) -> bool {
        at < self.0.fetch_min(at, Ordering::AcqRel)
    }

    /// The look at `at` begins. One that was noted meanwhile stays noted.
    pub fn begin(&self, at: u64) {
        let _ = self.0.compare_exchange(at, u64::MAX, Ordering::AcqRel, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_look_counts_and_a_later_one_is_not_lost_by_it() {
        let next = NextLook::default();
        assert!(next.is_earlier(50) && !next.is_earlier(50) && !next.is_earlier(70));
        assert!(next.is_earlier(20), "one more, before that");
        next.begin(20);
        assert!(next.is_earlier(60), "nothing is noted");
        next.begin(50);
        assert!(!next.is_earlier(60), "the later one is noted still");
    }
}
