//! Which blocks of a new table will be read, judged by what was read of the old ones.
//!
//! ```text
//!   old tables   │ · │ ▪ │ ▪ │ · │ · │ ▪ │      ▪  kept near, since it was read
//!   hot keys         (───────]       (───]
//!   new table    │ · │ ▪ │ ▪ │ · │ · │ ▪ │ · │  ▪  kept near as it is written
//! ```
//! A job gives what it reads new places, so that a cache of the old ones is of no use any more.
//! Without this, each block would be read from the file once more, or below the waterline from the
//! object store, before it is cached again; and what was written anew is what is read anew.
//! *Source:* RocksMash (TACO 2022), section 3.2, where a compaction only drops what is stale.

use std::sync::Arc;

use crate::cache::BlockCache;

/// The keys of the blocks that were read lately of the tables that a job reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heat {
    /// Ascending and disjoint: above the first key, through the second one.
    intervals: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Heat {
    /// That of these intervals of keys, in any order, each above its first key and through its
    /// second.
    #[must_use]
    pub fn of(intervals: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Heat {
        let mut heat = Heat { intervals: intervals.collect() };
        heat.unite();
        heat
    }

    /// Whether nothing was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// Whether a block holds some of it whose keys lie above one and reach through another.
    #[must_use]
    pub fn touches(&self, above: &[u8], through: &[u8]) -> bool {
        let next = self.intervals.partition_point(|(_, last)| last.as_slice() <= above);
        self.intervals.get(next).is_some_and(|(first, _)| first.as_slice() < through)
    }

    fn unite(&mut self) {
        self.intervals.sort_unstable();
        self.intervals.dedup_by(|next, before| {
            let joins = next.0 <= before.1;
            if joins && next.1 > before.1 {
                std::mem::swap(&mut before.1, &mut next.1);
            }
            joins
        });
    }
}

/// Which blocks of new tables will be read, and where they are kept as they are written.
#[derive(Debug)]
pub struct HotBlocks {
    /// Where they are.
    pub heat: Heat,
    /// Where they are kept.
    pub kept: KeptIn,
}

/// Where blocks are kept that will be read.
#[derive(Debug)]
pub enum KeptIn {
    /// On the local disk, by the store that the table is written to.
    Near,
    /// In memory.
    Cache(Arc<BlockCache>),
}

impl HotBlocks {
    /// Blocks with some of this heat; none if there is no heat.
    #[must_use]
    pub fn of(heat: Heat, kept: KeptIn) -> Option<Arc<HotBlocks>> {
        (!heat.is_empty()).then(|| Arc::new(HotBlocks { heat, kept }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heat(intervals: &[(&str, &str)]) -> Heat {
        let owned =
            |(above, through): &(&str, &str)| (above.as_bytes().into(), through.as_bytes().into());
        Heat::of(intervals.iter().map(owned))
    }

    #[test]
    fn intervals_that_meet_are_one() {
        let united = heat(&[("f", "g"), ("a", "c"), ("c", "d"), ("b", "c"), ("x", "y")]);
        assert_eq!(united, heat(&[("a", "d"), ("f", "g"), ("x", "y")]));
        assert_eq!(united.intervals.len(), 3);
    }

    #[test]
    fn a_block_is_hot_if_it_may_hold_a_key_that_is() {
        let heat = heat(&[("b", "d"), ("h", "k")]);
        let touches =
            |above: &str, through: &str| heat.touches(above.as_bytes(), through.as_bytes());
        assert!(!touches("", "b") && touches("", "ba") && touches("c", "cc"));
        assert!(touches("a", "z") && touches("ca", "e"));
        assert!(!touches("d", "h") && touches("d", "ha") && !touches("k", "z"));
        assert!(!Heat::default().touches("a".as_bytes(), "z".as_bytes()));
    }
}
