//! Rows and tables that may hide much of what value files hold.
//!
//! A value that was overwritten is named until a compaction has met the newer entry. Tables that
//! hold pointers are small, so that their level is not full for a long time, while what they hide
//! takes as much space as what lives. When too much may be hidden (`vlog/space.rs` says how much
//! that is), something is compacted though no level is too large: from the level that hides most,
//! what hides most for each byte that has to be written anew.

use std::cmp::Reverse;

use terrace_base::LevelNo;

use super::l0::{cut_bounds, of_cut};
use super::levels::cheapest;
use crate::compaction::decision::Compaction;
use crate::compaction::levels::{LevelShape, LevelTargets};
use crate::compaction::taken::Taken;
use crate::version::{Hiding, Version};
use crate::vlog::ValueSpace;

/// The compaction that finds out most about what is hidden, if too much may be, beside what the
/// jobs that run find out.
pub(super) fn of_hidden(
    version: &Version,
    shape: &LevelShape,
    targets: &LevelTargets,
    taken: &Taken,
) -> Option<Compaction> {
    let space = version.value_space();
    if !shape.values.hides_too_much(&space) {
        return None;
    }
    let hiding = Hiding::of(version);
    let in_hand = in_hand(version, &hiding, taken);
    let hidden_bytes_max = space.hidden_bytes_max.saturating_sub(in_hand);
    if !shape.values.hides_too_much(&ValueSpace { hidden_bytes_max, ..space }) {
        return None;
    }
    let mut levels: Vec<_> = hiding.levels().filter(|one| one.bytes > 0).collect();
    levels.sort_by_key(|one| (Reverse(one.bytes), one.level));
    levels.iter().find_map(|one| match one.level {
        LevelNo(0) => from_rows(version, shape, targets, taken),
        level => from_level(version, &hiding, level, taken),
    })
}

/// The first cut, whether or not it is due, that is in the way of no job.
fn from_rows(
    version: &Version,
    shape: &LevelShape,
    targets: &LevelTargets,
    taken: &Taken,
) -> Option<Compaction> {
    let bounds = cut_bounds(version, shape, targets.base(), taken);
    let cuts = version.l0().policy().propose_cuts(&bounds).all();
    let mut chosen = cuts.map(|cut| of_cut(version, &cut, targets.base()));
    chosen.find(|chosen| taken.is_free(chosen))
}

/// The table of a level that hides most for what has to be written anew.
fn from_level(
    version: &Version,
    hiding: &Hiding<'_>,
    level: LevelNo,
    taken: &Taken,
) -> Option<Compaction> {
    cheapest(version, level, taken, |table, met_bytes| {
        (table.meta().bytes + met_bytes) as f64 / hiding.by_table(table, level) as f64
    })
}

/// About how much of what is hidden the jobs that run will have found out.
fn in_hand(version: &Version, hiding: &Hiding<'_>, taken: &Taken) -> u64 {
    let mut bytes = 0;
    for (level, run) in version.runs() {
        let tables = run.tables().iter().filter(|table| taken.has_table(table.meta().id));
        bytes += tables.map(|table| hiding.by_table(table, level)).sum::<u64>();
    }
    let rows = version.l0().rows();
    for live in version.l0().live() {
        let index = rows.partition_point(|row| row.meta.id > live.row);
        let whole = live.table.meta().bytes.max(1);
        let part = taken.bytes_of(live).min(whole);
        let hidden = hiding.by_table_of_row(&live.table, index);
        bytes += (u128::from(hidden) * u128::from(part) / u128::from(whole)) as u64;
    }
    bytes
}
