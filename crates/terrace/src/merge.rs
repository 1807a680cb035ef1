//! Merge operators: how writes change values that they have not read.
//!
//! A keyspace chooses one by its name
//! ([`KeyspaceOptions::merge_operator`](crate::KeyspaceOptions::merge_operator)), once. These are
//! known to every program; a program may bring its own
//! ([`Options::merge_operator`](crate::Options::merge_operator)).

/// Adds numbers in decimal text (`42`, `-7`), as the command line shows them and as Redis keeps its
/// counters. No value counts as 0. A sum beyond 64 bits is an error of the key until later operands
/// bring it back.
pub const ADD_I64: &str = "add-i64";

/// Adds numbers of 64 bits with a sign, in eight bytes each, as `i64::to_le_bytes` gives them. No
/// value counts as 0. A sum beyond 64 bits wraps around.
pub const ADD_I64_LE: &str = "add-i64-le";

/// Appends the operands to the value, with nothing in between.
pub const APPEND: &str = "append";

/// Keeps the greatest of the value and the operands, in the order of keys.
pub const MAX: &str = "max";

pub use terrace_engine::merge::{MergeFailure, MergeOperator};
