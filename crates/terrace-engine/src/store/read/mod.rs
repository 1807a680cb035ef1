//! Reading: one key, many keys, and iterators.
//!
//! # Why
//! A read must see one moment of the range while flushes, compactions and ingests replace what it
//! reads. It takes no lock for that: it pins the view, an immutable description of everything there
//! is, and a read point, the number up to which it sees.
//!
//! # Invariants
//! 1. A read pins the view, takes its read point, asks the lookup index, and keeps all of it only
//!    if the view is still the current one then (decision 30); iterators and snapshots register the
//!    read point first.
//! 2. What a read point sees stays until the read point goes, if it is registered.
//! 3. An entry that cannot be read is an error and never "not found".
//! 4. What the newest entry of a key means is decided in `answer.rs` and nowhere else.
//!
//! Begin at `begin.rs` and `get.rs`; `key_search.rs` goes down the tables. `operands.rs` goes on to
//! the base of a merge, `values.rs` to what a pointer names. `iterator.rs` goes, both ways, over
//! what `sources.rs` finds in a view and `scan_cursor.rs` merges, and asks for values ahead as
//! `ahead.rs` says. Where tables lie in an object store, `asking.rs` asks all of them at once, for
//! as much as `scan_length.rs` expects.

mod ahead;
pub(super) mod answer;
mod asking;
pub(super) mod begin;
pub(super) mod get;
pub(super) mod iterator;
pub(super) mod key_search;
pub(super) mod memtables_cursor;
pub(super) mod multi_get;
pub(super) mod open_scan;
pub(super) mod operands;
pub(super) mod pinned;
pub(super) mod scan_cursor;
pub(super) mod scan_length;
pub(super) mod snapshot;
pub(super) mod sources;
pub(super) mod spare_scan;
pub(super) mod values;
