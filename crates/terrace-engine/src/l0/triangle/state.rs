use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_base::{KeyRange, RowId, SeqNo};
use terrace_env::Latch;

use super::container::Container;
use super::cuts::{CutTurn, Rows, Slice};
use super::row::SeekTrail;
use super::{ContainerKind, TriangleOptions};
use crate::Result;
use crate::iter::{ClippedCursor, PartsCursor};
use crate::l0::content::Content;
use crate::l0::{
    Cut, CutBounds, Cuts, Fill, L0Cursor, L0Policy, L0State, LiveRows, LiveTable, Row,
};
use crate::table::ReadMode;
use crate::version::{KeysCursor, OpenTable, Table};

/// The rows of a container, as one version has them.
pub struct TriangleState {
    content: LiveRows,
    options: TriangleOptions,
    container: Arc<Container>,
    /// Of the container's states, once it is one; before, 0.
    number: AtomicU64,
    /// The newest row of the set that the matrix takes columns of, from its first cut on.
    compacted_through: RowId,
    /// What was proposed last: it is asked for several times.
    proposed: Latch<Option<Proposed>>,
}

/// The cuts that were proposed within some bounds, and what is left of the turn.
#[derive(Debug)]
struct Proposed {
    bounds: CutBounds,
    slices: Vec<Slice>,
    rest: CutTurn,
}

/// The tables of rows say what they are asked without a look at their data.
impl Rows for [LiveTable] {
    fn bytes_within(&self, keys: &KeyRange) -> u64 {
        let bytes = self.iter().filter(|one| one.overlaps(keys)).map(|one| {
            // One that is not open yet has not said where its bytes lie: all are at its first key.
            let is_there = one.table.open_table().is_some()
                || one.parts().first().is_some_and(|part| keys.contains(part.start()));
            if is_there { one.bytes_within(keys) } else { 0 }
        });
        bytes.sum()
    }

    fn keys_within(&self, keys: &KeyRange) -> Vec<Vec<u8>> {
        let overlapping = self.iter().filter(|one| one.overlaps(keys));
        let open = overlapping.filter_map(|one| one.table.open_table());
        open.flat_map(|table| table.keys_within(keys, KEYS_PER_TABLE)).collect()
    }
}

/// Number of keys, about, that are looked at before rows are asked: only where to begin.
const SAMPLES_MAX: usize = 256;
/// Number of keys that each table is asked for where samples lie too far apart.
const KEYS_PER_TABLE: usize = 8;

impl Proposed {
    /// The same for other bounds, if they say no more than that jobs have taken some of the slices.
    fn within(mut self, bounds: &CutBounds) -> Option<Proposed> {
        if self.bounds == *bounds {
            return Some(self);
        }
        let Proposed { bounds: known, slices, .. } = &mut self;
        let is_left = known.busy.iter().all(|keys| bounds.busy.contains(keys));
        if !is_left || known.bytes != bounds.bytes || known.below != bounds.below {
            return None;
        }
        for keys in bounds.busy.iter().filter(|keys| !known.busy.contains(keys)) {
            let taken = slices.iter().position(|slice| slice.keys == *keys)?;
            slices.remove(taken);
        }
        known.busy.clone_from(&bounds.busy);
        Some(self)
    }
}

impl TriangleState {
    pub(super) fn new(
        content: LiveRows,
        options: TriangleOptions,
        container: &Arc<Container>,
        compacted_through: RowId,
    ) -> TriangleState {
        TriangleState {
            content,
            options,
            container: Arc::clone(container),
            number: AtomicU64::new(0),
            compacted_through,
            proposed: Latch::default(),
        }
    }

    /// About how many bytes are live.
    fn live_bytes(&self) -> u64 {
        self.live().iter().map(LiveTable::bytes).sum()
    }

    /// Bytes of the container.
    fn capacity(&self) -> u64 {
        let opened = self.container.pages();
        opened.map_or(0, |pages| (pages.total_pages() * pages.page_bytes()) as u64)
    }

    /// From how many live bytes on cuts are due.
    fn start_bytes(&self) -> u64 {
        (self.capacity() / 100 * self.options.start_percent).max(1)
    }

    /// The tables that cuts are taken from.
    fn cut_from(&self) -> &[LiveTable] {
        match self.options.kind {
            ContainerKind::Triangle => self.live(),
            ContainerKind::Matrix => {
                let newer = self.live().partition_point(|one| one.row > self.compacted_through);
                &self.live()[newer..]
            }
        }
    }

    /// The turn of cuts that begins now.
    fn turn(&self, bounds: &CutBounds) -> CutTurn {
        let from = self.cut_from();
        let first = match self.options.kind {
            // Where the oldest row begins to count no cut has been for the longest time.
            ContainerKind::Triangle => {
                let oldest = from.last().map(|one| one.row);
                let of_oldest = from.iter().filter(|one| Some(one.row) == oldest);
                of_oldest.flat_map(LiveTable::parts).map(KeyRange::start).min()
            }
            ContainerKind::Matrix => None,
        };
        let first = first.unwrap_or_default();
        CutTurn::new(Content::of(from, SAMPLES_MAX), first, bounds, self.options.cut_size)
    }
}

/// The cuts of a state, in the order of their turns.
struct InTurn<'a> {
    state: &'a TriangleState,
    pressure: f64,
    /// There until this is dropped.
    proposed: Option<Proposed>,
    taken: usize,
}

