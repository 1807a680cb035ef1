//! Plain tables as L0: each row is one table (or a few, if the flush was large), read newest
//! first. A cut takes a key slice of bounded size out of all rows; what is gone from them the
//! [cut map](super::CutMap) says.
//!
//! Rows that are connected by keys that they share are a group. A row that is a group by itself may
//! go down as it is; rows of one group may be merged into one in their place.
//!
//! ```text
//!   row 9            ├─────┤
//!   row 8   ├────┤                         one group: 8, 6      another: 9, 7
//!   row 7               ├──────┤           the depth of both is 2
//!   row 6     ├─────┤
//! ```
//!
//! *Source:* LevelDB and its kin; the baseline of TriangleKV and MatrixKV. *Differs:* there a cut
//! takes whole rows, and rows count, however many share a key. The baseline itself can be had: all
//! rows at a time ([`PlainOptions::takes_all`]), and on a medium of their own, whose bytes count
//! ([`PlainOptions::room`]).

mod slices;

use std::sync::Arc;

use terrace_base::KeyRange;
use terrace_env::SharedEnv;

use super::content::{Content, SAMPLES_MAX};
use super::flush_writer::FlushWriter;
use super::{
    Absorbed, Cut, CutBounds, CutEnd, Cuts, Fill, FlushInput, L0, L0Policy, L0State, LiveRows,
    LiveTable, Row,
};
use crate::Result;
use crate::ids::FileIds;
use crate::process::TableIo;
use crate::table::{TableShape, TableStore};
use crate::version::NewRow;

use slices::{Slice, slices_of};

/// How plain tables are kept as L0.
#[derive(Clone, Debug)]
pub struct PlainOptions {
    /// A cut is due when this many rows share a key.
    pub rows_per_cut: usize,
    /// Writers are slowed down when more rows than these share a key; every cut is due when there
    /// are this many, whatever they share.
    pub rows_slow: usize,
    /// Writers wait while this many rows share a key.
    pub rows_stop: usize,
    /// Bytes that rows may take, if it is they that count and not the rows that share a key: the
    /// size of the medium that is kept for L0.
    pub room: Option<u64>,
    /// Whether a cut takes everything: all rows, whole.
    pub takes_all: bool,
    /// How tables are built.
    pub shape: TableShape,
}

/// Percentage of the bytes for rows from which on cuts are due. It is that of a container, so that
/// the two kinds can be compared.
const ROOM_START_PERCENT: u64 = 60;
/// Percentage of the bytes for rows above which writers are slowed down.
const ROOM_SLOW_PERCENT: u64 = 70;
/// Number of rows that make a cut due, however small they are: each costs a read a look.
const ROOM_ROWS_MAX: usize = 256;

/// This percentage of `bytes`.
fn percent_of(bytes: u64, percent: u64) -> u64 {
    bytes / 100 * percent + bytes % 100 * percent / 100
}

/// L0 as plain tables in the range's table store.
#[derive(Debug)]
pub struct PlainL0 {
    writer: FlushWriter,
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
        let (env, shape) = (Arc::clone(env), options.shape.clone());
        PlainL0 { writer: FlushWriter { env, store, ids, shape, io: None }, options }
    }

    /// The same; what it writes obeys a limit.
    #[must_use]
    pub fn limited_by(mut self, io: TableIo) -> PlainL0 {
        self.writer.io = Some(io);
        self
    }
}

impl L0 for PlainL0 {
    fn absorb(&self, mut input: FlushInput<'_, '_>) -> Result<Absorbed> {
        let tables = self.writer.write(&[], &mut input)?;
        let row = (!tables.is_empty()).then_some(NewRow { tables });
        Ok(Absorbed::Row(row))
    }

    fn empty(&self) -> Arc<dyn L0State> {
        Arc::new(PlainState::of(LiveRows::default(), self.options.clone()))
    }
}

/// Rows that are connected by keys that they share, consumed ones included.
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
    content: LiveRows,
    groups: Vec<Group>,
    depth: usize,
    options: PlainOptions,
}

impl PlainState {
    fn of(content: LiveRows, options: PlainOptions) -> PlainState {
        let groups = groups_of(content.rows());
        let depth = Content::without_samples(content.live()).depth_within(&KeyRange::all());
        PlainState { content, groups, depth, options }
    }

    /// How pressing it is that `depth` rows share a key.
    fn pressure_of(&self, depth: usize) -> f64 {
        if let Some(room) = self.options.room {
            let by_bytes =
                self.held_bytes() as f64 / percent_of(room, ROOM_START_PERCENT).max(1) as f64;
            return by_bytes.max(self.rows().len() as f64 / ROOM_ROWS_MAX as f64);
        }
        let by_depth = depth as f64 / self.options.rows_per_cut as f64;
        let by_count = self.rows().len() as f64 / self.options.rows_slow as f64;
        if by_count >= 1.0 { by_depth.max(by_count) } else { by_depth }
    }

