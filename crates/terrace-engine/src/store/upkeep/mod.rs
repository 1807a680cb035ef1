//! Upkeep: what background jobs do to a range while it serves.
//!
//! # Why
//! Memtables fill, rows pile up, levels grow past their size, dranges get out of balance. Jobs set
//! that right in small steps, each of which publishes a new view at its end, so that readers and
//! writers never wait for one.
//!
//! # Invariants
//! 1. Only one flush of a range runs at a time, and one freeze, so that rows are installed in the
//!    order of their memtables.
//! 2. A job changes what a version names only by an edit that is durable before it shows.
//! 3. A job whose work failed leaves nothing behind, and is tried again later by its kind
//!    (`health.rs`).
//!
//! Begin at `jobs.rs`, which says when which job runs.

pub(super) mod all_held;
pub(super) mod balance;
pub(super) mod carry;
pub(super) mod compact;
pub(super) mod filtering;
pub(super) mod flush;
pub(super) mod freeze;
pub(super) mod idle;
pub(super) mod jobs;
pub(super) mod merge_memtables;
pub(super) mod near;
mod next_look;
pub(super) mod parts;
pub(super) mod rested;
pub(super) mod scanned;
pub(super) mod values;
