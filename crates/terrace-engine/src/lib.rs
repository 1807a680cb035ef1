//! The LSM-tree of one range on one machine. Knows no peer, no socket, no role.

mod error;
pub mod iter;
pub mod table;

pub use error::{Error, Result};
