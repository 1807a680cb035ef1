//! Writing: a batch from the call to its acknowledgement.
//!
//! # Why
//! Writers of different dranges must not wait for each other. So there is no queue: each writer
//! passes the gate, takes shared holds on the dranges that its batch touches, gets numbers and a
//! place in the log in one step, and does its work beside the others. Only the order of publication
//! is total.
//!
//! # Invariants
//! 1. Between its numbers and its publication a writer neither fails nor waits; the exceptions
//!    poison the range (`commit.rs` names them).
//! 2. A write is acknowledged only when it and all before it are published.
//! 3. The merge operator has seen every operand before the batch takes numbers.
//! 4. A conditional write decides under exclusive holds, by the newest inserted entry.
//!
//! Begin at `commit.rs`. `routing.rs` says which entries of a batch go to which drange;
//! `conditional.rs` has the writes that read first; `operands.rs` checks merges.

pub(super) mod commit;
pub(super) mod conditional;
mod large;
mod operands;
pub(super) mod routing;
