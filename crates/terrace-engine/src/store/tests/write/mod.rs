//! Writes: duplicates, stalls, memory.

mod duplicates;
mod memory;
mod stalls;
