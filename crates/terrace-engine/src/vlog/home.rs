//! How a value lies in its file, by what the file is made of.
//!
//! ```text
//!   written by a job    │ header of the entry │ key │ value │     checksum in the header
//!   segment of the log           … record │ … │ key │ value │     checksum in the pointer
//! ```

use terrace_base::SeqNo;

use super::ValuePointer;
use super::format::{ENTRY_HEADER_BYTES, ValueEntry, decode_entry};

/// What a value file is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueHome {
    /// Entries of values, in the order of their keys: see [`format`](super::format).
    #[default]
    File,
    /// A segment of the log that stays where it is. Its values lie in their records.
    Log,
}

impl ValueHome {
    /// Bytes in front of the key where a value lies.
    #[must_use]
    #[inline]
    pub fn front_bytes(self) -> usize {
        match self {
            ValueHome::File => ENTRY_HEADER_BYTES,
            ValueHome::Log => 0,
        }
    }

    /// Bytes that a value takes with what stands before it.
    #[must_use]
    #[inline]
    pub fn stored_bytes(self, key_bytes: usize, value_bytes: usize) -> usize {
        self.front_bytes() + key_bytes + value_bytes
    }

    /// What `stored` is, if it is all of the value that `pointer` names; else what is wrong with
    /// it. In the log the number of a value is its record's, and is 0 here.
    pub fn decode<'a>(
        self,
        stored: &'a [u8],
        pointer: &ValuePointer,
    ) -> Result<ValueEntry<'a>, &'static str> {
        if self == ValueHome::File {
            return decode_entry(stored, pointer.name).map_err(|error| error.what);
        }
        let key_bytes = stored.len().checked_sub(pointer.bytes as usize);
        match key_bytes.filter(|_| pointer.fits(stored)) {
            Some(key_bytes) => {
                let (key, value) = stored.split_at(key_bytes);
                Ok(ValueEntry { key, seqno: SeqNo::ZERO, value })
            }
            None => Err("wrong checksum of a value"),
        }
    }
}
