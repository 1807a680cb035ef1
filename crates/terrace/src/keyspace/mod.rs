//! Keyspaces: separate sets of keys in one tree, each with a name.
//!
//! ```text
//!   name ──catalog.rs──► number ──stored.rs──► 2 bytes in front of each key in the tree
//!                        │
//!                        ├──operators.rs──► the merge operator
//!                        └──filters.rs────► the compaction filter
//! ```
//! # Invariants
//! 1. A name leads to one number, and a number belongs to one name at a time; the catalog is the
//!    truth, and each change of it is one synced write.
//! 2. What was put under a number before it was given out is never seen under it afterwards.
//! 3. The merge operator of a number does not change while anything under it can be folded.
//!
//! Start with [`Keyspace`]; `catalog.rs` has the rules of numbers.

mod catalog;
mod entry;
mod filters;
pub(crate) mod handle;
mod operators;
mod options;
mod space;
mod statistics;
mod stored;

pub(crate) use catalog::{Catalog, DEFAULT};
pub use filters::CompactionFilters;
pub(crate) use filters::FilterTable;
pub use handle::Keyspace;
pub use operators::MergeOperators;
pub(crate) use operators::{OperatorTable, shown as shown_operator};
pub use options::KeyspaceOptions;
pub(crate) use space::{Owner, Space};
pub use statistics::KeyspaceStats;
pub(crate) use statistics::{FIGURES, ScanTally, WriteTally, Written};
pub(crate) use stored::{KeyspaceNo, PREFIX_BYTES, StoredPlace, split};
