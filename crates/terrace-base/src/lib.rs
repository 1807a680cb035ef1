//! The words that every layer of Terrace shares: keys and their order, sequence numbers, ids,
//! key intervals, checksums and byte coding.
//!
//! The crate is internal to Terrace: nothing in it is promised to stay.
//!
//! This crate does no I/O, starts no thread, reads no clock and allocates only for owned keys.
//! Nothing here may depend on another crate of the workspace.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!(
    "Terrace runs on 64-bit Linux only: its log and its tables are written and mapped by calls of \
     that system, and its sizes are 64-bit numbers"
);

mod calendar;
mod checksum;
mod coding;
mod corruption;
mod entry;
mod expiry;
mod hint;
mod ids;
mod key_range;
pub mod limits;
mod preamble;
mod seqno;

pub use calendar::NoWallTime;
pub use checksum::{Checksum, hash_bytes};
pub use coding::{ByteReader, CodecError, put_bytes, put_field, put_varint, varint_bytes};
pub use corruption::Corruption;
pub use entry::{Entry, EntryKind, EntryRef, compare_internal};
pub use expiry::{Expiry, WallTime};
pub use hint::{common_prefix_bytes, hint_of};
pub use ids::{
    Epoch, FileId, LEVEL_MAX, LevelNo, LogPosition, MemtableId, RangeId, RowId, TableUid,
};
pub use key_range::KeyRange;
pub use preamble::{PREAMBLE_BYTES, Preamble, PreambleError};
pub use seqno::SeqNo;
