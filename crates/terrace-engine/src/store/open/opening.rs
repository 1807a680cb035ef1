//! Opening a range: lock, manifest, log, a new epoch, and only then anything new.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use terrace_base::{KeyRange, LogPosition, RangeId};
use terrace_env::{DirLock, JobClass, LockKind, SharedEnv};

use super::phases::{PhaseClock, RecoveryPhases};
use crate::compaction::CompactionExecutor;
use crate::compaction::levels::LevelShape;
use crate::drange::{Active, Boundaries, DrangeMap, Frozen};
use crate::events::OpenStep;
use crate::fail_point::fail_point;
use crate::ids::FileIds;
use crate::l0::L0;
use crate::memtable::SpareMemory;
use crate::merge::MergeOperator;
use crate::options::{Durability, Options};
use crate::placement::{Claims, spare_memory};
use crate::process::{BackgroundIo, PoolName, Process};
use crate::store::cloud::{CloudTier, TakeOver};
use crate::store::current::Current;
use crate::store::gate::Gate;
use crate::store::health::Health;
use crate::store::log_state::LogState;
use crate::store::lookups::KeyBounds;
use crate::store::memory::RangeMemory;
use crate::store::open::close::Closer;
use crate::store::open::data_disk::is_on_data_disk;
use crate::store::open::recovery::{Recovered, Replay, cross_check, recover};
use crate::store::read::scan_length::ScanLength;
use crate::store::read::spare_scan::SpareScans;
use crate::store::read_points::ReadPoints;
use crate::store::report::meters::Meters;
use crate::store::sequencer::Sequencer;
use crate::store::turns::Turns;
use crate::store::upkeep::balance::Balance;
use crate::store::upkeep::freeze;
use crate::store::upkeep::jobs::Jobs;
use crate::store::view::{DrangeView, View};
use crate::store::{Inner, Seams, Store};
use crate::swap::ArcSwap;
use crate::version::{
    FeedStore, LoadedFeed, LogBehind, LogEdit, RangeEdit, ReclaimQueue, Table, TableContext,
    Version, VersionEdit, VersionFeed, Versions, VersionsParts,
};
use crate::wal::{LogSink, LogStart, LogStore, TornTail};
use crate::{Error, Result};

/// What an open found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Whether the directory held no range before.
    pub is_new: bool,
    /// Whether the range had been closed cleanly.
    pub was_closed: bool,
    /// Entries replayed from the log.
    pub replayed_entries: u64,
    /// Where the log had been torn by a crash, if it was.
    pub torn: Option<TornTail>,
    /// The position at which the log goes on.
    pub log_end: LogPosition,
    /// Files that belonged to nothing, left by interrupted jobs and deleted.
    pub orphan_count: u64,
    /// Whether the container of L0 is a file on the disk of the data, where plain tables are
    /// faster.
    pub container_is_on_data_disk: bool,
    /// What was taken over from another directory, if the database was.
    pub taken_over: Option<TakeOver>,
    /// How long the parts of the open took.
    pub phases: RecoveryPhases,
}

/// What keeps other ranges out.
#[derive(Default)]
pub(in crate::store) struct Held {
    /// Of the range's own directory; none if it belongs to a writer that is followed.
    _lock: Option<DirLock>,
    /// Of what the range has on media.
    _claims: Option<Claims>,
}

/// What an open rests on, before the range is put together.
#[derive(Clone)]
pub(in crate::store) struct Opening {
    pub process: Arc<Process>,
    pub env: SharedEnv,
    pub dir: PathBuf,
    pub options: Options,
    pub ids: Arc<FileIds>,
    pub context: Arc<TableContext>,
    pub l0: Arc<dyn L0>,
    pub feeds: Arc<dyn FeedStore>,
    pub log: Arc<dyn LogStore>,
    pub cloud: Option<Arc<CloudTier>>,
    executor: Arc<dyn CompactionExecutor>,
    io: Arc<BackgroundIo>,
    merge_operator: Option<Arc<dyn MergeOperator>>,
}

/// What differs from one range that is put together to the next.
pub(in crate::store) struct Pieces {
    pub versions: Versions,
    /// None if nothing is ever written.
    pub log: Option<Arc<dyn LogSink>>,
    /// Where the log ends.
    pub end: LogPosition,
    pub sequencer: Sequencer,
    pub dranges: DrangeMap,
    pub view: View,
    pub spares: Arc<SpareMemory>,
    pub recovery: RecoveryReport,
    pub held: Held,
}

