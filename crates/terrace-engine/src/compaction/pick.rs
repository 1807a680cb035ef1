//! Which compaction is due. Pure: looks at a version, does nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use terrace_base::{FileId, KeyRange, LevelNo, RowId, SeqNo, WallTime};

use super::levels::LevelTargets;
use crate::l0::{Cut, CutBounds, CutEnd, LiveTable, Row};
use crate::table::is_in_row_directory;
use crate::version::{LEVEL_MAX, Run, Table, TableMeta, Version};

pub use super::levels::{LevelShape, debt_bytes};

/// One input of a compaction.
#[derive(Clone, Debug)]
pub struct Input {
    /// The level that it lies in; 0 for a table of a row.
    pub level: LevelNo,
    /// The table.
    pub table: Arc<Table>,
    /// Where it counts, if not everywhere: intervals that ascend and do not touch.
    pub parts: Option<Arc<[KeyRange]>>,
}

impl Input {
    fn of_level(level: LevelNo, table: &Arc<Table>) -> Input {
        Input { level, table: Arc::clone(table), parts: None }
    }

    /// A table of a row, as far as it counts.
    pub(crate) fn of_l0(live: &LiveTable) -> Input {
        let (table, parts) = (Arc::clone(&live.table), live.parts.clone());
        Input { level: LevelNo(0), table, parts }
    }

    /// Where it counts within `slice`: intervals that ascend and do not touch.
    pub fn parts_within(&self, slice: &KeyRange) -> impl Iterator<Item = KeyRange> {
        let whole = std::slice::from_ref(self.table.span());
        let parts = self.parts.as_deref().unwrap_or(whole);
        let shared = parts.iter().map(|part| part.intersection(slice));
        shared.filter(|part| !part.is_empty())
    }

    /// About how many of its bytes count within `slice`.
    #[must_use]
    pub fn bytes_within(&self, slice: &KeyRange) -> u64 {
        let bytes: u64 = self.parts_within(slice).map(|part| self.table.bytes_within(&part)).sum();
        bytes.min(self.table.meta().bytes)
    }
}

/// A compaction that was decided on: what moves where.
#[derive(Clone, Debug)]
pub struct Compaction {
    /// The keys that move.
    pub slice: KeyRange,
    /// For a cut: the newest row that it is taken from. Of all rows up to it takes part what is live
    /// in the slice.
    pub through: Option<RowId>,
    /// Rows that leave L0 as a whole: they are moved, or merged into one in their place.
    pub rows: Vec<RowId>,
    /// The inputs, newest first.
    pub inputs: Vec<Input>,
    /// Where the outputs go; 0: into one row, in the place of those that leave.
    pub output_level: LevelNo,
    /// Whether the inputs are written anew even if they could go down as they are.
    pub rewrites: bool,
    /// For a cut: why it ends where it does.
    pub cut_end: Option<CutEnd>,
}

impl Compaction {
    /// Whether the inputs can go down as they are: tables that are disjoint and meet nothing in
    /// the output level, so that only the version changes. Range tombstones are worth a rewrite,
    /// since every scan has to ask the tables that hold some.
    #[must_use]
    pub fn is_move(&self) -> bool {
        let Some(Input { level, .. }) = self.inputs.first() else { return false };
        let goes_as_it_is = |input: &Input| {
            input.level == *level
                && input.parts.is_none()
                // What lies on L0's own medium has no business below.
                && !is_in_row_directory(&input.table.meta().location)
                && input.table.meta().range_tombstone_count == 0
                && self.slice.intersection(input.table.span()) == *input.table.span()
        };
        !self.rewrites
            && self.through.is_none()
            && *level < self.output_level
            && self.inputs.iter().all(goes_as_it_is)
            && (self.rows.len() <= 1 || self.is_disjoint())
    }

    fn is_disjoint(&self) -> bool {
        let tables = self.inputs.iter().map(|input| Arc::clone(&input.table)).collect();
        Run::new(tables).is_some()
    }

