//! Opening a range: lock, manifest, log, a new epoch, and only then anything new.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arc_swap::ArcSwap;
use terrace_base::{Corruption, LogPosition, RangeId};
use terrace_env::{DirLock, JobClass, Latch, LockKind, SharedEnv};

use super::close::Closer;
use super::gate::Gate;
use super::jobs::Jobs;
use super::read_points::ReadPoints;
use super::recovery::{Recovered, cross_check, recover};
use super::sequencer::Sequencer;
use super::stats::Counters;
use super::view::{DrangeView, View};
use super::{Health, Inner, Store};
use crate::compaction::pick::LevelShape;
use crate::compaction::{LocalExecutor, TableShape};
use crate::drange::{Active, DrangeMap, Frozen};
use crate::l0::{L0, PlainL0, PlainOptions};
use crate::memtable::Memtable;
use crate::options::{Durability, Options};
use crate::process::Process;
use crate::table::{LocalTableStore, TableStore};
use crate::version::{
    FileIds, LoadedManifest, Manifest, ReclaimQueue, TableContext, Version, VersionEdit, Versions,
};
use crate::wal::{LocalLog, LogOptions, LogSink, TornTail};
use crate::{Error, Result};

/// What an open found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
}

/// What opening finds and makes, before the range is put together.
struct Opening<'a> {
    process: &'a Arc<Process>,
    env: SharedEnv,
    dir: &'a Path,
    options: Options,
    ids: Arc<FileIds>,
    context: Arc<TableContext>,
    l0: Arc<dyn L0>,
}

impl Store {
    /// Opens the range in `dir`, and creates it there if the options allow that and the directory
    /// holds none. What a crash left is recovered first.
    ///
    /// Errors: `Invalid` (options; nothing there), `Locked` (another process, or another handle of
    /// this one, has it open), `Corruption` (the manifest or the log is damaged below what was
    /// durable), `Unsupported` (written by a later version), `NoSpace`, `Io`.
    pub fn open(process: &Arc<Process>, dir: &Path, options: Options) -> Result<Store> {
        options.validate()?;
        let env = Arc::clone(process.env());
        let lock = lock(&env, dir, &options)?;
        let loaded = Manifest::load(env.as_ref(), dir)?;
        if loaded.is_none() && (options.read_only || !options.create_if_missing) {
            return Err(Error::invalid(format!(
                "{} holds no database; check the path, or create one there",
                dir.display()
            )));
        }
        let opening = Opening::prepare(process, dir, options, loaded.as_ref())?;
        let version = opening.fold(loaded.as_ref())?;
        let recovered =
            recover(&opening.env, dir, &opening.options, &opening.ids, &version)?;
        if let Some(loaded) = &loaded {
            cross_check(dir, loaded, &version, &recovered.replayed)?;
        }
        opening.finish(loaded.as_ref(), version, recovered, lock)
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
                "{} is in use ({}); connect to the running server, or stop it first",
                dir.display(),
                error.source
            ));
        }
        if error.is_not_found() {
            return Error::invalid(format!(
                "{} does not exist; check the path",
                dir.display()
            ));
        }
        error.into()
    })
}

