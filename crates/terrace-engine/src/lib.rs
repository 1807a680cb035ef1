//! The LSM-tree of one range on one machine. Knows no peer, no socket, no role.

mod error;
pub mod iter;
pub mod memtable;
pub mod range_tombstone;
pub mod table;

pub use error::{Error, Result};
