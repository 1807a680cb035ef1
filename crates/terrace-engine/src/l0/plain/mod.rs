//! Plain tables as L0: each row is one table (or a few, if the flush was large), read newest
//! first. A cut takes a group of rows at once: all that are connected by keys that they share.
//!
//! ```text
//!   row 9            ├─────┤
//!   row 8   ├────┤                         one group: 8, 6      another: 9, 7
//!   row 7               ├──────┤           the depth of both is 2
//!   row 6     ├─────┤
//! ```
//!
//! *Source:* LevelDB and its kin; the baseline of TriangleKV and MatrixKV. *Differs:* there a cut
//! takes all rows, and rows count, however many share a key.

use std::sync::Arc;

use terrace_base::{KeyRange, RowId, SeqNo, TableUid};
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
    /// A cut is due when this many rows share a key.
    pub rows_per_cut: usize,
    /// Every cut is due when there are this many rows, whatever they share.
    pub rows_max: usize,
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
        let next_table = Box::new(|| Ok((self.ids.next(), TableUid(self.env.random_u128()))));
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
        let groups = groups_of(&rows);
        let (rows_per_cut, rows_max) = (self.options.rows_per_cut, self.options.rows_max);
        Arc::new(PlainState { rows, tables, groups, rows_per_cut, rows_max })
    }
}

/// Rows that are connected by keys that they share.
#[derive(Debug)]
struct Group {
    /// Their places in the list of rows, ascending: newest first.
    rows: Vec<usize>,
    /// How many of them share a key, at most.
    depth: usize,
}

/// The groups, the deepest first, and of those the oldest. Cost: O(n log n).
fn groups_of(rows: &[Arc<Row>]) -> Vec<Group> {
    let spans: Vec<KeyRange> = rows.iter().map(|row| row.span()).collect();
    let mut by_start: Vec<usize> = (0..rows.len()).collect();
    by_start.sort_by(|a, b| spans[*a].start().cmp(spans[*b].start()));
    let mut groups: Vec<Group> = Vec::new();
    // Where the rows of the last group end that reach past the present start.
    let mut open: Vec<Option<&[u8]>> = Vec::new();
    for row in by_start {
        let start = spans[row].start();
        open.retain(|end| end.is_none_or(|end| start < end));
        if open.is_empty() {
            groups.push(Group { rows: Vec::new(), depth: 0 });
        }
        open.push(spans[row].end());
        let group = groups.last_mut().expect("pushed for the first row");
        group.rows.push(row);
        group.depth = group.depth.max(open.len());
    }
    for group in &mut groups {
        group.rows.sort_unstable();
    }
    groups.sort_by_key(|group| std::cmp::Reverse((group.depth, group.rows.last().copied())));
    groups
}

#[derive(Debug)]
struct PlainState {
    rows: Vec<Arc<Row>>,
    tables: Vec<Arc<Table>>,
    groups: Vec<Group>,
    rows_per_cut: usize,
    rows_max: usize,
}

impl PlainState {
    fn pressure_of(&self, group: &Group) -> f64 {
        let by_depth = group.depth as f64 / self.rows_per_cut as f64;
        let by_count = self.rows.len() as f64 / self.rows_max as f64;
        if by_count >= 1.0 { by_depth.max(by_count) } else { by_depth }
    }
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

    fn propose_cuts(&self) -> Vec<Cut> {
        let cut = |group: &Group| {
            let rows = || group.rows.iter().map(|index| &self.rows[*index]);
            let nothing = KeyRange::new("", Some(Vec::new()));
            Cut {
                slice: rows().fold(nothing, |slice, row| slice.hull(&row.span())),
                rows: rows().map(|row| row.meta.id).collect(),
                tables: rows().flat_map(|row| row.tables.iter().cloned()).collect(),
                pressure: self.pressure_of(group),
            }
        };
        self.groups.iter().map(cut).collect()
    }

    fn pressure(&self) -> f64 {
        let deepest = self.groups.iter().map(|group| self.pressure_of(group)).fold(0.0, f64::max);
        // Rows that share no key with others may be able to go down as they are.
        let has_lone_row = self.groups.iter().any(|group| group.rows.len() == 1);
        let is_wide = has_lone_row && self.rows.len() >= self.rows_per_cut;
        if is_wide { deepest.max(1.0) } else { deepest }
    }

    fn depth(&self) -> usize {
        self.groups.first().map_or(0, |group| group.depth)
    }

    fn can_merge_rows(&self) -> bool {
        true
    }
}
