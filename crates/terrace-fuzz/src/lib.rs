//! Hostile bytes for everything that decodes bytes.
//!
//! # Why
//! Clients, disks and import files hand bytes to Terrace that nobody promised anything about. Each
//! decoder must answer with a value or an error: never a panic, never an allocation on the word of
//! a length field, and where a value has one coding, what was decoded encodes to the same bytes.
//!
//! # One definition, three engines
//! A [`Target`] is a plain function over bytes that panics if its decoder broke a promise, and the
//! inputs to begin with. It is used by
//!
//! 1. the tests of this crate, on the stable toolchain: the corpus as it is, then [`run`] with a
//!    seed and a number of executions, so that every run is the same run;
//! 2. libFuzzer, guided by coverage: the folder `fuzz` beside this one (see the README here);
//! 3. the soak, which calls [`run`] with a time.
//!
//! # How mutation gets anywhere without coverage
//! Targets [note](notes) how far they came: each error text and each kind of success is an
//! *outcome*. An input with a new outcome joins the pool that others are made of.
//!
//! # How mutation gets past checksums
//! Many formats are sealed, so that hardly any mutated bytes reach what lies behind the checksum.
//! The first byte of such a target's input says whether the rest is taken as it is, or sealed again
//! ([`seal`]), or put together from parts; so every engine gets both.
//!
//! Start reading at [`TARGETS`].

pub mod allocation;
mod mutate;
pub mod notes;
mod random;
mod run;
pub mod seal;
mod soak;
pub mod targets;

pub use mutate::Mutator;
pub use random::Random;
pub use run::{Budget, Failure, Report, replay, run};
pub use soak::{SoakPlan, soak};
pub use targets::{TARGETS, Target, find};