impl Store {
    /// Opens the range in `dir`, and creates it there if the options allow that and the directory
    /// holds none. What a crash left is recovered first.
    ///
    /// Errors: `Invalid` (options; nothing there; another merge operator), `Locked` (another
    /// process, or another handle of this one, has it open), `Corruption` (the manifest or the log
    /// is damaged below what was durable), `Unsupported` (written by a later version), `NoSpace`,
    /// `Io`.
    pub fn open(process: &Arc<Process>, dir: &Path, options: Options) -> Result<Store> {
        let seams = Seams::local(process, dir, &options);
        Store::open_with(process, dir, options, seams)
    }

    /// As [`Store::open`], with other sides of the seams. `dir` is locked in any case.
    pub fn open_with(
        process: &Arc<Process>,
        dir: &Path,
        options: Options,
        seams: Seams,
    ) -> Result<Store> {
        options.validate()?;
        let options = options.with_baselines();
        let lock = lock(process.env(), dir, &options)?;
        let mut clock = PhaseClock::start(process.env());
        let mut phases = RecoveryPhases::default();
        let loaded = seams.feeds.load()?;
        if loaded.is_none() && (options.read_only || !options.create_if_missing) {
            return Err(Error::invalid(format!(
                "{} holds no database; check the path, or create one there",
                dir.display()
            )));
        }
        if loaded.is_some() && options.error_if_exists {
            return Err(Error::invalid(format!(
                "{} holds a database already; choose another path, or open what is there",
                dir.display()
            )));
        }
        let mut opening = Opening::prepare(process, dir, options, seams, loaded.as_ref())?;
        let version = opening.fold(loaded.as_ref())?;
        phases.manifest = clock.end();
        let range = opening.choose_operator(&version)?;
        let (version, claims) = opening.claim_named(version)?;
        opening.mount_far(&version)?;
        opening.open_media(&version)?;
        opening.require_tables(&version)?;
        phases.tables = clock.end();
        let Opening { log, options, ids, .. } = &opening;
        let step = OpenStep::ReplayLog;
        let replay = Replay { process, log: log.as_ref(), options, ids, step };
        let recovered = recover(replay, &version)?;
        if let Some(loaded) = &loaded {
            cross_check(dir, loaded, &version, &recovered.replayed)?;
        }
        phases.log = clock.end();
        let report = RecoveryReport { is_new: loaded.is_none(), phases, ..Default::default() };
        opening.finish((report, clock), &version, range, recovered, (lock, claims))
    }
}

/// Takes the lock of the directory, which is created first if it may be.
fn lock(env: &SharedEnv, dir: &Path, options: &Options) -> Result<DirLock> {
    let kind = if options.read_only { LockKind::Shared } else { LockKind::Exclusive };
    if !options.read_only && options.create_if_missing {
        env.fs().create_dir_all(dir)?;
    }
    env.fs().lock_dir(dir, kind).map_err(|error| {
        if error.is_locked() {
            return Error::Locked(format!(
                "{} is in use ({}); close what has it open, or connect to the running server",
                dir.display(),
                error.source
            ));
        }
        if error.is_not_found() {
            return Error::invalid(format!("{} does not exist; check the path", dir.display()));
        }
        error.into()
    })
}

impl Opening {
    fn prepare(
        process: &Arc<Process>,
        dir: &Path,
        options: Options,
        seams: Seams,
        loaded: Option<&LoadedFeed>,
    ) -> Result<Opening> {
        let edits = loaded.map(|loaded| loaded.edits.as_slice()).unwrap_or_default();
        Opening::after_edits(process, dir, options, seams, edits)
    }

    /// What the open of a range rests on whose feed holds these edits.
    pub(in crate::store) fn after_edits(
        process: &Arc<Process>,
        dir: &Path,
        options: Options,
        seams: Seams,
        edits: &[VersionEdit],
    ) -> Result<Opening> {
        seams.cloud.find_in(edits);
        let cloud = seams.cloud.options().is_some().then_some(seams.cloud);
        let before = edits.iter().filter_map(|edit| edit.range.epoch).max().unwrap_or_default();
        let ids = Arc::new(FileIds::new(seams.feeds.next_epoch(before)?, 0));
        let context = Arc::new(TableContext {
            opener: seams.opener,
            reclaim: ReclaimQueue::default(),
            memory: process.memory().pool(PoolName::Tables).clone(),
            far_metadata_stay: !options.research.near_meta_none,
        });
        let l0 = (seams.l0)(&ids);
        Ok(Opening {
            process: Arc::clone(process),
            env: Arc::clone(process.env()),
            dir: dir.to_path_buf(),
            options,
            ids,
            context,
            l0,
            feeds: seams.feeds,
            log: seams.log,
            cloud,
            executor: seams.executor,
            io: seams.io,
            merge_operator: None,
        })
    }

