//! Transactions: reads at one moment and writes that rest on them, over all keyspaces.
//!
//! ```text
//!   get, iter ──► own.rs (what is to be written) ──► the snapshot, noted in the read set
//!   put, …    ──► a batch, and own.rs
//!   commit    ──► the engine: if nothing that was read was written since, the batch
//! ```
//! # Invariants
//! 1. What a transaction tells of the database was noted before, unless its own writes alone
//!    decide it.
//! 2. `own.rs` shows what the batch would make: a rollback truncates the batch and builds it anew.
//!
//! Begin at `handle.rs`. Why commits are serializable stands in the engine, `store/transaction`.
//! `iter.rs` walks; `retry.rs` begins anew.

mod handle;
mod iter;
mod own;
mod retry;

pub use handle::{Savepoint, Transaction};
pub use iter::{TransactionIter, TransactionKeys};
