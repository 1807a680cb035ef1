//! Flushes: frozen memtables become one row of L0.

use std::sync::Arc;

use terrace_base::{LogPosition, MemtableId, SeqNo};
use terrace_env::{PlantedBug, is_planted};

use crate::Result;
use crate::compaction::{Retained, Retention};
use crate::drange::{Frozen, SampledStream, WriteSample};
use crate::events::{EventKind, FlushRecord, InstallRecord};
use crate::fail_point::fail_point;
use crate::iter::{MergingStream, Stream};
use crate::l0::{Absorbed, FlushInput};
use crate::memtable::LoggedByNumber;
use crate::placement::TableMedium;
use crate::process::{IoClass, PoolName, TableIo};
use crate::range_tombstone::Fragments;
use crate::store::health::Work;
use crate::store::memory::{builder_memory_bytes, lists_memory_bytes};
use crate::store::turns::FlushTurn;
use crate::store::{Inner, Store};
use crate::table::{Heat, HotBlocks, KeptIn};
use crate::version::{
    LogEdit, NewRow, OpenTable, RangeEdit, TableMeta, TreeEdit, ValuesEdit, VersionEdit,
};
use crate::vlog::{LeavesInLog, LogHomes, Separator, Stay, ValueFileMeta};

/// Whether memtables of hot dranges may be merged in memory instead of being flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merging {
    /// Those that it pays for.
    Hot,
    /// Everything goes into tables.
    Never,
}

/// How many values of a memtable are looked at to judge how many of its bytes are large values.
const VALUES_PER_ESTIMATE: usize = 256;

/// One flush merges at most this many memtables' worth of bytes.
const MEMTABLES_PER_FLUSH: usize = 4;

impl Store {
    /// Freezes every memtable and waits until all of them are in L0.
    ///
    /// Errors: `ReadOnly`, `Closed`, `Poisoned`, and whatever writing tables gives.
    pub fn flush(&self) -> Result<()> {
        self.inner.flush_all()
    }
}

impl Inner {
    /// See [`Store::flush`].
    pub(in crate::store) fn flush_all(&self) -> Result<()> {
        self.log()?;
        let _work = self.begin_work()?;
        self.check_healthy()?;
        let _caller_waits = self.io.hurry_flushes();
        self.freeze_all()?;
        self.poison_if_sync_failed(self.flush_frozen(Merging::Never))?;
        self.note_problem(Work::Flush, None);
        self.schedule_compaction();
        Ok(())
    }

    /// Flushes until no memtable waits for it.
    pub(super) fn flush_frozen(&self, merging: Merging) -> Result<()> {
        while self.flush_some(merging)? {}
        Ok(())
    }

    /// Flushes the oldest frozen memtables as one row, but for those that are merged in memory;
    /// `false` if none waits.
    fn flush_some(&self, merging: Merging) -> Result<bool> {
        let turn = self.turns.flush.lock();
        self.size_cache();
        // What is being frozen together is flushed together.
        let frozen = {
            let _turn = self.turns.freeze.lock();
            self.view.load().frozen()
        };
        if merging == Merging::Hot && self.may_keep()? {
            return Ok(false);
        }
        let waits = |frozen: &Arc<Frozen>| !frozen.is_merged || merging == Merging::Never;
        if frozen.is_empty() || !frozen.iter().any(waits) && !self.is_log_long()? {
            return Ok(false);
        }
        let batch = self.oldest_of(frozen);
        let is_whole = self.is_whole(&batch);
        let spacing = self.sample_spacing(&batch);
        let (batch, mut samples) = match merging {
            Merging::Never => (batch, Vec::new()),
            Merging::Hot => self.merge_hot(&turn, batch, spacing)?,
        };
        if !batch.is_empty() {
            samples
                .push(self.flush_batch(&turn, &batch, spacing, |ids| self.oldest_position(ids))?);
        }
        if is_whole {
            self.note_samples(samples);
        }
        Ok(true)
    }

    /// Bytes of frozen memtables that wait for nothing but their turn.
    pub(in crate::store) fn kept_bytes(&self) -> usize {
        self.options.memtables_kept.saturating_mul(self.options.memtable_bytes)
    }

