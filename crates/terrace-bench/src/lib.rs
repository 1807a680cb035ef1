//! Named workloads that measure Terrace, and other stores by the same code.
//!
//! # What a run is
//! ```text
//! are the records there? ──no──► load: every record once, in random order
//!        │ yes                       │
//!        ▼                           ▼
//! the workload: T threads, each in a closed loop with generators of its own,
//! seeded from the run's seed ──► latencies, throughput over time, bytes, CPU, memory
//! ```
//! `load` and `fillrandom` are workloads themselves. [`workload::WORKLOADS`] is the list; the YCSB
//! ones follow Cooper et al., SoCC 2010.
//!
//! # Where things are
//! [`workload`] says what is done, [`distribution`] to which records, [`records`] what a record's
//! key and value are; `run` does it to a [`Store`], and [`Report`] is what came out. [`clock`] is
//! the only contact with time and with the operating system's accounts, `threads` the only place
//! that starts threads.

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "tests have real threads and files; what runs in a simulation is checked without `test`"
    )
)]

pub mod clock;
mod cloud;
pub mod distribution;
mod options;
pub mod plot;
pub mod random;
pub mod records;
mod report;
mod run;
mod static_trees;
mod store;
mod terrace_store;
mod threads;
pub mod workload;

pub use cloud::CloudRequests;
pub use options::{BenchOptions, OptionsError};
pub use report::{KindReport, Report};
pub use run::{BenchError, Observer, Phase, Silent, run};
pub use static_trees::StaticTrees;
pub use store::{Counters, Delays, Store, StoreError};
pub use terrace_store::TerraceStore;
