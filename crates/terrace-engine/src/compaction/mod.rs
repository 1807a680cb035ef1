//! Compaction: moving entries down the levels, and dropping what nobody can see any more.
//!
//! # Why
//! Rows and tables pile up on top; reads would have to look into more and more of them, and dead
//! versions would never go. Compaction merges them into the level below.
//!
//! The decision is apart from the work, and the work apart from its place:
//!
//! ```text
//!   pick (pure)            plan (data)                 executor (seam)          install
//!   Version ──► Compaction ──► CompactionPlan, bytes ──► local pool        ──► VersionEdit
//!               which tables    inputs, boundaries,        or another node      under its epoch
//!                               epoch, now, snapshots
//! ```
//!
//! *Source:* leveled compaction as in LevelDB; the offload seam is that of Nova-LSM (SIGMOD 2021),
//! §4.3, and CooLSM (ICDE 2021), §3.
//!
//! # Invariants
//! 1. The newest entry at or below each registered read point survives.
//! 2. A tombstone (or an expired entry, which is one) goes only where nothing older can exist
//!    below, and only if no read point lies under its number.
//! 3. A job judges expiry by the one `now` of its plan.
//! 4. Outputs of one job never split a user key.
//! 5. The parts of one compaction ([`split`]) are plans over disjoint slices, made from one list of
//!    read points and one `now`; one edit installs all of them, or none.
//! 6. Merge operands are folded within one stripe of read points only, and only over what is known
//!    to lie under them; see [`merge`](crate::merge).
//! 7. A value is brought in place after it was found to survive, as the entry that it is: with its
//!    number, its expiry and no other value; see [`classes`](self::pointers_from) for where.
//! 8. What a filter did is installed only while no snapshot sees it; see [`filter`].
//!
//! Read [`pick`] for what is chosen, [`Retention`] for what survives.

mod classes;
mod covered;
mod decision;
mod executor;
pub mod filter;
mod fold;
pub mod levels;
pub mod pick;
mod plan;
mod retention;
mod scan_costs;
pub mod split;
mod taken;
#[cfg(test)]
mod tests;

pub use classes::{pointers_from, short_value_bytes, short_value_bytes_max};
pub use covered::is_covered;
pub use executor::{CompactionExecutor, CompactionOutcome, IsCancelled, LocalExecutor};
pub use plan::{CompactionPlan, PlanInput};
pub use retention::{Retained, Retention};
pub use scan_costs::ScanCosts;
