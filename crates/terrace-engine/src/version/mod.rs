//! Versions: which rows and tables the tree consists of, and the durable log of how that changed.
//!
//! # Why
//! Readers, flushes and compactions all need one immutable answer to "which files hold the data
//! right now", and a crash must find the same answer again. A [`Version`] is that answer; a
//! [`VersionEdit`] is a change of it; the [`Manifest`] is the durable log of edits.
//!
//! ```text
//!   CURRENT ──► 000007-00000001.manifest
//!                 snapshot │ edit │ edit │ edit │
//!                    └───────┴──────┴──────┴──► Version ── L0 rows, newest first
//!                                                       ├─ L1 run: tables, disjoint
//!                                                       └─ …
//! ```
//!
//! # Invariants
//! 1. Only [`Versions::install`] changes the set of live tables: the edit is durable before the
//!    version is current.
//! 2. A file is live only if an installed edit names it. Names are never reused: each open raises
//!    the epoch durably (by a new manifest and an atomic switch of `CURRENT`) before it creates
//!    any other file.
//! 3. A run is sorted and disjoint: its constructor says so.
//! 4. A file is deleted only after the edit that removes it is durable and no version names it.
//!
//! The manifest is the first follower of the **version feed**, the ordered stream of edits;
//! backups, readers and the cloud copy of the manifest will follow the same stream.
//!
//! Read [`mod@format`] for the bytes, [`VersionEdit`] for what can change, [`Versions`] for how.

mod current;
mod edit;
mod feed;
pub mod format;
mod hiding;
mod install;
mod manifest;
#[cfg(all(test, terrace_loom))]
mod models;
mod open_table;
mod run;
mod run_cursor;
mod span_hints;
mod table;
#[cfg(test)]
mod tests;
mod value_files;
#[allow(clippy::module_inception)]
mod version;

pub use edit::{
    CloudEdit, FeedAuthors, LogBehind, LogEdit, NewRow, RangeEdit, Repaired, RowMeta, StoreLog,
    TreeEdit, ValuesEdit, VersionEdit, VolumeLog,
};
pub use feed::{FeedMark, FeedNews, FeedPosition, FeedStore, LoadedFeed, MemoryFeed, VersionFeed};
pub use hiding::{Hiding, HidingLevel};
pub use install::{Versions, VersionsParts};
pub use manifest::{LocalManifests, Manifest, manifest_path};
pub use open_table::{OpenCursor, OpenStream, OpenTable, TableOpener};
pub use run::Run;
pub use run_cursor::{RunCursor, RunTables};
pub(crate) use span_hints::SpanHints;
pub use table::{KeysCursor, ReclaimQueue, Table, TableContext};
pub use value_files::ValueFiles;
pub use version::{Version, fold};

pub use crate::table::TableMeta;
