//! Dividing one compaction into parts over disjoint slices of its keys. Pure.
//!
//! # Why
//! A cut out of L0 meets most of the level below it, and as long as it runs nothing else may touch
//! those tables: on one thread it would hold up the flushes behind it for seconds. Its parts run
//! on all compaction threads at once.
//!
//! ```text
//!   inputs   ├────────────────────────────────┤
//!            ├─────────┤├──────────┤├─────────┤
//!   samples  · · · · · ·│· · · · · ·│· · · · ·   keys out of the tables' indexes, with their bytes
//!   parts    [ plan 1   )[ plan 2   )[ plan 3 ]  about equal bytes, never inside a user key
//! ```
//!
//! Each part is a [`CompactionPlan`] of its own: its slice, the inputs that reach into it, and its
//! own block of file ids.

use terrace_base::{FileId, KeyRange};
use terrace_env::{PlantedBug, is_planted};

use super::CompactionPlan;
use crate::table::Sample;

/// The keys that divide `slice` into at most `part_count` intervals of about equal bytes:
/// ascending, distinct, and inside of the slice. `samples` come in any order, those of all inputs
/// together.
#[must_use]
pub fn split_keys(mut samples: Vec<Sample>, slice: &KeyRange, part_count: usize) -> Vec<Vec<u8>> {
    samples.sort_unstable();
    let total: u64 = samples.iter().map(|(_, bytes)| bytes).sum();
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut passed = 0;
    for (key, bytes) in samples {
        passed += bytes;
        let is_due =
            |done: usize| passed as u128 * part_count as u128 >= total as u128 * (done as u128 + 1);
        let is_inside = key.as_slice() > slice.start() && slice.contains(&key);
        if keys.len() + 1 < part_count
            && is_due(keys.len())
            && is_inside
            && keys.last().is_none_or(|last| *last < key)
        {
            keys.push(key);
        }
    }
    keys
}

/// Where a table ends if `bytes` are to be in tables of one size: each of two thirds to four thirds
/// of `table_bytes`, and none much smaller at the end, which would cost as many calls as a large
/// one.
///
/// ```text
///   ├── 1.0 ──┤├── 1.0 ──┤├ 0.3 ┤     becomes     ├── 1.15 ──┤├── 1.15 ──┤
/// ```
fn even_table_bytes(bytes: u64, table_bytes: u64) -> u64 {
    let count = bytes.div_ceil(table_bytes.saturating_add(table_bytes / 3).max(1)).max(1);
    let even_bytes = bytes.div_ceil(count);
    // What is read is known about only, and a little too much in the last one is a table more.
    let with_slack = even_bytes.saturating_add(even_bytes / 16);
    with_slack.max(table_bytes / 3 * 2)
}

impl CompactionPlan {
    /// The same with outputs of one size, if they come to about `bytes`.
    #[must_use]
    pub fn with_even_tables(self, bytes: u64) -> CompactionPlan {
        CompactionPlan { table_bytes: even_table_bytes(bytes, self.table_bytes), ..self }
    }

    /// The parts of this plan that `keys` divide it into, in the order of their keys; the plan
    /// itself if there are none. `next_block` gives out blocks of file ids of the given size.
    /// `keys` are as [`split_keys`] gives them.
    #[must_use]
    pub fn split(
        self,
        keys: &[Vec<u8>],
        mut next_block: impl FnMut(u64) -> FileId,
    ) -> Vec<CompactionPlan> {
        let mut parts = Vec::with_capacity(keys.len() + 1);
        let mut start = self.slice.start().to_vec();
        for key in keys {
            let slice = KeyRange::new(start, Some(key.clone()));
            let first_output = next_block(self.id_count());
            parts.push(self.part(slice, first_output));
            start = key.clone();
            if is_planted(PlantedBug::LoseKeyBetweenParts) {
                start.push(0);
            }
        }
        let rest = KeyRange::new(start, self.slice.end().map(<[u8]>::to_vec));
        let first_output = self.first_output;
        parts.push(self.part(rest, first_output));
        parts
    }

    fn part(&self, slice: KeyRange, first_output: FileId) -> CompactionPlan {
        let inputs = self.inputs.iter().filter(|input| input.table.span().overlaps(&slice));
        let droppable = self.droppable.iter().map(|range| range.intersection(&slice));
        CompactionPlan {
            snapshots: self.snapshots.clone(),
            merge_operator: self.merge_operator.clone(),
            value_files: self.value_files.clone(),
            filter: self.filter.clone(),
            inputs: inputs.cloned().collect(),
            droppable: droppable.filter(|range| !range.is_empty()).collect(),
            slice,
            first_output,
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(list: &[(&str, u64)]) -> Vec<Sample> {
        list.iter().map(|(key, bytes)| (key.as_bytes().to_vec(), *bytes)).collect()
    }

    fn split(list: &[(&str, u64)], slice: &KeyRange, parts: usize) -> Vec<String> {
        let keys = split_keys(samples(list), slice, parts);
        keys.into_iter().map(|key| String::from_utf8(key).expect("text")).collect()
    }

    #[test]
    fn tables_are_evened_out() {
        let tables_of = |bytes: u64| {
            let each = even_table_bytes(bytes, 90);
            (bytes.div_ceil(each), each)
        };
        assert_eq!([0, 1, 60, 90, 119].map(tables_of).map(|(count, _)| count), [0, 1, 1, 1, 1]);
        assert_eq!([121, 180, 240].map(tables_of).map(|(count, _)| count), [2, 2, 2]);
        for bytes in 1..5000 {
            let (count, each) = tables_of(bytes);
            assert!((60..=128).contains(&each), "{bytes} bytes in tables of {each}");
            // Among many tables a small one does not matter.
            let is_even = bytes >= (count - 1) * each + each / 2 || !(2..8).contains(&count);
            assert!(is_even, "a small rest of {bytes}");
        }
        assert!(even_table_bytes(u64::MAX, u64::MAX) >= u64::MAX / 3 * 2);
    }

    #[test]
    fn parts_have_about_equal_bytes() {
        let even = [("b", 10), ("d", 10), ("f", 10), ("h", 10)];
        assert_eq!(split(&even, &KeyRange::all(), 2), ["d"]);
        assert_eq!(split(&even, &KeyRange::all(), 4), ["b", "d", "f"]);
        assert_eq!(split(&even, &KeyRange::all(), 1), [""; 0]);
        let two_tables = [("h", 30), ("z", 30), ("c", 5), ("e", 5)];
        assert_eq!(split(&two_tables, &KeyRange::all(), 2), ["h"]);
        let uneven = [("a", 1), ("b", 90), ("c", 1), ("d", 1)];
        assert_eq!(split(&uneven, &KeyRange::all(), 3), ["b", "c"], "no key is a split twice");
    }

    #[test]
    fn a_split_lies_inside_of_the_slice() {
        let even = [("b", 10), ("d", 10), ("f", 10), ("h", 10)];
        let slice = KeyRange::new("d", Some(b"f".to_vec()));
        assert_eq!(split(&even, &slice, 4), [""; 0]);
        assert_eq!(split(&[], &KeyRange::all(), 4), [""; 0]);
        assert_eq!(split(&[("", 5)], &KeyRange::all(), 4), [""; 0]);
    }
}
