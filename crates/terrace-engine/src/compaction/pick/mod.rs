//! Which compaction is due. Pure: looks at a version, does nothing.
//!
//! `l0.rs` says what L0 needs, `levels.rs` what a level gives to the next one, `dead.rs` what is
//! worth a compaction though nothing is too large, `hidden.rs` what is for the sake of value files,
//! `scanned.rs` what scans have paid for, `rested.rs` what goes down when nobody writes.

mod dead;
mod hidden;
mod l0;
mod levels;
mod rested;
mod scanned;

use terrace_base::{KeyRange, LEVEL_MAX, LevelNo};

use self::dead::of_dead;
use self::hidden::of_hidden;
use self::l0::{FromL0, cut_bounds, from_l0, of_cut, with_newer_rows};
use self::levels::{from_level, of_tables};
use super::levels::LevelTargets;
use crate::l0::{Cut, CutEnd};
use crate::version::{TableMeta, Version};

pub use self::dead::{Served, next_expiry};
pub use self::l0::next_cut;
pub use self::rested::of_rested;
pub use self::scanned::of_scanned;
pub use super::decision::{Compaction, Input};
pub use super::levels::{LevelShape, debt_bytes};
pub use super::taken::Taken;

/// How pressing a level is beside L0: the more it holds, the more, but writers wait for L0 first.
/// A level with four times what it should hold is as pressing as L0 with one and a half times the
/// rows that make a cut due.
fn urgency(pressure: f64) -> f64 {
    if pressure < 1.0 { pressure } else { 1.0 + pressure.log2() / 4.0 }
}

/// What may need a compaction. The first of those that are as pressing goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wants {
    L0,
    Level(LevelNo),
    /// The value log: too much of it may be hidden.
    Values,
}

/// The compaction that is most due; none if the tree has its wanted shape, or if what is due
/// gets in the way of a job that runs.
///
/// L0 is due by its own measure, a level when it is larger than it should be. Of a level's tables
/// the one goes first that meets the fewest bytes below for its own size, so that each byte moved
/// rewrites as little as possible. The value log is as pressing as a level that is over its size as
/// far as that is over its bound. What a cut out of L0 waits for is not begun anew by others.
#[must_use]
pub fn pick(
    version: &Version,
    shape: &LevelShape,
    taken: &Taken,
    served: Served,
) -> Option<Compaction> {
    let targets = LevelTargets::of(version, shape);
    let mut due: Vec<(f64, Wants)> = vec![(version.l0().policy().urgency(), Wants::L0)];
    for (level, run) in version.runs().filter(|(level, _)| *level < LEVEL_MAX) {
        due.push((urgency(targets.pressure(level, run.bytes())), Wants::Level(level)));
    }
    due.push((urgency(shape.values.hidden_pressure(&version.value_space())), Wants::Values));
    due.retain(|(pressure, _)| *pressure >= 1.0);
    due.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut held_up = None;
    for (_, wants) in due {
        let chosen = match wants {
            Wants::L0 => match from_l0(version, shape, &targets, taken) {
                FromL0::Due(chosen) => Some(chosen),
                FromL0::HeldUp(waiting) => {
                    let held_up = held_up.get_or_insert_with(|| taken.clone());
                    waiting.iter().for_each(|chosen| held_up.reserve(chosen));
                    None
                }
                FromL0::Nothing => None,
            },
            Wants::Level(level) => from_level(version, level, held_up.as_ref().unwrap_or(taken)),
            Wants::Values => of_hidden(version, shape, &targets, held_up.as_ref().unwrap_or(taken)),
        };
        if chosen.is_some() {
            return chosen;
        }
    }
    let taken = held_up.as_ref().unwrap_or(taken);
    of_dead(version, shape, &targets, taken, served)
}

/// The level that a slice out of L0 goes to: `base`, or the first level above it that holds
/// something there, since nothing may come to lie below what is older.
fn level_below(version: &Version, slice: &KeyRange, base: LevelNo) -> LevelNo {
    let mut above = (1..base.0).map(LevelNo);
    above.find(|level| !version.run(*level).overlapping(slice).is_empty()).unwrap_or(base)
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
        let cuts = version.l0().policy().propose_cuts(&bounds).all();
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

/// Neighbouring tables of a level within `range` that are all meant, to be written anew in their
/// place; none if no table is meant. At most eight at a time.
#[must_use]
pub fn in_place(
    version: &Version,
    range: &KeyRange,
    is_meant: impl Fn(LevelNo, &TableMeta) -> bool,
) -> Option<Compaction> {
    version.runs().find_map(|(level, run)| {
        let tables = run.overlapping(range).iter();
        let meant = tables.skip_while(|table| !is_meant(level, table.meta()));
        let meant = meant.take_while(|table| is_meant(level, table.meta())).take(IN_PLACE_MAX);
        let inputs: Vec<Input> = meant.map(|table| Input::of_level(level, table)).collect();
        let spans = inputs.iter().map(|input| input.table.span().clone());
        let slice = spans.reduce(|slice, span| slice.hull(&span))?;
        Some(Compaction {
            slice,
            through: None,
            rows: Vec::new(),
            inputs,
            output_level: level,
            rewrites: true,
            cut_end: None,
        })
    })
}

/// Number of tables that are written anew in their place by one compaction.
const IN_PLACE_MAX: usize = 8;

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
