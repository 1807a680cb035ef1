//! Terrace, an ordered key-value store: the library that programs embed.
//!
//! Keys and values are bytes; keys are ordered bytewise. A database is a directory, which one
//! process opens for writing or any number for reading; a [`Secondary`] reads beside the one that
//! writes.
//!
//! ```
//! use terrace::Db;
//!
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! let db = Db::open(directory.path().join("fruit"))?;
//! db.put("apple", "red")?;
//! db.put("banana", "yellow")?;
//! assert!(db.get("apple")?.is_some_and(|color| color == "red"));
//!
//! // Ordered scans, in both directions.
//! for row in db.range("a".."c").rev() {
//!     let (fruit, color) = row?;
//!     println!("{} is {}", fruit.escape_ascii(), color.escape_ascii());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Three layers
//! ```text
//!   Db ─────────► Keyspace ─────────► View
//!   opens,        writes              reads, now or at a snapshot
//!   closes,
//!   copies        each dereferences to the next: a function over &View takes all of them
//! ```
//! * [`Db`]: open and close, [keyspaces](Db::keyspace), atomic [batches](Batch) over them,
//!   [transactions](Transaction), [`Snapshot`]s, copies ([`Db::checkpoint`], [`Backups`]). It is
//!   its own default keyspace.
//! * [`Keyspace`]: put, delete, delete a range, conditional writes
//!   ([`Keyspace::compare_and_swap`], [`Keyspace::update`]), merges without a read
//!   ([`Keyspace::merge`]), sorted data ([`Keyspace::ingest`]), what it was asked
//!   ([`Keyspace::stats`]).
//! * [`View`]: [get](View::get), several keys at once ([`View::get_many`]), iterators of the
//!   language ([`View::range`], [`View::prefix`]), and a [`Cursor`] that copies nothing.
//!
//! # Transactions
//! What was read must not have changed when it is written: [`Db::transaction`] reads at one moment,
//! writes at the end, and begins anew if somebody came between.
//!
//! ```
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! # let db = terrace::Db::open(directory.path())?;
//! let (tasks, done) = (db.keyspace("tasks")?, db.keyspace("done")?);
//! tasks.put("1", "write")?;
//! let taken = db.transaction(|tx| {
//!     let first = tx.iter(&tasks).next().transpose()?;
//!     if let Some((task, text)) = &first {
//!         tx.delete(&tasks, task).put(&done, task, text);
//!     }
//!     Ok::<_, terrace::Error>(first.is_some())
//! })?;
//! assert!(taken && done.contains_key("1")?);
//! # Ok(())
//! # }
//! ```
//! Keys that were read, and intervals that were walked over, count; see [`Transaction`].
//!
//! # Where to go on
//! * The [`guide`]: what survives a crash, keyspaces, scans, counting, transactions, tuning, and
//!   what is called how for those who come from RocksDB, fjall, redb or sled.
//! * Programs to begin with, in the folder `examples` of the package: `hello`, `counter`, `index`,
//!   `transfer`, `pages`, `bulk_load`, `cache`, `queue`, `merge_operator`, `checkpoint`, `backup`,
//!   `figures`, `metrics`, `web` (feature `tokio`, with axum); `cargo run --example hello` runs
//!   one.
//!
//! # What else there is
//! * [`Options`]: few, each with its unit and its effect. [`Durability`] says what an
//!   acknowledgement promises.
//! * [`Db::admin`]: why an operation answered as it did, where time and space go, and
//!   [`Metrics`] for monitoring.
//! * [`events`]: what the background work did, told as it happens.
//! * [`filter`]: what compactions drop or change as they come by it.
//! * [`CloudDatabase`]: a database in an object store, read beside its owner from any machine.
//! * [`check`], [`repair`] and [`inspect`]: databases that nobody has open, damaged ones too.
//!   [`adopt`]: one that was moved and has its log or L0 on another medium.
//! * [`Error`] and [`ErrorKind`]: grouped by what the caller must do.
//!
//! # Features
//! | feature | what it adds |
//! |---|---|
//! | `lz4` (default) | tables compressed with LZ4 |
//! | `zstd` | tables compressed with Zstandard, whose C sources are built along |
//! | `serde` | reports and figures implement `serde::Serialize` |
//! | `tracing` | what is worth a look goes to the log of the program |
//! | `tokio` | the same database for programs on tokio: `asynchronous` |
//! | `research` | the baselines of papers, to be measured |
//!
//! # Platforms and versions
//! The library runs on 64-bit Linux. Each file that it writes bears the version of its format, and
//! later versions of Terrace read it.
//!
//! It asks for Rust 1.90. What was checked of that is what Clippy's lint `incompatible_msrv` sees,
//! which is calls of the standard library; built and tested it is with Rust 1.95.
//!
//! The engine below is the crate `terrace-engine`; this one gives programs their view of it, and
//! adds keyspaces.

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "tests have real threads and files; what runs in a simulation is checked without `test`"
    )
)]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!(
    "Terrace runs on 64-bit Linux only: its log and its tables are written and mapped by calls of \
     that system, and its sizes are 64-bit numbers"
);

