//! Flushes, cuts, compactions, divisions.

mod container;
mod cuts;
mod dead;
mod dranges;
pub(in crate::store::tests) mod events;
pub(in crate::store::tests) mod filters;
mod freeze;
mod handed_on;
mod io_limit;
mod log_homes;
mod lost_values;
mod medium_values;
mod merged_crash;
mod merging;
mod outputs;
mod parts;
mod reclaim;
mod rested;
mod rows;
mod scanned;
mod settings;
mod triangle;
mod value_files;
mod value_space;
mod values;