impl Iterator for InTurn<'_> {
    type Item = Cut;

    fn next(&mut self) -> Option<Cut> {
        let from = self.state.cut_from();
        let through = from.first()?.row;
        let proposed = self.proposed.as_mut()?;
        if self.taken == proposed.slices.len() {
            proposed.slices.push(proposed.rest.next(from)?);
        }
        let Slice { keys, end } = proposed.slices[self.taken].clone();
        self.taken += 1;
        Some(Cut { slice: keys, through, pressure: self.pressure, end })
    }
}

impl Drop for InTurn<'_> {
    fn drop(&mut self) {
        // A row that is not open yet has not said where its bytes lie.
        if self.state.live().iter().all(|live| live.table.open_table().is_some()) {
            let before = std::mem::replace(&mut *self.state.proposed.lock(), self.proposed.take());
            drop(before);
        }
    }
}

impl L0State for TriangleState {
    fn with(&self, content: LiveRows) -> Arc<dyn L0State> {
        // A set grows until its first cut.
        let through = self.compacted_through;
        let is_begun = |row: &Arc<Row>| row.meta.id <= through && !content.is_whole(row);
        let newest = || content.rows().first().map_or(RowId(0), |row| row.meta.id);
        let through = if content.rows().iter().any(is_begun) { through } else { newest() };
        Arc::new(TriangleState::new(content, self.options.clone(), &self.container, through))
    }

    fn installed(&self) {
        self.container.adopt(self.rows());
        let before = self.number.swap(self.container.enter(self.content.live()), Ordering::Relaxed);
        assert_eq!(before, 0, "a state is installed once");
    }

    fn content(&self) -> &LiveRows {
        &self.content
    }

    fn each_cursor(
        &self,
        range: &KeyRange,
        read_point: SeqNo,
        mode: ReadMode,
        take: &mut dyn FnMut(L0Cursor),
    ) -> Result<()> {
        // They seek one after the other, the newest row's first: each tells the next where to look.
        let trail = Arc::new(SeekTrail::default());
        let mut cursors = self.content.rows_within(range).map(|tables| -> Result<L0Cursor> {
            let [live] = tables.tables() else { return tables.cursor(read_point, mode) };
            let Some(OpenTable::Row(row)) = live.table.open_table() else {
                return tables.cursor(read_point, mode);
            };
            let cursor = row.cursor(read_point, Some(Arc::clone(&trail)));
            let clip = &live.table.meta().clip;
            Ok(L0Cursor::Table(KeysCursor::Other(match (&live.parts, *clip == KeyRange::all()) {
                (None, true) => Box::new(cursor),
                (None, false) => Box::new(ClippedCursor::new(cursor, clip.clone())),
                // Where it counts lies within the clip interval.
                (Some(parts), _) => Box::new(PartsCursor::new(cursor, Arc::clone(parts))),
            })))
        });
        cursors.try_for_each(|cursor| cursor.map(&mut *take))
    }

    fn policy(&self) -> &dyn L0Policy {
        self
    }
}

impl L0Policy for TriangleState {
    fn propose_cuts<'a>(&'a self, bounds: &'a CutBounds) -> Cuts<'a> {
        // Nobody else has it meanwhile: whoever asks at the same time works it out as well.
        let known = self.proposed.lock().take();
        let known = known.and_then(|known| known.within(bounds));
        let proposed = known.unwrap_or_else(|| Proposed {
            bounds: bounds.clone(),
            slices: Vec::new(),
            rest: self.turn(bounds),
        });
        let (pressure, proposed) = (self.pressure(), Some(proposed));
        Cuts::InTurn(Box::new(InTurn { state: self, pressure, proposed, taken: 0 }))
    }

    fn divides_cuts(&self) -> bool {
        false
    }

    /// Also where L0 is not full: a row of which little is left makes a cut due.
    fn wants_open_rows(&self) -> bool {
        true
    }

    fn due_bytes(&self) -> u64 {
        self.live_bytes().saturating_sub(self.start_bytes())
    }

    fn lone_rows(&self) -> Vec<Arc<Row>> {
        // Rows in pages are written anew, whatever they meet.
        let is_file = |table: &Arc<Table>| !table.meta().is_in_pages();
        let is_alone = |row: &Row| {
            let span = row.span();
            !self.live().iter().any(|one| one.row != row.meta.id && one.overlaps(&span))
        };
        let rows = self.rows().iter().filter(|row| row.tables.iter().all(is_file));
        rows.filter(|row| self.content.is_whole(row) && is_alone(row)).cloned().collect()
    }

    fn pressure(&self) -> f64 {
        if self.live().is_empty() {
            return 0.0;
        }
        self.live_bytes() as f64 / self.start_bytes() as f64
    }

    /// In bytes. Writers are slowed down when more has come than cuts take away.
    fn fill(&self) -> Fill {
        let (capacity, start) = (self.capacity(), self.start_bytes());
        let slow = start + capacity.saturating_sub(start) / 4;
        Fill { used: self.live_bytes(), start, slow, stop: capacity.max(slow + 1) }
    }
}

impl Drop for TriangleState {
    fn drop(&mut self) {
        // One that never was the current version's had nothing for itself.
        match *self.number.get_mut() {
            0 => {}
            number => self.container.leave(number),
        }
    }
}

impl fmt::Debug for TriangleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TriangleState")
            .field("rows", &self.rows().len())
            .field("consumed", self.consumed())
            .finish_non_exhaustive()
    }
}
