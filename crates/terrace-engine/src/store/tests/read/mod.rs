//! Reads: gets, merges, explanations, the lookup index, and what runs beside them.

mod explain;
mod iterators;
mod lookups;
mod many_keys;
mod merge;
mod one_moment;
mod range_size;
mod read_stats;
mod refused;
mod row_tables;
mod slow;
mod spares;
mod versions;
mod walks;
