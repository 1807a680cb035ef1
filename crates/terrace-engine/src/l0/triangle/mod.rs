//! The triangle: L0 in pages of persistent memory, or of a file.
//!
//! # Why
//! Plain rows of L0 are files, and a file goes as a whole. So either a cut takes all that shares
//! keys, which is nearly all of L0 and L1, and writers wait for it; or what was cut stays until the
//! rest is cut too. Where L0 lies in pages, a cut takes a key slice of bounded size and its pages
//! are free at once: L0 can be large, and what a cut costs does not depend on how large it is.
//!
//! ```text
//!    flush                                                                   cut
//!     │  ┌──────────────────────────────────────────┐ row 9, newest   ╎       │
//!     └─►└──────────────────────────────────────────┘                 ╎       ▼
//!             ┌─────────────────────────────────────┐ row 8     ┌───┐ ╎  what is left of the rows
//!             └─────────────────────────────────────┘           │   │ ╎  in one slice, merged with
//!                   ┌───────────────────────────────┐ row 7     │   │ ╎  the tables below
//!                   └───────────────────────────────┘           └───┘ ╎
//!        ├── cut last ──┤                           ├─ cut next ┤
//! ```
//!
//! # Parts
//! * [`Pages`]: the container's pages, given out and taken back.
//! * [`row`]: what one flush wrote into them, how it is read, and how its pages go one by one.
//! * [`Container`]: the rows of a range; which pages are still needed.
//! * [`cuts`]: which slice is next (pure); [`CutMap`](super::CutMap) says what of the rows
//!   is left, and has the proof that newer stays above older.
//! * [`TriangleL0`], [`TriangleState`]: the two sides of the seam.
//!
//! # Rules
//! 1. Nothing is dropped for lack of room: what the container has no pages for becomes a table in
//!    the range's table store, in the same row. The gate slows writers down before it comes to
//!    that.
//! 2. A load in the order of keys passes the container by: what lies above everything in L0 and
//!    above the flush before is a table at once, and goes down as it is.
//! 3. A range that was written with another kind of L0 is read and cut as it is: tables and rows in
//!    pages live side by side.
//!
//! *Source:* TriangleKV (TPDS 2022), §3. The matrix, its baseline, is §2.4.4 and MatrixKV (ATC
//! 2020): the rows that are there when the last of the rows before are used up make a set, and
//! columns are taken out of that set only, from its first key on.

mod absorb;
mod container;
pub mod cuts;
mod header;
mod pages;
pub mod row;
mod state;

use std::fmt;
use std::sync::Arc;

use terrace_base::{KeyRange, RowId};
use terrace_env::{Latch, SharedEnv};

use self::absorb::Absorb;
pub use self::container::Container;
pub use self::cuts::CutSize;
pub use self::header::HEADER_BYTES;
pub use self::pages::{Page, Pages};
pub use self::state::TriangleState;
use super::flush_writer::FlushWriter;
use super::{Absorbed, FlushInput, L0, L0State, LiveRows, LiveTable};
use crate::Result;
use crate::ids::FileIds;
use crate::process::TableIo;
use crate::table::{TableShape, TableStore};
use crate::version::NewRow;

/// How rows leave the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerKind {
    /// Cuts take all rows, and go round.
    Triangle,
    /// Columns of a set of rows; what is written meanwhile waits for the next set.
    Matrix,
}

/// How the container is kept.
#[derive(Clone, Debug)]
pub struct TriangleOptions {
    /// Whose cuts.
    pub kind: ContainerKind,
    /// Cuts are due when so much of the container holds something, in percent.
    pub start_percent: u64,
    /// How large a cut is.
    pub cut_size: CutSize,
    /// How tables are built of what does not go into pages.
    pub shape: TableShape,
}

/// L0 in a container of pages.
pub struct TriangleL0 {
    container: Arc<Container>,
    /// For what does not go into pages.
    writer: FlushWriter,
    options: TriangleOptions,
    last: Latch<Last>,
}

/// What the next flush goes by.
#[derive(Default)]
struct Last {
    /// Where the last table of the last flush lies.
    flushed: Option<KeyRange>,
    /// The last flush ran out of pages in the middle: this one is to do without.
    is_full: bool,
}

impl TriangleL0 {
    /// An L0 in `container`, which may be opened later; what does not go there goes to `store`.
    #[must_use]
    pub fn new(
        env: &SharedEnv,
        container: Arc<Container>,
        store: Arc<dyn TableStore>,
        ids: Arc<FileIds>,
        options: TriangleOptions,
    ) -> TriangleL0 {
        let (env, shape) = (Arc::clone(env), options.shape.clone());
        let writer = FlushWriter { env, store, ids, shape, io: None };
        TriangleL0 { container, writer, options, last: Latch::default() }
    }

    /// The same; tables that it writes obey a limit, pages do not.
    #[must_use]
    pub fn limited_by(mut self, io: TableIo) -> TriangleL0 {
        self.writer.io = Some(io);
        self
    }

    /// Whether a flush that begins with `first` goes on where the last one ended, above all of L0.
    fn passes_by(&self, first: &[u8], live: &[LiveTable]) -> bool {
        let goes_on = self.last.lock().flushed.as_ref().is_some_and(|last| last.is_before(first));
        goes_on && live.iter().all(|one| one.table.span().is_before(first))
    }
}

impl L0 for TriangleL0 {
    fn absorb(&self, mut input: FlushInput<'_, '_>) -> Result<Absorbed> {
        // What a flush wrote that failed afterwards is nobody's.
        self.container.let_go();
        let was_full = std::mem::take(&mut self.last.lock().is_full);
        let live = self.container.newest_state();
        let live = live.as_deref().unwrap_or_default();
        let first = input.entry()?;
        let passes_by = first.is_some_and(|first| self.passes_by(first.key, live));
        let tables = match self.container.pages().filter(|_| !passes_by && !was_full) {
            Some(pages) => {
                let predecessors = Container::predecessors(live);
                let absorb =
                    Absorb { container: &self.container, writer: &self.writer, pages: &pages };
                absorb.write(&predecessors, &mut input)?
            }
            None => Some(self.writer.write(&[], &mut input)?),
        };
        let Some(tables) = tables else {
            self.last.lock().is_full = true;
            self.container.let_go();
            return Ok(Absorbed::Again);
        };
        if let Some(table) = tables.last() {
            self.last.lock().flushed = Some(table.bounds.clone());
        }
        let row = (!tables.is_empty()).then_some(NewRow { tables });
        Ok(Absorbed::Row(row))
    }

    fn empty(&self) -> Arc<dyn L0State> {
        let options = self.options.clone();
        Arc::new(TriangleState::new(LiveRows::default(), options, &self.container, RowId(0)))
    }
}

impl fmt::Debug for TriangleL0 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TriangleL0")
            .field("container", &self.container)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
