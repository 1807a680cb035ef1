//! The log in the store: what was written since the newest moment that the store has, so that a
//! lost machine loses nothing that was acknowledged as durable.
//!
//! # Why
//! A mirror gives the store one moment of a range after the other. What was written after the
//! newest one lies on the machine alone. So its log records go to the store as well, many in an
//! object, and a write that has to outlive the machine is acknowledged when they are there.
//!
//! # Picture
//! ```text
//!  feed/  … moment at position 100: chain 1 of epoch 3, from log/12 on
//!  log/   11      12           13           14           15
//!         fence   100..200     200..340     340..400     fence of the next owner
//!                 └──────── chain 1 of epoch 3 ────────┘
//! ```
//!
//! # Invariants
//! 1. Numbers are dense from the one that the newest moment names to the end of the log. What was
//!    sent without an answer is sent again until it is there, or its number is taken.
//! 2. A record is safe when every number up to its own is taken, every record of its chain before
//!    it is there, and a moment of its chain is in the feed. Only then it is acknowledged.
//! 3. Whoever takes the range over reads the log to its end and creates a fence there, before it
//!    believes that this is all. An owner that finds a fence in its way writes no more.
//! 4. Behind the fence of a later owner, objects of an earlier one came too late, and are skipped.
//! 5. A chain has no gap, and ends where the range changes beside its log (an ingest): the moment
//!    that holds the change begins the next one. Records of another chain than the moment's do not
//!    follow on it.
//! 6. The number which a fenced owner wants next stays taken: fences are never collected, and what
//!    came too late is replaced by a stone, which is not collected either.
//!
//! *Source:* RocksMash (TACO 2022), section 3.4. *Differs:* the paper's log stays on a block volume
//! and covers what the local levels hold, by lists of keys; here it goes behind the moments of a
//! mirror, which hold that.
//!
//! Begin at `format.rs` (bytes), `chain.rs` (what is safe, pure), then `writer.rs` and
//! `reading.rs`.

mod chain;
mod format;
mod objects;
mod reading;
#[cfg(test)]
mod tests;
mod writer;

pub use self::chain::LogWork;
pub use self::format::{
    LogContent, LogObject, LogPiece, LogRecords, StoredRecord, decode_log, encode_fence,
    encode_stone, records_in,
};
pub use self::objects::LogObjects;
pub use self::reading::{LogPoint, LogRun};
pub use self::writer::{CloudLog, CloudLogStats, KeptNumbers};
