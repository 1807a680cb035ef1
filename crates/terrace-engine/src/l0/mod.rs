//! L0: the first persistent level, whose rows may overlap each other.
//!
//! # Why
//! Flushes must not wait for the order of the tree: each flush job writes one *row*, and a *cut*
//! later takes a key slice out of the rows and merges it into L1. What of a row was taken is noted
//! in the [`CutMap`]; the row goes when nothing of it is left.
//!
//! [`L0`] is the seam. Behind it stand plain tables ([`PlainL0`], the baseline that the papers
//! compare with) and the [`triangle`], rows in pages of persistent memory.
//!
//! # Invariants
//! 1. Row ids are given at installation, in installation order: a greater id is a newer row. Rows
//!    that are merged within L0 give their place to one row, which takes the id of the newest of
//!    them; a row whose age lies between theirs shares no key with them.
//! 2. At each key, what is in a newer row is newer: flushes of one drange are installed in the
//!    order in which their memtables were frozen.
//! 3. A cut takes the *oldest* rows at each key of its slice, so what stays in L0 is newer than
//!    what went down. It goes to no deeper level than the first that holds something in its slice.
//! 4. Whoever reads asks a row only for keys at which it is live: [`CutMap`] has the proof that
//!    newer stays above older.
//!
//! ```text
//!   newest  row 9   ├──────╎┤     ├──╎────────┤
//!           row 8      ├───╎─────────╎─┤
//!   oldest  row 7   ├──────╎───┤     ╎├──┤
//!                          └─ slice ─┘
//!              a cut takes rows 7…8 in its slice, or 7…9, never 9 alone
//! ```

mod content;
mod cut_map;
mod flush_writer;
mod live_rows;
mod live_table;
mod plain;
mod row_search;
mod row_tables;
pub mod triangle;

use std::fmt;
use std::sync::Arc;

use terrace_base::{EntryRef, KeyRange, RowId, SeqNo};

use crate::Result;
use crate::iter::Stream;
use crate::range_tombstone::Fragments;
use crate::table::{HotBlocks, ReadMode};
use crate::version::{NewRow, RowMeta, Table, TableContext};
use crate::vlog::Separator;

pub use cut_map::{CutInterval, CutMap, Live};
pub use live_rows::LiveRows;
pub(crate) use live_table::FilterView;
pub use live_table::LiveTable;
pub use plain::{PlainL0, PlainOptions};
pub use row_search::RowSearch;
pub use row_tables::{L0Cursor, RowTables};
pub use triangle::row::SearchTrail;

/// The L0 seam: the medium that rows are written to, and how a set of rows is read.
pub trait L0: Send + Sync + fmt::Debug {
    /// Writes what a flush job merged as one new row. On return the row is durable, but part of no
    /// version yet; its id is given when it is installed. One flush at a time.
    fn absorb(&self, input: FlushInput<'_, '_>) -> Result<Absorbed>;

    /// The state of an L0 without a row.
    fn empty(&self) -> Arc<dyn L0State>;
}

/// What a flush job hands to L0: entries in internal order, already without versions that nobody
/// needs.
pub struct FlushInput<'a, 'l> {
    entries: &'a mut dyn Stream,
    separator: Option<&'a mut Separator<'l>>,
    /// Whether the separator has seen the entry that the stream stands on.
    is_separated: bool,
    /// The range tombstones.
    pub tombstones: &'a Fragments,
    /// An estimate of the bytes to come.
    pub expected_bytes: u64,
    /// Which blocks of it will be read, if somebody knows.
    pub hot: Option<Arc<HotBlocks>>,
}

impl<'a, 'l> FlushInput<'a, 'l> {
    /// An input of these entries and range tombstones; the separator, if there is one, takes values
    /// out of the entries as they are asked for.
    pub fn new(
        entries: &'a mut dyn Stream,
        separator: Option<&'a mut Separator<'l>>,
        tombstones: &'a Fragments,
        expected_bytes: u64,
    ) -> FlushInput<'a, 'l> {
        let (is_separated, hot) = (false, None);
        FlushInput { entries, separator, is_separated, tombstones, expected_bytes, hot }
    }

    /// The same, of which some blocks will be read.
    #[must_use]
    pub fn with_hot(self, hot: Option<Arc<HotBlocks>>) -> FlushInput<'a, 'l> {
        FlushInput { hot, ..self }
    }

