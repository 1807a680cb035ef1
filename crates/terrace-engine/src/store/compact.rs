//! Compactions: picking what is due, running it, installing the outcome.

use std::collections::BTreeSet;
use std::sync::Arc;

use terrace_base::{FileId, KeyRange, LevelNo};

use super::{Inner, Store};
use crate::Result;
use crate::compaction::pick::{self, Compaction};
use crate::compaction::{CompactionPlan, PlanInput};
use crate::fail_point::fail_point;
use crate::version::{LEVEL_MAX, Version, VersionEdit};

impl Store {
    /// Flushes, and then takes everything in `range` down to the deepest level that holds
    /// anything, whether or not that is due: afterwards no dead version of these keys takes space
    /// unless a snapshot needs it.
    pub fn compact(&self, range: &KeyRange) -> Result<()> {
        self.flush()?;
        self.inner.heed(self.inner.force_down(range))
    }
}

/// Marks the tables of a compaction as taken for as long as it lives.
struct Busy<'a> {
    inner: &'a Inner,
    ids: Vec<FileId>,
}

impl<'a> Busy<'a> {
    /// Takes the tables of what `choose` picks, given those that are taken already.
    fn take(
        inner: &'a Inner,
        choose: impl FnOnce(&Version, &BTreeSet<FileId>) -> Option<Compaction>,
    ) -> Option<(Compaction, Arc<Version>, Busy<'a>)> {
        let mut busy = inner.jobs.busy.lock();
        let version = inner.versions.current();
        let chosen = choose(&version, &busy)?;
        let ids: Vec<FileId> = chosen.table_ids().collect();
        busy.extend(ids.iter().copied());
        drop(busy);
        Some((chosen, version, Busy { inner, ids }))
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut busy = self.inner.jobs.busy.lock();
        for id in &self.ids {
            busy.remove(id);
        }
    }
}

impl Inner {
    /// Does the compaction that is most due, if any.
    pub(super) fn compact_once(&self) -> Result<()> {
        let taken = Busy::take(self, |version, busy| pick::pick(version, &self.shape, busy));
        if let Some((chosen, version, _busy)) = taken {
            self.compact(&chosen, &version)?;
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
            let taken = Busy::take(self, |version, busy| {
                let forced = pick::forced(version, level, range)?;
                is_blocked = forced.table_ids().any(|id| busy.contains(&id));
                (!is_blocked).then_some(forced)
            });
            match taken {
                Some((chosen, version, busy)) => {
                    let outcome = self.compact(&chosen, &version);
                    drop(busy);
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
        let (snapshots, now) = self.read_points.list(self.env.wall_time());
        let inputs: Vec<PlanInput> = chosen
            .inputs
            .iter()
            .map(|(level, table)| PlanInput { level: *level, table: table.meta().clone() })
            .collect();
        let input_bytes: u64 = inputs.iter().map(|input| input.table.bytes).sum();
        // Every output but the last is at least a table long; what is read may grow when it is
        // coded anew, though hardly to the double.
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
