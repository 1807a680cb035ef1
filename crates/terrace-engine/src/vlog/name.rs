//! A value's name, and the pointer that stands in its place in a table.
//!
//! ```text
//!  pointer
//!   u8         the form of what follows: 1, or 2 with a checksum
//!   varint ×2  segment: epoch, counter
//!   varint     offset in the segment
//!   varint     bytes of the value
//!   checksum 4 in form 2: of the key and the value, starting from the name
//! ```
//!
//! A value whose first home is a value file has its checksum there. One that stayed in the log has
//! none of its own beside it, since its record has one for all of them; its pointer carries it.

use std::fmt;

use terrace_base::limits::VALUE_BYTES_MAX;
use terrace_base::{ByteReader, CodecError, Epoch, FileId, put_varint};

use super::format::{FILE_BYTES_END, checksum_at};

/// A pointer to a value that has its checksum beside it.
const FORM: u8 = 1;
/// A pointer that carries the checksum.
const FORM_WITH_CHECKSUM: u8 = 2;

/// Where a value was first written, which is what it is called for ever.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueName {
    /// The segment.
    pub segment: FileId,
    /// The offset of the value's entry in it; in a log segment, of its key, behind which it lies.
    pub offset: u64,
}

impl fmt::Debug for ValueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.segment, self.offset)
    }
}

/// What a table has in the place of a large value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValuePointer {
    /// The value's name.
    pub name: ValueName,
    /// The value's length.
    pub bytes: u32,
    /// The checksum of the key and the value, if the value was first written in the log.
    pub checksum: Option<u32>,
}

impl ValuePointer {
    /// Bytes of a stored pointer at the most.
    pub const STORED_BYTES_MAX: usize = 1 + 10 + 10 + 10 + 5 + 4;

    /// The pointer to a value that lies under `name` in a log segment, behind its key.
    ///
    /// Cost: a checksum over the value.
    #[must_use]
    pub fn into_log(name: ValueName, key: &[u8], value: &[u8]) -> ValuePointer {
        let checksum = checksum_at(name).bytes(key).bytes(value).finish();
        ValuePointer { name, bytes: value.len() as u32, checksum: Some(checksum) }
    }

    /// Whether `bytes`, a key and the value behind it, are those that a pointer
    /// [into the log](ValuePointer::into_log) was made for. A pointer of the other kind fits none.
    #[must_use]
    pub fn fits(&self, bytes: &[u8]) -> bool {
        self.checksum == Some(checksum_at(self.name).bytes(bytes).finish())
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(if self.checksum.is_some() { FORM_WITH_CHECKSUM } else { FORM });
        put_varint(out, self.name.segment.epoch.0);
        put_varint(out, self.name.segment.counter);
        put_varint(out, self.name.offset);
        put_varint(out, u64::from(self.bytes));
        if let Some(checksum) = self.checksum {
            out.extend_from_slice(&checksum.to_le_bytes());
        }
    }

    /// The inverse of [`ValuePointer::encode`]: all of `stored` is one pointer.
    pub fn decode(stored: &[u8]) -> Result<ValuePointer, CodecError> {
        let mut reader = ByteReader::new(stored);
        let has_checksum = match reader.u8()? {
            FORM => false,
            FORM_WITH_CHECKSUM => true,
            _ => return Err(reader.error("not a pointer to a value")),
        };
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
        let checksum = if has_checksum { Some(reader.u32()?) } else { None };
        reader.finish()?;
        Ok(ValuePointer { name: ValueName { segment, offset }, bytes: bytes as u32, checksum })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(epoch: u64, counter: u64, offset: u64, bytes: u32) -> ValuePointer {
        let segment = FileId { epoch: Epoch(epoch), counter };
        ValuePointer { name: ValueName { segment, offset }, bytes, checksum: None }
    }

    #[test]
    fn pointers_are_read_back_and_cut_ones_are_refused() {
        let all = [
            pointer(1, 2, 64, 0),
            pointer(7, 300_000, FILE_BYTES_END - 1, VALUE_BYTES_MAX as u32),
            pointer(u64::MAX, u64::MAX, 1 << 33, 4096),
            ValuePointer { checksum: Some(u32::MAX), ..pointer(u64::MAX, u64::MAX, 1 << 43, 0) },
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
    fn both_forms_are_written_as_ever() {
        let plain = pointer(1, 300, 64, 5);
        let mut stored = Vec::new();
        plain.encode(&mut stored);
        assert_eq!(stored, [1, 1, 0xac, 2, 64, 5]);
        stored.clear();
        ValuePointer { checksum: Some(0x0403_0201), ..plain }.encode(&mut stored);
        assert_eq!(stored, [2, 1, 0xac, 2, 64, 5, 1, 2, 3, 4]);
        let made = ValuePointer::into_log(plain.name, b"key", b"value").checksum;
        assert_eq!(made, Some(3_352_815_529), "the checksum is what it was");
    }

    #[test]
    fn a_pointer_into_the_log_fits_its_key_and_value_and_no_other() {
        let name = pointer(3, 7, 4096, 0).name;
        let made = ValuePointer::into_log(name, b"key", b"a value");
        assert!(made.fits(b"keya value"));
        assert!(!made.fits(b"keya valuf") && !made.fits(b"kexa value"));
        let elsewhere = ValuePointer { name: pointer(3, 8, 4096, 0).name, ..made };
        assert!(!elsewhere.fits(b"keya value"), "the same bytes in another segment");
        assert!(!ValuePointer { checksum: None, ..made }.fits(b"keya value"));
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
