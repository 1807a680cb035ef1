//! Reads: gets, merges, explanations, the lookup index.

mod explain;
mod iterators;
mod lookups;
mod merge;
mod slow;
mod versions;
