//! Compactions: picking what is due, running it, installing the outcome.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::{FileId, KeyRange, LEVEL_MAX, LevelNo};
use terrace_env::{PlantedBug, is_planted};

use crate::Result;
use crate::compaction::filter::PlanFilter;
use crate::compaction::pick::{self, Compaction, Input, Served, Taken};
use crate::compaction::{
    CompactionOutcome, CompactionPlan, PlanInput, is_covered, short_value_bytes,
    short_value_bytes_max,
};
use crate::events::{CutRecord, EventKind, InstallRecord, MoveRecord};
use crate::fail_point::fail_point;
use crate::l0::CutInterval;
use crate::process::PoolName;
use crate::range_tombstone::Fragments;
use crate::store::memory::compaction_memory_bytes;
use crate::store::upkeep::jobs::LocalOutput;
use crate::store::{Inner, Store};
use crate::table::ReadMode;
use crate::version::{RowMeta, TableMeta, TreeEdit, Version, VersionEdit};
use crate::vlog::ValueFileMeta;

/// What an entry takes in a block beside its key and value, at most.
const ENTRY_BYTES_MAX: u64 = 40;

impl Store {
    /// Flushes, and then takes everything in `range` down to the deepest level that holds
    /// anything, whether or not that is due: afterwards no dead version of these keys takes space
    /// unless a snapshot needs it. The compaction filter, if there is one, is asked about all that
    /// was written before the call, but for what a snapshot sees.
    pub fn compact(&self, range: &KeyRange) -> Result<()> {
        self.inner.log()?;
        let _work = self.inner.begin_work()?;
        self.flush()?;
        self.inner.poison_if_sync_failed(self.inner.force_down(range))
    }
}

/// A compaction that has what it needs for itself, for as long as it lives.
pub(super) struct Running<'a> {
    inner: &'a Inner,
    pub(super) chosen: Compaction,
    /// The version that it was chosen by.
    pub(super) version: Arc<Version>,
    _output: LocalOutput<'a>,
}

/// What a merge of tables read, and what came of it.
pub(super) struct Merged {
    read: ReadBytes,
    pub(super) outcome: CompactionOutcome,
}

