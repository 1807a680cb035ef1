//! A value's name, and the pointer that stands in its place in a table.
//!
//! ```text
//!  pointer
//!   u8         1, the form of what follows
//!   varint ×2  segment: epoch, counter
//!   varint     offset in the segment
//!   varint     bytes of the value
//! ```

use std::fmt;

use terrace_base::limits::VALUE_BYTES_MAX;
use terrace_base::{ByteReader, CodecError, Epoch, FileId, put_varint};

use super::format::FILE_BYTES_END;

/// The only form of a pointer so far.
const FORM: u8 = 1;

/// Where a value was first written, which is what it is called for ever.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueName {
    /// The segment.
    pub segment: FileId,
    /// The offset of the value's entry in it.
    pub offset: u64,
}

impl fmt::Debug for ValueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.segment, self.offset)
    }
}

/// What a table has in the place of a large value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValuePointer {
    /// The value's name.
    pub name: ValueName,
    /// The value's length.
    pub bytes: u32,
}

impl ValuePointer {
    /// Bytes of a stored pointer at the most.
    pub const STORED_BYTES_MAX: usize = 1 + 10 + 10 + 10 + 5;

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORM);
        put_varint(out, self.name.segment.epoch.0);
        put_varint(out, self.name.segment.counter);
        put_varint(out, self.name.offset);
        put_varint(out, u64::from(self.bytes));
    }

    /// The inverse of [`ValuePointer::encode`]: all of `stored` is one pointer.
    pub fn decode(stored: &[u8]) -> Result<ValuePointer, CodecError> {
        let mut reader = ByteReader::new(stored);
        if reader.u8()? != FORM {
            return Err(reader.error("not a pointer to a value"));
        }
        let epoch = Epoch(reader.varint()?);
        let segment = FileId { epoch, counter: reader.varint()? };
        let offset = reader.varint()?;
        if offset >= FILE_BYTES_END {
            return Err(reader.error("a value's offset is beyond any file"));
        }
        let bytes = reader.varint()?;
        if bytes > VALUE_BYTES_MAX as u64 {
            return Err(reader.error("a pointer to a value beyond the longest one"));
        }
        reader.finish()?;
        Ok(ValuePointer { name: ValueName { segment, offset }, bytes: bytes as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(epoch: u64, counter: u64, offset: u64, bytes: u32) -> ValuePointer {
        let segment = FileId { epoch: Epoch(epoch), counter };
        ValuePointer { name: ValueName { segment, offset }, bytes }
    }

    #[test]
    fn pointers_are_read_back_and_cut_ones_are_refused() {
        let all = [
            pointer(1, 2, 64, 0),
            pointer(7, 300_000, FILE_BYTES_END - 1, VALUE_BYTES_MAX as u32),
            pointer(u64::MAX, u64::MAX, 1 << 33, 4096),
        ];
        for pointer in all {
            let mut stored = Vec::new();
            pointer.encode(&mut stored);
            assert!(stored.len() <= ValuePointer::STORED_BYTES_MAX);
            assert_eq!(ValuePointer::decode(&stored), Ok(pointer));
            for cut in 0..stored.len() {
                assert!(ValuePointer::decode(&stored[..cut]).is_err(), "{pointer:?} at {cut}");
            }
            stored.push(0);
            assert!(ValuePointer::decode(&stored).is_err(), "{pointer:?} and a byte more");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (offset, bytes) in [(FILE_BYTES_END, 0), (0, VALUE_BYTES_MAX as u64 + 1)] {
            let mut stored = Vec::new();
            [u64::from(FORM), 1, 2, offset, bytes]
                .into_iter()
                .for_each(|field| put_varint(&mut stored, field));
            assert!(ValuePointer::decode(&stored).is_err(), "{offset} {bytes}");
        }
    }
}
