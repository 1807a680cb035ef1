//! How a database is opened, and how single calls are made.
//!
//! [`Options`] are given at each open, and may be others every time; how its tree is laid out is a
//! part of them ([`Layout`]). [`ReadOptions`] and [`WriteOptions`] are those of one call.

mod call;
mod database;
mod layout;
mod shared;

pub(crate) use call::Life;
pub use call::{ReadOptions, WriteOptions};
pub use database::{Create, Options};
pub use layout::Layout;
pub use shared::SharedResources;
