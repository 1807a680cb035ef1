//! The facade: one range's tree, put together from the rooms. [`Store`] owns them and holds no
//! policy of its own.
//!
//! # Why
//! Every road of a range (an open, a write, a read, a job, a copy) crosses most of the engine's
//! rooms. Each road has a folder here, whose door says what holds on it; what all roads share stays
//! in this hall.
//!
//! | road | what happens on it |
//! |---|---|
//! | `open/` | opening, recovery, closing |
//! | `write/` | writes and conditional writes |
//! | `read/` | gets, snapshots, iterators |
//! | `upkeep/` | background work: freezes, flushes, merges in memory, compactions, divisions |
//! | `bulk/` | checkpoints and ingests |
//! | `gate/` | what slows writers down, and the ledger of what delayed them |
//! | `report/` | statistics, explanations, the slow log |
//!
//! In the hall: `view.rs` (what there is), `sequencer.rs` (the order of writes), `read_points.rs`
//! (what readers still see), `turns.rs` (what one thread at a time does), `lookups.rs`,
//! `memory.rs`, `health.rs`.
//!
//! # Lock order
//! the turn of flushes → the turn of freezes → dranges' holds in key order → the turn of the
//! version feed → the turns of the log. Latches (view, sequencer, read points, memtable, caches)
//! come last, are never held across a call of the environment, and the sequencer's and the gate's
//! may hold the log tail's.
//!
//! # What readers see
//! A `View` names, immutably, everything a read needs: each drange's memtables, and the version.
//! Freezes and installations publish a new view. A read pins the view first and takes its read
//! point after: whatever a flush or a compaction dropped from that view was hidden by an entry
//! that had been published before, and so lies at or below the read point.

mod bulk;
mod current;
mod gate;
mod health;
mod lookups;
mod memory;
mod open;
mod read;
mod read_points;
mod report;
mod sequencer;
mod turns;
mod upkeep;
mod view;
mod write;

#[cfg(all(test, terrace_loom))]
mod models;
#[cfg(test)]
#[cfg(not(terrace_loom))]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use terrace_env::{Mutex, SharedEnv, Signal};

use crate::compaction::CompactionExecutor;
use crate::compaction::levels::LevelShape;
use crate::drange::DrangeMap;
use crate::explain::SlowLog;
use crate::ids::FileIds;
use crate::l0::L0;
use crate::memtable::SpareMemory;
use crate::merge::MergeOperator;
use crate::options::Options;
use crate::process::Process;
use crate::swap::ArcSwap;
use crate::version::{TableContext, Versions};
use crate::wal::LogSink;
use crate::{Error, Result};

pub use bulk::checkpoint::{CheckpointProgress, CheckpointReport};
pub use bulk::ingest::{Ingest, IngestReport};
pub use gate::ledger::{Cause as StallCause, CauseStats, StallStats};
pub use health::Work;
pub use open::opening::RecoveryReport;
pub use open::seams::Seams;
pub use read::get::{GetOptions, Item};
pub use read::iterator::{Iter, IterOptions};
pub use read::pinned::PinnedItem;
pub use read::snapshot::Snapshot;
pub use report::compaction_log::CompactionRecord;
pub use report::cut_stats::CutStats;
pub use report::drange_stats::{DrangeStats, DrangesReport};
pub use report::l0_stats::{
    ContainerStats, L0Report, L0RowStats, L0Slice, L0Stats, MemtableAreaStats, NextCut,
};
pub use report::stats::{LevelStats, StoreStats};
pub use write::commit::WriteOptions;
pub use write::conditional::Update;

use current::Current;
use gate::Gate;
use gate::ledger::Ledger;
use health::Health;
use lookups::KeyBounds;
use memory::RangeMemory;
use open::close::Closer;
use open::opening::Held;
use read_points::ReadPoints;
use report::compaction_log::CompactionLog;
use report::stats::Counters;
use sequencer::Sequencer;
use turns::Turns;
use upkeep::balance::Balance;
use upkeep::jobs::Jobs;
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
    _closer: Arc<Closer>,
}

/// What the roads share.
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
    view: Current<View>,
    /// How many changes of the view let go of something; see [`View::removals`].
    removals: AtomicU64,
    versions: Versions,
    /// What memtables and rows need not be searched for a key, if the range has such an index.
    lookups: Option<KeyBounds>,
    context: Arc<TableContext>,
    l0: Arc<dyn L0>,
    shape: LevelShape,
    executor: Arc<dyn CompactionExecutor>,
    /// Folds merge operands; its name is in the manifest.
    merge_operator: Option<Arc<dyn MergeOperator>>,
    /// None if the range was opened for reading only.
    log: Option<Arc<dyn LogSink>>,
    sequencer: Sequencer,
    read_points: Arc<ReadPoints>,
    gate: Gate,
    /// What writers were delayed by.
    ledger: Ledger,
    memory: RangeMemory,
    jobs: Arc<Jobs>,
    /// What one thread at a time does.
    turns: Turns,
    /// Notified when a flush or a compaction was installed, when the range is poisoned, and when
    /// it begins to close.
    changed: Signal,
    health: Health,
    counters: Counters,
    compaction_log: CompactionLog,
    slow: SlowLog,
    recovery: RecoveryReport,
    /// For jobs, which own the range while they run.
    me: Weak<Inner>,
    /// Keeps other owners out, until the range is closed.
    held: Mutex<Option<Held>>,
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
