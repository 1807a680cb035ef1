use std::ops::Range;
use std::sync::Arc;

use terrace_base::KeyRange;

use super::{CutMap, Live, LiveTable, Row, RowTables};
use crate::version::{SpanHints, Table};

/// The rows of a version and what of them counts: what every state of L0 consists of.
#[derive(Clone, Debug, Default)]
pub struct LiveRows {
    rows: Vec<Arc<Row>>,
    tables: Vec<Arc<Table>>,
    live: Arc<[LiveTable]>,
    /// Of the live tables, if a row has several.
    hints: Option<Arc<SpanHints>>,
    consumed: CutMap,
}

impl LiveRows {
    /// What comes after these: other rows, newest first, as far as they are not consumed. A table
    /// that counts as before keeps what is known about it.
    ///
    /// Cost: O(rows) while nothing more is consumed, as with a flush; O(rows × intervals) else.
    #[must_use]
    pub fn with(&self, rows: Vec<Arc<Row>>, consumed: CutMap) -> LiveRows {
        let is_same = consumed == self.consumed;
        let mut before = self.live.iter().peekable();
        let mut live = Vec::with_capacity(rows.len() + 1);
        for row in &rows {
            let id = row.meta.id;
            while before.next_if(|known| known.row > id).is_some() {}
            let known = before.clone().take_while(|known| known.row == id);
            for table in &row.tables {
                let known = known.clone().find(|known| Arc::ptr_eq(&known.table, table));
                if let (true, Some(known)) = (is_same, known) {
                    live.push(known.clone());
                    continue;
                }
                let parts = match consumed.live(id, table.span()) {
                    Live::Everywhere => None,
                    Live::Within(parts) => Some(parts),
                    Live::Nowhere => continue,
                };
                let known = known.filter(|known| known.parts == parts).cloned();
                live.push(known.unwrap_or_else(|| LiveTable::new(table, id, parts)));
            }
        }
        let tables = rows.iter().flat_map(|row| row.tables.iter().cloned()).collect();
        let is_divided = live.windows(2).any(|pair| pair[0].row == pair[1].row);
        let spans = live.iter().map(|one| one.table.span());
        let hints = is_divided.then(|| Arc::new(SpanHints::of(spans)));
        LiveRows { rows, tables, live: live.into(), hints, consumed }
    }

    /// The rows, newest first.
    #[must_use]
    pub fn rows(&self) -> &[Arc<Row>] {
        &self.rows
    }

    /// The tables of all rows, consumed ones included.
    #[must_use]
    pub fn tables(&self) -> &[Arc<Table>] {
        &self.tables
    }

    /// What of the rows is consumed.
    #[must_use]
    pub fn consumed(&self) -> &CutMap {
        &self.consumed
    }

    /// The tables that are live anywhere, those of the newest row first. Clones share it.
    #[must_use]
    #[inline]
    pub fn live(&self) -> &Arc<[LiveTable]> {
        &self.live
    }

    /// Those of them whose row is live at `key`, whether or not it has the key.
    #[must_use]
    #[inline]
    pub fn live_at(&self, key: &[u8]) -> &[LiveTable] {
        if self.consumed.is_empty() {
            return &self.live;
        }
        // Newest first: behind the first row that is consumed here all are.
        let through = self.consumed.through(key);
        &self.live[..self.live.partition_point(|one| one.row > through)]
    }

    /// Where the [`live`](LiveRows::live) tables begin and end, if a row has several: of each row
    /// one table at most reaches a key.
    #[inline]
    pub(crate) fn hints(&self) -> Option<&SpanHints> {
        self.hints.as_deref()
    }

    /// The rows that count at a key of `range`, the newest first.
    pub fn rows_within<'a>(&'a self, range: &'a KeyRange) -> impl Iterator<Item = RowTables> + 'a {
        RowTables::of(&self.live, range)
    }

    /// Where the tables of these rows stand among the live ones.
    pub fn places_within<'a>(
        &'a self,
        range: &'a KeyRange,
    ) -> impl Iterator<Item = Range<usize>> + 'a {
        RowTables::places_of(&self.live, range)
    }

    /// A row of which nothing is left that counts, if there is one.
    #[must_use]
    pub fn dead_row(&self) -> Option<&Arc<Row>> {
        self.rows.iter().find(|row| {
            let first = self.live.partition_point(|one| one.row > row.meta.id);
            let is_live = self.live.get(first).is_some_and(|one| one.row == row.meta.id);
            !is_live && !row.span().is_empty()
        })
    }

    /// Whether nothing of a row is consumed.
    #[must_use]
    pub fn is_whole(&self, row: &Row) -> bool {
        let live = self.live.iter().filter(|one| one.row == row.meta.id && one.parts.is_none());
        live.count() == row.tables.len()
    }
}
