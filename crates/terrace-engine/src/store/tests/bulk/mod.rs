//! Checkpoints, ingests, repairs of whole ranges.

mod checkpoint;
mod ingest;
mod rows_by_number;
