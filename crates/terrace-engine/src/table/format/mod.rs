//! The bytes of a table, and nothing else: pure functions between bytes and values.
//!
//! ```text
//!  0                                                                                  file bytes
//!  ┌────────┬───┬────────┬────────┬───────┬────────────┬─────────┬───┬────────────┬───────────┐
//!  │ data 0 │ … │ data n │ filter │ index │ range      │ names 0 │ … │ properties │ footer,   │
//!  │        │   │        │        │       │ tombstones │         │   │            │ 128 bytes │
//!  └────────┴───┴────────┴────────┴───────┴────────────┴─────────┴───┴────────────┴───────────┘
//!   └──────── each is a frame: payload, compression u8, checksum u32 ────────────┘
//! ```
//!
//! The parts lie back to back: no byte of the file lies outside a frame or the footer, and each
//! of those is covered by its own checksum ([`frame`], [`footer`]). Filter, range tombstones and
//! names are left out where there are none. All integers are little-endian unless their picture
//! says otherwise; a varint is LEB128 in its shortest form.
//!
//! * [`frame`]: what surrounds every block: compression and checksum.
//! * [`block`], [`block_builder`]: entries, searchable without decoding them.
//! * [`index`]: one separator a data block.
//! * [`filter`]: which keys are surely absent.
//! * [`range_tombstones`]: deleted intervals.
//! * [`names`]: which values the table points to, by segment of the value log.
//! * [`properties`]: what is known about the table as a whole.
//! * [`footer`]: where everything is, and which versions may read it.
//!
//! # Rules
//! 1. Nothing from a file is trusted: offsets and counts are checked against the bytes that are
//!    there before anything is allocated or sliced; a forged file gives an error, not a panic.
//! 2. A value has one coding: reserved bits and bytes are zero, and readers check that.
//! 3. No number on disk is ever given another meaning; see [`footer::FORMAT_VERSION`].

use std::fmt;

use terrace_base::CodecError;
use terrace_base::limits::{STORED_KEY_BYTES_MAX, VALUE_BYTES_MAX};

pub mod block;
pub mod block_builder;
pub mod filter;
pub mod footer;
pub mod frame;
pub mod index;
pub mod names;
pub mod properties;
pub mod range_tombstones;

/// The largest target size of a data block, in bytes.
pub const BLOCK_TARGET_BYTES_MAX: usize = 1024 * 1024;

/// The largest decoded data block, in bytes: a block goes beyond its target size only for a
/// single entry, so this is the largest entry and what surrounds it. Readers refuse to allocate
/// more on the word of a length field.
pub const BLOCK_BYTES_MAX: usize = VALUE_BYTES_MAX + STORED_KEY_BYTES_MAX + 1024;

/// The largest filter, index, range tombstone, list of names or properties block, in bytes. They
/// are never compressed, so that they also cannot be larger than the file that holds them.
pub const META_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Why the bytes of a table were not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// They are not what a builder wrote.
    Damaged(CodecError),
    /// They were written by a version that this one cannot read, or in a way that this program was
    /// built without. The text says what is missing.
    Unsupported(String),
}

impl From<CodecError> for FormatError {
    fn from(error: CodecError) -> FormatError {
        FormatError::Damaged(error)
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatError::Damaged(error) => error.fmt(f),
            FormatError::Unsupported(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for FormatError {}