    /// The version that the feed describes, or an empty one.
    fn fold(&self, loaded: Option<&LoadedFeed>) -> Result<Version> {
        let Some(loaded) = loaded else {
            let range = RangeEdit {
                database: Some(self.env.random_u128()),
                identity: Some((RangeId(1), KeyRange::all())),
                ..RangeEdit::default()
            };
            return self.after(&Version::empty(self.l0.as_ref()), &range.into());
        };
        loaded.fold(&self.dir, self.l0.as_ref(), &self.context)
    }

    /// The version after what this open changes.
    pub(super) fn after(&self, version: &Version, edit: &VersionEdit) -> Result<Version> {
        let applied = version.apply(edit, &self.context);
        applied.map_err(|misfit| {
            Error::Poisoned(format!("what an open changes does not fit: {misfit}"))
        })
    }

    /// Chooses the merge operator that the version or the options name; the version keeps the name.
    /// It gets into the manifest with the snapshot of this open, before any operand can be written.
    pub(in crate::store) fn choose_operator(&mut self, version: &Version) -> Result<RangeEdit> {
        let wanted = self.options.format.merge_operator.as_deref();
        self.merge_operator =
            self.options.merge_operators.choose(wanted, version.merge_operator())?;
        let merge_operator =
            self.merge_operator.as_ref().map(|operator| operator.name().to_string());
        Ok(RangeEdit { merge_operator, ..RangeEdit::default() })
    }

    fn finish(
        self,
        (found, mut clock): (RecoveryReport, PhaseClock),
        version: &Version,
        range: RangeEdit,
        recovered: Recovered,
        (lock, mut claims): (DirLock, Claims),
    ) -> Result<Store> {
        let mut report = RecoveryReport {
            was_closed: version.closed().is_some() && recovered.replayed.torn.is_none(),
            replayed_entries: recovered.entry_count,
            torn: recovered.replayed.torn.clone(),
            log_end: recovered.replayed.end,
            taken_over: self.cloud.as_ref().and_then(|tier| tier.taken_over().cloned()),
            ..found
        };
        if self.options.read_only {
            let spares = spare_memory(&self.env, &self.options, version.database())?;
            let log = LogEdit { closed: version.closed(), ..LogEdit::default() };
            let version =
                self.after(version, &VersionEdit { range, log, ..VersionEdit::default() })?;
            let versions = self.versions(version, None);
            let held = Held { _lock: Some(lock), _claims: Some(claims) };
            report.phases.begin = clock.end();
            return Ok(self.assemble(versions, None, recovered, report, held, spares));
        }
        self.require_media()?;
        self.claim(version, &mut claims)?;
        let mut media = self.choose_media(version, &claims)?;
        let log_directories = self.log.settle(version.database(), &recovered.replayed)?;
        let as_text = |path: &PathBuf| path.to_string_lossy().into_owned();
        media.log_directories = log_directories.iter().map(as_text).collect();
        let cloud = self.cloud.as_ref().and_then(|tier| tier.to_edit());
        let range = RangeEdit { epoch: Some(self.ids.epoch()), cloud, ..range };
        let edit = VersionEdit { range, media: Some(media), ..VersionEdit::default() };
        let version = self.after(version, &edit)?;
        if let Some(tier) = &self.cloud {
            tier.note_found(recovered.greatest_seqno);
        }
        // The new feed raises the epoch durably. Only then is any other file created.
        fail_point!(self.env, "open::before_manifest");
        let feed = self.feeds.begin(self.ids.next(), &version.to_snapshot())?;
        fail_point!(self.env, "open::after_manifest");
        self.make_media(&version)?;
        let container = &self.context.opener.container;
        report.container_is_on_data_disk = is_on_data_disk(self.env.as_ref(), &self.dir, container);
        report.orphan_count = self.remove_orphans(&version)?;
        let reserved_bytes = self.reserved_bytes(&version)?;
        let log =
            self.log.begin(version.database(), &self.ids, &recovered.replayed, reserved_bytes)?;
        fail_point!(self.env, "open::after_log");
        report.log_end = log.end();
        let spares = spare_memory(&self.env, &self.options, version.database())?;
        let versions = self.versions(version, Some(feed));
        if let LogStart { segment: None, position } = versions.current().log_start() {
            // A new range, or one that was taken over, or one whose open a crash cut short here.
            let start = Some(log.start_at(position));
            let log = LogEdit { start, ..LogEdit::default() };
            // From here on the log is one of this directory.
            let log_behind = versions.current().log_behind().map(|_| LogBehind::None);
            let range = RangeEdit { log_behind, ..RangeEdit::default() };
            let edit = VersionEdit { log, range, ..VersionEdit::default() };
            versions.install(edit, None, |_| ())?;
        }
        report.phases.begin = clock.end();
        let rest = recovered.rest.map(|rest| (rest, recovered.covers.clone()));
        let log_store = Arc::clone(&self.log);
        let held = Held { _lock: Some(lock), _claims: Some(claims) };
        let store = self.assemble(versions, Some(log), recovered, report, held, spares);
        if let Some((rest, covers)) = rest {
            store.inner.replay_rest(log_store.as_ref(), rest, covers)?;
        }
        store.inner.start_background(&log_store)?;
        Ok(store)
    }

