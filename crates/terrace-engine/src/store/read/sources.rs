//! What a scan merges: everything in a view that may hold keys of an interval.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use terrace_base::{KeyRange, SeqNo};

use crate::Result;
use crate::explain::{Recorder, is_recording, note, observed};
use crate::iter::{Cursor, MergingCursor, cursor_of_each};
use crate::l0::L0Cursor;
use crate::memtable::{Memtable, MemtableCursor};
use crate::range_tombstone::Fragments;
use crate::store::read::memtables_cursor::MemtablesCursor;
use crate::store::read::scan_cursor::ScanCursor;
use crate::store::view::{DrangeView, View};
use crate::table::{ReadMode, TableCursor};
use crate::version::{KeysCursor, RunCursor, RunTables};

/// A source of a scan. The common ones are named, so that the compiler sees through a step: a call
/// through a pointer costs little itself, but neither side of it is compiled with a view to the
/// other, and whatever they hand over goes through memory.
pub(in crate::store) enum Source {
    /// A memtable.
    Memtable(MemtableCursor),
    /// The memtables of several dranges, one after the other.
    Memtables(Box<MemtablesCursor>),
    /// A level, or a row of L0 that has several tables.
    Run(RunCursor),
    /// A row of L0 that has one table.
    Row(KeysCursor),
    /// One of the others, while the scan is being explained.
    Other(Box<dyn Cursor + Send>),
}

cursor_of_each!(Source: Memtable, Memtables, Run, Row, Other);

impl Source {
    /// The cursor over the table that it stands in, if that is a table of blocks.
    #[inline]
    pub fn in_blocks(&mut self) -> Option<&mut TableCursor> {
        match self {
            Source::Run(cursor) => cursor.in_blocks(),
            Source::Row(cursor) => cursor.in_blocks(),
            Source::Memtable(_) | Source::Memtables(_) | Source::Other(_) => None,
        }
    }
}

/// Range tombstones of one source.
pub(in crate::store) struct Covering {
    pub fragments: Arc<Fragments>,
    /// Where they count, if not everywhere: the source is a row that is consumed elsewhere.
    parts: Option<Arc<[KeyRange]>>,
}

impl Covering {
    /// Whether they count at `key`.
    #[inline]
    pub fn counts_at(&self, key: &[u8]) -> bool {
        self.parts.as_ref().is_none_or(|parts| parts.iter().any(|part| part.contains(key)))
    }
}

/// For how many rows of L0 there is room from the start, and for how many other sources. Where
/// there are more, they are moved.
const ROWS_USUAL_MAX: usize = 12;
const OTHERS_USUAL: usize = 3;

/// Which sources of a view may hold keys of an interval: in one view, the same selection has the
/// same sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Selection {
    memtables: Memtables,
    /// Of each row of L0, where its tables stand among the live ones.
    rows: SmallVec<[Range<u32>; 4]>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Memtables {
    /// All, at once.
    #[default]
    All,
    /// Those of the one drange at this index.
    OfDrange(usize),
    /// Those of all dranges, one after the other.
    InTurn,
}

impl Selection {
    /// What may hold keys of `range`. Without `range_index` all memtables may.
    pub(super) fn of(view: &View, range: &KeyRange, range_index: bool) -> Selection {
        let first = view.boundaries.index_of(range.start());
        let next = view.dranges.get(first + 1);
        let memtables = match next {
            _ if !range_index => Memtables::All,
            Some(next) if !range.is_before(next.keys.start()) => Memtables::InTurn,
            _ => Memtables::OfDrange(first),
        };
        let rows = view.version.l0().content().places_within(range);
        let rows = rows.map(|places| places.start as u32..places.end as u32).collect();
        Selection { memtables, rows }
    }
}