    /// This compaction and another one into the same level as one; neither meets anything there.
    fn and(mut self, other: Compaction) -> Compaction {
        self.slice = self.slice.hull(&other.slice);
        self.rows.extend(other.rows);
        self.inputs.extend(other.inputs);
        self
    }

    /// About how many bytes of the inputs that lie in `level` take part.
    #[must_use]
    pub fn bytes_from(&self, level: LevelNo) -> u64 {
        let inputs = self.inputs.iter().filter(|input| input.level == level);
        inputs.map(|input| input.bytes_within(&self.slice)).sum()
    }

    /// Ids of the tables of levels that leave them with it. Those of rows stay until the row goes.
    pub fn table_ids(&self) -> impl Iterator<Item = FileId> {
        let of_levels = self.inputs.iter().filter(|input| input.level.0 > 0);
        of_levels.map(|input| input.table.meta().id)
    }

    /// The oldest and the newest row that something is taken from.
    fn row_interval(&self) -> Option<(RowId, RowId)> {
        let oldest = self.rows.iter().min().copied();
        match self.through {
            Some(newest) => Some((RowId(0), newest)),
            None => oldest.zip(self.rows.iter().max().copied()),
        }
    }
}

/// What the jobs that run have taken: their input tables, the keys of the levels that they write
/// into, and what they take out of L0.
///
/// The tables alone are not enough. A job whose inputs leave a gap between them writes tables that
/// span it, so a table that another job put into that gap meanwhile would overlap them. And of a row
/// many jobs may work on different keys at once, but no two on the same ones.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    tables: BTreeSet<FileId>,
    slices: Vec<(LevelNo, KeyRange)>,
    rows: Vec<TakenRows>,
}

/// These keys of the rows from one to another.
#[derive(Clone, Debug, PartialEq)]
struct TakenRows {
    keys: KeyRange,
    oldest: RowId,
    newest: RowId,
}

impl TakenRows {
    fn of(compaction: &Compaction) -> Option<TakenRows> {
        let (oldest, newest) = compaction.row_interval()?;
        Some(TakenRows { keys: compaction.slice.clone(), oldest, newest })
    }

    fn is_in_the_way_of(&self, other: &TakenRows) -> bool {
        self.oldest <= other.newest
            && other.oldest <= self.newest
            && self.keys.overlaps(&other.keys)
    }
}

impl Taken {
    /// Whether a compaction gets in the way of none that runs.
    #[must_use]
    pub fn is_free(&self, compaction: &Compaction) -> bool {
        let (level, own) = (compaction.output_level, &compaction.slice);
        !compaction.table_ids().any(|id| self.tables.contains(&id))
            && !self.slices.iter().any(|(other, slice)| *other == level && slice.overlaps(own))
            && TakenRows::of(compaction).is_none_or(|own| self.are_free(&own))
    }

    fn are_free(&self, rows: &TakenRows) -> bool {
        !self.rows.iter().any(|other| other.is_in_the_way_of(rows))
    }

    /// Whether all that counts of a table is taken out of L0 by jobs that run.
    fn has_all_of(&self, live: &LiveTable) -> bool {
        let is_taken = |part: &KeyRange| {
            self.rows
                .iter()
                .any(|rows| rows.newest >= live.row && rows.keys.hull(part) == rows.keys)
        };
        live.parts().iter().all(is_taken)
    }

    /// How many jobs have taken something.
    #[must_use]
    pub fn job_count(&self) -> usize {
        self.slices.len()
    }

    /// Takes what a compaction needs, which is free.
    pub fn take(&mut self, compaction: &Compaction) {
        debug_assert!(self.is_free(compaction), "{compaction:?} gets in the way");
        self.reserve(compaction);
    }