impl<'a> Running<'a> {
    /// Takes what `choose` picks, given what is taken already.
    pub(super) fn begin(
        inner: &'a Inner,
        choose: impl FnOnce(&Version, &Taken) -> Option<Compaction>,
    ) -> Option<Running<'a>> {
        let mut taken = inner.jobs.taken.lock();
        let version = inner.versions.current();
        let chosen = choose(&version, &taken)?;
        let _output = inner.jobs.writes_locally(inner.local_output_bytes(&chosen));
        taken.take(&chosen);
        drop(taken);
        inner.size_cache();
        Some(Running { inner, chosen, version, _output })
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
        if let Some(job) = self.begin_due() {
            self.compact(&job.chosen, &job.version, false)?;
        }
        self.reclaim()
    }

    /// Begins the compaction that is most due, once the rows that it may be taken from are open.
    fn begin_due(&self) -> Option<Running<'_>> {
        let served = self.served();
        if !self.keep_line(&self.jobs.taken.lock()) {
            return None;
        }
        let due = |version: &Version, taken: &Taken| self.due(version, taken, served);
        if lacks_open_rows(&self.versions.current()) {
            self.open_rows();
        }
        let mut is_ready = true;
        let job = Running::begin(self, |version, taken| {
            is_ready = !lacks_open_rows(version);
            if is_ready { due(version, taken) } else { None }
        });
        if is_ready {
            return job;
        }
        // A flush has brought a row meanwhile. If there is another one now, it is taken as it is.
        self.open_rows();
        Running::begin(self, due)
    }

    /// Opens the tables of L0 before a cut is picked: only open ones say where their bytes lie.
    fn open_rows(&self) {
        for live in self.versions.current().l0().live() {
            if let Err(error) = live.table.reader(ReadMode::BLOCK) {
                // A cut can be chosen without; the job that reads the table fails with the error.
                crate::program_log::debug!(table = ?live.table, %error, "a table of L0 does not open");
            }
        }
    }

    /// What readers may still look at.
    pub(in crate::store) fn served(&self) -> Served {
        let (points, now) = self.read_points.list(self.env.wall_time());
        Served { least: points.first().copied(), now }
    }

    /// Takes everything in `range` down to the deepest level that holds anything.
    fn force_down(&self, range: &KeyRange) -> Result<()> {
        let filters = self.options.compaction_filter.0.is_some();
        let mark = filters.then(|| self.filter_mark());
        for level in 0..LEVEL_MAX.0 {
            self.force(LevelNo(level), range)?;
        }
        if let Some(mark) = mark {
            self.filter_since(mark, range)?;
        }
        self.reclaim()
    }

    /// Takes everything of `level` within `range` one level down, waiting for jobs in its way.
    pub(in crate::store) fn force(&self, level: LevelNo, range: &KeyRange) -> Result<()> {
        loop {
            self.check_healthy()?;
            if level == LevelNo(0) {
                self.open_rows();
            }
            let ticket = self.changed.ticket();
            let mut is_blocked = false;
            let job = Running::begin(self, |version, taken| {
                let forced = pick::forced(version, &self.shape, level, range)?;
                is_blocked = !taken.is_free(&forced);
                (!is_blocked).then_some(forced)
            });
            match job {
                Some(job) => {
                    let outcome = self.compact(&job.chosen, &job.version, true);
                    drop(job);
                    // What is due may have waited for these tables.
                    self.schedule_compaction();
                    return outcome;
                }
                None if is_blocked => {
                    self.wait_for_change(ticket, Duration::from_millis(100));
                }
                None => return Ok(()),
            }
        }
    }

    /// Does a compaction. `is_wanted`: somebody waits for it.
    pub(in crate::store) fn compact(
        &self,
        chosen: &Compaction,
        version: &Version,
        is_wanted: bool,
    ) -> Result<()> {
        let began = self.env.now();
        let (outputs, values, merged, pause) = if chosen.is_move() && self.stays_in_place(chosen) {
            let moved = chosen.inputs.iter().map(|input| input.table.meta().clone());
            (moved.collect(), Vec::new(), None, None)
        } else {
            let (merged, pause) = self.merge_filtered(chosen, version, is_wanted)?;
            let CompactionOutcome { outputs, values, .. } = merged.outcome.clone();
            (outputs, values, Some(merged), pause)
        };
        fail_point!(self.env, "compaction::before_install");
        let mut edit = edit_of(chosen, outputs);
        edit.values.added = values;
        let installed = InstallRecord::of(&edit.tree, None);
        self.versions.install(edit, None, |version| self.show_compaction(version, pause))?;
        fail_point!(self.env, "compaction::after_install");
        self.settle_scans(chosen);
        self.tell_compaction(chosen, merged.as_ref(), installed, began);
        self.changed.notify();
        Ok(())
    }

    /// Merges the inputs into tables, by several threads if that pays.
    pub(super) fn merge_tables(
        &self,
        chosen: &Compaction,
        version: &Version,
        filter: Option<PlanFilter>,
    ) -> Result<Merged> {
        let plan = self.plan(chosen, version, filter)?;
        // An input that several parts read is counted once, and as far as it is read.
        let read = read_bytes_of(chosen, &plan);
        let read_bytes = read.from_l0 + read.from_levels;
        // What comes in place is read and written, too.
        let worked_bytes = read_bytes + read.in_place;
        let is_undivided =
            self.options.research.l0_cut_all || !version.l0().policy().divides_cuts();
        let parts = if chosen.is_move() {
            // Tables of the output level may lie between those that would have moved.
            plan.split(&chosen.gaps(), |count| self.ids.next_block(count))
        } else if is_undivided && chosen.through.is_some() {
            vec![plan]
        } else {
            self.parts_of(plan, &chosen.inputs, worked_bytes)?
        };
        let part_bytes = worked_bytes / parts.len() as u64;
        let parts: Vec<CompactionPlan> =
            parts.into_iter().map(|part| part.with_even_tables(part_bytes)).collect();
        if parts.len() < self.process.pool().compaction_threads() {
            // There may be another slice for the other threads.
            self.schedule_compaction();
        }
        let jobs = self.process.memory().pool(PoolName::Jobs);
        // An output below the waterline is gathered in memory until it is whole.
        let is_far = self.context.opener.far.takes(chosen.output_level);
        let gathered: u64 = parts.iter().filter(|_| is_far).map(|part| part.table_bytes).sum();
        let own: u64 = parts.iter().map(compaction_memory_bytes).sum();
        let _memory = jobs.charge(own + gathered);
        let outcome = CompactionOutcome { read_bytes, ..self.run_parts(parts)? };
        Ok(Merged { read, outcome })
    }

    /// Tells what a compaction that began at `began` and was installed came to.
    fn tell_compaction(
        &self,
        chosen: &Compaction,
        merged: Option<&Merged>,
        installed: InstallRecord,
        began: Duration,
    ) {
        self.tell(EventKind::Installed(installed));
        self.schedule_value_work();
        match merged {
            Some(Merged { read, outcome }) => {
                if chosen.through.is_some() {
                    let cut = CutRecord { l0_bytes: read.from_l0, below_bytes: read.from_levels };
                    self.tell(EventKind::Cut(cut));
                }
                let now = self.env.now();
                let took = now.saturating_sub(began);
                let record = self.meters.compaction_log.record(chosen, outcome, took);
                self.tell_at(now, EventKind::CompactionEnded(record));
            }
            None => self.tell(EventKind::Moved(MoveRecord {
                from: chosen.inputs.iter().map(|input| input.level.0).min().unwrap_or(0),
                to: chosen.output_level.0,
                table_count: chosen.inputs.len() as u64,
                bytes: chosen.inputs.iter().map(|input| input.table.meta().bytes).sum(),
            })),
        }
        let bytes = chosen.bytes_from(LevelNo(0));
        if chosen.output_level > LevelNo(0) && bytes > 0 {
            let now = self.env.now();
            self.tell_at(now, EventKind::L0Drained { bytes, took: now.saturating_sub(began) });
        }
    }

    /// Everything that a job needs to know. Errors: an input that holds range tombstones cannot be
    /// opened.
    fn plan(
        &self,
        chosen: &Compaction,
        version: &Version,
        filter: Option<PlanFilter>,
    ) -> Result<CompactionPlan> {
        let (mut snapshots, now) = self.read_points.list(self.env.wall_time());
        if is_planted(PlantedBug::IgnoreSnapshot) {
            snapshots.pop();
        }
        let tombstones = range_tombstones_of(chosen)?;
        let is_read = |table: &TableMeta| {
            tombstones.is_empty() || !is_covered(table, &tombstones, &snapshots)
        };
        // A table is an input once for each interval in which it counts: the interval is its clip.
        let inputs: Vec<PlanInput> = chosen
            .inputs
            .iter()
            .filter(|input| is_read(input.table.meta()))
            .flat_map(|input| {
                let meta = input.table.meta();
                let is_whole = input.parts.is_none();
                let clips = input.parts_within(&chosen.slice).map(move |part| match is_whole {
                    true => meta.clip.clone(),
                    false => meta.clip.intersection(&part),
                });
                clips.map(|clip| PlanInput {
                    level: input.level,
                    table: TableMeta { clip, ..meta.clone() },
                })
            })
            .collect();
        // Every output but the last has two thirds of a table at the least. What is read may be
        // compressed and what is written not, so its entries count as they are, or as they lie if
        // that is more; twice, because the index may name most keys again.
        let coded_bytes = |table: &TableMeta| {
            let entries = table.entry_count + table.range_tombstone_count;
            table.bytes.max(table.raw_bytes + entries * ENTRY_BYTES_MAX)
        };
        let input_bytes: u64 = inputs.iter().map(|input| coded_bytes(&input.table)).sum();
        let pointers_from = self.pointers_from(version, chosen.output_level);
        let short_bytes_max = |from| {
            inputs.iter().map(move |input| short_value_bytes_max(&input.table, from)).sum::<u64>()
        };
        let input_bytes = input_bytes + pointers_from.map_or(0, short_bytes_max);
        let mut output_count_max = 3 * input_bytes / self.options.table_bytes + 16;
        let may_make_values = version.merge_operator().is_some() || filter.is_some();
        if may_make_values {
            // Such a value may be larger than what it was made of, and end a table.
            output_count_max += inputs.iter().map(|input| input.table.entry_count).sum::<u64>();
        }
        let table = &self.options.table;
        // What lies in an object store names no values elsewhere.
        let is_far = self.context.opener.far.takes(chosen.output_level);
        let value_log = self.options.value_log.filter(|_| !is_far);
        let large_bytes = value_log.map(|bounds| bounds.large_bytes as u64);
        let value_files = match may_make_values || pointers_from.is_some() {
            true => named_by(version, &inputs),
            false => Vec::new(),
        };
        Ok(CompactionPlan {
            epoch: version.epoch(),
            now,
            snapshots,
            slice: chosen.slice.clone(),
            inputs,
            output_level: chosen.output_level,
            droppable: match chosen.output_level {
                // Older rows may lie under the merged ones.
                LevelNo(0) => Vec::new(),
                level => pick::droppable(version, &chosen.slice, level),
            },
            first_output: self.ids.next_block(output_count_max + u64::from(large_bytes.is_some())),
            output_count_max,
            table_bytes: self.options.table_bytes,
            block_bytes: table.block_bytes as u64,
            filter_bits_per_key: u64::from(table.filter_bits_per_key),
            compression: table.compression,
            trie: self.has_tries(chosen.output_level, is_far),
            merge_operator: version.merge_operator().map(str::to_string),
            filter,
            large_bytes,
            pointers_from,
            value_files,
        })
    }

    /// Whether tables of a level have tries: by default those in the object store, where a get of a
    /// key that is not there may cost a request.
    fn has_tries(&self, level: LevelNo, is_far: bool) -> bool {
        let research = &self.options.research;
        let is_chosen = self.options.table.trie || research.local_tries && level > LevelNo(0);
        if is_far { !research.far_filters } else { is_chosen }
    }

    /// Deletes the tables that nothing names any more. Called by a job that has let go of what it
    /// read.
    pub(in crate::store) fn reclaim(&self) -> Result<()> {
        fail_point!(self.env, "reclaim::before_delete");
        // One that cannot be deleted now is tried again, and holds up no other.
        let mut outcome = Ok(());
        for removed in self.context.reclaim.take() {
            match self.context.opener.store.delete(&removed.location) {
                Ok(()) => self.context.reclaim.deleted(removed),
                Err(error) => {
                    self.context.reclaim.add(removed);
                    outcome = Err(error);
                }
            }
        }
        if self.bounds_local_bytes() {
            // Writers may have stopped for these, or for what the job would still have written.
            self.update_ruling();
            self.changed.notify();
        }
        outcome
    }

    /// Deletes what readers let go of since the last job ended, if the local disk has room for so
    /// much only.
    pub(super) fn reclaim_for_room(&self) {
        if self.context.reclaim.is_empty() || !self.bounds_local_bytes() {
            return;
        }
        if let Err(error) = self.reclaim() {
            crate::program_log::debug!(%error, "a table that nothing names waits for the next job");
        }
    }
}

