use std::sync::Arc;

use terrace_base::{FileId, KeyRange};

use super::{SpanHints, Table};

/// Tables that are sorted and disjoint, read as one. May be empty.
///
/// Clones share the list: a reader takes one along for nothing.
#[derive(Clone, Debug, Default)]
pub struct Run {
    tables: Arc<[Arc<Table>]>,
    hints: Arc<SpanHints>,
}

impl Run {
    /// The run of these tables, in any order; `None` if two of them share a key.
    #[must_use]
    pub fn new(mut tables: Vec<Arc<Table>>) -> Option<Run> {
        tables.sort_by(|a, b| a.span().start().cmp(b.span().start()));
        let disjoint =
            tables.windows(2).all(|pair| pair[0].span().is_before(pair[1].span().start()));
        disjoint.then(|| {
            let hints = Arc::new(SpanHints::of(tables.iter().map(|table| table.span())));
            Run { tables: tables.into(), hints }
        })
    }

    /// The tables in the order of their keys.
    #[must_use]
    pub fn tables(&self) -> &[Arc<Table>] {
        &self.tables
    }

    /// Whether it holds no table.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Bytes of all tables.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.meta().bytes).sum()
    }

    /// Bytes of the tables that lie in no object store.
    #[must_use]
    pub fn local_bytes(&self) -> u64 {
        let local = self.tables.iter().filter(|table| !table.meta().location.is_far());
        local.map(|table| table.meta().bytes).sum()
    }

    /// The table whose span holds `key`.
    #[must_use]
    #[inline]
    pub fn table_for(&self, key: &[u8]) -> Option<&Arc<Table>> {
        // Cost: most levels of a tree are empty, and nothing is worked out for those.
        if self.is_empty() { None } else { self.table_around(key) }
    }

    fn table_around(&self, key: &[u8]) -> Option<&Arc<Table>> {
        let table = self.tables.get(self.first_not_before(key))?;
        (table.span().start() <= key).then_some(table)
    }

    /// Index of the first table that does not end at or before `key`.
    #[must_use]
    #[inline]
    pub fn first_not_before(&self, key: &[u8]) -> usize {
        let (first, end) = self.hints.undecided(key);
        let alike = &self.tables[first..end];
        first + alike.partition_point(|table| table.span().is_before(key))
    }

    /// The tables that share a key with `range`, in order.
    #[must_use]
    pub fn overlapping(&self, range: &KeyRange) -> &[Arc<Table>] {
        let first = self.first_not_before(range.start());
        let count =
            self.tables[first..].partition_point(|table| !range.is_before(table.span().start()));
        &self.tables[first..first + count]
    }

    /// The table with this id.
    #[must_use]
    pub fn find(&self, id: FileId) -> Option<&Arc<Table>> {
        self.tables.iter().find(|table| table.meta().id == id)
    }
}