    /// Keeps what a compaction needs from others, whether or not all of it is free.
    pub fn reserve(&mut self, compaction: &Compaction) {
        self.tables.extend(compaction.table_ids());
        self.slices.push((compaction.output_level, compaction.slice.clone()));
        self.rows.extend(TakenRows::of(compaction));
    }

    /// Gives back what was taken for a compaction.
    pub fn give_back(&mut self, compaction: &Compaction) {
        for id in compaction.table_ids() {
            self.tables.remove(&id);
        }
        let own = (compaction.output_level, &compaction.slice);
        let place = self.slices.iter().position(|(level, slice)| (*level, slice) == own);
        self.slices.swap_remove(place.expect("it was taken"));
        if let Some(own) = TakenRows::of(compaction) {
            let place = self.rows.iter().position(|other| *other == own);
            self.rows.swap_remove(place.expect("it was taken"));
        }
    }
}

/// How pressing a level is beside L0: the more it holds, the more, but writers wait for L0 first.
/// A level with four times what it should hold is as pressing as L0 with one and a half times the
/// rows that make a cut due.
fn urgency(pressure: f64) -> f64 {
    if pressure < 1.0 { pressure } else { 1.0 + pressure.log2() / 4.0 }
}

/// The compaction that is most due; none if the tree has its wanted shape, or if what is due
/// gets in the way of a job that runs.
///
/// L0 is due by its own measure, a level when it is larger than it should be. Of a level's tables
/// the one goes first that meets the fewest bytes below for its own size, so that each byte moved
/// rewrites as little as possible. What a cut out of L0 waits for is not begun anew by others.
#[must_use]
pub fn pick(
    version: &Version,
    shape: &LevelShape,
    taken: &Taken,
    served: Served,
) -> Option<Compaction> {
    let targets = LevelTargets::of(version, shape);
    let mut due: Vec<(f64, LevelNo)> = vec![(version.l0().urgency(), LevelNo(0))];
    for (level, run) in version.runs().filter(|(level, _)| *level < LEVEL_MAX) {
        due.push((urgency(targets.pressure(level, run.bytes())), level));
    }
    due.retain(|(pressure, _)| *pressure >= 1.0);
    due.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut held_up = None;
    for (_, level) in due {
        let chosen = match level {
            LevelNo(0) => match from_l0(version, shape, &targets, taken) {
                FromL0::Due(chosen) => Some(chosen),
                FromL0::HeldUp(waiting) => {
                    let held_up = held_up.get_or_insert_with(|| taken.clone());
                    waiting.iter().for_each(|chosen| held_up.reserve(chosen));
                    None
                }
                FromL0::Nothing => None,
            },
            level => from_level(version, level, held_up.as_ref().unwrap_or(taken)),
        };
        if chosen.is_some() {
            return chosen;
        }
    }
    let taken = held_up.as_ref().unwrap_or(taken);
    of_dead(version, shape, &targets, taken, served)
}

/// What readers may still look at: it must stay, however dead it looks.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// The least registered read point.
    pub least: Option<SeqNo>,
    /// The moment by which a job may judge expiry.
    pub now: WallTime,
}

/// So many deleted neighbours are worth a compaction: about the price of a seek that has to read a
/// block from the disk.
const TOMBSTONE_RUN_MAX: u64 = 128;
/// But only if one of so many entries of the table is a tombstone, so that a few deletes in a row do
/// not have whole tables written again and again.
const TOMBSTONE_SHARE: u64 = 8;

/// Whether a table is worth a compaction for what is dead in it: scans step over long runs of
/// tombstones, and what is expired takes space for nothing.
fn is_mostly_dead(meta: &TableMeta, served: Served) -> bool {
    let steps = meta.tombstone_run >= TOMBSTONE_RUN_MAX
        && meta.tombstone_count.saturating_mul(TOMBSTONE_SHARE) >= meta.entry_count;
    steps || meta.expired_from.is_some_and(|moment| moment <= served.now)
}

