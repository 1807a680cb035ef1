//! The value log: large values stand apart from the tree, so that a compaction moves pointers and
//! not the values.
//!
//! # Why
//! A level is rewritten many times while it fills, and with it every value in it. A large value
//! that was written once, in a segment of its own, need not be: tables hold its key and a
//! **pointer**, and the tree that is rewritten is as small as its keys.
//!
//! *Source:* Tebis (EuroSys 2022), section 2 (Kreon's value log; size classes as in Parallax).
//! *Differs:* Kreon finds out what is garbage by looking each key up; here each table says how many
//! bytes of which segment it names, so that liveness is a sum over tables, and which values these
//! are, so that a rewrite reads neither keys nor entries.
//!
//! ```text
//!   memtables ──flush──► row or table           value file: a segment of the log, or written
//!                        key ─► (segment, offset, length) ──► ┌──────────────────────────┐
//!                        key ─► value in place                │ h │ key, value │ … │ tail │
//!                                                             └──────────────────────────┘
//! ```
//!
//! A value's **name** is the segment in which it was first written, and the offset there. It is
//! the value's for ever: pointers are copied from table to table and never changed. A **segment**
//! is a set of names; a **value file** holds the values of one segment where their names say, or,
//! once it was rewritten, what lives of several, with a map from names to places. Most values are
//! written once: the segment of the log in which they were acknowledged becomes a value file.
//!
//! Of three classes of values the *large* stand here at every level, the *medium* above the last
//! level only: a compaction into that brings them in place, into its tables.
//!
//! # Invariants
//! 1. A value file is durable before an edit names it, and an edit that adds a table adds the files
//!    of all segments that the table names, or they are there already.
//! 2. A segment lies in one file of a version. A version keeps its files open to readers, whatever
//!    happens to newer ones.
//! 3. A file goes by an edit, when no table of the version before names one of its segments. What
//!    tables name only shrinks but by a flush, whose file is new, or a segment that the log keeps.
//! 4. A value's checksum covers its name and its key, so that no damage shows another key's value.
//! 5. The lists of a table (`table/format/names.rs`) have every value that an entry of it points
//!    to. A rewrite goes by them, and copies no value that none of them has.
//! 6. A segment of the log is never used for other records once it may be named, and is neither
//!    dropped nor rewritten as long as the log keeps it: more of its values may be named.
//!
//! Read `format.rs` for the bytes, `separate.rs` for the writing, `in_place.rs` for the way back,
//! `log_homes.rs` for what stays in the log, `file.rs` for the reading, `space.rs` for how much may
//! be dead, `judge.rs` for what becomes of garbage.

mod fetched;
mod file;
pub mod format;
mod frame;
#[cfg(test)]
mod golden;
mod home;
mod in_place;
mod judge;
mod liveness;
mod living;
mod log_homes;
mod log_segment;
mod log_values;
mod meta;
mod name;
mod rewrite;
mod separate;
mod source;
mod space;
mod windows;
mod writer;

pub use fetched::FetchedValue;
pub use file::ValueFile;
pub use frame::Frame;
pub use home::ValueHome;
pub use in_place::{InPlace, InPlaceStream};
pub use judge::{Judgement, judge};
pub use liveness::{Liveness, NamedBytes, NamedSegments};
pub use living::Living;
pub use log_homes::{LeavesInLog, LogHomes, Stay};
pub use log_segment::{SegmentDamage, SegmentVerifier, log_segment_header};
pub use meta::{HeldSegment, ValueFileMeta};
pub use name::{ValueName, ValuePointer};
pub use rewrite::Rewrite;
pub use separate::Separator;
pub use source::ValueSource;
pub use space::{SpaceBound, ValueSpace};
pub use windows::ValueWindows;
pub use writer::ValueFileWriter;
