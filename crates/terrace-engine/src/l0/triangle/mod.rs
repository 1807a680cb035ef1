//! The triangle: L0 in pages of persistent memory, or of a file.
//!
//! * [`Pages`]: the container's pages, given out and taken back.
//! * [`row`]: what one flush wrote into them, how it is read, and how its pages go one by one.
//!
//! *Source:* TriangleKV §3.1 and §3.4.

mod header;
mod pages;
pub mod row;

pub use pages::{Page, Pages};
