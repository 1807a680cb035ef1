//! Object stores that are as far away as a profile says.
//!
//! # Why
//! What a database does in an object store costs milliseconds, and a directory that stands in for
//! one answers in microseconds. Where no store is at hand, or none that answers alike twice, its
//! times are emulated: then a measurement shows how often the database waits, and for how many
//! bytes. What is measured with it is said to be emulated.
//!
//! # How
//! ```text
//!   request ─► 1 / requests ─► latency ────────────┐
//!      └─────► bytes on the shared line ► latency ─┴─► answer, when both have passed
//! ```
//! * A read has the latency of reads: gets, sizes and lists; every other request that of writes.
//! * The bytes of all requests share one line, both ways together. Each of those that are under way
//!   has an equal part of it, as connections have: a get does not wait for the end of a large put
//!   that came before it.
//! * Requests may begin in an even rhythm only, if there is a rate.
//!
//! The inner store does the work, in its own time, which is in that of the emulated one. Nothing is
//! ever faster than there.
//!
//! # Invariants
//! 1. Over any stretch of time no more bytes pass than the bandwidth allows, and no more requests
//!    than the rate and one more.
//! 2. No answer comes before its latency has passed, nor before its bytes have.
//! 3. All waits are the inner environment's, so that a simulation sees them.
//!
//! `line.rs` and `pace.rs` say when an answer comes and wait for nothing; `store.rs` obeys them.

mod env;
mod line;
mod pace;
mod profile;
mod store;

pub use self::env::ObjectsEnv;
pub use self::pace::{ObjectsPace, PacedRequest, RequestWay};
pub use self::profile::ObjectsProfile;

#[cfg(test)]
mod tests;
