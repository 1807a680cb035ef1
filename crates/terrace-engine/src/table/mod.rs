//! Tables: immutable sorted files of entries.

mod store;

pub use store::{ByteInterval, ReadTicket, TableFile, TableLocation, TableStore, TableWriter};