#[cfg(feature = "tokio")]
pub mod asynchronous;
mod backup;
mod cloud;
mod db;
mod error;
pub mod events;
mod explain;
pub mod filter;
pub mod guide;
pub mod inspect;
mod keyspace;
pub mod merge;
mod metrics;
mod offline;
mod options;
mod plan;
mod report;
mod secondary;
mod transaction;
mod view;
mod write;

/// The programs in it are compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use backup::{Backup, BackupOptions, BackupReport, Backups};
pub use cloud::{CloudCheckpoint, CloudDatabase, CloudMoment, LiveReason, WhyLive};
pub use db::{Admin, Db};
pub use error::{Error, ErrorKind, Result};
pub use filter::CompactionFilter;
pub use keyspace::{CompactionFilters, Keyspace, KeyspaceOptions, KeyspaceStats, MergeOperators};
pub use metrics::Metrics;
pub use offline::{Adopted, CheckDepth, adopt, check, repair};
pub use options::{Create, Layout, Options, ReadOptions, SharedResources, WriteOptions};
pub use plan::{
    ComparedTier, MeasuredTier, Needs, ObservedTier, Plan, PlannedCost, PlannedLevel, PlannedTier,
    PresentTier, Reason, RejectedTier, StoreReading, TierDollars, TierGoals, TierLoss, TierNeeds,
    TierPlan, TierReading, TierRequests,
};
pub use report::{CheckReport, Finding, KeyInterval, Loss, RepairReport, Stats};
pub use secondary::Secondary;
pub use terrace_base::{
    Expiry, FileId, KeyRange as OwnedRange, LevelNo, LogPosition, NoWallTime, SeqNo, WallTime,
    limits,
};
pub use terrace_engine::cache::persistent::{DataCacheStats, MetaCacheStats, PersistentCacheStats};
pub use terrace_engine::check::Severity;
pub use terrace_engine::cloud::{
    Bill, CheckpointName, CloudCost, Dollars, PriceSheet, RequestCount, RequestCounts, RequestKind,
    VolumePrices,
};
pub use terrace_engine::explain::{
    BlockRead, GetExplanation, HiddenCounts, LevelBlocks, OperationKind, PagesSearch, ReadTotals,
    SAMPLE_EVERY, ScanEnd, ScanExplanation, SlowOperation, SlowWait, Source, SourceTally, Step,
    StepAnswer, Verdict, WaitCause,
};
pub use terrace_engine::l0::CutEnd;
pub use terrace_engine::lookup_index::LookupIndexStats;
pub use terrace_engine::merge::{MergeFailure, MergeOperator};
#[cfg(feature = "research")]
pub use terrace_engine::options::{Baseline, NearDesign, Research};
pub use terrace_engine::options::{
    CloudOptions, Durability, L0Medium, L0Options, Setting, ValueLogOptions,
};
pub use terrace_engine::process::{Charge as MemoryCharge, MemoryPool, MemoryStats, PoolStats};
pub use terrace_engine::repair::{Basis, LossKind};
pub use terrace_engine::store::{
    BackgroundIoStats, CauseStats, CheckpointReport, CloudStats, CompactionRecord, ContainerStats,
    CutStats, DrangeStats, DrangesReport, FailedWorkStats, IngestReport, L0Report, L0RowStats,
    L0Slice, L0Stats, LatencyHistogram, LeftOut, LevelStats, MemtableAreaStats, NextCut, RangeSize,
    ReadStats, RecoveryPhases, RecoveryReport, StallStats, StoreStats, TakeOver, UsageStats,
};
pub use terrace_engine::table::Compression;
pub use terrace_engine::version::Repaired;
pub use terrace_engine::wal::TornTail;
pub use terrace_env::DiskProfile;
pub use transaction::{Savepoint, Transaction, TransactionIter, TransactionKeys};
pub use view::{
    Cursor, EntryRef, Iter, Key, KeyRange, Keys, Prefix, RangeEnd, Snapshot, Value, View,
};
pub use write::{Batch, Cas, Ingest};
