//! The far medium: tables below the waterline, as objects in an object store.
//!
//! # Why
//! A database grows beyond the disk of its machine, and most of it lies in its lower levels, which
//! are read least. So the levels above a line stay on the local disk, and those below it lie where
//! a byte costs little.
//!
//! # How
//! * A table is an object from the moment at which it is whole: its writer gathers it in memory and
//!   stores it with one request, or in parts if it is large. Nobody names it before that.
//! * The store is asked which level a table is for ([`FarTables::takes`]); nothing else moves a
//!   table over the line but a compaction that writes it anew. Those that lie on the wrong side
//!   after the line has moved are written anew in their place.
//! * A table below the line holds its values: it names no value file, which would have to be there
//!   too. The compaction that crosses the line brings them in place (decision 61).
//! * An open asks for the ends of the tables of L0 that lie in the store: nearly every read needs
//!   all of them, and they come while the log is replayed.
//! * An object that no version of this process names any more is *released*, not deleted: the feed
//!   in the store may name it still. `store/cloud/collect.rs` deletes it.
//!
//! # Picture
//! ```text
//!   TableLocation   far/<FileId>-<random, 32 digits>-<bytes>
//!   object          <database>/table/<FileId>-<random>            names are never used twice
//! ```
//! The size stands in the location, so that to open a table costs no request of its own.
//!
//! *Source:* RocksMash (TACO 2022), sections 2 and 3.1. *Differs:* the line follows a budget of
//! local bytes, and moves while the database is open.
//!
//! Begin at `waterline.rs` (which levels, pure), `tables.rs` (the store), `file.rs` (reading one),
//! `sequence.rs` (how much of it at once, pure) and `around.rs` (what comes with a block).

mod ahead;
mod around;
mod file;
mod sequence;
mod tables;
mod tails;
mod waterline;

pub use ahead::PIECE_BYTES;
pub use file::OVERLAP_BYTES;
pub use sequence::FIRST_BYTES;
pub use tables::{FarName, FarReader, FarTables};
pub use waterline::{LevelBytes, LocalRoom, Waterline};
