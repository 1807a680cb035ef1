//! Plain tables as L0: each row is one table (or a few, if the flush was large), read newest
//! first. A cut takes all rows at once.
//!
//! *Source:* LevelDB and its kin; the baseline of TriangleKV and MatrixKV.

use std::sync::Arc;

use terrace_base::{KeyRange, RowId, SeqNo};
use terrace_env::SharedEnv;

use super::{Cut, FlushInput, L0, L0State, Lookup, Row};
use crate::Result;
use crate::compaction::{OutputSpec, OutputTables, TableShape};
use crate::iter::Cursor;
use crate::table::{PinnedEntry, ReadMode, TableStore};
use crate::version::{FileIds, RowMeta, Table};

/// How plain tables are kept as L0.
#[derive(Clone, Debug)]
pub struct PlainOptions {
    /// A cut is due when there are this many rows.
    pub rows_per_cut: usize,
    /// How tables are built.
    pub shape: TableShape,
}

/// L0 as plain tables in the range's table store.
#[derive(Debug)]
pub struct PlainL0 {
    env: SharedEnv,
    store: Arc<dyn TableStore>,
    ids: Arc<FileIds>,
    options: PlainOptions,
}

impl PlainL0 {
    /// An L0 whose tables go to `store`.
    #[must_use]
    pub fn new(
        env: &SharedEnv,
        store: Arc<dyn TableStore>,
        ids: Arc<FileIds>,
        options: PlainOptions,
    ) -> PlainL0 {
        PlainL0 { env: Arc::clone(env), store, ids, options }
    }
}

impl L0 for PlainL0 {
    fn absorb(&self, input: FlushInput<'_>) -> Result<Option<RowMeta>> {
        let spec = OutputSpec {
            shape: &self.options.shape,
            slice: &KeyRange::all(),
            tombstones: input.tombstones,
            expected_bytes: input.expected_bytes,
            now: self.env.wall_time(),
        };
        let next_table =
            Box::new(|| Ok((self.ids.next(), self.env.random_u64(), self.env.random_u64())));
        let mut outputs = OutputTables::new(self.store.as_ref(), spec, next_table);
        while let Some(entry) = input.entries.entry() {
            outputs.add(&entry)?;
            input.entries.advance()?;
        }
        let tables = outputs.finish()?;
        self.store.sync()?;
        Ok((!tables.is_empty()).then_some(RowMeta { id: RowId(0), tables }))
    }

    fn recover(&self, rows: Vec<Arc<Row>>) -> Arc<dyn L0State> {
        let tables = rows.iter().flat_map(|row| row.tables.iter().cloned()).collect();
        Arc::new(PlainState { rows, tables, rows_per_cut: self.options.rows_per_cut })
    }
}

#[derive(Debug)]
struct PlainState {
    rows: Vec<Arc<Row>>,
    tables: Vec<Arc<Table>>,
    rows_per_cut: usize,
}

impl L0State for PlainState {
    fn rows(&self) -> &[Arc<Row>] {
        &self.rows
    }

    fn tables(&self) -> &[Arc<Table>] {
        &self.tables
    }

    fn get(&self, lookup: &mut Lookup<'_>) -> Result<Option<PinnedEntry>> {
        for table in &self.tables {
            if let Some(entry) = lookup.search(table)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    fn cursors(
        &self,
        range: &KeyRange,
        read_point: SeqNo,
        mode: ReadMode,
    ) -> Result<Vec<Box<dyn Cursor + Send>>> {
        let touched = self.tables.iter().filter(|table| table.span().overlaps(range));
        touched.map(|table| table.cursor(read_point, mode)).collect()
    }

    fn propose_cut(&self) -> Option<Cut> {
        if self.rows.is_empty() {
            return None;
        }
        let nothing = KeyRange::new("", Some(Vec::new()));
        let slice = self.rows.iter().fold(nothing, |slice, row| slice.hull(&row.span()));
        let rows = self.rows.iter().map(|row| row.meta.id).collect();
        Some(Cut { slice, rows, tables: self.tables.clone() })
    }

    fn pressure(&self) -> f64 {
        self.rows.len() as f64 / self.rows_per_cut as f64
    }
}
