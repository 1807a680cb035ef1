//! Reports: what a range says of itself.
//!
//! # Why
//! An operator asks "why is it doing that?". What is counted, timed and explained is put together
//! here, so that the roads it is counted on stay free of it.
//!
//! # Invariants
//! 1. A report changes nothing, and holds no lock for longer than a copy of its figures takes.

pub(super) mod check;
pub(super) mod cloud_stats;
pub(super) mod compaction_log;
pub(super) mod cut_stats;
pub(super) mod drange_stats;
pub(super) mod explain;
pub(super) mod l0_picture;
pub(super) mod l0_stats;
pub(super) mod latencies;
mod listen;
pub(super) mod meters;
pub(super) mod range_size;
pub(super) mod read_stats;
pub(super) mod samples;
pub(super) mod slow;
pub(super) mod stats;
pub(super) mod stats_text;
pub(super) mod troubles;
pub(super) mod value_stats;