/// Whether a table of L0 has not said yet where its bytes lie, and that is likely to matter.
fn lacks_open_rows(version: &Version) -> bool {
    version.l0().policy().wants_open_rows()
        && version.l0().live().iter().any(|live| live.table.open_table().is_none())
}

/// What becomes of the version once `chosen` has been done.
fn edit_of(chosen: &Compaction, outputs: Vec<TableMeta>) -> VersionEdit {
    let removed = chosen.inputs.iter().filter(|input| input.level.0 > 0);
    let cut = |through| CutInterval { slice: chosen.slice.clone(), through };
    let mut edit = TreeEdit {
        rows_removed: chosen.rows.clone(),
        cuts: chosen.through.map(cut).into_iter().collect(),
        tables_removed: removed.map(|input| (input.level, input.table.meta().id)).collect(),
        ..TreeEdit::default()
    };
    match chosen.output_level {
        // The row takes the place of those that it was made of.
        LevelNo(0) if outputs.is_empty() => {}
        LevelNo(0) => {
            let id = chosen.rows.iter().copied().max().expect("rows were merged");
            edit.rows_added = vec![RowMeta { id, tables: outputs }];
        }
        level => {
            edit.tables_added = outputs.into_iter().map(|table| (level, table)).collect();
        }
    }
    edit.into()
}

