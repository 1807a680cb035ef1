//! L0: the first persistent level, whose rows may overlap each other.
//!
//! # Why
//! Flushes must not wait for the order of the tree: each flush job writes one *row*, and a *cut*
//! later takes a key slice out of the rows and merges it into L1.
//!
//! [`L0`] is the seam. Behind it stand plain tables ([`PlainL0`], the baseline that the papers
//! compare with); the triangle of TriangleKV will stand beside.
//!
//! # Invariants
//! 1. Row ids are given at installation, in installation order: a greater id is a newer row. Rows
//!    that are merged within L0 give their place to one row, which takes the id of the newest of
//!    them; a row whose age lies between theirs shares no key with them.
//! 2. At each key, what is in a newer row is newer: flushes of one drange are installed in the
//!    order in which their memtables were frozen.
//! 3. A cut takes the *oldest* rows at each key of its slice, so what stays in L0 is newer than
//!    what went down. It goes to no deeper level than the first that holds something in its slice.
//!
//! ```text
//!   newest  row 9   ├───────┤     ├───────────┤
//!           row 8      ├───────────────┤
//!   oldest  row 7   ├──────────┤      ├──┤
//!                   └── a cut takes rows 7…8, or 7…9, never 9 alone ──┘
//! ```

mod cut_map;
mod plain;

use std::fmt;
use std::sync::Arc;

use terrace_base::{KeyRange, LevelNo, RowId, SeqNo};

use crate::Result;
use crate::explain::{Asked, MyCounts, note};
use crate::iter::{Cursor, Stream};
use crate::range_tombstone::Fragments;
use crate::table::{PinnedEntry, ReadMode, filter_hash};
use crate::version::{RowMeta, Table, TableContext};

pub use cut_map::{CutInterval, CutMap, Live};
pub use plain::{PlainL0, PlainOptions};

/// The L0 seam: the medium that rows are written to, and how a set of rows is read.
pub trait L0: Send + Sync + fmt::Debug {
    /// Writes what a flush job merged as one new row. On return the row is durable, but part of no
    /// version yet; its id is given when it is installed. Nothing is written if there is nothing:
    /// the row is then `None`.
    fn absorb(&self, input: FlushInput<'_>) -> Result<Option<RowMeta>>;

    /// The state of an L0 that consists of these rows, newest first.
    fn recover(&self, rows: Vec<Arc<Row>>) -> Arc<dyn L0State>;
}

/// What a flush job hands to L0.
pub struct FlushInput<'a> {
    /// The entries, in internal order, already without versions that nobody needs.
    pub entries: &'a mut dyn Stream,
    /// The range tombstones.
    pub tombstones: &'a Fragments,
    /// An estimate of the bytes to come.
    pub expected_bytes: u64,
}

/// One live row: what versions know of it, and its tables.
#[derive(Debug)]
pub struct Row {
    /// What versions know of it.
    pub meta: RowMeta,
    /// Its tables, sorted and disjoint.
    pub tables: Vec<Arc<Table>>,
}

impl Row {
    /// The row that `meta` describes.
    #[must_use]
    pub fn new(meta: RowMeta, context: &Arc<TableContext>) -> Row {
        let table = |meta: &_| Arc::new(Table::new(Clone::clone(meta), Arc::clone(context)));
        let tables = meta.tables.iter().map(table).collect();
        Row { meta, tables }
    }

    /// The smallest interval that holds all that the row speaks for.
    #[must_use]
    pub fn span(&self) -> KeyRange {
        let nothing = KeyRange::new("", Some(Vec::new()));
        self.tables.iter().fold(nothing, |span, table| span.hull(table.span()))
    }
}

/// A set of rows, immutable, as a version holds it.
pub trait L0State: Send + Sync + fmt::Debug {
    /// The rows, newest first.
    fn rows(&self) -> &[Arc<Row>];

    /// The tables of all rows.
    fn tables(&self) -> &[Arc<Table>];

