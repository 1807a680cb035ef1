//! Opening, recovery and closing; where log and rows lie.

mod log_place;
mod log_rotation;
mod recovery;
mod row_directory;
mod seams;
mod witness;
