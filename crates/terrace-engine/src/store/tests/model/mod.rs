//! The whole range against a model: random operations, crashes, faults.

mod crash;
mod faults;
pub(in crate::store::tests) mod operations;
mod replay;