    /// The newest entry for a key, searched from the newest row on. Range tombstones met on the
    /// way are noted in `lookup`.
    fn get(&self, lookup: &mut Lookup<'_>) -> Result<Option<PinnedEntry>>;

    /// A cursor for each row (or part of one) that shares a key with `range`, newest first.
    fn cursors(
        &self,
        range: &KeyRange,
        read_point: SeqNo,
        mode: ReadMode,
    ) -> Result<Vec<Box<dyn Cursor + Send>>>;

    /// The key slices that compactions into the levels below could take, each with its pressure,
    /// the most pressing first. They share neither keys nor rows. Pure.
    fn propose_cuts(&self) -> Vec<Cut>;

    /// How full L0 is: 1.0 when there is something to do about it.
    fn pressure(&self) -> f64;

    /// How many rows a read of one key may have to ask, at most.
    fn depth(&self) -> usize {
        self.rows().len()
    }

    /// Whether neighbouring rows may be merged into one in their place.
    fn can_merge_rows(&self) -> bool {
        false
    }
}

/// A key slice that leaves L0, and the rows that it is taken from.
#[derive(Clone, Debug)]
pub struct Cut {
    /// The slice.
    pub slice: KeyRange,
    /// The rows, which leave L0 altogether.
    pub rows: Vec<RowId>,
    /// Their tables.
    pub tables: Vec<Arc<Table>>,
    /// At 1.0 and above the cut is due.
    pub pressure: f64,
}

impl Cut {
    /// Bytes of the tables.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.meta().bytes).sum()
    }

    /// Whether one of the tables shares a key with `range`.
    #[must_use]
    pub fn touches(&self, range: &KeyRange) -> bool {
        self.tables.iter().any(|table| table.span().overlaps(range))
    }

    /// This cut and another one as one.
    #[must_use]
    pub fn and(mut self, other: Cut) -> Cut {
        self.slice = self.slice.hull(&other.slice);
        self.rows.extend(other.rows);
        self.tables.extend(other.tables);
        self.pressure = self.pressure.max(other.pressure);
        self
    }
}

/// The search for one key at one read point, on its way down the tree.
#[derive(Debug)]
pub struct Lookup<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Entries above are not seen.
    pub read_point: SeqNo,
    /// Whether the search may wait for the disk.
    pub mode: ReadMode,
    /// The greatest number of a range tombstone met so far that covers the key.
    pub covering: Option<SeqNo>,
    /// The level that is being searched.
    pub level: LevelNo,
    /// Where is counted what tables say, if anywhere.
    pub counts: Option<MyCounts<'a>>,
    /// The key's hash for filters, once the first of them was asked.
    hash: Option<u64>,
}

impl<'a> Lookup<'a> {
    /// A search that has met nothing yet.
    #[must_use]
    #[inline]
    pub fn new(key: &'a [u8], read_point: SeqNo, mode: ReadMode) -> Lookup<'a> {
        Lookup {
            key,
            read_point,
            mode,
            covering: None,
            level: LevelNo(0),
            counts: None,
            hash: None,
        }
    }

    /// Notes a range tombstone that covers the key.
    #[inline]
    pub fn cover(&mut self, seqno: Option<SeqNo>) {
        self.covering = self.covering.max(seqno);
    }

    /// Searches one table: notes its range tombstones, asks its filter, then looks for the key.
    #[inline]
    pub fn search(&mut self, table: &Table) -> Result<Option<PinnedEntry>> {
        let is_outside = !table.span().contains(self.key);
        if is_outside || table.meta().least_seqno > self.read_point {
            note(|notes| notes.excluded(self.level.0, table, is_outside));
            return Ok(None);
        }
        note(|notes| notes.table(self.level.0, table));
        table.with_reader(self.mode, |reader| {
            if table.meta().range_tombstone_count > 0 {
                let tombstones = reader.range_tombstones();
                let covering = tombstones.newest_covering(self.key, self.read_point);
                note(|notes| notes.covered(covering));
                self.cover(covering);
            }
            let hash = *self.hash.get_or_insert_with(|| filter_hash(self.key));
            if !reader.may_contain(hash) {
                note(|notes| notes.filtered_out());
                self.count(Asked::FilteredOut);
                return Ok(None);
            }
            let found = reader.get(self.key, self.read_point, self.mode)?;
            note(|notes| {
                let entry = found.as_ref().map(|pinned| pinned.entry(self.key));
                notes.searched(reader.has_filter(), entry);
            });
            self.count(match (&found, reader.has_filter()) {
                (Some(_), _) => Asked::Found,
                (None, true) => Asked::FalsePositive,
                (None, false) => Asked::Missing,
            });
            Ok(found)
        })
    }

    #[inline]
    fn count(&self, what: Asked) {
        if let Some(counts) = self.counts {
            counts.asked(self.level, what);
        }
    }
}
