//! The archive: any state of the database since some time ago can be had again.
//!
//! # Why
//! A mirror and a log in the store bring back what the machine had when it was lost. They do not
//! help against what somebody deleted an hour ago. A checkpoint does, for its own moment. So, if it
//! is asked for, the owner makes a checkpoint from time to time, a *base*, and keeps the log
//! between them, which is in the store anyway.
//!
//! # Picture
//! ```text
//!   log/      17     18     19    20      21     22     23     24
//!           ├──────┼──────┼──────┤fence ├──────┼──────┼──────┼──────► the newest moment needs 24
//!           ▲ base, chain 1              ▲ base, another owner
//!                         ▲ a state that somebody asks for: the base, and the records up to there
//! ```
//!
//! # Invariants
//! 1. Each chain of the log (`cloud/log/`) has a base at its first moment, and others behind it, so
//!    that no base has more than so many bytes of the log behind it.
//! 2. A base goes when a later one is as old as the archive is to reach back. The log is collected
//!    below the first object of the oldest base, and not before it is known which bases there are.
//! 3. Whoever asks for a state reads the newest base that is not behind it, and the records of its
//!    chain up to there, and is told up to where that was. Nothing is left out in between.
//! 4. An owner without an archive leaves that of earlier ones as it is.
//!
//! Begin at `bases.rs` (which are due), then `keeping.rs` (the owner) and `reading.rs`.

mod bases;
mod keeping;
mod reading;

pub use bases::{
    BASES_PER_TIME as ARCHIVE_BASES, LOG_BYTES_PER_BASE as ARCHIVE_LOG_BYTES_PER_BASE,
};
use bases::{Base, Bases};
pub use keeping::{Archive, ArchiveStats};
pub use reading::ArchivedLog;
pub(super) use reading::oldest_base;
