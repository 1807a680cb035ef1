//! Bounds that hold everywhere, and are checked before a write is accepted.

use crate::{EntryKind, EntryRef, SeqNo};

/// The longest key, in bytes, that a caller may write. Keys may be empty.
///
/// Layers above the engine add a short prefix (keyspace and type tag); [`STORED_KEY_BYTES_MAX`]
/// leaves room for it.
pub const KEY_BYTES_MAX: usize = 64 * 1024;

/// The longest key, in bytes, that the engine stores: a caller's key and its prefix.
pub const STORED_KEY_BYTES_MAX: usize = KEY_BYTES_MAX + 64;

/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The largest batch, in bytes of keys and values. A batch is one log record.
pub const BATCH_BYTES_MAX: usize = 2 * VALUE_BYTES_MAX;

/// The most entries of a batch. An entry takes some 320 bytes of memory beside its key and value,
/// and an empty key and value are no bytes: without this bound a batch could ask for any amount.
pub const BATCH_ENTRIES_MAX: usize = 1 << 20;

/// No range comes as far, so that a number can follow any that a file holds.
pub const SEQNO_END: SeqNo = SeqNo(u64::MAX - (1 << 32));

/// Whether no writer can have written this entry.
#[must_use]
pub fn is_beyond_bounds(entry: &EntryRef<'_>) -> bool {
    let value_bytes_max = match entry.kind {
        EntryKind::RangeTombstone => STORED_KEY_BYTES_MAX,
        _ => VALUE_BYTES_MAX,
    };
    entry.key.len() > STORED_KEY_BYTES_MAX
        || entry.value.len() > value_bytes_max
        || entry.seqno >= SEQNO_END
}