/// What is left of a table of a row is taken along when it is less than one part in so many: the file
/// goes only with the last of it.
const CONSUMED_SHARE: u64 = 8;

fn is_mostly_consumed(live: &LiveTable) -> bool {
    if live.parts.is_none() {
        return false;
    }
    // Only data counts, as in what is left: none, where the table is not open.
    let whole: u64 = live.table.samples(1).iter().map(|(_, bytes)| bytes).sum();
    live.bytes().saturating_mul(CONSUMED_SHARE) < whole
}

/// The compaction of a table that holds much that is dead or consumed, whether or not its level is
/// full: one level down, from the top on; and where nothing lies below it, once no reader needs it,
/// into nothing in its own place.
fn of_dead(
    version: &Version,
    shape: &LevelShape,
    targets: &LevelTargets,
    taken: &Taken,
    served: Served,
) -> Option<Compaction> {
    let is_dead = |table: &&Arc<Table>| is_mostly_dead(table.meta(), served);
    let is_worth_it = |one: &&LiveTable| {
        (is_dead(&&one.table) || is_mostly_consumed(one)) && !taken.has_all_of(one)
    };
    let in_rows: Vec<_> = version.l0().live().iter().filter(is_worth_it).collect();
    if !in_rows.is_empty() {
        let bounds = cut_bounds(version, shape, targets.base(), taken);
        let cuts = version.l0().propose_cuts(&bounds);
        let cuts = cuts.filter(|cut| in_rows.iter().any(|one| one.overlaps(&cut.slice)));
        let cut = cuts.map(|cut| of_cut(version, &cut, targets.base()));
        let mut cut = cut.map(|chosen| Compaction { rewrites: true, ..chosen });
        if let Some(chosen) = cut.find(|chosen| taken.is_free(chosen)) {
            return Some(chosen);
        }
    }
    let dead = version.runs().flat_map(|(level, run)| {
        run.tables().iter().filter(is_dead).map(move |table| (level, table))
    });
    let mut chosen = dead.filter_map(|(level, table)| {
        let is_deepest = (level.0 + 1..=LEVEL_MAX.0)
            .all(|deeper| version.run(LevelNo(deeper)).overlapping(table.span()).is_empty());
        if !is_deepest {
            return Some(one_table(version, level, table));
        }
        let may_go = served.least.is_none_or(|least| least >= table.meta().greatest_seqno);
        may_go.then(|| Compaction {
            slice: table.span().clone(),
            through: None,
            rows: Vec::new(),
            inputs: vec![Input::of_level(level, table)],
            output_level: level,
            rewrites: true,
            cut_end: None,
        })
    });
    chosen.find(|chosen| taken.is_free(chosen))
}

/// What is to be done about L0.
enum FromL0 {
    Nothing,
    Due(Compaction),
    /// Due, but in the way of jobs that run.
    HeldUp(Vec<Compaction>),
}

/// A cut that meets more than so many times its own bytes waits until L0 holds more.
const MET_RATIO_MAX: u64 = 4;