    /// The entry that the input stands on, as L0 is to keep it; `None` at the end. It may be asked
    /// for again until [`FlushInput::advance`].
    #[inline]
    pub fn entry(&mut self) -> Result<Option<EntryRef<'_>>> {
        let Some(entry) = self.entries.entry() else { return Ok(None) };
        let Some(separator) = &mut self.separator else { return Ok(Some(entry)) };
        if std::mem::replace(&mut self.is_separated, true) {
            return Ok(Some(separator.shown(entry)));
        }
        separator.separated(entry).map(Some)
    }

    /// Goes to the next entry.
    #[inline]
    pub fn advance(&mut self) -> Result<()> {
        self.is_separated = false;
        self.entries.advance()
    }
}

/// What became of a flush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absorbed {
    /// A row; none if there was nothing to write.
    Row(Option<NewRow>),
    /// Nothing was written: the container filled up between two versions of one key. The caller
    /// repeats the flush from its first entry; it will be written as a table file.
    Again,
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
    /// The state that comes after this one and has these rows. Pure: an edit that comes to nothing
    /// leaves nothing behind.
    fn with(&self, content: LiveRows) -> Arc<dyn L0State>;

    /// The state has become the current version's: the edit that made it is durable. Called once,
    /// in the order of the versions.
    fn installed(&self) {}

    /// The rows, and what of them counts.
    fn content(&self) -> &LiveRows;

    /// The rows, newest first.
    fn rows(&self) -> &[Arc<Row>] {
        self.content().rows()
    }

    /// The tables of all rows, consumed ones included: what takes space.
    fn tables(&self) -> &[Arc<Table>] {
        self.content().tables()
    }

    /// What of the rows is consumed.
    fn consumed(&self) -> &CutMap {
        self.content().consumed()
    }

    /// The tables that are live anywhere, those of the newest row first.
    fn live(&self) -> &[LiveTable] {
        self.content().live()
    }

    /// Gives `take` a cursor for each row that counts at a key of `range`, the newest row's first.
    ///
    /// Cost: O(live tables); of a row one table at most is opened, and others when they are
    /// reached.
    fn each_cursor(
        &self,
        range: &KeyRange,
        read_point: SeqNo,
        mode: ReadMode,
        take: &mut dyn FnMut(L0Cursor),
    ) -> Result<()> {
        let mut rows = self.content().rows_within(range);
        rows.try_for_each(|row| row.cursor(read_point, mode).map(&mut *take))
    }

    /// What is to be done about these rows.
    fn policy(&self) -> &dyn L0Policy;
}

/// What a set of rows needs: how full it is, and what compactions could take out of it. Pure.
pub trait L0Policy {
    /// The cuts that compactions into the levels below could take, each with its pressure, the most
    /// pressing first. They share no key; outside of all of them, and of what is busy, nothing is
    /// live. Pure.
    fn propose_cuts<'a>(&'a self, bounds: &'a CutBounds) -> Cuts<'a>;

    /// Whether a large cut is divided among threads. Where all are small, other threads take the
    /// next one instead.
    fn divides_cuts(&self) -> bool;

    /// Whether the next cut depends on where the bytes of rows lie, which only open ones say.
    fn wants_open_rows(&self) -> bool;

    /// About how many bytes are live in cuts that are due.
    fn due_bytes(&self) -> u64;

    /// Rows that share no key with others, consumed or not, each with nothing of it consumed: they
    /// may be able to go down as they are.
    fn lone_rows(&self) -> Vec<Arc<Row>> {
        Vec::new()
    }

    /// How full L0 is: 1.0 when there is something to do about it.
    fn pressure(&self) -> f64;

    /// How pressing it is that something is done about L0, which is due, beside a level that is
    /// full: at most [`pressure`](L0Policy::pressure). While its slices are cut one after the
    /// other, one or the other is always due, though most of L0 is far from full.
    fn urgency(&self) -> f64 {
        self.pressure()
    }

    /// How much of what may be in L0 is there.
    fn fill(&self) -> Fill;

    /// The rows that share keys with others in `slice`, if neighbouring rows may be merged into one
    /// in their place: newest first, and no other row lies between them in age and shares a key
    /// with one of them.
    fn mergeable_rows(&self, _slice: &KeyRange) -> Vec<Arc<Row>> {
        Vec::new()
    }
}

