//! Which frozen memtables are merged in memory instead of being flushed. Pure.
//!
//! # Why
//! A hot drange fills its memtable with versions of few keys. A flush drops all but the newest of
//! each, and the next one writes the same keys once more, for compactions to drop. Merged in
//! memory, they are written when they have cooled down, or when the log has to let go of them.
//!
//! ```text
//!   frozen     [aabbaaabbabab] [bbaabab]      two keys, twenty versions
//!   merged     [ab]                           nothing goes to the disk
//! ```
//! *Source:* Nova-LSM §4.2, where memtables of fewer than 100 keys are merged, and what is merged
//! is logged once more. *Differs:* what counts is the share of the versions that die, however many
//! keys there are. The log is not written again: it is kept from the oldest record of what was
//! merged, within its bound (decision 19).

use terrace_base::LogPosition;

/// The frozen memtables of one drange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Bytes of its memtables that were not merged before.
    pub fresh_bytes: u64,
    /// Number of versions in those memtables.
    pub fresh_entries: u64,
    /// Number of keys in those memtables; a key counts once for each memtable that has it.
    pub fresh_keys: u64,
    /// Bytes of the one that was.
    pub merged_bytes: u64,
    /// The log is needed from here on for them.
    pub begin: LogPosition,
    /// Whether they hold range tombstones, or keys that other frozen memtables hold too: then they
    /// are not merged.
    pub is_entangled: bool,
}

/// What merged memtables may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of memory, all together.
    pub bytes: u64,
    /// The log is not kept from below this position.
    pub log_from: LogPosition,
}

impl Candidate {
    /// Bytes that are left once they are merged, at most.
    #[must_use]
    pub fn left_bytes(&self) -> u64 {
        self.merged_bytes + self.fresh_left_bytes()
    }

    fn fresh_left_bytes(&self) -> u64 {
        let bytes = u128::from(self.fresh_bytes) * u128::from(self.fresh_keys);
        (bytes / u128::from(self.fresh_entries.max(1))) as u64
    }

    /// At least half of what is new is dead, and it is no less than what was kept before, which has
    /// not cooled down then.
    fn pays(&self, bounds: &Bounds) -> bool {
        let is_hot = 2 * self.fresh_left_bytes() <= self.fresh_bytes
            && self.merged_bytes <= self.fresh_bytes
            && self.fresh_bytes > 0;
        is_hot && !self.is_entangled && self.begin >= bounds.log_from
    }
}

/// Which of the candidates are merged, the hottest first, as long as they are within `bounds`.
#[must_use]
pub fn choose(candidates: &[Candidate], bounds: &Bounds) -> Vec<bool> {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    let left_of_each = |index: &usize| {
        let candidate = &candidates[*index];
        (u128::from(candidate.left_bytes()) << 32) / u128::from(candidate.fresh_bytes.max(1))
    };
    order.sort_by_key(left_of_each);
    let mut chosen = vec![false; candidates.len()];
    let mut taken_bytes = 0;
    for index in order {
        let candidate = &candidates[index];
        let bytes = taken_bytes + candidate.left_bytes();
        if candidate.pays(bounds) && bytes <= bounds.bytes {
            chosen[index] = true;
            taken_bytes = bytes;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(fresh_bytes: u64, entries: u64, keys: u64, merged_bytes: u64) -> Candidate {
        Candidate {
            fresh_bytes,
            fresh_entries: entries,
            fresh_keys: keys,
            merged_bytes,
            begin: LogPosition(1000),
            is_entangled: false,
        }
    }

    fn chosen(candidates: &[Candidate], bytes: u64) -> Vec<bool> {
        choose(candidates, &Bounds { bytes, log_from: LogPosition(500) })
    }

    #[test]
    fn what_is_hot_is_merged_and_what_has_cooled_down_is_not() {
        let hot = candidate(1000, 100, 10, 0);
        assert_eq!(hot.left_bytes(), 100);
        let cases = [
            (hot, true),
            (candidate(1000, 100, 50, 0), true),
            // Most of it is alive.
            (candidate(1000, 100, 51, 0), false),
            (candidate(1000, 100, 100, 0), false),
            // There is less that is new than what is kept.
            (candidate(1000, 100, 10, 1000), true),
            (candidate(1000, 100, 10, 1001), false),
            (candidate(0, 0, 0, 100), false),
            (Candidate { is_entangled: true, ..hot }, false),
            // The log has to let go of it.
            (Candidate { begin: LogPosition(499), ..hot }, false),
        ];
        for (candidate, expected) in cases {
            assert_eq!(chosen(&[candidate], 1 << 20), [expected], "{candidate:?}");
        }
    }

    #[test]
    fn the_hottest_are_merged_first() {
        let candidates =
            [candidate(1000, 100, 40, 0), candidate(1000, 100, 1, 0), candidate(1000, 100, 20, 0)];
        assert_eq!(chosen(&candidates, 1000), [true, true, true]);
        assert_eq!(chosen(&candidates, 300), [false, true, true]);
        assert_eq!(chosen(&candidates, 100), [false, true, false]);
        assert_eq!(chosen(&candidates, 0), [false, false, false]);
    }
}
