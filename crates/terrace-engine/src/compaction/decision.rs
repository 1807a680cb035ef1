//! A compaction that was decided on, as data.

use std::sync::Arc;

use terrace_base::{FileId, KeyRange, LevelNo, RowId};

use crate::l0::{CutEnd, LiveTable};
use crate::version::{Run, Table};

/// One input of a compaction.
#[derive(Clone, Debug)]
pub struct Input {
    /// The level that it lies in; 0 for a table of a row.
    pub level: LevelNo,
    /// The table.
    pub table: Arc<Table>,
    /// Where it counts, if not everywhere: intervals that ascend and do not touch.
    pub parts: Option<Arc<[KeyRange]>>,
}

impl Input {
    pub(super) fn of_level(level: LevelNo, table: &Arc<Table>) -> Input {
        Input { level, table: Arc::clone(table), parts: None }
    }

    /// A table of a row, as far as it counts.
    pub(crate) fn of_l0(live: &LiveTable) -> Input {
        let (table, parts) = (Arc::clone(&live.table), live.parts.clone());
        Input { level: LevelNo(0), table, parts }
    }

    /// Where it counts within `slice`: intervals that ascend and do not touch.
    pub fn parts_within(&self, slice: &KeyRange) -> impl Iterator<Item = KeyRange> {
        let whole = std::slice::from_ref(self.table.span());
        let parts = self.parts.as_deref().unwrap_or(whole);
        let shared = parts.iter().map(|part| part.intersection(slice));
        shared.filter(|part| !part.is_empty())
    }

    /// About how many of its bytes count within `slice`.
    #[must_use]
    pub fn bytes_within(&self, slice: &KeyRange) -> u64 {
        let bytes: u64 = self.parts_within(slice).map(|part| self.table.bytes_within(&part)).sum();
        bytes.min(self.table.meta().bytes)
    }
}

/// A compaction that was decided on: what moves where.
#[derive(Clone, Debug)]
pub struct Compaction {
    /// The keys that move.
    pub slice: KeyRange,
    /// For a cut: the newest row that it is taken from. Of all rows up to it takes part what is
    /// live in the slice.
    pub through: Option<RowId>,
    /// Rows that leave L0 as a whole: they are moved, or merged into one in their place.
    pub rows: Vec<RowId>,
    /// The inputs, newest first.
    pub inputs: Vec<Input>,
    /// Where the outputs go; 0: into one row, in the place of those that leave.
    pub output_level: LevelNo,
    /// Whether the inputs are written anew even if they could go down as they are.
    pub rewrites: bool,
    /// For a cut: why it ends where it does.
    pub cut_end: Option<CutEnd>,
}

impl Compaction {
    /// Whether the inputs can go down as they are: tables that are disjoint and meet nothing in
    /// the output level, so that only the version changes. Range tombstones are worth a rewrite,
    /// since every scan has to ask the tables that hold some.
    #[must_use]
    pub fn is_move(&self) -> bool {
        let Some(Input { level, .. }) = self.inputs.first() else { return false };
        let goes_as_it_is = |input: &Input| {
            input.level == *level
                && input.parts.is_none()
                && input.table.meta().location.can_move_down()
                && input.table.meta().range_tombstone_count == 0
                && self.slice.intersection(input.table.span()) == *input.table.span()
        };
        !self.rewrites
            && self.through.is_none()
            && *level < self.output_level
            && self.inputs.iter().all(goes_as_it_is)
            && (self.rows.len() <= 1 || self.is_disjoint())
    }

    /// A key between each two neighbours of inputs that are disjoint, ascending.
    #[must_use]
    pub fn gaps(&self) -> Vec<Vec<u8>> {
        let starts = self.inputs.iter().map(|input| input.table.span().start().to_vec());
        let mut starts: Vec<_> = starts.collect();
        starts.sort_unstable();
        starts.into_iter().skip(1).collect()
    }

    fn is_disjoint(&self) -> bool {
        let tables = self.inputs.iter().map(|input| Arc::clone(&input.table)).collect();
        Run::new(tables).is_some()
    }

    /// This compaction and another one into the same level as one; neither meets anything there.
    pub(super) fn and(mut self, other: Compaction) -> Compaction {
        self.slice = self.slice.hull(&other.slice);
        self.rows.extend(other.rows);
        self.inputs.extend(other.inputs);
        self
    }

    /// About how many bytes of the inputs that lie in `level` take part.
    #[must_use]
    pub fn bytes_from(&self, level: LevelNo) -> u64 {
        let inputs = self.inputs.iter().filter(|input| input.level == level);
        inputs.map(|input| input.bytes_within(&self.slice)).sum()
    }

    /// Ids of the tables of levels that leave them with it. Those of rows stay until the row goes.
    pub fn table_ids(&self) -> impl Iterator<Item = FileId> {
        let of_levels = self.inputs.iter().filter(|input| input.level.0 > 0);
        of_levels.map(|input| input.table.meta().id)
    }

    /// The oldest and the newest row that something is taken from.
    pub(super) fn row_interval(&self) -> Option<(RowId, RowId)> {
        let oldest = self.rows.iter().min().copied();
        match self.through {
            Some(newest) => Some((RowId(0), newest)),
            None => oldest.zip(self.rows.iter().max().copied()),
        }
    }
}
