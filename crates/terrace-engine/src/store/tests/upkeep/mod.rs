//! Flushes, cuts, compactions, divisions.

mod container;
mod cuts;
mod dead;
mod dranges;
mod merging;
mod parts;
mod rows;
mod triangle;
