//! How much space the value log may take for what lives in it. Pure.
//!
//! What is dead in value files is of two kinds. *Garbage* is what no table names: a rewrite gives
//! its space back. What is *hidden* is still named by a table though a newer entry lies above it:
//! nobody can tell before a compaction has met both, and then it is garbage. So there is a bound
//! for the two together, and both kinds of work obey it:
//!
//! ```text
//!   value files   ├──────────── lives ────────────┤── hidden ──┤──── garbage ────┤
//!                                                 └───────── allowed ─────────┘
//!   due           compactions, while what is hidden takes more than a quarter of it
//!                 rewrites, while garbage takes more than what is left of it
//! ```
//!
//! How much is hidden is not known, but no more than what newer tables could hide: of a key's
//! versions all but one lie above the deepest, so it is at most what the rows and the upper levels
//! name, and what the tables below them name.
//!
//! The quarter is where the two kinds of work cost least together. With pointers of p bytes for
//! each byte of values, to hold what is hidden at a share h of the data writes p/h bytes for each
//! byte of values; to hold garbage at a share g copies (1 + g) / 2g, if keys are overwritten
//! uniformly. Of h + g = 0.3 the sum is least at h = 0.07 for values of 1 KB, and at 0.04 for
//! values of 4 KB; and it hardly changes in between.

use crate::options::Options;

/// Below this number of files of the usual size of what is dead nothing hidden is looked for, and
/// nobody is slowed down: rows of L0 alone hide as much. With memtables of 64 MiB it is what is
/// allowed of some 2 GB.
const FLOOR_FILES: u64 = 8;

/// Work begins when there is room left for this number of files: for what memtables hide, and for
/// the file that is written while others are given back.
const ROOM_FILES: u64 = 2;

/// What is hidden may take one part in this number of what is allowed.
const HIDDEN_SHARE: u64 = 4;

/// Garbage of less than this part of a file's usual size is left alone: a rewrite would be more
/// trouble than it is worth.
const FILE_SHARE_MIN: u64 = 8;

/// What the value files of a version hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueSpace {
    /// Bytes of all entries.
    pub entry_bytes: u64,
    /// Bytes of what stands beside the entries: maps, directories, ends.
    pub overhead_bytes: u64,
    /// Bytes of the entries that a table names.
    pub named_bytes: u64,
    /// Bytes of the entries among them that newer ones may hide, at most.
    pub hidden_bytes_max: u64,
}

impl ValueSpace {
    /// What no table names.
    #[must_use]
    pub fn garbage_bytes(&self) -> u64 {
        self.entry_bytes.saturating_sub(self.named_bytes)
    }

    /// What is dead, at most.
    #[must_use]
    pub fn dead_bytes_max(&self) -> u64 {
        self.garbage_bytes().saturating_add(self.hidden_bytes_max)
    }

    /// What lives, at least.
    #[must_use]
    pub fn live_bytes_min(&self) -> u64 {
        self.named_bytes.saturating_sub(self.hidden_bytes_max)
    }
}

/// How much of the value log may be dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceBound {
    /// What value files may take, in percent of what lives in them; without it, whatever they take.
    pub ratio_percent: Option<u64>,
    /// The usual size of a value file.
    pub file_bytes: u64,
}

impl SpaceBound {
    /// No bound.
    pub const NONE: SpaceBound = SpaceBound { ratio_percent: None, file_bytes: 0 };

    /// The bound that the options ask for. A range that was opened without a value log keeps the
    /// one that it has within the usual bound.
    #[must_use]
    pub fn of(options: &Options) -> SpaceBound {
        let values = options.value_log.unwrap_or_default();
        let ratio_percent = values.rewrites.then_some(values.space_ratio_percent);
        SpaceBound { ratio_percent, file_bytes: options.memtable_bytes as u64 }
    }

    /// How many bytes may be dead; `None` without a bound. What stands beside the entries takes of
    /// it, but no more than half: no work makes it less.
    #[must_use]
    pub fn dead_bytes_allowed(&self, space: &ValueSpace) -> Option<u64> {
        let share = self.share_of(space.live_bytes_min())?;
        let floor = self.file_bytes.saturating_mul(FLOOR_FILES);
        Some((share - space.overhead_bytes.min(share / 2)).max(floor))
    }

    fn share_of(&self, live_bytes: u64) -> Option<u64> {
        Some((live_bytes / 100).saturating_mul(self.ratio_percent?.saturating_sub(100)))
    }

    fn room_bytes(&self) -> u64 {
        self.file_bytes.saturating_mul(ROOM_FILES)
    }

    /// How near the bound is where that is because of what is hidden: at 1 and above compactions
    /// have to find out what that is; 0 if others have.
    #[must_use]
    pub fn hidden_pressure(&self, space: &ValueSpace) -> f64 {
        let Some(allowed) = self.dead_bytes_allowed(space) else { return 0.0 };
        if space.hidden_bytes_max <= allowed / HIDDEN_SHARE {
            return 0.0;
        }
        let due_from = allowed.saturating_sub(self.room_bytes()).max(1);
        space.dead_bytes_max() as f64 / due_from as f64
    }

