//! Surveys: files and directories as they are, damage included.
//!
//! # Why
//! The readers of an open range stop at the first damage, as they must: an answer may rest on what
//! is missing. Whoever checks, repairs or shows a file wants the opposite: everything that is still
//! there, and every place where something is not. These are the readers that go on.
//!
//! ```text
//!   manifest   header │ edit │ edit │ ▒▒▒ gap ▒▒▒ │ edit │ ▒ tail
//!   segment    header │ record │ record │ ▒ gap ▒ │ record │ … unused … │ header
//!   table      block │ block │ ▒ gap ▒ │ block │ filter │ index │ … │ footer
//!   values     header │ value │ value │ ▒ gap ▒ │ value │ … │ places │ directory │ footer
//! ```
//!
//! What is behind a gap is found because every unit starts at a multiple of eight bytes, or where
//! the index says, and carries a checksum of its own place; a value carries one of its own name.
//!
//! # Invariants
//! 1. Nothing that fails its checksum surfaces as content.
//! 2. Memory is bounded by the bytes of the file that is surveyed.
//! 3. A survey judges no more than its own file: whether a gap is damage or a tail that a crash
//!    tore is decided by what knows the other files ([`check`](crate::check)).
//!
//! Start with [`ManifestSurvey`], then [`SegmentSurvey`], [`TableSurvey`] and
//! [`ValueSurvey`].

mod cached;
mod frames;
mod log;
mod manifest;
mod names;
mod table;
mod values;

pub use cached::{BucketSurvey, SurveyedSlot};
pub use log::{Piece, Pieces, SegmentSurvey, chain};
pub use manifest::{ManifestSurvey, SurveyedEdit};
pub use names::{Listing, Name};
pub use table::{BlockContent, SurveyedBlock, TablePart, TableSurvey};
pub use values::{SurveyedValue, ValueSurvey};

/// A stretch of a file that is not what was written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Where it begins.
    pub offset: u64,
    /// Where the next good unit begins, or the file ends.
    pub end: u64,
    /// What is wrong at its beginning.
    pub what: String,
}
