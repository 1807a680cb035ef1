//! Atomic words and short locks: the standard library's and `parking_lot`'s, and in a build for
//! models (`--cfg terrace_loom`) those of `loom`, which tries every order in which threads can take
//! their steps and every value that a load may return.
//!
//! # What differs in a model
//! `loom` knows no sequentially consistent loads and stores, but it knows such fences; so a store
//! of that order is a release between two of them, and a load an acquire behind one. That forbids
//! as much as the language does where it matters here: of two threads that each store and then load
//! what the other stored, one sees the other's. It forbids more elsewhere: a fence orders accesses
//! around it, which a store of that order does not. So what does not rest on that order is also
//! modelled without it (`Weakened::SequentialConsistency`).

#[cfg(not(terrace_loom))]
pub use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

#[cfg(not(terrace_loom))]
pub(crate) use parking_lot::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

#[cfg(terrace_loom)]
pub use modeled::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, Weakened, weaken,
};

#[cfg(terrace_loom)]
pub(crate) use modeled::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(terrace_loom)]
mod modeled;
