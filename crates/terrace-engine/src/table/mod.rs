//! Tables: immutable sorted files of entries.
//!
//! # Why
//! A table is what a flush or a compaction leaves behind and all reads below the memtables end in.
//! So its shape is decided by what a read costs: a get from the cache should touch a cache line of
//! the filter, a few of the index, one or two of a block's hints and the entry itself; it should
//! decode one entry, copy nothing and allocate nothing. Everything else (building, streaming,
//! checking) is laid around that.
//!
//! # Parts
//! * [`store`](TableStore): the seam behind which tables lie, with two sides: a local directory
//!   ([`LocalTableStore`]) and memory ([`MemoryTableStore`]).
//! * [`mod@format`]: the bytes, with their pictures. Pure.
//! * [`TableBuilder`] writes a table; [`TableReader`] opens one. From a reader come gets, a
//!   [`TableCursor`] for reads at one read point, a [`TableStream`] of every version for
//!   compactions, [`TableReader::named_values`], which a rewrite of value files asks in place of
//!   the entries, and [`TableReader::verify`], which checks everything there is to check.
//! * [`OutputTables`] writes a row of disjoint tables, as flushes and compactions need it; a
//!   [`TableMeta`] is what a version keeps of each.
//!
//! # Invariants
//! 1. Entries are in internal order (key ascending, newest first), each (key, number) once. The
//!    versions of one key are adjacent and may cross blocks; the index tells their places apart.
//! 2. A key that has an entry is never denied by the filter.
//! 3. Every byte of a file is under a checksum that covers the table's uid and the offset too. What
//!    was not written there by the builder of this very table is
//!    [`Corruption`](crate::Error::Corruption), and never an answer.
//! 4. A table never changes. Its uid is never used again, so that a cached block is never wrong.
//!
//! Range tombstones are stored in a table and handed out as a list; gets and cursors do not apply
//! them, since they also hide what lies in deeper tables: whoever merges tables applies them.
//!
//! Start reading at [`mod@format`], then [`TableReader::get`].

mod asking;
mod block_index;
mod block_place;
mod block_walk;
mod buffers;
mod builder;
mod compression;
mod cursor;
pub mod format;
mod heat;
mod local_store;
pub mod mashmeta;
mod memory_store;
mod meta;
mod names;
mod outputs;
mod placed;
mod reader;
mod store;
mod stream;
mod verify;

pub use crate::placement::TableLocation;
pub(crate) use block_index::BlockIndex;
pub(crate) use block_walk::BlockWalk;
pub(crate) use builder::expired_from;
pub use builder::{BuiltTable, TableBuilder, TableOptions};
pub use compression::{check_built_in, decompress_frame};
pub use cursor::TableCursor;
pub use format::filter::{Filter, FilterBits, filter_hash};
pub use format::frame::{Compression, open as decode_frame};
pub use format::properties::TableProperties;
pub use heat::{Heat, HotBlocks, KeptIn};
pub use local_store::LocalTableStore;
pub use memory_store::{MemoryTableFile, MemoryTableStore};
pub use meta::TableMeta;
pub(crate) use meta::table_meta;
pub use names::NamesBySegment;
pub use outputs::{OutputSpec, OutputTables, Sample, TableShape};
pub use placed::{BlockSeal, PlacedBlock, ReadFor};
pub use reader::{PinnedEntry, ReadMode, TableReader};
pub use store::{Adopted, ByteInterval, ReadTicket, TableFile, TableStore, TableWriter};
pub use stream::TableStream;
pub use verify::VerifyReport;

#[cfg(test)]
pub(crate) mod tests;
