use std::ops::Range;
use std::sync::Arc;

use terrace_base::{KeyRange, SeqNo};
use terrace_env::{PlantedBug, is_planted};

use super::LiveTable;
use crate::Result;
use crate::table::ReadMode;
use crate::version::{KeysCursor, RunCursor, RunTables};

/// The live tables of one row: sorted and disjoint. Clones share them.
#[derive(Clone, Debug)]
pub struct RowTables {
    live: Arc<[LiveTable]>,
    /// Which of them are the row's.
    places: Range<usize>,
}

impl RowTables {
    /// The tables.
    #[must_use]
    #[inline]
    pub fn tables(&self) -> &[LiveTable] {
        &self.live[self.places.clone()]
    }

    /// The rows of a list of live tables, with those of their tables that lie between the first and
    /// the last that counts at a key of `range`. Rows without such a table are left out.
    pub(super) fn of<'a>(
        live: &'a Arc<[LiveTable]>,
        range: &'a KeyRange,
    ) -> impl Iterator<Item = RowTables> + 'a {
        let places = RowTables::places_of(live, range);
        places.map(|places| RowTables { live: Arc::clone(live), places })
    }

    /// As [`RowTables::of`]: where the tables of each row stand in the list.
    pub(super) fn places_of<'a>(
        live: &'a [LiveTable],
        range: &'a KeyRange,
    ) -> impl Iterator<Item = Range<usize>> + 'a {
        let mut end = 0;
        let rows = live.chunk_by(|one, other| one.row == other.row).map(move |tables| {
            let start = end;
            end += tables.len();
            (start, tables)
        });
        rows.filter_map(|(start, tables)| {
            let first = tables.iter().position(|one| one.overlaps(range))?;
            let behind = &tables[first + 1..];
            let later = behind.iter().rposition(|one| one.overlaps(range));
            let mut last = later.map_or(first, |later| first + 1 + later);
            if is_planted(PlantedBug::ScanLeavesOutLastTable) && first < last {
                last -= 1;
            }
            Some(start + first..start + last + 1)
        })
    }

    /// A cursor over the keys at which they count.
    pub fn cursor(&self, read_point: SeqNo, mode: ReadMode) -> Result<L0Cursor> {
        match self.tables() {
            [only] => only.cursor(read_point, mode).map(L0Cursor::Table),
            _ => {
                let tables = RunTables::Row(self.clone());
                Ok(L0Cursor::Tables(RunCursor::new(tables, read_point, mode)))
            }
        }
    }
}

/// A cursor over the live keys of a row.
pub enum L0Cursor {
    /// Of a row that has one table.
    Table(KeysCursor),
    /// Of one that has several: they are read as one, as those of a level are.
    Tables(RunCursor),
}
