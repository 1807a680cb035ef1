use std::fmt;
use std::sync::Arc;

use terrace_base::{KeyRange, RowId, SeqNo};
use terrace_env::Latch;

use super::container::Container;
use super::cuts::slices_in_turn;
use super::row::SeekTrail;
use super::{ContainerKind, TriangleOptions};
use crate::Result;
use crate::iter::{ClippedCursor, Cursor, PartsCursor};
use crate::l0::content::Content;
use crate::l0::{Cut, CutBounds, Fill, L0State, LiveRows, LiveTable, Row};
use crate::table::ReadMode;
use crate::version::{OpenTable, Table};

/// The rows of a container, as one version has them.
pub struct TriangleState {
    content: LiveRows,
    options: TriangleOptions,
    container: Arc<Container>,
    /// Of the container's states.
    number: u64,
    /// Up to which row the matrix takes its columns.
    compacted_through: RowId,
    /// The cuts that were proposed last, and within which bounds: they are asked for several times.
    proposed: Latch<Option<(CutBounds, Vec<Cut>)>>,
}

impl TriangleState {
    pub(super) fn new(
        content: LiveRows,
        options: TriangleOptions,
        container: &Arc<Container>,
        compacted_through: RowId,
    ) -> TriangleState {
        let number = container.enter(content.live());
        TriangleState {
            content,
            options,
            container: Arc::clone(container),
            number,
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

    /// The cuts that could be taken, in the order of their turns.
    fn cuts_within(&self, bounds: &CutBounds) -> Vec<Cut> {
        let from = self.cut_from();
        let (Some(newest), Some(oldest)) = (from.first(), from.last()) else { return Vec::new() };
        let content = Content::of(from);
        let first = match self.options.kind {
            // Where the oldest row begins to count no cut has been for the longest time.
            ContainerKind::Triangle => {
                let of_oldest = from.iter().filter(|one| one.row == oldest.row);
                of_oldest.flat_map(LiveTable::parts).map(KeyRange::start).min()
            }
            ContainerKind::Matrix => None,
        };
        let first = first.unwrap_or_default();
        let slices = slices_in_turn(&content, first, bounds, self.options.cut_size);
        let (pressure, through) = (self.pressure(), newest.row);
        slices.into_iter().map(|slice| Cut { slice, through, pressure }).collect()
    }
}

impl L0State for TriangleState {
    fn content(&self) -> &LiveRows {
        &self.content
    }

    fn cursors(
        &self,
        range: &KeyRange,
        read_point: SeqNo,
        mode: ReadMode,
    ) -> Result<Vec<Box<dyn Cursor + Send>>> {
        // They seek one after the other, the newest row's first: each tells the next where to look.
        let trail = Arc::new(SeekTrail::default());
        let touched = self.live().iter().filter(|live| live.overlaps(range));
        let cursors = touched.map(|live| -> Result<Box<dyn Cursor + Send>> {
            let Some(OpenTable::Row(row)) = live.table.open_table() else {
                return live.cursor(read_point, mode);
            };
            let cursor = row.cursor(read_point, Some(Arc::clone(&trail)));
            let clip = &live.table.meta().clip;
            Ok(match (&live.parts, *clip == KeyRange::all()) {
                (None, true) => Box::new(cursor),
                (None, false) => Box::new(ClippedCursor::new(cursor, clip.clone())),
                // Where it counts lies within the clip interval.
                (Some(parts), _) => Box::new(PartsCursor::new(Box::new(cursor), Arc::clone(parts))),
            })
        });
        cursors.collect()
    }

    fn propose_cuts(&self, bounds: &CutBounds) -> Vec<Cut> {
        let known = self.proposed.lock().as_ref().filter(|known| known.0 == *bounds).cloned();
        if let Some((_, cuts)) = known {
            return cuts;
        }
        let cuts = self.cuts_within(bounds);
        // A row that is not open yet has not said where its bytes lie.
        if self.live().iter().all(|live| live.table.open_table().is_some()) {
            let before = self.proposed.lock().replace((bounds.clone(), cuts.clone()));
            drop(before);
        }
        cuts
    }

    fn takes_turns(&self) -> bool {
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
        self.container.leave(self.number);
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
