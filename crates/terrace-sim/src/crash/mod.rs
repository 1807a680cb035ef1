//! Crashes: a workload runs once; at each change of the disk the machine is stopped, in every way
//! that a disk may be left, and the range is opened on what is there.
//!
//! # Why
//! A store is trusted with what it acknowledged, and that is decided by a crash. On a real machine
//! a crash takes minutes and shows one state; here it takes less than a millisecond and shows every
//! one.
//!
//! ```text
//!   run ──┬──┬──┬──┬──┬──► moments: before each change of the disk
//!         │  │  │  │  └ × { killed, synced only, any sectors, any pages, cut in a write }
//!         │  │  │  └──── open, judge, write, compact, close, open, judge
//!         │  │  └─────── now and then: stop that recovery at its own changes, to depth 3
//! ```

mod enumerate;
mod recovery;
mod workloads;

pub use enumerate::{Component, Thoroughness, enumerate, name_of};
pub use recovery::{Allowed, Recovered, dir, recover};
pub use workloads::{Named, named, random};
