//! Writes: duplicates, stalls, memory.

mod conditional;
mod duplicates;
mod failed_rotation;
mod full_disk;
mod large;
mod limits;
mod memory;
mod publication;
mod stalls;
mod sync;
mod troubles;
