//! How the store is asked: requests that are tried again, bounded and counted.
//!
//! # Why
//! A store in another building is busy, away or slow at times, and a request whose answer was lost
//! may have been done. Only whoever knows what a request is for knows whether it may be repeated;
//! all of a database's requests are made here, so it is decided once.
//!
//! # What is repeated
//! * Reads, lists and deletes: their repetition changes nothing.
//! * A put of an object: the names of tables and segments are never used again, and a pin is
//!   written by its reader alone, so the bytes of a repetition are those of the first attempt.
//! * A creation ([`CloudStore::create`]): with the same bytes, until the object is created or the
//!   name is taken. Taken may mean by an earlier attempt, so the bytes there are compared with what
//!   was to be created; each creator's bytes differ from every other's.
//!
//! What is denied, missing or malformed stays so and is the answer at once. What a repetition waits
//! for, `retry.rs` says (pure); how many requests are under way at once, `budget.rs`; what they
//! cost, `counts.rs`.

mod budget;
mod counts;
mod pending;
mod retry;
mod store;
#[cfg(test)]
mod tests;

pub use self::counts::{RequestCount, RequestCounts, RequestKind};
pub use self::pending::PendingGet;
pub use self::retry::RetryPolicy;
pub use self::store::{
    CloudStore, Creation, ONE_PUT_BYTES_MAX, PART_BYTES, RequestLimits, is_missing,
};
