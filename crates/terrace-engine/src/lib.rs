//! The LSM-tree of one range on one machine: log, memtables, L0, levels, compaction.
//!
//! The crate is internal to Terrace: nothing in it is promised to stay.
//!
//! Knows no peer, no socket, no role, and of the outside only what [`terrace_env`] shows it.
//!
//! Each module is a *room*: one mechanism with its own bytes and its own tests, whose first lines
//! say why it exists. The facade is [`store`]; programs that embed a database use the crate
//! `terrace`, which is thinner still.

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "tests have real threads and files; what runs in a simulation is checked without `test`"
    )
)]

mod batch;
pub mod cache;
pub mod check;
pub mod cloud;
pub mod compaction;
pub mod drange;
mod error;
pub mod events;
pub mod explain;
mod fail_point;
mod files;
mod ids;
pub mod iter;
pub mod l0;
pub mod lookup_index;
pub mod memtable;
pub mod merge;
mod nanos;
mod new_dir;
pub mod options;
pub mod placement;
pub mod process;
mod program_log;
pub mod range_tombstone;
pub mod repair;
pub mod store;
pub mod survey;
mod swap;
pub mod table;
#[cfg(test)]
mod tests;
pub mod version;
pub mod vlog;
pub mod wal;
mod yielder;

pub use batch::WriteBatch;
pub use error::{Error, Result};
pub(crate) use files::{read_ends, read_file, read_up_to, read_up_to_into};
pub use ids::FileIds;
pub(crate) use nanos::nanos;
