//! Bounds that hold everywhere, and are checked before a write is accepted.

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
