//! Ranges that are read while somebody else writes them.

mod beside;
mod moments;
mod refused;
