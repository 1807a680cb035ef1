//! The object stores of a simulation.
//!
//! # Why
//! What is built on an object store breaks in orders of requests that a real one shows once in a
//! month. Here each request is a call of the simulation: somebody else may get the turn before it
//! and after it, the seed says how long it takes, and its bytes are in the trace.
//!
//! # How
//! ```text
//!   env.objects().open("sim://NAME/PREFIX")          SimOptions { objects, .. } of another run
//!      │                                                   ▲
//!      ├─ put, delete, … ─► one key, changed in one step ──┤
//!      └─ begin_get ─► PendingObject                  ObjectImage: URL of the object -> bytes
//!                        (the answer is of the moment of the call, or of that of the wait)
//! ```
//! The stores belong to no process: a crash leaves them as they are. What an old run had begun to
//! upload in parts stays there unfinished, and what failed and will be done all the same
//! ([`ObjectFault::LatePut`]) is done in the next run.
//!
//! # Invariants
//! 1. What one request changes, it changes in one step.
//! 2. A request meets the store at one moment between its begin and its answer; one that fails may
//!    meet it later.
//!
//! Start reading at `SimObjects::change`.

mod faults;
mod image;
mod requests;
mod store;

pub use faults::{ObjectFault, ObjectFaults};
pub use image::ObjectImage;
pub(super) use requests::{ObjectLimits, SimObjects};
pub(super) use store::SimObjectStores;

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod tests;
