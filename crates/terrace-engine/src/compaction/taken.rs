//! What running compactions have for themselves.

use std::collections::BTreeSet;

use terrace_base::{FileId, KeyRange, LevelNo, RowId};

use super::decision::Compaction;
use crate::l0::LiveTable;

/// What the jobs that run have taken: their input tables, the keys of the levels that they write
/// into, and what they take out of L0.
///
/// The tables alone are not enough. A job whose inputs leave a gap between them writes tables that
/// span it, so a table that another job put into that gap meanwhile would overlap them. And of a
/// row many jobs may work on different keys at once, but no two on the same ones.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    tables: BTreeSet<FileId>,
    slices: Vec<(LevelNo, KeyRange)>,
    rows: Vec<TakenRows>,
}

/// These keys of the rows from one to another.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TakenRows {
    pub(super) keys: KeyRange,
    pub(super) oldest: RowId,
    pub(super) newest: RowId,
}

impl TakenRows {
    fn of(compaction: &Compaction) -> Option<TakenRows> {
        let (oldest, newest) = compaction.row_interval()?;
        Some(TakenRows { keys: compaction.slice.clone(), oldest, newest })
    }

    fn is_in_the_way_of(&self, other: &TakenRows) -> bool {
        self.oldest <= other.newest
            && other.oldest <= self.newest
            && self.keys.overlaps(&other.keys)
    }
}

impl Taken {
    /// Whether a compaction gets in the way of none that runs.
    #[must_use]
    pub fn is_free(&self, compaction: &Compaction) -> bool {
        let (level, own) = (compaction.output_level, &compaction.slice);
        !compaction.table_ids().any(|id| self.tables.contains(&id))
            && !self.slices.iter().any(|(other, slice)| *other == level && slice.overlaps(own))
            && TakenRows::of(compaction).is_none_or(|own| self.are_free(&own))
    }

    pub(super) fn are_free(&self, rows: &TakenRows) -> bool {
        !self.rows.iter().any(|other| other.is_in_the_way_of(rows))
    }

    /// Whether a job has a table of a level among its inputs.
    pub(super) fn has_table(&self, id: FileId) -> bool {
        self.tables.contains(&id)
    }

    /// About how many bytes of a table jobs take out of L0.
    pub(super) fn bytes_of(&self, live: &LiveTable) -> u64 {
        let of_row = |rows: &&TakenRows| (rows.oldest..=rows.newest).contains(&live.row);
        self.rows.iter().filter(of_row).map(|rows| live.bytes_within(&rows.keys)).sum()
    }

    /// Whether all that counts of a table is taken out of L0 by jobs that run.
    pub(super) fn has_all_of(&self, live: &LiveTable) -> bool {
        let is_taken = |part: &KeyRange| {
            self.rows
                .iter()
                .any(|rows| rows.newest >= live.row && rows.keys.hull(part) == rows.keys)
        };
        live.parts().iter().all(is_taken)
    }

    /// The keys that jobs have taken out of rows, ascending by their starts.
    pub(super) fn keys_of_rows(&self) -> Vec<KeyRange> {
        let mut keys: Vec<KeyRange> = self.rows.iter().map(|rows| rows.keys.clone()).collect();
        keys.sort_by(|a, b| a.start().cmp(b.start()));
        keys
    }

    /// How many jobs have taken something.
    #[must_use]
    pub fn job_count(&self) -> usize {
        self.slices.len()
    }

    /// Takes what a compaction needs, which is free.
    pub fn take(&mut self, compaction: &Compaction) {
        debug_assert!(self.is_free(compaction), "{compaction:?} gets in the way");
        self.reserve(compaction);
    }

    /// Keeps what a compaction needs from others, whether or not all of it is free.
    pub fn reserve(&mut self, compaction: &Compaction) {
        self.tables.extend(compaction.table_ids());
        self.slices.push((compaction.output_level, compaction.slice.clone()));
        self.rows.extend(TakenRows::of(compaction));
    }

    /// Gives back what was taken for a compaction.
    pub fn give_back(&mut self, compaction: &Compaction) {
        for id in compaction.table_ids() {
            self.tables.remove(&id);
        }
        let own = (compaction.output_level, &compaction.slice);
        let place = self.slices.iter().position(|(level, slice)| (*level, slice) == own);
        self.slices.swap_remove(place.expect("it was taken"));
        if let Some(own) = TakenRows::of(compaction) {
            let place = self.rows.iter().position(|other| *other == own);
            self.rows.swap_remove(place.expect("it was taken"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn into(level: u8, start: &str, end: &str) -> Compaction {
        let slice = KeyRange::new(start, Some(end.as_bytes().to_vec()));
        let output_level = LevelNo(level);
        let (rows, inputs) = (Vec::new(), Vec::new());
        Compaction {
            slice,
            through: None,
            rows,
            inputs,
            output_level,
            rewrites: false,
            cut_end: None,
        }
    }

    /// A compaction by hand took two neighbours of L3 down; a table arrived in the gap between
    /// them and followed; the outputs of both overlapped in L4, and the range took no more writes.
    #[test]
    fn no_job_writes_into_a_gap_of_another_one() {
        let mut taken = Taken::default();
        taken.take(&into(4, "a", "f"));
        assert!(!taken.is_free(&into(4, "c", "d")));
        assert!(taken.is_free(&into(4, "f", "h")), "beside it");
        assert!(taken.is_free(&into(5, "c", "d")), "below it");
        taken.give_back(&into(4, "a", "f"));
        assert!(taken.is_free(&into(4, "c", "d")));
    }
}
