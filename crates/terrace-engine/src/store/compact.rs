//! Compactions: picking what is due, running it, installing the outcome.

use std::sync::Arc;

use terrace_base::{KeyRange, LevelNo};
use terrace_env::{PlantedBug, is_planted};

use super::{Inner, Store};
use crate::Result;
use crate::compaction::pick::{self, Compaction, Taken};
use crate::compaction::{CompactionPlan, PlanInput};
use crate::fail_point::fail_point;
use crate::version::{LEVEL_MAX, TableMeta, Version, VersionEdit};

/// What an entry takes in a block beside its key and value, at most.
const ENTRY_BYTES_MAX: u64 = 40;

impl Store {
    /// Flushes, and then takes everything in `range` down to the deepest level that holds
    /// anything, whether or not that is due: afterwards no dead version of these keys takes space
    /// unless a snapshot needs it.
    pub fn compact(&self, range: &KeyRange) -> Result<()> {
        self.flush()?;
        self.inner.heed(self.inner.force_down(range))
    }
}

/// A compaction that has what it needs for itself, for as long as it lives.
struct Running<'a> {
    inner: &'a Inner,
    chosen: Compaction,
    /// The version that it was chosen by.
    version: Arc<Version>,
}

impl<'a> Running<'a> {
    /// Takes what `choose` picks, given what is taken already.
    fn begin(
        inner: &'a Inner,
        choose: impl FnOnce(&Version, &Taken) -> Option<Compaction>,
    ) -> Option<Running<'a>> {
        let mut taken = inner.jobs.taken.lock();
        let version = inner.versions.current();
        let chosen = choose(&version, &taken)?;
        taken.take(&chosen);
        drop(taken);
        Some(Running { inner, chosen, version })
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.inner.jobs.taken.lock().give_back(&self.chosen);
    }
}

impl Inner {
    /// Does the compaction that is most due, if any.
    pub(super) fn compact_once(&self) -> Result<()> {
        let choose = |version: &Version, taken: &Taken| pick::pick(version, &self.shape, taken);
        if let Some(job) = Running::begin(self, choose) {
            self.compact(&job.chosen, &job.version)?;
        }
        self.reclaim()
    }

    /// Takes everything in `range` down to the deepest level that holds anything.
    fn force_down(&self, range: &KeyRange) -> Result<()> {
        for level in 0..LEVEL_MAX.0 {
            self.force(LevelNo(level), range)?;
        }
        self.reclaim()
    }

    /// Takes everything of `level` within `range` one level down, waiting for jobs in its way.
    fn force(&self, level: LevelNo, range: &KeyRange) -> Result<()> {
        loop {
            self.check_healthy()?;
            let ticket = self.changed.ticket();
            let mut is_blocked = false;
            let job = Running::begin(self, |version, taken| {
                let forced = pick::forced(version, level, range)?;
                is_blocked = !taken.is_free(&forced);
                (!is_blocked).then_some(forced)
            });
            match job {
                Some(job) => {
                    let outcome = self.compact(&job.chosen, &job.version);
                    drop(job);
                    // What is due may have waited for these tables.
                    self.schedule_compaction();
                    return outcome;
                }
                None if is_blocked => {
                    self.wait_for_change(ticket, std::time::Duration::from_millis(100));
                }
                None => return Ok(()),
            }
        }
    }

    fn compact(&self, chosen: &Compaction, version: &Version) -> Result<()> {
        let removed = chosen.inputs.iter().filter(|(level, _)| level.0 > 0);
        let mut edit = VersionEdit {
            rows_removed: chosen.rows.clone(),
            tables_removed: removed.map(|(level, table)| (*level, table.meta().id)).collect(),
            ..VersionEdit::default()
        };
        if chosen.is_move() {
            let (_, table) = &chosen.inputs[0];
            edit.tables_added = vec![(chosen.output_level, table.meta().clone())];
            self.counters.moved();
        } else {
            let plan = self.plan(chosen, version);
            let outcome = self.executor.run(&plan, &self.jobs.cancel)?;
            self.counters.compacted(&outcome);
            let level = chosen.output_level;
            edit.tables_added = outcome.outputs.into_iter().map(|table| (level, table)).collect();
        }
        fail_point!(self.env, "compaction::before_install");
        self.versions.install(edit, |version| {
            self.change_view(true, |view| (view.dranges.clone(), Arc::clone(version)));
        })?;
        fail_point!(self.env, "compaction::after_install");
        self.changed.notify();
        Ok(())
    }

    /// Everything that a job needs to know.
    fn plan(&self, chosen: &Compaction, version: &Version) -> CompactionPlan {
        let (mut snapshots, now) = self.read_points.list(self.env.wall_time());
        if is_planted(PlantedBug::IgnoreSnapshot) {
            snapshots.pop();
        }
        let inputs: Vec<PlanInput> = chosen
            .inputs
            .iter()
            .map(|(level, table)| PlanInput { level: *level, table: table.meta().clone() })
            .collect();
        // Every output but the last is at least a table long. What is read may be compressed and
        // what is written not, so its entries count as they are, or as they lie if that is more;
        // twice, because the index may name most keys again.
        let coded_bytes = |table: &TableMeta| {
            let entries = table.entry_count + table.range_tombstone_count;
            table.bytes.max(table.raw_bytes + entries * ENTRY_BYTES_MAX)
        };
        let input_bytes: u64 = inputs.iter().map(|input| coded_bytes(&input.table)).sum();
        let output_count_max = 2 * input_bytes / self.options.table_bytes + 16;
        let table = &self.options.table;
        CompactionPlan {
            epoch: version.epoch,
            now,
            snapshots,
            slice: chosen.slice.clone(),
            inputs,
            output_level: chosen.output_level,
            droppable: pick::droppable(version, &chosen.slice, chosen.output_level),
            first_output: self.ids.next_block(output_count_max),
            output_count_max,
            table_bytes: self.options.table_bytes,
            block_bytes: table.block_bytes as u64,
            filter_bits_per_key: u64::from(table.filter_bits_per_key),
            compression: table.compression,
        }
    }

    /// Deletes the tables that nothing names any more.
    pub(super) fn reclaim(&self) -> Result<()> {
        fail_point!(self.env, "reclaim::before_delete");
        // One that cannot be deleted now is tried again, and holds up no other.
        let mut outcome = Ok(());
        for location in self.context.reclaim.take() {
            if let Err(error) = self.context.store.delete(&location) {
                self.context.reclaim.add(location);
                outcome = Err(error);
            }
        }
        outcome
    }
}
