//! The facade: one range's tree, put together from the rooms. [`Store`] owns them and holds no
//! policy of its own; there is one file a path.
//!
//! | path | file |
//! |---|---|
//! | opening, recovery | `seams.rs`, `open.rs`, `recovery.rs` |
//! | writing | `write_path.rs`, `placement.rs`, `sequencer.rs`, `gate.rs` |
//! | conditional writes | `update.rs` |
//! | reading | `read_path.rs`, `iterator.rs`, `read_points.rs`, `view.rs` |
//! | background work | `flush.rs`, `compact.rs`, `jobs.rs` |
//! | looking inside | `check.rs`, `stats.rs` |
//! | closing | `close.rs` |
//!
//! # Lock order
//! dranges' holds in key order → the turn of the version feed → the turns of the log. Latches
//! (view, sequencer, read points, memtable, caches) come last, are never held across a call of the
//! environment, and the sequencer's may hold the log tail's.
//!
//! # What readers see
//! A `View` names, immutably, everything a read needs: each drange's memtables, and the version.
//! Freezes and installations publish a new view. A read pins the view first and takes its read
//! point after: whatever a flush or a compaction dropped from that view was hidden by an entry
//! that had been published before, and so lies at or below the read point.

mod check;
mod close;
mod compact;
mod flush;
mod gate;
mod iterator;
mod jobs;
mod open;
mod placement;
mod read_path;
mod read_points;
mod recovery;
mod seams;
mod sequencer;
mod snapshot;
mod stats;
mod update;
mod view;
mod write_path;

#[cfg(all(test, terrace_loom))]
mod models;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use terrace_env::{DirLock, Latch, Mutex, SharedEnv, Signal};

use crate::compaction::CompactionExecutor;
use crate::compaction::pick::LevelShape;
use crate::drange::DrangeMap;
use crate::l0::L0;
use crate::options::Options;
use crate::process::Process;
use crate::swap::ArcSwap;
use crate::version::{FileIds, TableContext, Versions};
use crate::wal::LogSink;
use crate::{Error, Result};

pub use iterator::{Iter, IterOptions};
pub use open::RecoveryReport;
pub use read_path::{GetOptions, Item};
pub(crate) use recovery::is_beyond_bounds;
pub use seams::Seams;
pub use snapshot::Snapshot;
pub use stats::{LevelStats, StallStats, StoreStats};
pub use update::Update;
pub use write_path::WriteOptions;

use gate::Gate;
use jobs::Jobs;
use read_points::ReadPoints;
use sequencer::Sequencer;
use stats::Counters;
use view::View;

/// One range's tree, open in this process. A cheap handle: clones share the range.
///
/// All methods may be called by many threads at once. [`Store::close`] (or dropping the last
/// handle) ends the background work and closes the directory cleanly; what was acknowledged
/// survives without it too.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
    /// Closes the range when the last handle goes; background jobs hold `inner` only.
    _closer: Arc<close::Closer>,
}

/// What the paths share.
pub(crate) struct Inner {
    env: SharedEnv,
    process: Arc<Process>,
    dir: PathBuf,
    options: Options,
    ids: Arc<FileIds>,
    dranges: ArcSwap<DrangeMap>,
    view: ArcSwap<View>,
    /// One change of the view at a time.
    view_turn: Latch<()>,
    /// How many changes of the view let go of something; see [`View::removals`].
    removals: AtomicU64,
    versions: Versions,
    context: Arc<TableContext>,
    l0: Arc<dyn L0>,
    shape: LevelShape,
    executor: Arc<dyn CompactionExecutor>,
    /// None if the range was opened for reading only.
    log: Option<Arc<dyn LogSink>>,
    sequencer: Sequencer,
    /// One sync of the log on behalf of writers at a time.
    sync_turn: Mutex<()>,
    read_points: Arc<ReadPoints>,
    gate: Gate,
    jobs: Arc<Jobs>,
    /// One flush of this range at a time, so that rows are installed in their order.
    flush_turn: Mutex<()>,
    /// Notified when a flush or a compaction was installed, when the range is poisoned, and when
    /// it begins to close.
    changed: Signal,
    health: Health,
    counters: Counters,
    recovery: RecoveryReport,
    /// For jobs, which own the range while they run.
    me: Weak<Inner>,
    /// Keeps other processes out.
    _lock: DirLock,
}

/// Whether writes are taken.
struct Health {
    is_closing: AtomicBool,
    is_poisoned: AtomicBool,
    /// The first failure that put the disk's content in doubt.
    poison: Latch<Option<String>>,
    /// The last failure of background work that may pass, until work succeeds again.
    problem: Latch<Option<Problem>>,
}

/// Why background work failed: writers that would have to wait for it are told instead.
#[derive(Clone, Debug)]
struct Problem {
    text: String,
    is_no_space: bool,
}

impl Inner {
    /// The log. Errors: the range was opened for reading only.
    fn log(&self) -> Result<&dyn LogSink> {
        self.log.as_deref().ok_or(Error::ReadOnly)
    }

    /// Takes no more writes until the range is opened again, and says why; keeps the first reason.
    fn poison(&self, reason: &str) {
        {
            let mut poison = self.health.poison.lock();
            if poison.is_none() {
                *poison = Some(reason.to_string());
            }
        }
        if !self.health.is_poisoned.swap(true, Ordering::AcqRel) {
            tracing::error!(dir = %self.dir.display(), reason, "the range takes no more writes");
        }
        self.changed.notify();
        self.sequencer.wake();
    }

    /// Passes on how a piece of work ended. If a sync failed in it, the range takes no more writes,
    /// whoever had asked for the work.
    fn heed<T>(&self, outcome: Result<T>) -> Result<T> {
        if let Err(Error::Poisoned(reason)) = &outcome {
            self.poison(reason);
        }
        outcome
    }

    /// Errors: `Poisoned` or `Closed`.
    fn check_healthy(&self) -> Result<()> {
        if self.health.is_poisoned.load(Ordering::Acquire) {
            return Err(Error::Poisoned(self.poison_reason()));
        }
        self.check_open()
    }

    /// Errors: `Closed`.
    #[inline]
    fn check_open(&self) -> Result<()> {
        if self.is_closing() { Err(Error::Closed) } else { Ok(()) }
    }

    fn is_poisoned(&self) -> bool {
        self.health.is_poisoned.load(Ordering::Acquire)
    }

    fn poison_reason(&self) -> String {
        self.health.poison.lock().clone().unwrap_or_else(|| "no reason was kept".into())
    }

    fn is_closing(&self) -> bool {
        self.health.is_closing.load(Ordering::Acquire)
    }

    /// Remembers why background work fails, or that it succeeds again; writers that would have to
    /// wait for it are told so.
    fn note_problem(&self, error: Option<&Error>) {
        let problem = error.map(|error| Problem {
            text: error.to_string(),
            is_no_space: matches!(error, Error::NoSpace(_)),
        });
        let is_new = {
            let mut noted = self.health.problem.lock();
            let is_new = problem.is_some() && noted.is_none();
            *noted = problem;
            is_new
        };
        if is_new {
            self.changed.notify();
        }
    }
}

impl Store {
    /// The directory of the range.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// The options that the range was opened with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// What the last open found.
    #[must_use]
    pub fn recovery(&self) -> &RecoveryReport {
        &self.inner.recovery
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.inner.dir.display())
    }
}
