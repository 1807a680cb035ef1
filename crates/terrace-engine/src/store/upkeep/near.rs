//! How much of the local disk the persistent cache may take: what everything else leaves of the
//! local bytes.
//!
//! ```text
//!   ├── log ──┤├── L0 ──┤├── levels ──┤├─ jobs ─┤          │ cache │ spare │
//!   ├───────────────── as it is now ────────────┤          │       │       │
//!   ├──────────────── the most it was lately ──────────────┤       local bytes
//! ```
//! The log, L0 and what jobs write come and go within seconds. A cache that followed them would
//! lose its blocks each time. So it leaves room for the most that they took lately, which is
//! forgotten little by little.

use std::time::Duration;

use crate::store::Inner;

/// What lay beyond the present use is forgotten by about two thirds in this time.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// One in so many of the local bytes stays free: what lies on the disk differs a little from what
/// is counted.
const SPARE_DIVISOR: u64 = 20;

/// The cache grows by so many percent of the local bytes at least.
const GROWS_BY_PERCENT: u64 = 3;

/// The most that everything but the cache took lately.
#[derive(Debug, Default)]
pub struct LocalPeak {
    bytes: u64,
    noted: Duration,
}

impl LocalPeak {
    /// So much is taken now; the most that was taken lately.
    fn note(&mut self, bytes: u64, now: Duration) -> u64 {
        let passed = now.saturating_sub(self.noted).min(FORGOTTEN_AFTER).as_millis();
        let beyond = u128::from(self.bytes.saturating_sub(bytes));
        let forgotten = beyond * passed / FORGOTTEN_AFTER.as_millis();
        // Less than what lay beyond, which is no more than 64 bits have room for.
        self.bytes = bytes + (beyond - forgotten) as u64;
        self.noted = now;
        self.bytes
    }
}

/// The bytes for the cache, which may take `now`, if everything else has taken up to `peak`.
fn wanted_bytes(local_bytes: u64, peak: u64, most: u64, now: u64) -> u64 {
    let left = local_bytes - local_bytes / SPARE_DIVISOR;
    let wanted = left.saturating_sub(peak).min(most);
    let grows = wanted > now && wanted - now < local_bytes / 100 * GROWS_BY_PERCENT;
    if grows && wanted < most { now } else { wanted }
}

impl Inner {
    /// Gives the cache what it may take, and takes back what others need.
    pub(in crate::store) fn size_cache(&self) {
        let Some(near) = self.context.opener.far.near() else { return };
        let Some(options) = self.cloud.as_ref().and_then(|tier| tier.options()) else { return };
        let most = options.near_bytes_max().unwrap_or(0);
        let Some(local) = self.local_space(&self.view.load()) else { return };
        let now = near.data.bytes_max();
        let time = self.env.now();
        let peak = self.jobs.local_peak.lock().note(local.bytes, time);
        let wanted = wanted_bytes(local.bytes_max, peak, most, now);
        if wanted != now {
            near.data.set_bytes_max(wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_forgotten_little_by_little() {
        let seconds = Duration::from_secs;
        let mut peak = LocalPeak::default();
        assert_eq!(peak.note(100, seconds(1)), 100);
        assert_eq!(peak.note(20, seconds(1)), 100);
        assert_eq!(peak.note(20, seconds(6)), 60);
        assert_eq!(peak.note(20, seconds(11)), 40);
        assert_eq!(peak.note(50, seconds(11)), 50);
        assert_eq!(peak.note(10, seconds(1000)), 10);
    }

    #[test]
    fn the_cache_takes_what_is_left_and_gives_it_back_at_once() {
        let wanted = |peak, now| wanted_bytes(1000, peak, u64::MAX, now);
        assert_eq!(wanted(200, 0), 750);
        assert_eq!(wanted(200, 740), 740, "a little more is not worth it");
        assert_eq!(wanted(201, 750), 749, "but a little less is");
        assert_eq!(wanted(990, 700), 0);
        assert_eq!(wanted_bytes(1000, 200, 300, 0), 300);
        assert_eq!(wanted_bytes(1000, 200, 300, 299), 300);
    }
}
