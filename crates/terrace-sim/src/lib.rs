//! The harness that would find our bugs: the engine on a simulated machine, under crashes, failing
//! calls, schedules and option sets, against one oracle.
//!
//! # Why
//! A store is trusted for what its tests have survived. A test that is written after a bug finds
//! that bug; this harness is to find the next one. So it draws what clients do and how they are
//! configured, runs the real engine in [`SimEnv`](terrace_env::SimEnv), and asks afterwards whether
//! everything that anybody saw, and everything that a crash left, could be so.
//!
//! ```text
//!   workload ─ operations as data ─┐
//!   setup ─── options, machine ────┼─► run ─► record ─► oracle ─► violation ─► reduce ─► 5 lines
//!   a seed ── whose turn it is ────┘                    (outside of the simulated disk)
//! ```
//!
//! # Where to start
//! [`suite`] lists what there is to run; each is a room of its own: [`crash`] stops the machine
//! everywhere, [`sweep`] fails every call, [`schedule`] lets clients race, [`metamorphic`] varies
//! options, [`library`] goes through what programs embed, [`trial`] mixes all of that for
//! `terrace sim`. [`oracle`] judges. [`hunt`] plants
//! bugs, to see whether the others find them; [`soak`] runs everything for long.
//!
//! # Invariants
//! 1. A seed decides everything: the same seed gives the same run, call by call.
//! 2. What is believed about a run lives outside of the simulated disk, and no fault touches it.
//! 3. A failure carries the case that shows it again, as text.

mod bulk;
mod client;
pub mod crash;
mod failed;
pub mod hunt;
pub mod library;
pub mod metamorphic;
pub mod oracle;
pub mod reduce;
pub mod run;
pub mod schedule;
pub mod setup;
pub mod soak;
pub mod storage;
pub mod suite;
pub mod sweep;
pub mod tally;
mod transaction;
pub mod trial;
pub mod workload;

pub use failed::Failed;
