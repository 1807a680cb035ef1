//! Which blocks of a new table will be read, judged by what was read of the old ones.
//!
//! ```text
//!   old tables   │ · │ ▪ │ ▪ │ · │ · │ ▪ │      ▪  kept near, since it was read
//!   hot keys         (───────]       (───]
//!   new table    │ · │ ▪ │ ▪ │ · │ · │ ▪ │ · │  ▪  kept near as it is written
//! ```
//! A compaction gives what it reads new places, so that a cache of the old ones is of no use any
//! more. Without this, reads below the waterline would go to the object store until each block was
//! read again. *Source:* RocksMash (TACO 2022), section 3.2, where a compaction only drops what is
//! stale.

use super::TableReader;

/// The keys of the blocks that were read lately of the tables that a job reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heat {
    /// Ascending and disjoint: above the first key, through the second one.
    intervals: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Heat {
    /// What was read of these tables, in any order.
    #[must_use]
    pub fn of<'r>(tables: impl Iterator<Item = &'r TableReader>) -> Heat {
        let mut heat = Heat { intervals: tables.flat_map(TableReader::near_keys).collect() };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn heat(intervals: &[(&str, &str)]) -> Heat {
        let owned =
            |(above, through): &(&str, &str)| (above.as_bytes().into(), through.as_bytes().into());
        let mut heat = Heat { intervals: intervals.iter().map(owned).collect() };
        heat.unite();
        heat
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
