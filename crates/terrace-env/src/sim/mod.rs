//! An environment in which everything follows from one seed.
//!
//! # Why
//! The failures that matter in a store need two things to happen in an unlucky order: a crash
//! between two writes, a flush that ends while a reader starts. They are rare on a real machine
//! and cannot be repeated. Here they are as likely as anything else, and the seed repeats them.
//!
//! ```text
//!   SimEnv::run(options, main)
//!      │
//!      ├─ Scheduler   whose turn it is, virtual time          seed, stream 1
//!      ├─ chance      whether a read would have to wait, …    seed, stream 2
//!      ├─ random_u64                                          seed, stream 4
//!      ├─ SimDisk     the DiskImage, its locks, the I/O hook
//!      │                 │ before each change: IoPoint { index, operation, path, disk, objects }
//!      │                 └─► disk.crash(policy, seed) ─► SimOptions { disk, objects, .. } of
//!      └─ SimObjects  the ObjectImage: a crash leaves it        another run
//! ```
//!
//! # Invariants
//! 1. Two runs with the same options and the same `main` have the same trace hash: the same
//!    threads ran in the same order, and the same bytes were written.
//! 2. Only simulated threads call the environment; others panic.
//! 3. A panic, a deadlock or a thread that outlives the main one fails the run, and
//!    [`SimEnv::run`] panics with the seed.
//!
//! Start reading at [`SimEnv::run`]; whose turn it is, is decided in `scheduler`, what is on the
//! disk in `disk`.

mod disk;
mod env;
mod files;
mod io;
mod objects;
mod options;
mod pmem;
mod random;
mod scheduler;
mod trace;

pub use disk::{CrashPolicy, DiskImage};
pub use env::SimEnv;
pub use io::{IoHook, IoPoint};
pub use objects::{ObjectFault, ObjectFaults, ObjectImage};
pub use options::SimOptions;
pub use random::SeededRng;
#[cfg(feature = "planted-bugs")]
pub(crate) use scheduler::is_planted;
pub(crate) use scheduler::{Call, Scheduler, WaitKind, WaitPoint, at_yield_point, before_latch};

#[cfg(test)]
mod tests;