/// What L0 needs most: rows that can go down as they are; a cut; or, where a cut has to wait or
/// would rewrite much for little, fewer rows.
fn from_l0(version: &Version, shape: &LevelShape, targets: &LevelTargets, taken: &Taken) -> FromL0 {
    let base = targets.base();
    if let Some(chosen) = rows_that_go_down(version, base, taken) {
        return FromL0::Due(chosen);
    }
    let bounds = cut_bounds(version, shape, base, taken);
    let cuts = version.l0().propose_cuts(&bounds);
    if version.l0().takes_turns() {
        return next_in_turn(version, cuts, base, taken);
    }
    let cuts: Vec<Cut> = cuts.collect();
    let l0_bytes: u64 = version.l0().live().iter().map(LiveTable::bytes).sum();
    let mut due = priced(version, base, cuts.iter().filter(|cut| cut.pressure >= 1.0));
    let is_small = |own_bytes: u64, met_bytes: u64| {
        l0_bytes < shape.level_bytes_base && met_bytes > own_bytes.saturating_mul(MET_RATIO_MAX)
    };
    let is_next = |(_, chosen, own_bytes, met_bytes): &(_, Compaction, u64, u64)| {
        taken.is_free(chosen) && !is_small(*own_bytes, *met_bytes)
    };
    if let Some(place) = due.iter().position(is_next) {
        return FromL0::Due(due.swap_remove(place).1);
    }
    let mut held_up = Vec::new();
    for (cut, chosen, _, _) in due {
        let is_free = taken.is_free(&chosen);
        let waits_long = !is_free && cut.pressure >= 2.0;
        let merged = (waits_long || is_free).then(|| fewer_rows(version, cut, taken)).flatten();
        match merged {
            Some(merged) => return FromL0::Due(merged),
            None if is_free => return FromL0::Due(chosen),
            None => held_up.push(chosen),
        }
    }
    if held_up.is_empty() { FromL0::Nothing } else { FromL0::HeldUp(held_up) }
}

/// The first cut that is in the way of no job.
fn next_in_turn(
    version: &Version,
    cuts: impl Iterator<Item = Cut>,
    base: LevelNo,
    taken: &Taken,
) -> FromL0 {
    let mut held_up = Vec::new();
    // All of them are as pressing, and those behind the one that is taken need not be worked out.
    for cut in cuts.take_while(|cut| cut.pressure >= 1.0) {
        let chosen = of_cut(version, &cut, base);
        if taken.is_free(&chosen) {
            return FromL0::Due(chosen);
        }
        held_up.push(chosen);
    }
    if held_up.is_empty() { FromL0::Nothing } else { FromL0::HeldUp(held_up) }
}

/// Cuts that are not taken in turn, in the order in which they are taken, each with what it takes out of L0 and what it meets below,
/// in bytes.
fn priced<'a>(
    version: &Version,
    base: LevelNo,
    cuts: impl Iterator<Item = &'a Cut>,
) -> Vec<(&'a Cut, Compaction, u64, u64)> {
    let priced = cuts.map(|cut| {
        let chosen = of_cut(version, cut, base);
        let own_bytes = chosen.bytes_from(LevelNo(0));
        let met_bytes = chosen.bytes_from(chosen.output_level);
        (cut, chosen, own_bytes, met_bytes)
    });
    let mut priced: Vec<_> = priced.collect();
    // What would slow writers down first; of the others the one that rewrites least for its size.
    let in_order = |a: &(&Cut, Compaction, u64, u64), b: &(&Cut, Compaction, u64, u64)| {
        let pressing = |cut: &Cut| if cut.pressure >= 2.0 { cut.pressure } else { 1.0 };
        let price = |own: u64, met: u64| met as f64 / own.max(1) as f64;
        let by_pressure = pressing(b.0).total_cmp(&pressing(a.0));
        by_pressure.then(price(a.2, a.3).total_cmp(&price(b.2, b.3)))
    };
    priced.sort_by(in_order);
    priced
}

/// The cut out of L0 that would be taken next if no job ran, and whether it is due.
#[must_use]
pub fn next_cut(version: &Version, shape: &LevelShape) -> Option<(Compaction, bool)> {
    let base = LevelTargets::of(version, shape).base();
    let bounds = cut_bounds(version, shape, base, &Taken::default());
    let mut cuts = version.l0().propose_cuts(&bounds);
    if version.l0().takes_turns() {
        return cuts.next().map(|cut| (of_cut(version, &cut, base), cut.pressure >= 1.0));
    }
    let cuts: Vec<Cut> = cuts.collect();
    let next = priced(version, base, cuts.iter()).into_iter().next()?;
    Some((next.1, next.0.pressure >= 1.0))
}

