//! What should lie on the local disk and what in an object store, with the money. Pure.
//!
//! # Why
//! A gigabyte in an object store costs a third of one on a disk, but each request costs money and
//! milliseconds. Which levels should lie there, how much of the disk should cache their blocks, and
//! what the store should have so that a lost machine loses little, depends on the data, on what is
//! asked of them, on prices and on what is wanted. So all layouts are computed and the cheapest one
//! is taken that does what is wanted; the others are named, with the reason against them.
//!
//! # Picture
//! ```text
//!   TierNeeds ─► sizes (Plan) ─┬─► layouts.rs: how much is local × what survives the machine
//!                              │        │
//!                  tree.rs ◄───┘        ▼
//!      which records are in     cost.rs: requests, latencies, dollars ◄── hits.rs: misses,
//!      which level                      │                           scans.rs: what they ask
//!                                       ▼
//!                               choice.rs: what is refused and why, what is chosen ─► TierPlan
//! ```
//! Begin at `workload.rs` (what is given; `observed.rs` reads it from a database that is there, and
//! `present.rs` holds the layout of that against the others), then `tree.rs` and `hits.rs`.
//!
//! # What it leaves out
//! * A tree is at its usual size and its caches are warm: neither a first load is in it, nor that
//!   compactions spoil what is cached.
//! * The kernel's pages keep nothing of the local disk; values lie in tables; nothing is deleted
//!   by programs or asked for that is not there, which costs no request.
//! * How much of a volume can be provisioned at most: a sheet of prices has no bound for it. Writes
//!   are not counted among the operations of the local disk.
//! * Operations come evenly. A store that must bear a peak is asked for by the rate of the peak.
//!
//! *Source:* RocksMash (TACO 2022), sections 2 and 3.1, for the line between levels and what stands
//! for it: Mutant (SoCC 2018) chose a tier for each file, by how often it is read, under a budget.
//! *Differs:* neither plans before there is a database, nor counts requests.

mod archive;
mod choice;
mod cost;
mod hits;
mod layouts;
#[cfg(test)]
mod measured;
mod observed;
mod present;
mod scans;
mod text;
mod tree;
mod workload;

pub use choice::{PlannedTier, RejectedTier, TierPlan};
pub use cost::{TierDollars, TierRequests};
pub use observed::{MeasuredTier, ObservedTier, PresentTier, StoreReading, TierReading};
pub use present::ComparedTier;
pub use workload::{TierGoals, TierLoss, TierNeeds};
