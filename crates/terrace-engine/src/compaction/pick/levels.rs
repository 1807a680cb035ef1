//! What a level that is too large gives to the next one.

use std::sync::Arc;

use terrace_base::{KeyRange, LevelNo};

use crate::compaction::decision::{Compaction, Input};
use crate::compaction::taken::Taken;
use crate::version::{Table, Version};

/// The table of a level that meets the fewest bytes below for its own size, and is free. It weighs
/// the values that it names, too: what hides much of the value log goes first.
pub(super) fn from_level(version: &Version, level: LevelNo, taken: &Taken) -> Option<Compaction> {
    cheapest(version, level, taken, |table, met_bytes| {
        let own = table.meta().bytes.saturating_add(table.meta().named.bytes());
        met_bytes as f64 / own.max(1) as f64
    })
}

/// The table of a level that has the lowest price of those that have one, and is free. `price`: of
/// a table, and the bytes that it meets in the level below.
pub(super) fn cheapest(
    version: &Version,
    level: LevelNo,
    taken: &Taken,
    price: impl Fn(&Arc<Table>, u64) -> f64,
) -> Option<Compaction> {
    let below = version.run(LevelNo(level.0 + 1));
    let mut candidates: Vec<_> = version
        .run(level)
        .tables()
        .iter()
        .map(|table| {
            let met = below.overlapping(table.span()).iter().map(|t| t.meta().bytes).sum();
            (price(table, met), table)
        })
        .filter(|(price, _)| price.is_finite())
        .collect();
    candidates.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.meta().id.cmp(&b.1.meta().id)));
    candidates
        .into_iter()
        .map(|(_, table)| one_table(version, level, table))
        .find(|chosen| taken.is_free(chosen))
}

pub(super) fn one_table(version: &Version, level: LevelNo, table: &Arc<Table>) -> Compaction {
    of_tables(version, level, std::slice::from_ref(table))
}

/// The compaction that moves these neighbouring tables of a level into the next one.
pub(super) fn of_tables(version: &Version, level: LevelNo, tables: &[Arc<Table>]) -> Compaction {
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