    /// Whether compactions have to find out what is hidden.
    #[must_use]
    pub fn hides_too_much(&self, space: &ValueSpace) -> bool {
        self.hidden_pressure(space) >= 1.0
    }

    /// How much garbage is left where it is; `None` without a bound.
    #[must_use]
    pub fn garbage_bytes_max(&self, space: &ValueSpace) -> Option<u64> {
        let allowed = self.dead_bytes_allowed(space)?;
        let hidden = space.hidden_bytes_max.min(allowed / HIDDEN_SHARE);
        let beside_hidden = allowed.saturating_sub(hidden).saturating_sub(self.room_bytes());
        // Few data are kept tighter than the floor, for it costs little.
        let of_named = self.share_of(space.named_bytes)?.max(self.file_bytes / FILE_SHARE_MIN);
        Some(beside_hidden.min(of_named))
    }
}

#[cfg(test)]
mod tests {
    //! Goal: whatever is dead, one of the two kinds of work is due before the bound is reached, and
    //! neither for ever. Method: by hand in files of 64 MiB, and drawn at random.

    use terrace_env::SeededRng;

    use super::*;

    const MIB: u64 = 1 << 20;
    const BOUND: SpaceBound = SpaceBound { ratio_percent: Some(130), file_bytes: 64 * MIB };

    /// A log of which this many MiB live, are hidden, are garbage.
    fn space(live: u64, hidden: u64, garbage: u64) -> ValueSpace {
        ValueSpace {
            entry_bytes: (live + hidden + garbage) * MIB,
            overhead_bytes: 0,
            named_bytes: (live + hidden) * MIB,
            hidden_bytes_max: hidden * MIB,
        }
    }

    /// Whether (compactions, rewrites) are due.
    fn due(space: &ValueSpace) -> (bool, bool) {
        let garbage_max = BOUND.garbage_bytes_max(space).expect("there is a bound");
        (BOUND.hides_too_much(space), space.garbage_bytes() > garbage_max)
    }

    #[test]
    fn work_is_due_on_whichever_side_takes_too_much() {
        // 10,000 MiB that live may have 3,000 dead ones: work begins at 2,872.
        assert_eq!(due(&space(10_000, 0, 2_870)), (false, false));
        assert_eq!(due(&space(10_000, 0, 2_900)), (false, true));
        assert_eq!(due(&space(10_000, 2_870, 0)), (false, false), "a fill may hide all of it");
        assert_eq!(due(&space(10_000, 2_900, 0)), (true, false));
        assert_eq!(due(&space(10_000, 700, 2_100)), (false, false));
        assert_eq!(due(&space(10_000, 700, 2_200)), (false, true), "little is hidden");
        assert_eq!(due(&space(10_000, 1_000, 2_000)), (true, false), "much is hidden");
        assert_eq!(due(&space(10_000, 1_000, 2_200)), (true, true));
    }

    #[test]
    fn below_the_floor_what_is_hidden_is_left_and_garbage_is_held_as_before() {
        assert_eq!(due(&space(100, 380, 0)), (false, false));
        assert_eq!(due(&space(100, 300, 120)), (true, false), "the floor is 512 MiB");
        assert_eq!(due(&space(100, 300, 121)), (true, true), "a third of what is named");
        assert_eq!(due(&space(100, 0, 31)), (false, true));
        assert_eq!(due(&space(1, 0, 8)), (false, false), "as little as that is no trouble");
    }

    #[test]
    fn what_stands_beside_the_entries_counts_as_long_as_there_is_something_to_be_done() {
        let allowed = |overhead: u64| {
            let space = ValueSpace { overhead_bytes: overhead * MIB, ..space(10_000, 0, 0) };
            BOUND.dead_bytes_allowed(&space).map(|bytes| bytes / MIB)
        };
        assert_eq!([0, 200, 1_500, 9_000].map(allowed), [3_000, 2_800, 1_500, 1_500].map(Some));
    }

    #[test]
    fn without_a_bound_nothing_is_due() {
        let bound = SpaceBound { ratio_percent: None, ..BOUND };
        let space = space(10, 100_000, 100_000);
        assert!(!bound.hides_too_much(&space));
        assert_eq!(
            (bound.dead_bytes_allowed(&space), bound.garbage_bytes_max(&space)),
            (None, None)
        );
    }

    #[test]
    fn where_nothing_is_due_the_bound_holds() {
        let seed = 20_261_125;
        println!("seed {seed}");
        let mut random = SeededRng::new(seed);
        let mut at_rest = 0;
        for _ in 0..20_000 {
            let live = 1 << random.below(18);
            let space = space(live, random.below(live), random.below(live / 2 + 100));
            let allowed = BOUND.dead_bytes_allowed(&space).expect("there is a bound");
            let room = BOUND.room_bytes();
            match due(&space) {
                (false, false) => {
                    at_rest += 1;
                    assert!(space.dead_bytes_max() <= allowed, "{space:?}");
                }
                // What is due has something to do.
                (true, _) => assert!(space.hidden_bytes_max > (allowed - room) / 5, "{space:?}"),
                (false, true) => assert!(space.garbage_bytes() > 0, "{space:?}"),
            }
        }
        assert!(at_rest > 1_000, "{at_rest}");
    }
}
