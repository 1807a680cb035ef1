//! Which compaction is due. Pure: looks at a version, does nothing.

use std::collections::BTreeSet;

use terrace_base::{FileId, KeyRange, LevelNo, RowId};

use crate::version::{LEVEL_MAX, Table, Version};
use std::sync::Arc;

/// The wanted shape of the tree.
#[derive(Clone, Debug)]
pub struct LevelShape {
    /// Bytes of L1.
    pub level_bytes_base: u64,
    /// Each deeper level is this many times larger.
    pub level_ratio: u64,
}

impl LevelShape {
    /// How many bytes a level (1 or deeper) should hold at most.
    #[must_use]
    pub fn level_bytes_max(&self, level: LevelNo) -> u64 {
        let steps = u32::from(level.0.saturating_sub(1));
        self.level_bytes_base.saturating_mul(self.level_ratio.saturating_pow(steps))
    }
}

/// A compaction that was decided on: what moves where.
#[derive(Clone, Debug)]
pub struct Compaction {
    /// The keys that move.
    pub slice: KeyRange,
    /// Rows that leave L0 with it.
    pub rows: Vec<RowId>,
    /// The inputs with their levels (0: a table of a row), newest first.
    pub inputs: Vec<(LevelNo, Arc<Table>)>,
    /// Where the outputs go.
    pub output_level: LevelNo,
}

impl Compaction {
    /// Whether the inputs can go down as they are: one table that meets nothing in the output
    /// level, so that only the version changes.
    #[must_use]
    pub fn is_move(&self) -> bool {
        match self.inputs.as_slice() {
            [(level, table)] => {
                *level < self.output_level && self.slice.intersection(table.span()) == *table.span()
            }
            _ => false,
        }
    }

    /// Ids of the input tables.
    pub fn table_ids(&self) -> impl Iterator<Item = FileId> {
        self.inputs.iter().map(|(_, table)| table.meta().id)
    }
}

/// What the jobs that run have taken: their input tables, and the keys of the levels that they
/// write into.
///
/// The tables alone are not enough. A job whose inputs leave a gap between them writes tables that
/// span it, so a table that another job put into that gap meanwhile would overlap them.
#[derive(Debug, Default)]
pub struct Taken {
    tables: BTreeSet<FileId>,
    slices: Vec<(LevelNo, KeyRange)>,
}

impl Taken {
    /// Whether a compaction gets in the way of none that runs.
    #[must_use]
    pub fn is_free(&self, compaction: &Compaction) -> bool {
        let (level, own) = (compaction.output_level, &compaction.slice);
        !compaction.table_ids().any(|id| self.tables.contains(&id))
            && !self.slices.iter().any(|(other, slice)| *other == level && slice.overlaps(own))
    }

    /// Takes what a compaction needs, which is free.
    pub fn take(&mut self, compaction: &Compaction) {
        debug_assert!(self.is_free(compaction), "{compaction:?} gets in the way");
        self.tables.extend(compaction.table_ids());
        self.slices.push((compaction.output_level, compaction.slice.clone()));
    }

    /// Gives back what was taken for a compaction.
    pub fn give_back(&mut self, compaction: &Compaction) {
        for id in compaction.table_ids() {
            self.tables.remove(&id);
        }
        let own = (compaction.output_level, &compaction.slice);
        let place = self.slices.iter().position(|(level, slice)| (*level, slice) == own);
        self.slices.swap_remove(place.expect("it was taken"));
    }
}

/// The compaction that is most due; none if the tree has its wanted shape, or if what is due
/// gets in the way of a job that runs.
///
/// L0 is due by its own measure, a level when it is larger than it should be. Of a level's tables
/// the one goes first that meets the fewest bytes below for its own size, so that each byte moved
/// rewrites as little as possible.
#[must_use]
pub fn pick(version: &Version, shape: &LevelShape, taken: &Taken) -> Option<Compaction> {
    let mut due: Vec<(f64, LevelNo)> = vec![(version.l0.pressure(), LevelNo(0))];
    for (level, run) in version.runs() {
        if level < LEVEL_MAX {
            let pressure = run.bytes() as f64 / shape.level_bytes_max(level) as f64;
            due.push((pressure, level));
        }
    }
    due.retain(|(pressure, _)| *pressure >= 1.0);
    due.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    due.into_iter().find_map(|(_, level)| match level {
        LevelNo(0) => from_l0(version).filter(|chosen| taken.is_free(chosen)),
        level => from_level(version, level, taken),
    })
}

/// The next cut, with what it meets in L1.
#[must_use]
pub fn from_l0(version: &Version) -> Option<Compaction> {
    let cut = version.l0.propose_cut()?;
    let output_level = LevelNo(1);
    let mut inputs: Vec<_> = cut.tables.into_iter().map(|table| (LevelNo(0), table)).collect();
    let below = version.run(output_level).overlapping(&cut.slice);
    let slice = below.iter().fold(cut.slice, |slice, table| slice.hull(table.span()));
    inputs.extend(below.iter().map(|table| (output_level, Arc::clone(table))));
    Some(Compaction { slice, rows: cut.rows, inputs, output_level })
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
    let mut inputs: Vec<_> = tables.iter().map(|table| (level, Arc::clone(table))).collect();
    inputs.extend(below.iter().map(|table| (output_level, Arc::clone(table))));
    Compaction { slice, rows: Vec::new(), inputs, output_level }
}

/// The compaction that takes everything of `level` within `range` one level down, whether or not
/// it is due; none if there is nothing, or if the level is the deepest that holds anything.
#[must_use]
pub fn forced(version: &Version, level: LevelNo, range: &KeyRange) -> Option<Compaction> {
    if level.0 == 0 {
        let touches = version.l0.tables().iter().any(|table| table.span().overlaps(range));
        return if touches { from_l0(version) } else { None };
    }
    let deeper = (level.0 + 1..=LEVEL_MAX.0).any(|deeper| !version.run(LevelNo(deeper)).is_empty());
    let tables = version.run(level).overlapping(range);
    if tables.is_empty() || level == LEVEL_MAX || !deeper {
        return None;
    }
    Some(of_tables(version, level, tables))
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
    let mut free = Vec::new();
    let mut start = Some(slice.start().to_vec());
    for span in occupied {
        let Some(from) = &start else { break };
        if span.start() > from.as_slice() {
            free.push(KeyRange::new(from.clone(), Some(span.start().to_vec())));
        }
        start = match span.end() {
            Some(end) if end > from.as_slice() => Some(end.to_vec()),
            Some(_) => start,
            None => None,
        };
    }
    if let Some(from) = start {
        let rest = KeyRange::new(from, slice.end().map(<[u8]>::to_vec));
        if !rest.is_empty() {
            free.push(rest);
        }
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    fn into(level: u8, start: &str, end: &str) -> Compaction {
        let slice = KeyRange::new(start, Some(end.as_bytes().to_vec()));
        let output_level = LevelNo(level);
        Compaction { slice, rows: Vec::new(), inputs: Vec::new(), output_level }
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
