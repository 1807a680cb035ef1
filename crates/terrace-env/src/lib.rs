//! The only contact of Terrace with the outside: files, persistent memory, clock, randomness,
//! threads and every wait.
//!
//! The crate is internal to Terrace: nothing in it is promised to stay.
//!
//! # Why
//! A store is trusted for what its tests have survived. Tests can only decide what the disk keeps
//! after a power cut, which thread runs next and what time it is if the code asks this crate and
//! nobody else. So the engine knows no other file system, clock, random number, thread or lock
//! that sleeps.
//!
//! # The environments
//! * [`RealEnv`]: the operating system.
//! * [`SimEnv`]: everything simulated from one seed. Threads are real, but exactly one runs at a
//!   time, and the seed chooses which at every call of this crate; time is virtual; the disk keeps
//!   written and synced bytes apart. The same seed replays a run byte for byte.
//! * [`FaultEnv`]: another environment whose n-th call of a kind fails.
//! * [`DiskEnv`]: another environment on a slower disk.
//! * [`ObjectsEnv`]: another environment whose object stores are further away.
//!
//! Beside them, [`PmemRecorder`] goes through every state in which a crash can leave persistent
//! memory.
//!
//! # Rules for callers
//! 1. Every blocking wait is one of [`Signal`], [`Mutex`], [`Hold`], [`Env::sleep`] or
//!    [`JobHandle::join`].
//! 2. A [`Latch`] is for a few instructions and is never held across a call of this crate; debug
//!    builds assert it.
//! 3. No spinning: the simulation cannot see it.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the crate that the others are to call instead"
)]

pub mod atomic;
#[cfg(test)]
mod contract;
mod disk;
mod env;
mod error;
mod fault;
mod fs;
#[cfg(terrace_loom)]
pub mod model;
mod objects;
mod planted;
mod pmem;
mod profile;
mod real;
mod sim;
mod sync;

pub use disk::{DiskEnv, DiskProfile};
pub use env::{Env, Job, JobClass, JobHandle, SharedEnv};
pub use error::{EnvError, EnvResult, Operation};
pub use fault::{Fault, FaultEffect, FaultEnv, FaultErrno, FaultPlan, InjectedFault};
pub use fs::{CacheFile, DirEntry, DirLock, FileSystem, LockKind, LogFile, ReadFile, WriteFile};
pub use objects::{
    ListPage, ListedObject, NoObjectStores, ObjectName, ObjectStore, ObjectStores, ObjectUpload,
    ObjectsEnv, ObjectsPace, ObjectsProfile, PacedRequest, PendingObject, Put, RequestWay,
};
pub use planted::{PlantedBug, is_planted};
pub use pmem::{
    PMEM_LINE_BYTES, PMEM_PAGE_BYTES, Pmem, PmemClaimed, PmemCounts, PmemCrash, PmemDomain,
    PmemExploration, PmemLogFile, PmemMedium, PmemRecorder, PmemRecording, PmemReport, PmemScratch,
    PmemSpan, PmemViolation,
};
pub use real::RealEnv;
pub use sim::{
    CrashPolicy, DiskImage, IoHook, IoPoint, ObjectFault, ObjectFaults, ObjectImage, SeededRng,
    SimEnv, SimOptions,
};
pub use sync::{
    ExclusiveHold, Hold, Latch, LatchGuard, Mutex, MutexGuard, SetOnce, SharedHold, Signal, Ticket,
    WaitFactory, yield_point,
};
