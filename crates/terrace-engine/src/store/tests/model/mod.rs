//! The whole range against a model: random operations, crashes, faults.

mod crash;
mod faults;
mod filters;
pub(in crate::store::tests) mod operations;
mod replay;