    pub(in crate::store) fn versions(
        &self,
        version: Version,
        feed: Option<Box<dyn VersionFeed>>,
    ) -> Versions {
        let parts = VersionsParts {
            feeds: Arc::clone(&self.feeds),
            ids: Arc::clone(&self.ids),
            context: Arc::clone(&self.context),
        };
        Versions::new(&self.env.waits(), parts, version, feed)
    }

    /// Bytes of the file system that stay free for compaction.
    fn reserved_bytes(&self, version: &Version) -> Result<u64> {
        let of_values = version.values().iter().map(|file| file.meta().bytes);
        let used: u64 = version.tables().map(|table| table.meta().bytes).chain(of_values).sum();
        let usable = self.env.fs().free_bytes(&self.dir)?.saturating_add(used);
        Ok(usable / 100 * self.options.reserved_percent)
    }

    /// A version whose tables are not there is not the last one: damage took an edit away that had
    /// been installed. What would be an orphan of it may be the only copy of its entries, and the
    /// manifest is evidence: nothing is touched.
    fn require_tables(&self, version: &Version) -> Result<()> {
        let there: BTreeSet<_> =
            self.context.opener.store.list()?.into_iter().map(|(id, _)| id).collect();
        // What lies in an object store is whole there, and to look at each would cost a request.
        let is_file =
            |table: &&Arc<Table>| !table.meta().is_in_pages() && !table.meta().location.is_far();
        let files = version.tables().filter(is_file);
        for table in files.filter(|table| !there.contains(&table.meta().id)) {
            // Says which file is missing.
            self.context.opener.open_file(table.meta())?;
        }
        for meta in version.values().local().filter(|meta| !there.contains(&meta.id)) {
            self.context.opener.open_values(meta)?;
        }
        Ok(())
    }