/// The rows that can go down as they are, all at once.
fn rows_that_go_down(version: &Version, base: LevelNo, taken: &Taken) -> Option<Compaction> {
    let rows = version.l0().lone_rows();
    let moves = rows.iter().map(|row| of_row(version, row, base));
    let mut moves = moves.filter(|chosen| chosen.is_move() && taken.is_free(chosen));
    let mut all = moves.next()?;
    for next in moves.filter(|next| next.output_level == base) {
        let both = all.clone().and(next);
        if both.output_level == base && taken.is_free(&both) {
            all = both;
        }
    }
    Some(all)
}

/// The level that a slice out of L0 goes to: `base`, or the first level above it that holds something
/// there, since nothing may come to lie below what is older.
fn level_below(version: &Version, slice: &KeyRange, base: LevelNo) -> LevelNo {
    let mut above = (1..base.0).map(LevelNo);
    above.find(|level| !version.run(*level).overlapping(slice).is_empty()).unwrap_or(base)
}

/// A row that shares no key with others, all of which is live, with what it meets below.
fn of_row(version: &Version, row: &Row, base: LevelNo) -> Compaction {
    let own = row.span();
    let output_level = level_below(version, &own, base);
    let mut inputs: Vec<_> =
        row.tables.iter().map(|table| Input::of_level(LevelNo(0), table)).collect();
    let below = version.run(output_level).overlapping(&own);
    inputs.extend(below.iter().map(|table| Input::of_level(output_level, table)));
    let slice = below.iter().fold(own, |slice, table| slice.hull(table.span()));
    let rows = vec![row.meta.id];
    Compaction { slice, through: None, rows, inputs, output_level, rewrites: false, cut_end: None }
}

/// Where cuts may end: in no table of the levels that they may go to, and not in what jobs have taken.
fn cut_bounds(version: &Version, shape: &LevelShape, base: LevelNo, taken: &Taken) -> CutBounds {
    let runs = version.runs().filter(|(level, _)| *level <= base);
    let tables = runs.flat_map(|(_, run)| run.tables());
    let mut spans: Vec<(KeyRange, u64)> = tables
        .map(|table| (table.span().clone(), table.meta().bytes))
        .filter(|(span, _)| !span.is_empty())
        .collect();
    spans.sort_by(|(a, _), (b, _)| a.start().cmp(b.start()));
    let mut below: Vec<(KeyRange, u64)> = Vec::with_capacity(spans.len());
    for (span, bytes) in spans {
        match below.last_mut() {
            Some((last, last_bytes)) if last.overlaps(&span) => {
                *last = last.hull(&span);
                *last_bytes += bytes;
            }
            _ => below.push((span, bytes)),
        }
    }
    let mut busy: Vec<KeyRange> = taken.rows.iter().map(|rows| rows.keys.clone()).collect();
    busy.sort_by(|a, b| a.start().cmp(b.start()));
    CutBounds { below, busy, bytes: shape.cut_bytes }
}

/// A cut, with what it meets in the level that it goes to. Its slice is as wide as what it meets.
fn of_cut(version: &Version, cut: &Cut, base: LevelNo) -> Compaction {
    let mut slice = cut.slice.clone();
    let (output_level, below) = loop {
        let level = level_below(version, &slice, base);
        let below = version.run(level).overlapping(&slice);
        let wide = below.iter().fold(slice.clone(), |slice, table| slice.hull(table.span()));
        if wide == slice {
            break (level, below);
        }
        slice = wide;
    };
    let is_taken = |live: &&LiveTable| live.row <= cut.through && live.overlaps(&slice);
    let mut inputs: Vec<_> =
        version.l0().live().iter().filter(is_taken).map(Input::of_l0).collect();
    inputs.extend(below.iter().map(|table| Input::of_level(output_level, table)));
    Compaction {
        slice,
        through: Some(cut.through),
        rows: Vec::new(),
        inputs,
        output_level,
        rewrites: false,
        cut_end: Some(cut.end),
    }
}