    /// Whether the memtables that wait may stay in memory for now.
    fn may_keep(&self) -> Result<bool> {
        let memory = self.process.memory();
        let used_bytes = memory.pool(PoolName::Memtables).used_bytes();
        let is_short = used_bytes > memory.memtable_bytes_max() / 2;
        let view = self.view.load();
        // A drange that was made wider has the memtables of many narrow ones: long before they are
        // so many that writers are stopped they go, however little is in them.
        let count_max = 2 * self.options.memtables_kept;
        let is_little =
            view.frozen_bytes <= self.kept_bytes() && view.waiting_count_max() <= count_max;
        Ok(is_little && !is_short && !self.is_log_long()?)
    }

    /// Whether the log takes more space than it should, and a flush helps.
    pub(super) fn is_log_long(&self) -> Result<bool> {
        let is_long = self.log()?.held_bytes() > self.options.log_bytes_max;
        Ok(is_long && !self.log_awaits_moment())
    }

    /// Whether these memtables are all that was frozen together with any of them. A sample of a
    /// part would say that all writes go there.
    fn is_whole(&self, batch: &[Arc<Frozen>]) -> bool {
        let newest = batch.iter().map(|frozen| frozen.end).max();
        self.view.load().frozen().iter().all(|frozen| {
            Some(frozen.end) > newest || batch.iter().any(|one| Arc::ptr_eq(one, frozen))
        })
    }

    /// Flushes all of these memtables, which are frozen, oldest first, before anything younger.
    /// `oldest_position`: as [`Inner::oldest_position`].
    pub(in crate::store) fn flush_these(
        &self,
        turn: &FlushTurn,
        mut frozen: Vec<Arc<Frozen>>,
        oldest_position: impl Fn(&[MemtableId]) -> LogPosition,
    ) -> Result<()> {
        while !frozen.is_empty() {
            let batch = self.oldest_of(frozen.clone());
            self.flush_batch(turn, &batch, self.sample_spacing(&batch), &oldest_position)?;
            frozen.retain(|one| !batch.iter().any(|done| Arc::ptr_eq(done, one)));
        }
        Ok(())
    }

    /// Flushes these memtables, the oldest of all frozen ones that hold their keys, as one row; a
    /// sample of the writes in them.
    fn flush_batch(
        &self,
        _turn: &FlushTurn,
        batch: &[Arc<Frozen>],
        spacing: u64,
        oldest_position: impl Fn(&[MemtableId]) -> LogPosition,
    ) -> Result<WriteSample> {
        let began = self.env.now();
        let drained: usize = batch.iter().map(|frozen| frozen.memtable.used_bytes()).sum();
        let (memtable_count, memtable_bytes) = (batch.len() as u64, drained as u64);
        self.tell_at(began, EventKind::FlushBegan { memtable_count, memtable_bytes });
        let ids: Vec<MemtableId> = batch.iter().map(|frozen| frozen.memtable.id()).collect();
        // What is frozen or written from now on stands above it.
        let oldest = oldest_position(&ids);
        let finished = self.wait_until_finished(batch)?;
        let mut homes = self.log_homes(batch, finished)?;
        let settled = self.settle_log(batch, oldest, homes.end())?;
        fail_point!(self.env, "flush::before_absorb");
        let absorbed = self.absorb(batch, spacing, &mut homes);
        if absorbed.is_err() {
            self.give_up(&homes);
        }
        let Absorption { row, row_bytes, values, sample } = absorbed?;
        let value_bytes = values.iter().map(|file| file.bytes).sum();
        let medium_bytes = row.as_ref().map_or(0, |row| self.medium_bytes(row));
        fail_point!(self.env, "flush::before_install");
        let log = self.log()?;
        // For whoever takes the range over, the log may have to start further back.
        let log_start = log.start_at(settled.min(self.kept_for_taker()));
        let covered =
            batch.iter().flat_map(|frozen| frozen.covers.iter().map(|id| (*id, frozen.end)));
        let current = self.versions.current();
        let boundaries = self.dranges.load().boundaries().keys().to_vec();
        if is_planted(PlantedBug::ReleaseLogEarly) {
            log.release(log_start.position)?;
        }
        let edit = VersionEdit {
            tree: TreeEdit {
                greatest_seqno: Some(greatest_of(batch).max(current.greatest_seqno())),
                ..TreeEdit::default()
            },
            log: LogEdit {
                memtables_flushed: covered.collect(),
                start: Some(log_start),
                settled: Some(settled).filter(|at| *at > log_start.position),
                closed: None,
            },
            values: ValuesEdit {
                added: values.into_iter().chain(homes.retired().cloned()).collect(),
                removed: Vec::new(),
            },
            range: RangeEdit {
                drange_boundaries: (boundaries != current.drange_boundaries()
                    && !boundaries.is_empty())
                .then_some(boundaries),
                ..RangeEdit::default()
            },
            ..VersionEdit::default()
        };
        let installed = InstallRecord::of(&edit.tree, row.as_ref());
        self.versions.install(edit, row, |version| {
            self.change_view(true, |view| {
                let mut dranges = view.dranges.clone();
                for drange in &mut dranges {
                    drange.frozen.retain(|frozen| !ids.contains(&frozen.memtable.id()));
                    let needed = drange.frozen.iter().map(|frozen| frozen.begin).min();
                    let start = log_start.position;
                    debug_assert!(needed.is_none_or(|begin| begin >= start), "{needed:?} {start}");
                }
                (dranges, Arc::clone(version))
            });
        })?;
        fail_point!(self.env, "flush::after_install");
        let now = self.env.now();
        let took = now.saturating_sub(began);
        let record = FlushRecord { memtable_bytes, row_bytes, value_bytes, medium_bytes, took };
        self.tell_at(now, EventKind::Installed(installed));
        self.tell_at(now, EventKind::FlushEnded(record));
        log.release(log_start.position)?;
        fail_point!(self.env, "wal::after_release");
        self.update_ruling();
        self.changed.notify();
        self.schedule_compaction();
        self.schedule_value_work();
        Ok(sample)
    }