/// Cuts that could be taken, and how one of them is chosen.
pub enum Cuts<'a> {
    /// The first that is in the way of no job. What lies behind it is worked out only if it is
    /// asked for.
    InTurn(Box<dyn Iterator<Item = Cut> + 'a>),
    /// The one that rewrites least for its size.
    ByPrice(Vec<Cut>),
}

impl<'a> Cuts<'a> {
    /// All of them, the most pressing first.
    #[must_use]
    pub fn all(self) -> Box<dyn Iterator<Item = Cut> + 'a> {
        match self {
            Cuts::InTurn(cuts) => cuts,
            Cuts::ByPrice(cuts) => Box::new(cuts.into_iter()),
        }
    }
}

/// How full L0 is, in units of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// What is there.
    pub used: u64,
    /// Cuts are due when there is as much as this.
    pub start: u64,
    /// Writers are slowed down when there is more than this.
    pub slow: u64,
    /// Writers wait when there is as much as this.
    pub stop: u64,
}

/// Where cuts may end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutBounds {
    /// What lies below, as key intervals that no cut ends inside of, with their bytes: ascending,
    /// disjoint.
    pub below: Vec<(KeyRange, u64)>,
    /// The keys that jobs have taken out of rows, ascending by their starts: an L0 whose cuts take
    /// turns proposes none of them, nor what meets the same intervals below.
    pub busy: Vec<KeyRange>,
    /// About how many bytes a cut takes at most, those that it meets below included.
    pub bytes: u64,
}

/// A key slice that leaves L0.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// The slice.
    pub slice: KeyRange,
    /// The newest row that it is taken from: of all rows up to this one whatever is live in the
    /// slice.
    pub through: RowId,
    /// At 1.0 and above the cut is due.
    pub pressure: f64,
    /// What it ends at: why it has no more bytes, and no fewer.
    pub end: CutEnd,
}

/// Why a cut ends where it does. But for the first, these are the cuts that may have fewer or more
/// bytes than a cut should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum CutEnd {
    /// It has as many bytes as it should.
    InBounds,
    /// Too few: there are no more keys, or the turn begins behind it.
    EndOfTurn,
    /// Too few: tables that nothing in L0 meets lie behind it.
    BeforeGap,
    /// Too few: a job has taken what lies behind it.
    BesideJob,
    /// Too few: what lies behind it cannot be divided, and is too large to go with it.
    BeforeUndivided,
    /// Too many: it cannot be divided. A table below it is larger, or the versions of one key.
    Undivided,
    /// It was asked for as it is, or L0 has no bounds.
    Unbounded,
    /// It holds what is scanned often: scans have spent on its rows what the cut costs.
    Scanned,
    /// Nobody has written to the range for a while.
    Rested,
}

impl CutEnd {
    /// As people are told it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CutEnd::InBounds => "within the bounds",
            CutEnd::EndOfTurn => "end of the turn",
            CutEnd::BeforeGap => "before a gap",
            CutEnd::BesideJob => "beside a job",
            CutEnd::BeforeUndivided => "before what is not divided",
            CutEnd::Undivided => "not divided",
            CutEnd::Unbounded => "without bounds",
            CutEnd::Scanned => "paid for by scans",
            CutEnd::Rested => "at rest",
        }
    }
}

impl Cut {
    /// This cut and another one as one, whatever its bytes.
    #[must_use]
    pub fn and(self, other: Cut) -> Cut {
        Cut {
            slice: self.slice.hull(&other.slice),
            through: self.through.max(other.through),
            pressure: self.pressure.max(other.pressure),
            end: CutEnd::Unbounded,
        }
    }
}

/// `c-h`, as tests write a range; `-` alone, or on either side, means without a bound.
#[cfg(test)]
fn range(word: &str) -> KeyRange {
    let (start, end) = word.split_once('-').expect("a range has a dash");
    KeyRange::new(start, (!end.is_empty()).then(|| end.into()))
}

/// One key of a hundred, of two digits.
#[cfg(test)]
fn draw_key(random: &mut terrace_env::SeededRng) -> Vec<u8> {
    format!("{:02}", random.below(100)).into_bytes()
}
