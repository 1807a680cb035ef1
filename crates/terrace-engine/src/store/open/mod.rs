//! Opening a range, and closing it.
//!
//! # Why
//! What an open may rest on is decided here and nowhere else: which files belong to the range, what
//! its log still holds, and what a lost machine took. Everything else in `store/` finds a range
//! whose memtables, version and log agree.
//!
//! # Invariants
//! 1. Nothing on a disk is changed before the directory is locked, the manifest was read and the
//!    log was understood as far as its end.
//! 2. The epoch is raised durably before a file is created under it.
//! 3. Nothing that a version or the log names is removed.
//! 4. A clean close leaves a record that says so at the log's end; after it an open replays
//!    nothing.
//!
//! Begin at `opening.rs`. `recovery.rs` brings the log into memtables, by the threads of
//! `refill.rs`, and `rest.rs` what of it they have no memory for; `seams.rs` has the parts that a
//! caller may replace; `close.rs` ends it all; `data_disk.rs` warns of a container that is slow
//! where it lies; `media.rs` has what of the range lies on media, and `adopt.rs` takes that over
//! on purpose; `phases.rs` says how long all of it took, and `progress.rs` how far it has come.

pub(super) mod adopt;
pub(super) mod close;
mod data_disk;
mod media;
pub(super) mod opening;
pub(super) mod phases;
pub(super) mod progress;
pub(super) mod recovery;
pub(super) mod refill;
mod rest;
pub(super) mod seams;
