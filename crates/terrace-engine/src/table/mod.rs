//! Tables: immutable sorted files of entries.
mod builder;
mod compression;
mod cursor;
pub mod format;
mod local_store;
mod memory_store;
mod reader;
mod store;
mod stream;
mod verify;

pub use builder::{BuiltTable, TableBuilder, TableOptions};
pub use cursor::TableCursor;
pub use format::filter::filter_hash;
pub use format::frame::Compression;
pub use format::properties::TableProperties;
pub use local_store::LocalTableStore;
pub use memory_store::{MemoryTableFile, MemoryTableStore};
pub use reader::{PinnedEntry, ReadMode, TableReader};
pub use store::{ByteInterval, ReadTicket, TableFile, TableLocation, TableStore, TableWriter};
pub use stream::TableStream;
pub use verify::VerifyReport;

#[cfg(test)]
mod tests;
