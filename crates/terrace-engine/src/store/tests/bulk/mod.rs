//! Checkpoints, ingests, repairs of whole ranges.

mod backup;
mod checkpoint;
mod ingest;
mod ingest_numbers;
mod rows_by_number;