impl<'a> Opening<'a> {
    fn prepare(
        process: &'a Arc<Process>,
        dir: &'a Path,
        options: Options,
        loaded: Option<&LoadedManifest>,
    ) -> Result<Opening<'a>> {
        let env = Arc::clone(process.env());
        let edits = loaded.map(|loaded| loaded.edits.as_slice()).unwrap_or_default();
        let before = edits.iter().filter_map(|edit| edit.epoch).max().unwrap_or_default();
        let epoch = Manifest::next_epoch(env.as_ref(), dir, before)?;
        let ids = Arc::new(FileIds::new(epoch, 0));
        let store: Arc<dyn TableStore> =
            Arc::new(LocalTableStore::new(Arc::clone(&env), dir.to_path_buf()));
        let l0 = PlainL0::new(
            &env,
            Arc::clone(&store),
            Arc::clone(&ids),
            PlainOptions {
                rows_per_cut: options.l0_rows_per_cut,
                shape: TableShape {
                    table_bytes: u64::MAX / 4,
                    table: options.table.clone(),
                },
            },
        );
        let context = Arc::new(TableContext {
            store,
            cache: Arc::clone(process.cache()),
            reclaim: ReclaimQueue::default(),
        });
        Ok(Opening { process, env, dir, options, ids, context, l0: Arc::new(l0) })
    }

    /// The version that the manifest describes, or an empty one.
    fn fold(&self, loaded: Option<&LoadedManifest>) -> Result<Version> {
        let mut version = Version::empty(self.l0.as_ref());
        let Some(loaded) = loaded else {
            version.database =
                u128::from(self.env.random_u64()) << 64 | u128::from(self.env.random_u64());
            version.range = RangeId(1);
            return Ok(version);
        };
        for (index, edit) in loaded.edits.iter().enumerate() {
            version = version.apply(edit, self.l0.as_ref(), &self.context).map_err(|misfit| {
                let path = self.dir.join(format!("{}.manifest", loaded.id));
                Corruption::new(path, 0, format!("edit {index} does not fit: {misfit}"))
            })?;
        }
        Ok(version)
    }

    fn finish(
        self,
        loaded: Option<&LoadedManifest>,
        version: Version,
        recovered: Recovered,
        lock: DirLock,
    ) -> Result<Store> {
        let report = RecoveryReport {
            is_new: loaded.is_none(),
            was_closed: version.closed.is_some() && recovered.replayed.torn.is_none(),
            replayed_entries: recovered.entry_count,
            torn: recovered.replayed.torn.clone(),
            log_end: recovered.replayed.end,
            orphan_count: 0,
        };
        if self.options.read_only {
            // Nothing is written: the manifest below is never appended to.
            let loaded = loaded.expect("asked before");
            let versions = self.versions(version, Manifest::read_only(self.dir, loaded));
            return Ok(self.assemble(versions, None, recovered, report, lock));
        }
        // The new manifest raises the epoch durably. Only then is any other file created.
        let epoch = self.ids.epoch();
        let version = Version { epoch, closed: None, ..version };
        let id = self.ids.next();
        let manifest = Manifest::create(&self.env, self.dir, id, &version.to_snapshot())?;
        let orphan_count = self.remove_orphans(&version)?;
        let report = RecoveryReport { orphan_count, ..report };
        let log = Arc::new(self.open_log(&version, &recovered)?);
        let versions = self.versions(version, manifest);
        if versions.current().log_start.segment.is_none() {
            let log_start = Some(log.start_at(LogPosition(0)));
            versions.install(VersionEdit { log_start, ..VersionEdit::default() }, |_| ())?;
        }
        let store = self.assemble(versions, Some(log), recovered, report, lock);
        store.inner.start_background()?;
        Ok(store)
    }

    fn versions(&self, version: Version, manifest: Manifest) -> Versions {
        Versions::new(
            &self.env,
            self.dir,
            Arc::clone(&self.ids),
            Arc::clone(&self.l0),
            Arc::clone(&self.context),
            version,
            manifest,
        )
    }

    fn open_log(&self, version: &Version, recovered: &Recovered) -> Result<LocalLog> {
        let used: u64 = version.tables().map(|table| table.meta().bytes).sum();
        let usable = self.env.fs().free_bytes(self.dir)?.saturating_add(used);
        let options = LogOptions {
            segment_bytes: self.options.log_segment_bytes,
            reserved_bytes: usable / 100 * self.options.reserved_percent,
        };
        let ids = Arc::clone(&self.ids);
        LocalLog::open(Arc::clone(&self.env), self.dir, options, ids, &recovered.replayed)
    }

    /// Deletes tables that no version names: outputs of jobs that a crash interrupted.
    fn remove_orphans(&self, version: &Version) -> Result<u64> {
        let live: std::collections::BTreeSet<_> =
            version.tables().map(|table| table.meta().id).collect();
        let mut count = 0;
        for (id, location) in self.context.store.list()? {
            if !live.contains(&id) && id.epoch < self.ids.epoch() {
                self.context.store.delete(&location)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Puts the range together.
    fn assemble(
        self,
        versions: Versions,
        log: Option<Arc<LocalLog>>,
        recovered: Recovered,
        recovery: RecoveryReport,
        lock: DirLock,
    ) -> Store {
        let end = log.as_ref().map_or(recovered.replayed.end, |log| log.end());
        let sequencer = Sequencer::new(self.env.as_ref(), recovered.greatest_seqno, end);
        let (map, dranges) = self.dranges(recovered, end);
        let view = View {
            dranges,
            version: versions.current(),
            is_superseded: AtomicBool::new(false),
        };
        let executor = LocalExecutor::new(
            &self.env,
            Arc::clone(&self.context.store),
            Arc::clone(&self.context.cache),
        );
        let waits = self.env.waits();
        let inner = Arc::new_cyclic(|me| Inner {
            process: Arc::clone(self.process),
            dir: self.dir.to_path_buf(),
            shape: LevelShape {
                level_bytes_base: self.options.level_bytes_base,
                level_ratio: self.options.level_ratio,
            },
            options: self.options,
            ids: self.ids,
            dranges: ArcSwap::from_pointee(map),
            view: ArcSwap::from_pointee(view),
            view_turn: Latch::new(()),
            versions,
            context: self.context,
            l0: self.l0,
            executor: Arc::new(executor),
            log,
            sequencer,
            sync_turn: waits.mutex(()),
            read_points: Arc::new(ReadPoints::default()),
            gate: Gate::default(),
            jobs: Arc::new(Jobs::new(self.env.as_ref())),
            flush_turn: waits.mutex(()),
            changed: waits.signal(),
            health: Health {
                is_closing: AtomicBool::new(false),
                is_poisoned: AtomicBool::new(false),
                poison: Latch::new(None),
                problem: Latch::new(None),
            },
            counters: Counters::default(),
            recovery,
            me: me.clone(),
            _lock: lock,
            env: self.env,
        });
        let closer = Arc::new(Closer::new(&inner));
        Store { inner, _closer: closer }
    }

    /// The dranges and what readers see of them. With one drange, the last memtable of the replay
    /// goes on being written to; with several, replayed memtables may hold keys of all, so each
    /// drange lists them.
    fn dranges(&self, recovered: Recovered, end: LogPosition) -> (DrangeMap, Vec<DrangeView>) {
        let mut frozen: Vec<Arc<Frozen>> = recovered.full;
        frozen.reverse();
        let fresh = || Active {
            memtable: Arc::new(Memtable::new(
                self.ids.next_memtable(),
                self.options.memtable_bytes,
            )),
            begin: end,
            replayed: Vec::new(),
        };
        let mut first = None;
        if self.options.drange_boundaries.is_empty() {
            first = Some(Active {
                memtable: recovered.last,
                begin: recovered.last_begin,
                replayed: recovered.covers,
            });
        } else if !recovered.last.is_empty() {
            let mut covers = recovered.covers;
            covers.push(recovered.last.id());
            let begin = recovered.last_begin;
            frozen.insert(0, Arc::new(Frozen { memtable: recovered.last, begin, end, covers }));
        }
        let map = DrangeMap::new(self.env.as_ref(), &self.options.drange_boundaries, || {
            first.take().unwrap_or_else(fresh)
        });
        let views = map.list().iter().map(|drange| DrangeView {
            keys: drange.keys.clone(),
            active: Arc::clone(&drange.active.shared().memtable),
            frozen: frozen.clone(),
        });
        let views = views.collect();
        (map, views)
    }
}

impl Inner {
    /// Starts what an open range does by itself.
    fn start_background(self: &Arc<Self>) -> Result<()> {
        if self.view.load().frozen_count() > 0 {
            self.schedule_flush();
        }
        self.schedule_compaction();
        self.schedule_log_work();
        if let Durability::Interval(period) = self.options.durability {
            self.start_interval_sync(period)?;
        }
        Ok(())
    }

    /// Starts the thread that syncs the log every `period`.
    fn start_interval_sync(self: &Arc<Self>, period: Duration) -> Result<()> {
        let run = self.job(move |inner| {
            loop {
                let ticket = inner.changed.ticket();
                if inner.is_closing() || inner.is_poisoned() {
                    return;
                }
                inner.wait_period(ticket, period);
                let (_, end) = inner.sequencer.finished();
                // A failure poisons the range, which says so to every writer.
                if inner.sync_log(end).is_err() {
                    return;
                }
            }
        });
        self.env.spawn(JobClass::Log, "interval-sync", run)?;
        Ok(())
    }
}