    /// How many bytes of a row lie on L0's own medium.
    fn medium_bytes(&self, row: &NewRow) -> u64 {
        let has_medium = self.options.l0.path().is_some();
        let is_there = |table: &&TableMeta| match table.location.medium() {
            TableMedium::Own | TableMedium::Far => false,
            TableMedium::Rows => true,
            TableMedium::Container => has_medium,
        };
        row.tables.iter().filter(is_there).map(|table| table.bytes).sum()
    }

    /// The first of these memtables, as many as one flush takes, and no set by half: what is left
    /// in memory would hide the rest of it.
    fn oldest_of(&self, frozen: Vec<Arc<Frozen>>) -> Vec<Arc<Frozen>> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        for frozen in frozen {
            bytes += frozen.memtable.used_bytes();
            let bytes_max = match is_planted(PlantedBug::FlushNewestFirst) {
                true => 0,
                false => self.options.memtable_bytes * MEMTABLES_PER_FLUSH,
            };
            let is_of_set = batch.last().is_some_and(|last: &Arc<Frozen>| last.is_beside(&frozen));
            if !batch.is_empty() && bytes > bytes_max && !is_of_set {
                break;
            }
            batch.push(frozen);
        }
        batch
    }

    /// Waits until every entry of these memtables is written; up to where every record is.
    fn wait_until_finished(&self, batch: &[Arc<Frozen>]) -> Result<LogPosition> {
        let (greatest, end) = (greatest_of(batch), end_of(batch));
        let is_finished = || {
            let finished = self.sequencer.finished();
            finished.0 >= greatest && finished.1 >= end
        };
        self.sequencer.wait_until(|| is_finished() || self.is_poisoned());
        if self.is_poisoned() {
            return Err(self.poisoned());
        }
        Ok(self.sequencer.finished().1)
    }

    /// Waits until every entry of these memtables, which are finished, is published, and sees to it
    /// that tables never hold what the log may still lose; returns where a replay that does not
    /// need these memtables starts, if the others need nothing below `oldest`.
    ///
    /// If nothing below the end of these memtables is needed any more, all of it is in tables as
    /// soon as they are, and the log may as well lose it, but for values that stay in it, all of
    /// which end below `stay_end`. Else, or if whoever takes the range over needs it, it is synced
    /// through them.
    fn settle_log(
        &self,
        batch: &[Arc<Frozen>],
        oldest: LogPosition,
        stay_end: Option<LogPosition>,
    ) -> Result<LogPosition> {
        let (greatest, end) = (greatest_of(batch), end_of(batch));
        let stay_end = stay_end.filter(|_| !is_planted(PlantedBug::NameUnsyncedValues));
        if let Some(stay_end) = stay_end {
            self.sync_values_in_log(stay_end)?;
        }
        let is_needed = self.kept_for_taker() < end;
        let is_all = oldest >= end && !is_needed && !self.syncs_before_publication();
        let start = if is_planted(PlantedBug::InstallBeforeLogSync)
            || is_all && self.begin_log_at(oldest)?
        {
            oldest
        } else {
            self.sync_log(greatest, end)?;
            if stay_end.is_some() {
                // What stays is released by this flush then, and given its last length: a copy that
                // shares the file is made behind it.
                self.begin_log_at(oldest)?;
            }
            // A write that failed, and poisoned the range meanwhile, leaves a gap that nobody has
            // synced before the next memtable: the manifest must not say that the log was durable.
            oldest.min(self.log()?.durable())
        };
        self.sequencer.wait_until(|| self.sequencer.visible() >= greatest || self.is_poisoned());
        let finished = self.sequencer.finished().1;
        assert!(start <= finished, "a replay would begin at {start}, behind {finished}");
        Ok(start)
    }

    /// Where the log, in which every record below `settled` is written, has the large values of
    /// these memtables, as far as they may stay there.
    fn log_homes(&self, batch: &[Arc<Frozen>], settled: LogPosition) -> Result<LogHomes> {
        let logged = LoggedByNumber::of(batch.iter().map(|frozen| &*frozen.memtable));
        let begin = batch.iter().map(|frozen| frozen.begin).min();
        let mut finished = match begin.filter(|_| !logged.is_empty()) {
            Some(begin) => self.log()?.finished(begin),
            None => Vec::new(),
        };
        finished.retain(|segment| segment.end <= settled);
        let version = self.versions.current();
        let is_value_file = |id| version.values().get(id).is_some();
        let has_every = self.options.value_log.is_some_and(|values| values.is_every_value());
        let stay = if has_every { Stay::All } else { Stay::MostlyLarge };
        let mut homes = LogHomes::new(logged, finished, stay, is_value_file);
        if !homes.is_empty() {
            homes.weigh(&mut merged_stream(batch))?;
        }
        Ok(homes)
    }

    /// Takes the second names of log segments back that a flush which failed has given.
    fn give_up(&self, homes: &LogHomes) {
        for name in homes.new_names() {
            if let Err(error) = self.context.opener.store.delete(name) {
                crate::program_log::debug!(%error, "a value file is left to the next open");
            }
        }
    }

    /// Writes the merged entries of these memtables as a row, and those of their large values that
    /// cannot stay in the log as a value file.
    fn absorb(
        &self,
        batch: &[Arc<Frozen>],
        spacing: u64,
        homes: &mut LogHomes,
    ) -> Result<Absorption> {
        let (snapshots, now) = self.read_points.list(self.env.wall_time());
        let fragments: Vec<_> =
            batch.iter().map(|frozen| frozen.memtable.range_tombstones()).collect();
        let tombstones = Fragments::merge(fragments.iter().map(|some| &**some));
        let rules = Retention::new(snapshots, Vec::new(), now, tombstones);
        let rules = match self.options.research.flush_all_versions {
            true => rules.keeping_all(),
            false => rules.with_operator(self.merge_operator.clone()),
        };
        let tombstones = rules.surviving_tombstones();
        let entries = batch.iter().map(|frozen| frozen.memtable.entry_count()).sum();
        let expected_bytes: u64 =
            batch.iter().map(|frozen| frozen.memtable.used_bytes() as u64).sum();
        let apart = self.bytes_apart(batch)?;
        let apart_bytes = apart.large + apart.medium;
        let expected_bytes = expected_bytes.saturating_sub(apart_bytes);
        let jobs = self.process.memory().pool(PoolName::Jobs);
        let pointers = if apart_bytes > 0 { entries } else { 0 };
        let builder_bytes = builder_memory_bytes(expected_bytes, entries, &self.options.table);
        let _memory = jobs.charge(builder_bytes + lists_memory_bytes(pointers));
        if self.options.l0.has_container() {
            // An edit whose append failed may have reached the disk, and names a row in pages that
            // are free again: nobody may read it any more when they are written to.
            self.versions.restart_feed_if_broken()?;
        }
        let hot = self.hot_below();
        loop {
            let mut merged = merged_stream(batch);
            let mut sampled = SampledStream::new(&mut merged, sampled_before(batch), spacing);
            let mut retained = Retained::new(&mut sampled, &rules)?;
            let mut separator = self.separator(apart, homes)?;
            let separating = separator.as_mut();
            let input = FlushInput::new(&mut retained, separating, &tombstones, expected_bytes)
                .with_hot(hot.clone());
            if let Absorbed::Row(row) = self.l0.absorb(input)? {
                let values = separator.map_or(Ok(Vec::new()), Separator::finish)?;
                let row_bytes = row.as_ref().map_or(0, NewRow::bytes);
                return Ok(Absorption { row, row_bytes, values, sample: sampled.finish() });
            }
        }
    }

    /// Which blocks of a new row will be read, judged by what was read of the tables under it.
    fn hot_below(&self) -> Option<Arc<HotBlocks>> {
        if self.options.research.cache_drops {
            return None;
        }
        let version = self.versions.current();
        let opened = version.tables().filter_map(|table| table.open_table());
        let read = opened.flat_map(|table| match table {
            OpenTable::Blocks(reader) => reader.read_keys(),
            OpenTable::Row(_) => Vec::new(),
        });
        HotBlocks::of(Heat::of(read), KeptIn::Cache(Arc::clone(&self.context.opener.cache)))
    }

    /// What takes the large and medium values out of a flush, if the range has a value log.
    fn separator<'l>(
        &'l self,
        expected: BytesApart,
        homes: &'l mut LogHomes,
    ) -> Result<Option<Separator<'l>>> {
        let Some(bounds) = self.options.value_log else { return Ok(None) };
        let store = &self.context.opener.store;
        let (id, large_bytes) = (self.ids.next(), bounds.large_bytes);
        let io = Some(TableIo::new(&self.io, IoClass::Flush));
        let expected_bytes = expected.large.saturating_sub(homes.spared_bytes());
        let mut separator = Separator::new(&self.env, store, id, large_bytes, expected_bytes);
        if bounds.has_medium() {
            let id = self.ids.next();
            separator = separator.with_medium(id, bounds.medium_bytes, expected.medium);
        }
        let leaves = LeavesInLog { log: self.log()?, homes };
        Ok(Some(separator.limited_by(io).leaving_in(leaves)))
    }

    /// About how many bytes the values of these memtables have that leave the tables, judged by
    /// some of them.
    fn bytes_apart(&self, batch: &[Arc<Frozen>]) -> Result<BytesApart> {
        let mut estimated = BytesApart::default();
        let Some(bounds) = self.options.value_log else { return Ok(estimated) };
        let medium_bytes = bounds.medium_bytes.min(bounds.large_bytes);
        for frozen in batch {
            let (mut large, mut medium, mut all) = (0, 0, 0);
            let mut stream = frozen.memtable.stream();
            for _ in 0..VALUES_PER_ESTIMATE {
                let Some(entry) = stream.entry() else { break };
                let bytes = entry.value.len() as u64;
                all += bytes;
                match entry.value.len() {
                    long if long >= bounds.large_bytes => large += bytes,
                    long if long >= medium_bytes => medium += bytes,
                    _ => {}
                }
                stream.advance()?;
            }
            let whole = u128::from(frozen.memtable.value_bytes());
            let share = |part: u64| (whole * u128::from(part) / u128::from(all.max(1))) as u64;
            estimated.large += share(large);
            estimated.medium += share(medium);
        }
        Ok(estimated)
    }
}

