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
//! | `follow/` | reading a range that another process writes |
//! | `write/` | writes and conditional writes |
//! | `transaction/` | what was read, and writes that rest on it |
//! | `read/` | gets, snapshots, iterators |
//! | `upkeep/` | background work: freezes, flushes, merges in memory, compactions, divisions |
//! | `bulk/` | checkpoints and ingests |
//! | `cloud/` | the object store below the waterline, mounted by an open |
//! | `gate/` | what slows writers down, and the ledger of what delayed them |
//! | `report/` | statistics, explanations, the slow log |
//!
//! In the hall: `view.rs` (what there is), `sequencer.rs` (the order of writes), `read_points.rs`
//! (what readers still see), `turns.rs` (what one thread at a time does), `log_state.rs`,
//! `lookups.rs`, `memory.rs`, `health.rs`. `Inner` is the page that lists what they share.
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
mod cloud;
mod current;
mod follow;
mod gate;
mod health;
mod log_state;
mod lookups;
mod memory;
mod open;
mod read;
mod read_points;
mod report;
mod sequencer;
mod transaction;
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

use crate::Result;
use crate::compaction::CompactionExecutor;
use crate::compaction::levels::LevelShape;
use crate::drange::DrangeMap;
use crate::events::EventKind;
use crate::ids::FileIds;
use crate::l0::L0;
use crate::memtable::SpareMemory;
use crate::merge::MergeOperator;
use crate::options::{Options, Setting};
use crate::process::{BackgroundIo, Process};
use crate::swap::ArcSwap;
use crate::version::{TableContext, Versions};
use crate::wal::LogSink;

pub use bulk::checkpoint::{CheckpointProgress, CheckpointReport};
pub use bulk::copies::CopyOptions;
pub use bulk::ingest::{Ingest, IngestReport, RunNo};
pub use bulk::restore::{restore, seqno_of_copy};
pub use cloud::{
    ARCHIVE_BASES, ARCHIVE_LOG_BYTES_PER_BASE, CloudCheckpoint, CloudDatabase, LOG_OBJECT_BYTES,
    LOG_PATIENCE, LOG_WRITERS, LeftOut, LiveReason, StoreMoment, TakeOver, WhyLive, databases_in,
};
pub use follow::Follower;
pub use gate::ledger::{Cause as StallCause, CauseStats, StallStats};
pub use health::Work;
pub use open::adopt::{Adopted, adopt};
pub use open::opening::RecoveryReport;
pub use open::phases::RecoveryPhases;
pub use open::seams::Seams;
pub use read::get::{GetOptions, Item};
pub use read::iterator::{Iter, IterOptions};
pub use read::pinned::PinnedItem;
pub use read::snapshot::Snapshot;
pub use report::cloud_stats::CloudStats;
pub use report::compaction_log::CompactionRecord;
pub use report::cut_stats::CutStats;
pub use report::drange_stats::{DrangeStats, DrangesReport};
pub use report::l0_stats::{
    ContainerStats, L0Report, L0RowStats, L0Slice, L0Stats, MemtableAreaStats, NextCut,
};
pub use report::latencies::LatencyHistogram;
pub use report::range_size::RangeSize;
pub use report::read_stats::ReadStats;
pub use report::samples::UsageStats;
pub use report::stats::{BackgroundIoStats, LevelStats, StoreStats};
pub use report::troubles::{FailedWorkStats, SnapshotStats};
pub use report::value_stats::ValueLogStats;
pub use transaction::{Conflict, ReadSet, WalkId};
pub use write::commit::WriteOptions;
pub use write::conditional::Update;

use cloud::CloudTier;
use current::Current;
use gate::Gate;
use health::Health;
use log_state::LogState;
use lookups::KeyBounds;
use memory::RangeMemory;
use open::close::Closer;
use open::opening::Held;
use read::scan_length::ScanLength;
use read::spare_scan::SpareScans;
use read_points::ReadPoints;
use report::meters::Meters;
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

