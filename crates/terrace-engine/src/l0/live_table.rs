use std::sync::Arc;

use terrace_base::{KeyRange, RowId, SeqNo};
use terrace_env::SetOnce;

use crate::Result;
use crate::iter::PartsCursor;
use crate::table::{Filter, ReadMode};
use crate::version::{KeysCursor, Table};

/// A table of a row that counts at some of its keys or at all of them.
#[derive(Clone, Debug)]
pub struct LiveTable {
    /// The table.
    pub table: Arc<Table>,
    /// Its row.
    pub row: RowId,
    /// Where it counts, if not everywhere: intervals that ascend and do not touch.
    pub parts: Option<Arc<[KeyRange]>>,
    /// About how many of its bytes count, once that was asked of the open table.
    bytes: Arc<SetOnce<u64>>,
    /// Kept here so that a get which asks many tables goes through this list and the filters alone.
    filter_view: SetOnce<Option<FilterView>>,
}

/// What tells that a table need not be searched for a key, without a look at the table: of one that
/// has a filter and no range tombstones.
#[derive(Clone, Debug)]
pub(crate) struct FilterView {
    /// The table's filter.
    pub(crate) filter: Arc<Filter>,
    /// No entry of the table has a lesser number.
    pub(crate) least_seqno: SeqNo,
}

impl LiveTable {
    /// A table of a row that counts in `parts`, or everywhere.
    #[must_use]
    pub fn new(table: &Arc<Table>, row: RowId, parts: Option<Arc<[KeyRange]>>) -> LiveTable {
        LiveTable {
            table: Arc::clone(table),
            row,
            parts,
            bytes: Arc::default(),
            filter_view: SetOnce::new(),
        }
    }

    /// What tells that it need not be searched, if anything does; nothing while the table is not
    /// open.
    #[inline]
    pub(crate) fn filter_view(&self) -> Option<&FilterView> {
        match self.filter_view.get() {
            Some(filter_view) => filter_view.as_ref(),
            None => self.make_filter_view(),
        }
    }

    #[cold]
    fn make_filter_view(&self) -> Option<&FilterView> {
        let meta = self.table.meta();
        let filter = self.table.open_table()?.filter().filter(|_| meta.range_tombstone_count == 0);
        let least_seqno = meta.least_seqno;
        let filter_view =
            filter.map(|filter| FilterView { filter: Arc::clone(filter), least_seqno });
        self.filter_view.get_or_set(filter_view).as_ref()
    }

    /// Where it counts.
    #[must_use]
    pub fn parts(&self) -> &[KeyRange] {
        match &self.parts {
            None => std::slice::from_ref(self.table.span()),
            Some(parts) => parts,
        }
    }

    /// Whether it counts at a key of `range`.
    #[must_use]
    #[inline]
    pub fn overlaps(&self, range: &KeyRange) -> bool {
        self.table.span().overlaps(range)
            && self.parts.as_ref().is_none_or(|parts| parts.iter().any(|part| part.overlaps(range)))
    }

    /// Whether both are one table that counts at the same keys.
    #[must_use]
    pub fn counts_as(&self, other: &LiveTable) -> bool {
        let is_one = |a: &Arc<[KeyRange]>, b: &Arc<[KeyRange]>| Arc::ptr_eq(a, b) || a == b;
        Arc::ptr_eq(&self.table, &other.table)
            && match (&self.parts, &other.parts) {
                (Some(own), Some(others)) => is_one(own, others),
                _ => self.parts() == other.parts(),
            }
    }

    /// About how many of its bytes count. Remembered for this table, and by all copies of this.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        if let Some(bytes) = self.bytes.get() {
            return *bytes;
        }
        let is_open = self.table.open_table().is_some();
        let bytes = self.bytes_within(&KeyRange::all());
        // One that is not open yet has not said where its bytes lie.
        if is_open { *self.bytes.get_or_set(bytes) } else { bytes }
    }

    /// About how many of its bytes count within `range`.
    #[must_use]
    pub fn bytes_within(&self, range: &KeyRange) -> u64 {
        let parts = self.parts().iter().filter(|part| part.overlaps(range));
        let bytes: u64 = parts.map(|part| self.table.bytes_within(&part.intersection(range))).sum();
        bytes.min(self.table.meta().bytes)
    }

    /// A cursor over the keys at which it counts.
    pub fn cursor(&self, read_point: SeqNo, mode: ReadMode) -> Result<KeysCursor> {
        let Some(parts) = &self.parts else { return self.table.keys_cursor(read_point, mode) };
        let cursor = self.table.cursor(read_point, mode)?;
        Ok(KeysCursor::Other(Box::new(PartsCursor::new(cursor, Arc::clone(parts)))))
    }
}
