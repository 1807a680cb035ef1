//! Tables that hold much that is dead, consumed or expired.

use std::sync::Arc;

use terrace_base::{LEVEL_MAX, LevelNo, SeqNo, WallTime};

use super::l0::{cut_bounds, of_cut};
use super::levels::one_table;
use crate::compaction::decision::{Compaction, Input};
use crate::compaction::levels::{LevelShape, LevelTargets};
use crate::compaction::taken::Taken;
use crate::l0::LiveTable;
use crate::version::{Table, TableMeta, Version};

/// What readers may still look at: it must stay, however dead it looks.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// The least registered read point.
    pub least: Option<SeqNo>,
    /// The moment by which a job may judge expiry.
    pub now: WallTime,
}

/// Number of deleted neighbours that are worth a compaction: about the price of a seek that has to
/// read a block from the disk.
const TOMBSTONE_RUN_MAX: u64 = 128;
/// But only if of this number of entries of the table one is a tombstone, so that a few deletes in
/// a row do not have whole tables written again and again.
const TOMBSTONE_SHARE: u64 = 8;

/// Whether a table is worth a compaction for what is dead in it: scans step over long runs of
/// tombstones, and what is expired takes space for nothing.
fn is_mostly_dead(meta: &TableMeta, served: Served) -> bool {
    let steps = meta.tombstone_run >= TOMBSTONE_RUN_MAX
        && meta.tombstone_count.saturating_mul(TOMBSTONE_SHARE) >= meta.entry_count;
    steps || meta.expired_from.is_some_and(|moment| moment <= served.now)
}

/// Where a reader keeps a table whose entries have all expired, it is looked at again after this
/// long: nobody says that a reader has gone.
const HELD_UP_MS: u64 = 10_000;

/// When a compaction may become due by the clock alone, since every entry of a table has expired by
/// then; after `served.now`.
#[must_use]
pub fn next_expiry(version: &Version, served: Served) -> Option<WallTime> {
    let next_look = |table: &Arc<Table>| {
        let moment = table.meta().expired_from?;
        let is_kept = || served.least.is_some_and(|least| least < table.meta().greatest_seqno);
        if moment > served.now {
            return Some(moment);
        }
        is_kept().then_some(WallTime(served.now.0.saturating_add(HELD_UP_MS)))
    };
    version.tables().filter_map(next_look).min()
}

/// What is left of a table of a row is taken along when it is less than one part in this number:
/// the file goes only with the last of it.
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
pub(super) fn of_dead(
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
        let cuts = version.l0().policy().propose_cuts(&bounds).all();
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