/// What a flush wrote.
struct Absorption {
    row: Option<NewRow>,
    row_bytes: u64,
    values: Vec<ValueFileMeta>,
    sample: WriteSample,
}

/// Bytes of the values of some memtables that do not stand in tables.
#[derive(Clone, Copy, Debug, Default)]
struct BytesApart {
    large: u64,
    medium: u64,
}

/// Every version in these memtables.
pub(super) fn merged_stream(batch: &[Arc<Frozen>]) -> MergingStream<'static> {
    let stream =
        |frozen: &Arc<Frozen>| Box::new(frozen.memtable.stream()) as Box<dyn Stream + Send>;
    MergingStream::new(batch.iter().map(stream).collect())
}

/// Where the log of these memtables ends.
fn end_of(batch: &[Arc<Frozen>]) -> LogPosition {
    batch.iter().map(|frozen| frozen.end).max().unwrap_or_default()
}

/// The greatest number in these memtables.
pub(super) fn greatest_of(batch: &[Arc<Frozen>]) -> SeqNo {
    let greatest = batch.iter().filter_map(|frozen| frozen.memtable.greatest_seqno()).max();
    greatest.unwrap_or(SeqNo::ZERO)
}

/// The greatest number of a write that was met by a merge before, and so is in a sample already.
pub(super) fn sampled_before(batch: &[Arc<Frozen>]) -> SeqNo {
    let merged = batch.iter().filter(|frozen| frozen.is_merged);
    merged.filter_map(|frozen| frozen.memtable.greatest_seqno()).max().unwrap_or(SeqNo::ZERO)
}
