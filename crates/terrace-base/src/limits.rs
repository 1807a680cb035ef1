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

/// The largest sequence number that a write gets. A larger one in a file is damage: what may still
/// be written after it would not fit into 64 bits.
pub const SEQNO_MAX: u64 = u64::MAX - (1 << 56);

/// The largest position in a log at which a segment may begin. A larger one in a file is damage.
pub const LOG_POSITION_MAX: u64 = 1 << 62;

/// The largest epoch, and the largest id of a row. A larger one in a file is damage.
pub const ID_MAX: u64 = 1 << 62;

/// The most bytes, and the most entries, that one table is believed to have: so that sums over all
/// tables fit into 64 bits, whatever a file says.
pub const TABLE_BYTES_MAX: u64 = 1 << 44;
