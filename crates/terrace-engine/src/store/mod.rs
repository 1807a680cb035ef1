//! The facade: one range's tree, put together from the rooms. [`Store`] owns them and holds no
//! policy of its own; there is one file a path.
//!
//! | path | file |
//! |---|---|
//! | opening, recovery | `seams.rs`, `open.rs`, `recovery.rs`, `refill.rs` |
//! | writing | `write_path.rs`, `placement.rs`, `sequencer.rs`, `gate/` |
//! | conditional writes | `update.rs` |
//! | reading | `read_path.rs`, `merge_path.rs`, `lookups.rs`, `pinned.rs`, `multi_get.rs`, `iterator.rs`, `read_points.rs`, `view.rs` |
//! | background work | `freeze.rs`, `balance.rs`, `merging.rs`, `flush.rs`, `compact.rs`, `parts.rs`, `jobs.rs` |
//! | what holds up writers and work | `gate/`, `ledger.rs`, `memory.rs`, `health.rs` |
//! | looking inside | `check.rs`, `explain.rs`, `slow.rs`, `stats.rs`, `drange_stats.rs` |
//! | copies, and data from elsewhere | `checkpoint.rs`, `ingest.rs` (`all_held.rs`) |
//! | closing | `close.rs` |
//!
//! # Lock order
//! the turn of flushes → the turn of freezes → dranges' holds in key order → the turn of the version
//! feed → the turns of the log. Latches
//! (view, sequencer, read points, memtable, caches) come last, are never held across a call of the
//! environment, and the sequencer's and the gate's may hold the log tail's.
//!
//! # What readers see
//! A `View` names, immutably, everything a read needs: each drange's memtables, and the version.
//! Freezes and installations publish a new view. A read pins the view first and takes its read
//! point after: whatever a flush or a compaction dropped from that view was hidden by an entry
//! that had been published before, and so lies at or below the read point.

mod all_held;
mod balance;
mod check;
mod checkpoint;
mod close;
mod compact;
mod compaction_log;
mod cut_stats;
mod drange_stats;
mod explain;
mod flush;
mod freeze;
mod gate;
mod health;
mod ingest;
mod iterator;
mod jobs;
mod l0_picture;
mod l0_stats;
mod ledger;
mod lookups;
mod memory;
mod memtable_area;
mod memtables_cursor;
mod merge_path;
mod merging;
mod multi_get;
mod open;
mod parts;
mod pinned;
mod placement;
mod read_path;
mod read_points;
mod recovery;
mod refill;
mod seams;
mod sequencer;
mod slow;
mod snapshot;
mod stats;
mod stats_text;
mod update;
mod view;
mod write_path;

#[cfg(all(test, terrace_loom))]
mod models;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use terrace_env::{DirLock, Latch, Mutex, SharedEnv, Signal};

use crate::compaction::CompactionExecutor;
use crate::compaction::levels::LevelShape;
use crate::drange::DrangeMap;
use crate::explain::SlowLog;
use crate::l0::L0;
use crate::memtable::SpareMemory;
use crate::merge::MergeOperator;
use crate::options::Options;
use crate::process::Process;
use crate::swap::ArcSwap;
use crate::version::{FileIds, TableContext, Versions};
use crate::wal::LogSink;
use crate::{Error, Result};

pub use checkpoint::{CheckpointProgress, CheckpointReport};
pub use compaction_log::CompactionRecord;
pub use cut_stats::CutStats;
pub use drange_stats::{DrangeStats, DrangesReport};
pub use ingest::{Ingest, IngestReport};
pub use iterator::{Iter, IterOptions};
pub use l0_stats::{
    ContainerStats, L0Report, L0RowStats, L0Slice, L0Stats, MemtableAreaStats, NextCut,
};
pub use ledger::{CauseStats, StallStats};
pub use open::RecoveryReport;
pub use pinned::PinnedItem;
pub use read_path::{GetOptions, Item};
pub(crate) use recovery::is_beyond_bounds;
pub use seams::Seams;
pub use snapshot::Snapshot;
pub use stats::{LevelStats, StoreStats};
pub use update::Update;
pub use write_path::WriteOptions;

use balance::Balance;
use gate::Gate;
use health::Health;
use jobs::Jobs;
use ledger::Ledger;
use lookups::Lookups;
use memory::RangeMemory;
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
    /// What memtables are made of.
    spares: Arc<SpareMemory>,
    dranges: ArcSwap<DrangeMap>,
    /// How the writes are spread over them.
    balance: Balance,
    view: ArcSwap<View>,
    /// One change of the view at a time.
    view_turn: Latch<()>,
    /// How many changes of the view let go of something; see [`View::removals`].
    removals: AtomicU64,
    versions: Versions,
    /// What memtables and rows need not be searched for a key, if the range has such an index.
    lookups: Option<Lookups>,
    context: Arc<TableContext>,
    l0: Arc<dyn L0>,
    shape: LevelShape,
    executor: Arc<dyn CompactionExecutor>,
    /// Folds merge operands; its name is in the manifest.
    merge_operator: Option<Arc<dyn MergeOperator>>,
    /// None if the range was opened for reading only.
    log: Option<Arc<dyn LogSink>>,
    sequencer: Sequencer,
    /// One sync of the log on behalf of writers at a time.
    sync_turn: Mutex<()>,
    read_points: Arc<ReadPoints>,
    gate: Gate,
    /// What writers were delayed by.
    ledger: Ledger,
    memory: RangeMemory,
    jobs: Arc<Jobs>,
    /// One freeze at a time: what is frozen together shows together to a flush.
    freeze_turn: Mutex<()>,
    /// One flush of this range at a time, so that rows are installed in their order.
    flush_turn: Mutex<()>,
    /// Notified when a flush or a compaction was installed, when the range is poisoned, and when
    /// it begins to close.
    changed: Signal,
    health: Health,
    counters: Counters,
    compaction_log: compaction_log::CompactionLog,
    slow: SlowLog,
    recovery: RecoveryReport,
    /// For jobs, which own the range while they run.
    me: Weak<Inner>,
    /// Keeps other processes out.
    _lock: DirLock,
}

impl Inner {
    /// The log. Errors: the range was opened for reading only.
    fn log(&self) -> Result<&dyn LogSink> {
        self.log.as_deref().ok_or(Error::ReadOnly)
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

    /// The process that the range is open in.
    #[must_use]
    pub fn process(&self) -> &Arc<Process> {
        &self.inner.process
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