    /// Deletes tables and value files that no version names: outputs of jobs that a crash
    /// interrupted.
    fn remove_orphans(&self, version: &Version) -> Result<u64> {
        let values = version.values().iter().map(|file| file.meta().id);
        let tables = version.tables().map(|table| table.meta().id);
        let live: BTreeSet<_> = tables.chain(values).collect();
        let mut count = 0;
        for (id, location) in self.context.opener.store.list()? {
            if !live.contains(&id) && id.epoch < self.ids.epoch() {
                self.context.opener.store.delete(&location)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Puts the range together.
    fn assemble(
        self,
        versions: Versions,
        log: Option<Arc<dyn LogSink>>,
        recovered: Recovered,
        recovery: RecoveryReport,
        held: Held,
        spares: SpareMemory,
    ) -> Store {
        let end = log.as_ref().map_or(recovered.replayed.end, |log| log.end());
        let sequencer = Sequencer::new(&self.env.waits(), recovered.greatest_seqno, end);
        let spares = Arc::new(spares);
        let (dranges, views) = self.dranges(recovered, versions.current().as_ref(), &spares, end);
        let view = View::new(Arc::clone(dranges.boundaries()), views, versions.current());
        let inner = self.put_together(Pieces {
            versions,
            log,
            end,
            sequencer,
            dranges,
            view,
            spares,
            recovery,
            held,
        });
        let closer = Arc::new(Closer::new(&inner));
        Store { inner, _closer: closer }
    }

    /// Makes the range out of its pieces.
    pub(in crate::store) fn put_together(self, pieces: Pieces) -> Arc<Inner> {
        let Pieces { versions, log, end, sequencer, dranges, view, spares, recovery, held } =
            pieces;
        let waits = self.env.waits();
        let shape = LevelShape::of(&self.options);
        let gate = Gate::new(&self.options, &shape);
        let lookups =
            log.as_ref().and_then(|_| KeyBounds::new(&self.options, &self.process, &sequencer));
        Arc::new_cyclic(|me| Inner {
            dir: self.dir,
            me: me.clone(),
            merge_operator: self.merge_operator,
            view: Current::new(view),
            spare_scans: SpareScans::new(&waits),
            scan_length: ScanLength::default(),
            removals: AtomicU64::new(0),
            read_points: Arc::new(ReadPoints::new(&waits)),
            lookups,
            gate,
            dranges: ArcSwap::from_pointee(dranges),
            balance: Balance::default(),
            spares,
            memory: RangeMemory::new(self.process.memory()),
            sequencer,
            log: LogState::new(log, end),
            versions,
            ids: self.ids,
            cloud: self.cloud,
            context: self.context,
            l0: self.l0,
            shape: shape.clone(),
            executor: self.executor,
            io: self.io,
            jobs: Arc::new(Jobs::new(self.env.as_ref())),
            turns: Turns::new(&waits),
            changed: waits.signal(),
            health: Health::default(),
            meters: Meters::new(self.process.number(), recovery),
            held: waits.mutex(Some(held)),
            options: self.options,
            process: self.process,
            env: self.env,
        })
    }

    /// The dranges and what readers see of them.
    ///
    /// The last memtable of the replay goes on being written to, by one drange: to divide the range
    /// would make each open flush what little the last one left. Where the options name the
    /// boundaries it is frozen instead; like the other replayed ones it may hold keys of all
    /// dranges, so each of them lists it. No drange has duplicates yet.
    fn dranges(
        &self,
        recovered: Recovered,
        version: &Version,
        spares: &Arc<SpareMemory>,
        end: LogPosition,
    ) -> (DrangeMap, Vec<DrangeView>) {
        let mut frozen: Vec<Arc<Frozen>> = recovered.full;
        frozen.reverse();
        let asked = &self.options.drange_boundaries;
        let replayed = Active {
            memtable: recovered.last,
            begin: recovered.last_begin,
            replayed: recovered.covers,
        };
        let mut last = None;
        let boundaries = match (asked.is_empty(), replayed.memtable.is_empty()) {
            (true, true) => version.drange_boundaries().to_vec(),
            (true, false) => Vec::new(),
            (false, _) => asked.clone(),
        };
        if recovered.rest.is_some() {
            // The rest is flushed before anybody writes, so what is written to begins at the end.
            debug_assert!(replayed.memtable.is_empty(), "nothing is filled after the rest began");
        } else if boundaries.is_empty() {
            last = Some(replayed);
        } else if !replayed.memtable.is_empty() {
            frozen.insert(0, Arc::new(replayed.into_frozen(KeyRange::all(), end)));
        }
        let count = boundaries.len() + 1;
        let map = DrangeMap::new(self.env.as_ref(), Boundaries::new(boundaries).into(), || {
            last.take().unwrap_or_else(|| {
                let memtable = freeze::fresh_memtable(&self.options, &self.ids, spares, count, 0);
                Active::new(memtable, end)
            })
        });
        let views = map.list().iter().map(|drange| {
            let active = Arc::clone(&drange.active.shared().memtable);
            DrangeView::new(drange.keys.clone(), [active], frozen.clone())
        });
        let views = views.collect();
        (map, views)
    }
}

impl Inner {
    /// Starts what an open range does by itself.
    fn start_background(self: &Arc<Self>, log_store: &Arc<dyn LogStore>) -> Result<()> {
        self.update_ruling();
        if self.view.load().frozen_bytes > 0 {
            self.schedule_flush();
        }
        self.schedule_compaction();
        self.schedule_value_work();
        self.start_feeding();
        self.start_shipping(log_store)?;
        self.schedule_log_work();
        self.schedule_indexing();
        if let Durability::Interval(period) = self.options.durability {
            self.start_interval_sync(period)?;
        }
        Ok(())
    }

    /// Starts the thread that syncs the log every `period`.
    fn start_interval_sync(self: &Arc<Self>, period: Duration) -> Result<()> {
        let run = self.standing_job(move |inner| {
            loop {
                let ticket = inner.changed.ticket();
                if inner.is_closing() || inner.is_poisoned() {
                    return;
                }
                inner.wait_period(ticket, period);
                let (seqno, end) = inner.sequencer.finished();
                // A failure poisons the range, which says so to every writer.
                if inner.sync_log(seqno, end).is_err() {
                    return;
                }
            }
        });
        self.env.spawn(JobClass::Log, "interval-sync", run)?;
        Ok(())
    }
}
