//! How a database is opened, and how single calls are made.
//!
//! [`Options`] are given at each open, and may be others every time; only [`FormatOptions`], which
//! are a part of them, are fixed when the database is created. [`ReadOptions`] and [`WriteOptions`]
//! are those of one call.

mod call;
mod database;

pub use call::{ReadOptions, WriteOptions};
pub use database::Options;