/// Merges neighbouring rows of a cut into one in their place: the newest, as long as each older one
/// makes a row less cheaper. None if there is nothing to gain, or a job runs on them.
///
/// Rows of other cuts may lie between them in age, but share no key with them. *Source:* RocksDB's
/// compactions within L0.
fn fewer_rows(version: &Version, cut: &Cut, taken: &Taken) -> Option<Compaction> {
    let rows = version.l0().mergeable_rows(&cut.slice);
    let is_free = |row: &&Arc<Row>| {
        let id = row.meta.id;
        taken.are_free(&TakenRows { keys: row.span(), oldest: id, newest: id })
    };
    // A job may have taken the oldest, for a cut, or some in the middle; the newest are free.
    let rows: Vec<_> = rows.iter().take_while(is_free).collect();
    let live = |row: &Row| {
        let id = row.meta.id;
        version.l0().live().iter().filter(move |live| live.row == id)
    };
    let mut bytes = 0;
    let mut count = 0;
    let mut bytes_per_row_less = u64::MAX;
    for (index, row) in rows.iter().enumerate() {
        bytes += live(row).map(LiveTable::bytes).sum::<u64>();
        let cost = bytes.checked_div(index as u64).unwrap_or(u64::MAX);
        if cost > bytes_per_row_less {
            break;
        }
        bytes_per_row_less = cost;
        count = index + 1;
    }
    if count < 2 {
        return None;
    }
    let rows = &rows[..count];
    let nothing = KeyRange::new("", Some(Vec::new()));
    let chosen = Compaction {
        slice: rows.iter().fold(nothing, |slice, row| slice.hull(&row.span())),
        through: None,
        rows: rows.iter().map(|row| row.meta.id).collect(),
        inputs: rows.iter().flat_map(|row| live(row)).map(Input::of_l0).collect(),
        output_level: LevelNo(0),
        rewrites: true,
        cut_end: None,
    };
    taken.is_free(&chosen).then_some(chosen)
}

fn from_level(version: &Version, level: LevelNo, taken: &Taken) -> Option<Compaction> {
    let below = version.run(LevelNo(level.0 + 1));
    let mut candidates: Vec<_> = version
        .run(level)
        .tables()
        .iter()
        .map(|table| {
            let met: u64 = below.overlapping(table.span()).iter().map(|t| t.meta().bytes).sum();
            (met as f64 / table.meta().bytes.max(1) as f64, table)
        })
        .collect();
    candidates.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.meta().id.cmp(&b.1.meta().id)));
    candidates
        .into_iter()
        .map(|(_, table)| one_table(version, level, table))
        .find(|chosen| taken.is_free(chosen))
}

fn one_table(version: &Version, level: LevelNo, table: &Arc<Table>) -> Compaction {
    of_tables(version, level, std::slice::from_ref(table))
}

/// The compaction that moves these neighbouring tables of a level into the next one.
fn of_tables(version: &Version, level: LevelNo, tables: &[Arc<Table>]) -> Compaction {
    let output_level = LevelNo(level.0 + 1);
    let nothing = KeyRange::new("", Some(Vec::new()));
    let own = tables.iter().fold(nothing, |slice, table| slice.hull(table.span()));
    let below = version.run(output_level).overlapping(&own);
    let slice = below.iter().fold(own, |slice, table| slice.hull(table.span()));
    let mut inputs: Vec<_> = tables.iter().map(|table| Input::of_level(level, table)).collect();
    inputs.extend(below.iter().map(|table| Input::of_level(output_level, table)));
    Compaction {
        slice,
        through: None,
        rows: Vec::new(),
        inputs,
        output_level,
        rewrites: false,
        cut_end: None,
    }
}

