use std::sync::Arc;

use super::{CutMap, LiveTable, Row};
use crate::version::Table;

/// The rows of a version and what of them counts: what every state of L0 consists of.
#[derive(Debug)]
pub struct LiveRows {
    rows: Vec<Arc<Row>>,
    tables: Vec<Arc<Table>>,
    live: Arc<[LiveTable]>,
    consumed: CutMap,
}

impl LiveRows {
    /// These rows, newest first, as far as they are not consumed.
    #[must_use]
    pub fn new(rows: Vec<Arc<Row>>, consumed: CutMap) -> LiveRows {
        let tables = rows.iter().flat_map(|row| row.tables.iter().cloned()).collect();
        let live = LiveTable::of(&rows, &consumed).into();
        LiveRows { rows, tables, live, consumed }
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

    /// Whether nothing of a row is consumed.
    #[must_use]
    pub fn is_whole(&self, row: &Row) -> bool {
        let live = self.live.iter().filter(|one| one.row == row.meta.id && one.parts.is_none());
        live.count() == row.tables.len()
    }
}