/// A cursor over everything that was selected of a view for `range`.
pub(in crate::store) fn cursor_over(
    selection: &Selection,
    view: &Arc<View>,
    range: &KeyRange,
    read_point: SeqNo,
    mode: ReadMode,
) -> Result<ScanCursor> {
    let room = selection.rows.len().min(ROWS_USUAL_MAX) + OTHERS_USUAL;
    let mut cursors = Gathering { cursor: MergingCursor::with_room_for(room), count: 0 };
    note(|notes| note_sources(notes, view, selection, range));
    let open = |memtable: &Arc<Memtable>| {
        cursors.add(Source::Memtable(memtable.cursor(read_point)));
    };
    match selection.memtables {
        Memtables::All => view.memtables().iter().for_each(open),
        Memtables::OfDrange(only) => view.dranges[only].memtables().for_each(open),
        Memtables::InTurn => {
            let memtables = MemtablesCursor::new(Arc::clone(view), read_point);
            cursors.add(Source::Memtables(Box::new(memtables)));
        }
    }
    view.version.l0().each_cursor(range, read_point, mode, &mut |cursor| {
        cursors.add(match cursor {
            L0Cursor::Table(cursor) => Source::Row(cursor),
            L0Cursor::Tables(cursor) => Source::Run(cursor),
        });
    })?;
    for (_, run) in view.version.runs().filter(|(_, run)| !run.is_empty()) {
        let tables = RunTables::Level(run.clone());
        cursors.add(Source::Run(RunCursor::new(tables, read_point, mode)));
    }
    Ok(ScanCursor::new(cursors.cursor))
}

/// The range tombstones of all sources of a view that may hold keys of `range`.
pub(in crate::store) fn coverings(
    view: &View,
    range: &KeyRange,
    mode: ReadMode,
) -> Result<Vec<Covering>> {
    let mut tombstones = Vec::new();
    for memtable in dranges_of(view, range).flat_map(DrangeView::memtables) {
        if memtable.has_range_tombstones() {
            tombstones.push(Covering { fragments: memtable.range_tombstones(), parts: None });
        }
    }
    for live in view.version.tables_with_range_tombstones() {
        if live.overlaps(range) {
            let clip = &live.table.meta().clip;
            let fragments = Arc::clone(live.table.reader(mode)?.range_tombstones());
            let whole = *clip == KeyRange::all();
            let fragments = if whole { fragments } else { Arc::new(fragments.clip(clip)) };
            tombstones.push(Covering { fragments, parts: live.parts.clone() });
        }
    }
    tombstones.retain(|some| !some.fragments.is_empty());
    Ok(tombstones)
}

/// The dranges that hold keys of `range`.
fn dranges_of<'a>(view: &'a View, range: &KeyRange) -> impl Iterator<Item = &'a DrangeView> {
    let first = view.boundaries.index_of(range.start());
    view.dranges[first..].iter().take_while(|drange| !range.is_before(drange.keys.start()))
}

/// What the sources of a scan are gathered in.
struct Gathering {
    cursor: MergingCursor<Source>,
    count: usize,
}

impl Gathering {
    /// Adds a source, which says when it works if the scan is being explained.
    fn add(&mut self, source: Source) {
        let source = match is_recording() {
            true => Source::Other(observed(source, self.count)),
            false => source,
        };
        self.cursor.add(source);
        self.count += 1;
    }
}

/// Notes the sources of a scan, in the order in which [`cursor_over`] makes cursors of them.
fn note_sources(notes: &mut Recorder, view: &View, selection: &Selection, range: &KeyRange) {
    notes.begin_sources();
    match selection.memtables {
        Memtables::All => {
            for memtable in view.memtables() {
                let is_active = view.dranges.iter().any(|one| one.is_active(&memtable));
                notes.memtable_source(&memtable, is_active);
            }
        }
        Memtables::OfDrange(only) => {
            let only = &view.dranges[only];
            for memtable in only.memtables() {
                notes.memtable_source(memtable, only.is_active(memtable));
            }
        }
        Memtables::InTurn => {
            let counts = dranges_of(view, range).map(|own| own.active().count());
            notes.memtables_source(counts.sum());
        }
    }
    for row in view.version.l0().content().rows_within(range) {
        match row.tables() {
            [only] => {
                let meta = only.table.meta();
                notes.table_source(0, Some(only.row.0), meta);
            }
            tables => notes.row_source(tables[0].row.0, tables.len()),
        }
    }
    for (level, run) in view.version.runs().filter(|(_, run)| !run.is_empty()) {
        notes.level_source(level.0, run.tables().len());
    }
}