/// What the roads share, from the outside inwards: the range, what reads see, what writes pass,
/// what lies on the disk, who works on it, and what is known of all that.
///
/// What is not said to be guarded is settled by the open and stays as it is. Most parts that change
/// guard themselves, and their own pages say how.
pub(crate) struct Inner {
    /// The world outside: files, the clock, threads.
    env: SharedEnv,
    /// What the ranges of this process share.
    process: Arc<Process>,
    dir: PathBuf,
    options: Options,
    /// For jobs, which own the range while they run.
    me: Weak<Inner>,
    /// Folds merge operands; its name is in the manifest.
    merge_operator: Option<Arc<dyn MergeOperator>>,

    /// What there is to be read: memtables and the version. Replaced as a whole, one replacement at
    /// a time; readers wait for none.
    view: Current<View>,
    /// What scans have left to the next ones. It has latches.
    spare_scans: SpareScans,
    /// How many keys scans show, where that decides what is asked of an object store. Atomic.
    scan_length: ScanLength,
    /// How many changes of the view let go of something; see [`View::removals`].
    removals: AtomicU64,
    /// What snapshots, iterators and jobs still read at. It has a latch.
    read_points: Arc<ReadPoints>,
    /// What memtables and rows need not be searched for a key, if the range has such an index.
    lookups: Option<KeyBounds>,

    /// Where writers are slowed down. Its word is atomic; a latch lets in one ruling at a time.
    gate: Gate,
    /// The intervals that memtables are written by. Replaced as a whole, by who has the turn of
    /// freezes and all holds.
    dranges: ArcSwap<DrangeMap>,
    /// How the writes are spread over them. It has a latch.
    balance: Balance,
    /// What memtables are made of. It has a latch.
    spares: Arc<SpareMemory>,
    /// What the range takes of the process's memory. It has a latch.
    memory: RangeMemory,
    /// The order of writes: a latch gives out numbers, and nothing waits for it to publish them.
    sequencer: Sequencer,
    /// Where the records of writes go.
    log: LogState,

    /// The current version, and the feed that makes changes of it durable; who installs has the
    /// feed's turn.
    versions: Versions,
    /// Names for new files and memtables. Atomic.
    ids: Arc<FileIds>,
    /// The object store for the levels below the waterline, if the range has one.
    cloud: Option<Arc<CloudTier>>,
    /// Where tables lie, and where they go when nothing names them. Its queue has a latch.
    context: Arc<TableContext>,
    l0: Arc<dyn L0>,
    /// How much each level should hold.
    shape: LevelShape,
    /// Works on compaction plans.
    executor: Arc<dyn CompactionExecutor>,
    /// The limit of what background work writes, and who does not obey it. Atomic.
    io: Arc<BackgroundIo>,

    /// What runs in the background, or is queued. Flags and counts are atomic; what compactions
    /// work on is under a latch.
    jobs: Arc<Jobs>,
    /// What one thread at a time does.
    turns: Turns,
    /// Notified when a flush or a compaction was installed, when the range is poisoned, and when
    /// it begins to close.
    changed: Signal,
    /// Whether writes are taken, and which work fails. Flags are atomic; reasons are under latches.
    health: Health,

    /// What the range knows of its own doings.
    meters: Meters,

    /// Keeps other owners out until the range is closed, and so is dropped last. A lock.
    held: Mutex<Option<Held>>,
}

impl Inner {
    /// The log. Errors: the range was opened for reading only.
    fn log(&self) -> Result<&dyn LogSink> {
        self.log.sink()
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

    /// Gives an option anew, to all ranges of the process, without an open.
    ///
    /// Errors: `Invalid`, as an open would say; `Closed`; `Io` (no more threads are to be had).
    pub fn set(&self, setting: Setting) -> Result<()> {
        let inner = &self.inner;
        inner.check_open()?;
        inner.process.set(setting)?;
        inner.tell(EventKind::OptionChanged { setting });
        if !inner.log.is_read_only() {
            // What writers and compactions are judged by may have changed.
            inner.update_ruling();
            inner.changed.notify();
            inner.schedule_flush();
            inner.schedule_compaction();
        }
        Ok(())
    }

    /// What the last open found.
    #[must_use]
    pub fn recovery(&self) -> &RecoveryReport {
        &self.inner.meters.recovery
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.inner.dir.display())
    }
}
