//! What L0 needs: rows that go down as they are, cuts, fewer rows.

use std::sync::Arc;

use terrace_base::{KeyRange, LevelNo};

use super::level_below;
use crate::compaction::decision::{Compaction, Input};
use crate::compaction::levels::{LevelShape, LevelTargets};
use crate::compaction::taken::{Taken, TakenRows};
use crate::l0::{Cut, CutBounds, CutEnd, Cuts, LiveTable, Row};
use crate::version::Version;

/// What is to be done about L0.
pub(super) enum FromL0 {
    Nothing,
    Due(Compaction),
    /// Due, but in the way of jobs that run.
    HeldUp(Vec<Compaction>),
}

/// A cut that meets more than this number of times its own bytes waits until L0 holds more, unless
/// too much of the value log may be hidden.
pub(super) const MET_RATIO_MAX: u64 = 4;

/// What L0 needs most: rows that can go down as they are; a cut; or, where a cut has to wait or
/// would rewrite much for little, fewer rows.
pub(super) fn from_l0(
    version: &Version,
    shape: &LevelShape,
    targets: &LevelTargets,
    taken: &Taken,
) -> FromL0 {
    let base = targets.base();
    if let Some(chosen) = rows_that_go_down(version, base, taken) {
        return FromL0::Due(chosen);
    }
    let bounds = cut_bounds(version, shape, base, taken);
    let cuts = match version.l0().policy().propose_cuts(&bounds) {
        Cuts::InTurn(cuts) => return next_in_turn(version, cuts, base, taken),
        Cuts::ByPrice(cuts) => cuts,
    };
    let l0_bytes: u64 = version.l0().live().iter().map(LiveTable::bytes).sum();
    let mut due = priced(version, base, cuts.iter().filter(|cut| cut.pressure >= 1.0));
    let hides_too_much = shape.values.hides_too_much(&version.value_space());
    let is_small = |own_bytes: u64, met_bytes: u64| {
        !hides_too_much
            && !shape.l0_lacks_room
            && l0_bytes < shape.level_bytes_base
            && met_bytes > own_bytes.saturating_mul(MET_RATIO_MAX)
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
        let may_merge = (waits_long || is_free) && !shape.l0_lacks_room;
        let merged = may_merge.then(|| fewer_rows(version, cut, taken)).flatten();
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

/// Cuts that are not taken in turn, in the order in which they are taken, each with what it takes
/// out of L0 and what it meets below, in bytes.
pub(super) fn priced<'a>(
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
    match version.l0().policy().propose_cuts(&bounds) {
        Cuts::InTurn(mut cuts) => {
            cuts.next().map(|cut| (of_cut(version, &cut, base), cut.pressure >= 1.0))
        }
        Cuts::ByPrice(cuts) => {
            let next = priced(version, base, cuts.iter()).into_iter().next()?;
            Some((next.1, next.0.pressure >= 1.0))
        }
    }
}

/// The rows that can go down as they are, all at once.
fn rows_that_go_down(version: &Version, base: LevelNo, taken: &Taken) -> Option<Compaction> {
    let rows = version.l0().policy().lone_rows();
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

/// Where cuts may end: in no table of the levels that they may go to, and not in what jobs have
/// taken.
pub(super) fn cut_bounds(
    version: &Version,
    shape: &LevelShape,
    base: LevelNo,
    taken: &Taken,
) -> CutBounds {
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
    CutBounds { below, busy: taken.keys_of_rows(), bytes: shape.cut_bytes }
}

/// A cut, with what it meets in the level that it goes to. Its slice is as wide as what it meets.
pub(super) fn of_cut(version: &Version, cut: &Cut, base: LevelNo) -> Compaction {
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
    let rows = version.l0().policy().mergeable_rows(&cut.slice);
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

/// A cut that takes everything live in `range`: also of rows whose turn does not come before others
/// are used up. None if nothing is.
pub(super) fn with_newer_rows(
    version: &Version,
    proposed: Option<Cut>,
    range: &KeyRange,
) -> Option<Cut> {
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
