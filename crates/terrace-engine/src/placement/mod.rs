//! Where data lies that is not in the range's own directory: on media that options name.
//!
//! # Why
//! A log, the tables of L0 and its container may lie on a faster medium than the levels. A medium
//! is a directory that many databases share; what one of them has there bears the database's id. A
//! copy of a database bears the same id, so the id alone does not say whose the data are: without a
//! claim, opening the copy would use the original's segments again, remove its tables and free its
//! pages.
//!
//! # Invariants
//! 1. Nothing on a medium is made, changed or removed unless this range holds the lock of the
//!    database's claim on that medium. Where there is a claim, an open takes its lock before it
//!    reads anything there.
//! 2. A claim names one range directory, durably, before anything else of the database is on the
//!    medium. A range whose directory is another one is refused; only
//!    [`adopt`](crate::store::adopt) changes the name.
//! 3. What lies in the range's own directory is under the lock of that directory and needs no
//!    claim. The manifest names it without the directory, so that it goes where the directory goes.
//!
//! # Picture
//! ```text
//!   <range>/                                   LOCK: the range's
//!   <medium>/terrace-<database>.claim/CLAIM    which <range> it is; LOCK: the claim's
//!   <medium>/terrace-<database>.segments/      the log                    wal/place.rs
//!   <medium>/terrace-<database>.tables/        the tables of L0's rows    rows.rs
//!   <medium>/terrace-<database>.rows           the container of L0        l0/triangle/container.rs
//!   <medium>/terrace-<database>.memtables      memtables, for a moment    memtables.rs
//!   <object store>/<database>/table/           tables below the waterline far/
//! ```
//! Begin at `medium.rs` (what a database has where), `media.rs` (what of it the manifest names),
//! `on_medium.rs` (how an open finds it, chooses its place and makes it), `location.rs` (what a
//! table's location says) and `claim.rs`; `format.rs` has the bytes of a claim.

mod claim;
mod container_place;
mod far;
pub mod format;
mod location;
mod media;
mod medium;
mod memtables;
mod on_medium;
mod rows;

pub(crate) use claim::{Claims, Wish};
pub use container_place::ContainerPlace;
pub use far::{
    FIRST_BYTES, FarName, FarReader, FarTables, LevelBytes, LocalRoom, OVERLAP_BYTES, PIECE_BYTES,
    Waterline,
};
pub use location::{Form, TableLocation, TableMedium};
pub use media::Media;
pub(crate) use medium::{Role, entries_of, require_medium};
pub(crate) use memtables::spare_memory;
pub(crate) use on_medium::OnMedium;
pub use rows::{RoutedTables, RowDirectory};
