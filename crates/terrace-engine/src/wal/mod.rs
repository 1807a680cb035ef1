//! The log: what was written since the memtables were last flushed, so that a crash loses nothing
//! that was acknowledged.
//!
//! # Why
//! A memtable dies with its process. Each batch is therefore appended to the log as one
//! checksummed record before it is acknowledged, and replayed when the range is opened again.
//!
//! *Source:* Nova-LSM (SIGMOD 2021), §5 takes the log apart into a component (LogC); here it is
//! the seam [`LogSink`], with a local directory behind it so far.
//! *Differs:* Nova-LSM writes a log a memtable; here a range has one append order, and a record's
//! entries name their memtables, so that a batch over several memtables stays one record.
//!
//! # Invariants
//! 1. A range has one append order. A record's place in it, its
//!    [`LogPosition`](terrace_base::LogPosition), and its sequence numbers are taken in one step,
//!    so both orders agree.
//! 2. A record is in the log before it is published, and published before it is acknowledged.
//! 3. Every record before a published one is complete: publication goes in order. So what a killed
//!    process leaves is a complete prefix that holds all that was acknowledged.
//! 4. `durable` only ever names a position below which everything has been synced.
//! 5. Segments are never written again once a successor's header says where they end: a torn tail
//!    is cut off by the header of the next segment, and not by overwriting.
//!
//! # The local log
//! ```text
//!   segment 7            segment 8            spare
//!  ┌────────────────┐   ┌────────────────┐   ┌────────────────┐
//!  │ h │ r │ r │ r ▒│ → │ h │ r │ r │ …  │   │ reserved,      │
//!  └────────────────┘   └────────────────┘   │ warmed         │
//!         base of 8 = end of 7               └────────────────┘
//! ```
//! Segments are as large as the rate of writes asks for (`local_log/sizing.rs`); they are reserved
//! before they are used, brought into memory if writers come soon, and used again. An open begins a
//! segment of its own, with copies of what may never have reached the disk (`local_log/carry.rs`).
//! A close cuts the last one off behind its last record. Many writers copy their records into the
//! (mapped) segment at once, without a system call.
//!
//! On persistent memory (`place.rs`: a directory of the log's own) a sync needs none either: what
//! was stored is flushed line by line, and one fence makes it durable. The bytes are the same. What
//! a crash leaves of a tail is any of its lines, and of a line any of its aligned words, which a
//! checksum tells from a record as it does with torn pages.
//!
//! Read [`mod@format`] for the bytes, then [`LocalLog`] for the writing, then `replay.rs` for the
//! reading, and `follow.rs` for the reading of a log that somebody writes.

mod behind;
mod follow;
pub mod format;
mod local_log;
mod memory_log;
#[cfg(all(test, terrace_loom))]
mod models;
mod place;
mod replay;
mod sink;
#[cfg(all(test, not(terrace_loom)))]
mod tests;

pub use follow::{LogMark, ReadOn};
pub use local_log::{LocalLog, LocalLogStore};
pub use memory_log::{MemoryLog, MemoryRecord};
pub use place::LogMedium;
pub use replay::{LogFacts, LogStart, ReadRecord, Replayed, SegmentFile, SegmentSpan, TornTail};
pub use sink::{FinishedSegment, LogPlace, LogSink, LogStore, LogTarget, Record, Visit};
