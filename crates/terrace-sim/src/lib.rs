//! The harness.
mod client;
pub mod crash;
pub mod metamorphic;
pub mod oracle;
pub mod run;
pub mod schedule;
pub mod setup;
pub mod tally;
pub mod workload;
