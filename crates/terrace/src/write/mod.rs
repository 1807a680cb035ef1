//! Writing more than one key at a time: batches, conditional writes, sorted data.

mod batch;
mod conditional;
mod ingest;

pub use batch::Batch;
pub use conditional::Cas;
pub use ingest::Ingest;
