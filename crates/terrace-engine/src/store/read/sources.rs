//! What a scan merges: everything in a view that may hold keys of an interval.

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

/// Everything in a view that may hold keys of `range`: a cursor over it, and the range tombstones.
/// Without `range_index` all memtables may.
pub(in crate::store) fn sources(
    view: &Arc<View>,
    range: &KeyRange,
    read_point: SeqNo,
    mode: ReadMode,
    range_index: bool,
) -> Result<(ScanCursor, Vec<Covering>)> {
    let rows = view.version.l0().content().live().len();
    let cursor = MergingCursor::with_room_for(rows.min(ROWS_USUAL_MAX) + OTHERS_USUAL);
    let mut cursors = Gathering { cursor, count: 0 };
    let mut tombstones = Vec::new();
    let first = view.boundaries.index_of(range.start());
    let reached = |drange: &&DrangeView| !range.is_before(drange.keys.start());
    let dranges: SmallVec<[&DrangeView; 8]> =
        view.dranges[first..].iter().take_while(reached).collect();
    for memtable in dranges.iter().flat_map(|drange| drange.memtables()) {
        if memtable.has_range_tombstones() {
            tombstones.push(Covering { fragments: memtable.range_tombstones(), parts: None });
        }
    }
    note(|notes| note_sources(notes, view, &dranges, range, range_index));
    let open = |memtable: &Arc<Memtable>| {
        cursors.add(Source::Memtable(memtable.cursor(read_point)));
    };
    match dranges.as_slice() {
        _ if !range_index => view.memtables().iter().for_each(open),
        [only] => only.memtables().for_each(open),
        _ => {
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
    Ok((ScanCursor::new(cursors.cursor), tombstones))
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

/// Notes the sources of a scan, in the order in which [`sources`] makes cursors of them.
fn note_sources(
    notes: &mut Recorder,
    view: &View,
    dranges: &[&DrangeView],
    range: &KeyRange,
    range_index: bool,
) {
    notes.begin_sources();
    match dranges {
        _ if !range_index => {
            for memtable in view.memtables() {
                let is_active = view.dranges.iter().any(|one| one.is_active(&memtable));
                notes.memtable_source(&memtable, is_active);
            }
        }
        [only] => {
            for memtable in only.memtables() {
                notes.memtable_source(memtable, only.is_active(memtable));
            }
        }
        _ => notes.memtables_source(dranges.iter().map(|own| own.active().count()).sum()),
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
