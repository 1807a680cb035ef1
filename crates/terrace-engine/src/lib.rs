//! The LSM-tree of one range on one machine. Knows no peer, no socket, no role.

pub mod cache;
mod error;
pub mod iter;
pub mod range_tombstone;
pub mod table;

pub use error::{Error, Result};
