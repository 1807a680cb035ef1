//! The library that programs embed, on a simulated machine: keyspaces that are dropped and made
//! again, batches and transactions over them, backups under load, and crashes of all that.
//!
//! # Why
//! The other suites drive the tree of one range. What stands above it has promises of its own: a
//! keyspace is dropped as a whole, its number is not given out again too early, a transaction over
//! several keyspaces is serializable, a backup that is made while others write holds one moment.
//! So the same clients, with the same operations, also go through `terrace::Db`.
//!
//! # How
//! Which way a case goes is a word of its setup, `through=library`, so that its text, the reducer
//! and the oracle are the same. A key says which keyspace it is of (`place.rs`), and what happens
//! to it is written down under a key of the model that says which keyspace that was (`spaces.rs`).
//! Whoever changes which keyspaces there are is told no number for it; they take turns, so the
//! numbers that nobody else has are theirs.
//!
//! One keyspace may have a compaction filter; it has a client of its own (`filtered.rs`).

mod add;
mod backup;
mod cases;
mod client;
mod errors;
mod filtered;
mod life;
mod open;
mod place;
mod recovery;
mod spaces;

pub use cases::{crash, race};
pub use life::live;
pub use recovery::judge;
