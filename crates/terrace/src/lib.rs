//! Terrace, an ordered key-value store: the library that programs embed.
//!
//! Keys and values are bytes; keys are ordered bytewise. A database is a directory, which one
//! process opens for writing or any number for reading.
//!
//! ```
//! use terrace::{Db, KeyRange, Options, ReadOptions};
//!
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! let db = Db::open(directory.path().join("fruit"), Options::default())?;
//! db.put(b"apple", b"red")?;
//! db.put(b"banana", b"yellow")?;
//! assert_eq!(db.get(b"apple")?.as_deref(), Some(&b"red"[..]));
//!
//! // Ordered scans, in both directions.
//! let mut iter = db.iter(KeyRange::all(), &ReadOptions::default())?;
//! iter.seek_back(None)?;
//! assert_eq!(iter.item().map(|(key, _, _)| key), Some(&b"banana"[..]));
//! drop(iter);
//!
//! db.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! What is where:
//!
//! * [`Db`]: open, get, put, delete, delete a range, atomic batches ([`WriteBatch`]), conditional
//!   writes ([`Db::compare_and_swap`], [`Db::update`]), merges without a read ([`Db::merge`],
//!   [`MergeOperator`]), sorted data ([`Db::ingest`]), copies ([`Db::checkpoint`]), scans
//!   ([`Iter`]), [`Snapshot`]s, keyspaces.
//! * [`Db::explain_get`], [`Db::explain_scan`], [`Db::slow_operations`], [`Db::stats`]: why an
//!   operation answered as it did, where time and space go.
//! * [`events`]: what the background work did, told as it happens.
//! * [`Options`]: few, each with its unit and its effect. [`Durability`] says what an
//!   acknowledgement promises.
//! * [`check`], [`repair`] and [`inspect`]: databases that nobody has open, damaged ones too.
//!   [`adopt`]: one that was moved and has its log or L0 on another medium.
//! * [`Error`] and [`ErrorKind`]: grouped by what the caller must do.
//!
//! The engine below is the crate `terrace-engine`; this one only names its parts for programs and
//! adds keyspaces.

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "tests have real threads and files; what runs in a simulation is checked without `test`"
    )
)]

mod batch;
mod conditional;
mod db;
mod error;
pub mod events;
mod explain;
mod ingest;
pub mod inspect;
mod item_ref;
mod iter;
mod keyspace;
mod merge;
mod offline;
mod options;
mod plan;
mod report;
mod snapshot;

pub use batch::WriteBatch;
pub use conditional::CasOutcome;
pub use db::{Db, Update};
pub use error::{Error, ErrorKind, Result};
pub use ingest::Ingest;
pub use item_ref::ItemRef;
pub use iter::Iter;
pub use merge::MergeOperators;
pub use offline::{Adopted, CheckDepth, adopt, check, repair};
pub use options::{Options, ReadOptions, WriteOptions};
pub use plan::{Needs, Plan, PlannedLevel, Reason};
pub use report::{CheckReport, Finding, KeyInterval, Loss, RepairReport, Stats};
pub use snapshot::Snapshot;
pub use terrace_base::{Expiry, KeyRange, SeqNo, WallTime, limits};
pub use terrace_engine::check::Severity;
pub use terrace_engine::explain::{
    BlockRead, GetExplanation, HiddenCounts, LevelBlocks, OperationKind, PagesSearch, SAMPLE_EVERY,
    ScanEnd, ScanExplanation, SlowOperation, SlowWait, Source, SourceTally, Step, StepAnswer,
    Verdict, WaitCause,
};
pub use terrace_engine::l0::CutEnd;
pub use terrace_engine::merge::{MergeFailure, MergeOperator};
#[cfg(feature = "research")]
pub use terrace_engine::options::{Baseline, Research};
pub use terrace_engine::options::{Durability, FormatOptions, L0Medium, L0Options};
pub use terrace_engine::process::{Charge as MemoryCharge, MemoryPool};
pub use terrace_engine::repair::{Basis, LossKind};
pub use terrace_engine::store::{
    CheckpointReport, CompactionRecord, ContainerStats, CutStats, DrangeStats, DrangesReport,
    IngestReport, Item, L0Report, L0RowStats, L0Slice, L0Stats, MemtableAreaStats, NextCut,
    PinnedItem, RecoveryReport,
};
pub use terrace_engine::table::Compression;
pub use terrace_engine::version::Repaired;
pub use terrace_env::DiskProfile;
