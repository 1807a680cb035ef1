//! How many keys a scan will probably show, learned from those before it. Pure but for one number
//! that all scans share.
//!
//! Whoever asks an object store for too little asks twice, which takes twice as long; whoever asks
//! for too much shares the wire with others. So what is expected is what three scans in four do not
//! exceed, and an eighth more, since scans of one program are often alike:
//!
//! ```text
//!   a scan showed        more             fewer
//!   the number           + 3/16           - 1/16       rests where one in four shows more
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

/// The number is kept in such parts of a key.
const PARTS: u64 = 256;

/// More are not expected: who reads on reads ever more ahead.
const KEYS_MAX: u64 = 1 << 20;

/// More are not expected because of one scan.
const FIRST_KEYS_MAX: u64 = 1 << 10;

/// How many keys scans of a range show; nothing is known until one has. All methods may be called
/// by many threads at once; of two that tell at the same time one may go unheard.
#[derive(Debug, Default)]
pub(in crate::store) struct ScanLength(AtomicU64);

impl ScanLength {
    /// How many keys the next scan will probably show: at least one.
    pub fn expected(&self) -> u64 {
        let parts = self.0.load(Ordering::Relaxed);
        ((parts + parts / 8 + PARTS / 2) / PARTS).max(1)
    }

    /// A scan has shown so many from one seek to the next, or to its end.
    pub fn showed(&self, keys: u64) {
        let before = self.0.load(Ordering::Relaxed);
        let after = match keys > before.div_ceil(PARTS) {
            _ if before == 0 => keys.min(FIRST_KEYS_MAX) * PARTS,
            true => before + before * 3 / 16,
            false => before - before / 16,
        };
        self.0.store(after.clamp(PARTS, KEYS_MAX * PARTS), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_env::SeededRng;

    #[test]
    fn three_scans_in_four_show_no_more_than_is_expected() {
        let mut random = SeededRng::new(1);
        let length = ScanLength::default();
        assert_eq!(length.expected(), 1);
        for (least, most) in [(1, 100), (1000, 1000), (5, 5), (0, 1)] {
            (0..200).for_each(|_| length.showed(random.below(most - least + 1) + least));
            let (mut exceeded, mut sum) = (0, 0);
            for _ in 0..4000 {
                let keys = random.below(most - least + 1) + least;
                exceeded += u32::from(keys > length.expected());
                sum += length.expected();
                length.showed(keys);
            }
            let wanted = (least + (most - least) * 3 / 4) * 9 / 8;
            let mean = sum / 4000;
            assert!(mean * 5 >= wanted * 4 && mean * 4 <= wanted * 5 + 4, "{mean} for {wanted}");
            assert!(exceeded <= 1100, "{exceeded} of 4000 from {least} to {most}");
        }
    }

    #[test]
    fn what_is_expected_has_bounds() {
        let length = ScanLength::default();
        length.showed(u64::MAX);
        assert!(length.expected() < 2 * FIRST_KEYS_MAX);
        (0..1000).for_each(|_| length.showed(u64::MAX));
        assert_eq!(length.expected(), KEYS_MAX + KEYS_MAX / 8);
        (0..1000).for_each(|_| length.showed(0));
        assert_eq!(length.expected(), 1);
    }
}