/// About how many bytes a compaction reads.
#[derive(Clone, Copy, Debug, Default)]
struct ReadBytes {
    from_l0: u64,
    from_levels: u64,
    /// Of values that come in place.
    in_place: u64,
}

/// About how many bytes of the inputs of `plan` are read.
fn read_bytes_of(chosen: &Compaction, plan: &CompactionPlan) -> ReadBytes {
    let is_read = |input: &&Input| {
        let id = input.table.meta().id;
        plan.inputs.iter().any(|read| read.table.id == id)
    };
    let mut read = ReadBytes::default();
    for input in chosen.inputs.iter().filter(is_read) {
        let bytes = input.bytes_within(&chosen.slice);
        let meta = input.table.meta();
        let short_bytes = plan.pointers_from.map_or(0, |from| short_value_bytes(meta, from));
        let part = u128::from(short_bytes) * u128::from(bytes) / u128::from(meta.bytes.max(1));
        read.in_place += part as u64;
        *(if input.level.0 == 0 { &mut read.from_l0 } else { &mut read.from_levels }) += bytes;
    }
    read
}

/// The value files of a version that inputs name values in, by their ids.
fn named_by(version: &Version, inputs: &[PlanInput]) -> Vec<ValueFileMeta> {
    let named = inputs.iter().flat_map(|input| input.table.named.iter());
    let files = named.filter_map(|one| version.values().of_segment(one.segment));
    let files: BTreeMap<FileId, _> = files.map(|file| (file.meta().id, file)).collect();
    files.into_values().map(|file| file.meta().clone()).collect()
}

/// The range tombstones of all inputs.
fn range_tombstones_of(chosen: &Compaction) -> Result<Fragments> {
    let mut found = Vec::new();
    for Input { table, .. } in &chosen.inputs {
        if table.meta().range_tombstone_count > 0 {
            found.push(table.reader(ReadMode::BLOCK)?.range_tombstones().clip(&table.meta().clip));
        }
    }
    Ok(Fragments::merge(&found))
}