    /// What rows take, consumed or not: a file goes as a whole.
    fn held_bytes(&self) -> u64 {
        self.tables().iter().map(|table| table.meta().bytes).sum()
    }

    /// The cuts that could be taken, the most pressing first.
    fn cuts_within(&self, bounds: &CutBounds) -> Vec<Cut> {
        let Some(newest) = self.rows().first() else { return Vec::new() };
        if self.options.takes_all {
            let spans = self.live().iter().map(|one| one.table.span());
            let Some(slice) = spans.cloned().reduce(|all, span| all.hull(&span)) else {
                return Vec::new();
            };
            let (through, pressure) = (newest.meta.id, self.pressure());
            return vec![Cut { slice, through, pressure, end: CutEnd::Unbounded }];
        }
        let cut = |slice: Slice| Cut {
            slice: slice.keys,
            through: newest.meta.id,
            pressure: self.pressure_of(slice.depth),
            end: CutEnd::Unbounded,
        };
        let mut cuts: Vec<Cut> = slices_of(&Content::of(self.live(), SAMPLES_MAX), bounds)
            .into_iter()
            .map(cut)
            .collect();
        cuts.sort_by(|a, b| b.pressure.total_cmp(&a.pressure));
        cuts
    }

    /// The rows of a group, newest first.
    fn rows_of(&self, group: &Group) -> impl Iterator<Item = &Arc<Row>> {
        group.rows.iter().map(|index| &self.rows()[*index])
    }
}

impl L0State for PlainState {
    fn with(&self, content: LiveRows) -> Arc<dyn L0State> {
        Arc::new(PlainState::of(content, self.options.clone()))
    }

    fn content(&self) -> &LiveRows {
        &self.content
    }

    fn policy(&self) -> &dyn L0Policy {
        self
    }
}

impl L0Policy for PlainState {
    fn propose_cuts<'a>(&'a self, bounds: &'a CutBounds) -> Cuts<'a> {
        Cuts::ByPrice(self.cuts_within(bounds))
    }

    fn divides_cuts(&self) -> bool {
        true
    }

    fn wants_open_rows(&self) -> bool {
        self.pressure() >= 1.0
    }

    fn due_bytes(&self) -> u64 {
        if self.live().is_empty() || self.pressure_of(self.depth) < 1.0 {
            return 0;
        }
        self.live().iter().map(LiveTable::bytes).sum()
    }

    fn lone_rows(&self) -> Vec<Arc<Row>> {
        let lone = self.groups.iter().filter(|group| group.rows.len() == 1);
        let rows = lone.flat_map(|group| self.rows_of(group));
        rows.filter(|row| self.content.is_whole(row)).cloned().collect()
    }

    fn pressure(&self) -> f64 {
        let deepest = if self.live().is_empty() { 0.0 } else { self.pressure_of(self.depth) };
        // Rows that share no key with others may be able to go down as they are.
        let has_lone_row = self.groups.iter().any(|group| group.rows.len() == 1);
        let is_wide = self.options.room.is_none()
            && has_lone_row
            && self.rows().len() >= self.options.rows_per_cut;
        if is_wide { deepest.max(1.0) } else { deepest }
    }

    /// By the depth that a key meets on average, unless writers are slowed down by the greatest
    /// one.
    fn urgency(&self) -> f64 {
        let pressure = self.pressure();
        let is_by_bytes = self.options.room.is_some();
        if pressure < 1.0 || is_by_bytes || self.depth >= self.options.rows_slow {
            return pressure;
        }
        let live = self.live().iter().map(LiveTable::bytes).sum::<u64>() as f64;
        let held = self.held_bytes().max(1) as f64;
        let mean = (live / held * self.rows().len() as f64).min(self.depth as f64);
        (mean / self.options.rows_per_cut as f64).clamp(1.0, pressure)
    }

    /// In rows: as many as a read of one key may have to ask, at most; or in bytes, if there is a
    /// room for them.
    fn fill(&self) -> Fill {
        if let Some(room) = self.options.room {
            let slow = percent_of(room, ROOM_SLOW_PERCENT);
            return Fill {
                used: self.held_bytes(),
                start: percent_of(room, ROOM_START_PERCENT),
                slow,
                stop: room.max(slow + 1),
            };
        }
        let PlainOptions { rows_per_cut, rows_slow, rows_stop, .. } = self.options;
        let [start, slow, stop] = [rows_per_cut, rows_slow, rows_stop].map(|rows| rows as u64);
        Fill { used: self.depth as u64, start, slow, stop }
    }

    fn mergeable_rows(&self, slice: &KeyRange) -> Vec<Arc<Row>> {
        // Fewer rows take no less room, and merged ones would be written to the levels' medium.
        if self.options.room.is_some() || self.options.takes_all {
            return Vec::new();
        }
        let is_in = |row: &Arc<Row>| {
            self.live().iter().any(|one| one.row == row.meta.id && one.overlaps(slice))
        };
        let group = self.groups.iter().find(|group| self.rows_of(group).any(is_in));
        group.into_iter().flat_map(|group| self.rows_of(group)).cloned().collect()
    }
}