/// The compaction that takes everything of `level` within `range` one level down, whether or not
/// it is due; none if there is nothing, or if the level is the deepest that holds anything. What it
/// takes is written anew, so that what is dead in it goes.
#[must_use]
pub fn forced(
    version: &Version,
    shape: &LevelShape,
    level: LevelNo,
    range: &KeyRange,
) -> Option<Compaction> {
    if level.0 == 0 {
        let base = LevelTargets::of(version, shape).base();
        let bounds = cut_bounds(version, shape, base, &Taken::default());
        let cuts = version.l0().propose_cuts(&bounds);
        let touches = |cut: &Cut| {
            let both = cut.slice.intersection(range);
            version.l0().live().iter().any(|live| live.row <= cut.through && live.overlaps(&both))
        };
        let proposed = cuts.filter(touches).reduce(Cut::and);
        let cut = with_newer_rows(version, proposed, range)?;
        let cut = Cut { end: CutEnd::Unbounded, ..cut };
        return Some(Compaction { rewrites: true, ..of_cut(version, &cut, base) });
    }
    let deeper = (level.0 + 1..=LEVEL_MAX.0).any(|deeper| !version.run(LevelNo(deeper)).is_empty());
    let tables = version.run(level).overlapping(range);
    if tables.is_empty() || level == LEVEL_MAX || !deeper {
        return None;
    }
    Some(Compaction { rewrites: true, ..of_tables(version, level, tables) })
}

/// A cut that takes everything live in `range`: also of rows whose turn does not come before others are
/// used up. None if nothing is.
fn with_newer_rows(version: &Version, proposed: Option<Cut>, range: &KeyRange) -> Option<Cut> {
    let live = || version.l0().live().iter().filter(|live| live.overlaps(range));
    let through = live().map(|live| live.row).max()?;
    if proposed.as_ref().is_some_and(|cut| through <= cut.through) {
        return proposed;
    }
    let parts = live().flat_map(LiveTable::parts).map(|part| part.intersection(range));
    let slice = parts.filter(|part| !part.is_empty()).reduce(|hull, part| hull.hull(&part))?;
    let rest = Cut { slice, through, pressure: 0.0, end: CutEnd::Unbounded };
    Some(match proposed {
        Some(cut) => cut.and(rest),
        None => rest,
    })
}

/// The parts of `slice` in which no level below `level` holds anything: tombstones that arrive in
/// `level` have nothing left to hide there.
#[must_use]
pub fn droppable(version: &Version, slice: &KeyRange, level: LevelNo) -> Vec<KeyRange> {
    let mut occupied: Vec<&KeyRange> = Vec::new();
    for deeper in level.0 + 1..=LEVEL_MAX.0 {
        let tables = version.run(LevelNo(deeper)).overlapping(slice);
        occupied.extend(tables.iter().map(|table| table.span()));
    }
    occupied.sort_by(|a, b| a.start().cmp(b.start()));
    slice.outside_of(occupied)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn into(level: u8, start: &str, end: &str) -> Compaction {
        let slice = KeyRange::new(start, Some(end.as_bytes().to_vec()));
        let output_level = LevelNo(level);
        let (rows, inputs) = (Vec::new(), Vec::new());
        Compaction {
            slice,
            through: None,
            rows,
            inputs,
            output_level,
            rewrites: false,
            cut_end: None,
        }
    }

    /// A compaction by hand took two neighbours of L3 down; a table arrived in the gap between
    /// them and followed; the outputs of both overlapped in L4, and the range took no more writes.
    #[test]
    fn no_job_writes_into_a_gap_of_another_one() {
        let mut taken = Taken::default();
        taken.take(&into(4, "a", "f"));
        assert!(!taken.is_free(&into(4, "c", "d")));
        assert!(taken.is_free(&into(4, "f", "h")), "beside it");
        assert!(taken.is_free(&into(5, "c", "d")), "below it");
        taken.give_back(&into(4, "a", "f"));
        assert!(taken.is_free(&into(4, "c", "d")));
    }
}
