//! The protocol of a database in an object store, as a model of which every order of steps is
//! looked at.
//!
//! # Why
//! The worlds of the engine run the code itself, along some of its ways. A model is small enough
//! for all of them: where an owner, its successor, a reader and the collector meet, and an answer
//! is lost or a put comes late, the one order that loses a table is found, however seldom it is.
//! The actions have the names of the engine's functions.
//!
//! # Picture
//! ```text
//!   owner ── append, resume, begin, collect_below ──► feed 1 2 3 4 …  ◄── reading ── successor
//!     │                                               tables                         reader
//!     └──── read_pins, delete ──────────────────────► pin  ◄──────────── pin, narrow ──┘
//!                                                     (one put may come again, or late)
//! ```
//!
//! # Invariants
//! 1. A table is a number, and each version has one: what is fed says which.
//! 2. Whatever is checked is checked in all states that can be reached within the bounds.
//! 3. Each planted bug of the room leads to a state that should not be.
//!
//! Begin at `model.rs` (who does what, and what must hold); `store.rs` has the store, `reading.rs`
//! how a feed is read, `owner.rs` how it is written and collected.

mod model;
mod owner;
mod reading;
mod store;

pub use model::{Action, Protocol, State};
