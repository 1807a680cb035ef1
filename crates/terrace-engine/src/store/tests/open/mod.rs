//! Opening, recovery and closing; where log and rows lie.

mod after_close;
mod close;
mod copies;
mod damage;
mod data_disk;
mod directory;
mod failed_sync;
mod forged;
mod log_place;
mod log_rotation;
mod media;
mod read_only;
mod recovery;
mod released;
mod reopen;
mod replay_memory;
mod row_directory;
mod seams;
mod small;
mod witness;
