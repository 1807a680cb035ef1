//! Byte coding shared by every format: little-endian fixed integers and LEB128 varints.

use std::fmt;

/// Bytes that do not decode: where, counted from the start of the decoded unit, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodecError {
    /// Offset within the decoded bytes.
    pub offset: usize,
    /// What is wrong.
    pub what: &'static str,
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.offset)
    }
}

impl std::error::Error for CodecError {}

/// Appends `value` as a varint: seven bits a byte, low bits first, at most ten bytes.
#[inline]
pub fn put_varint(out: &mut impl Extend<u8>, mut value: u64) {
    while value >= 0x80 {
        out.extend([value as u8 | 0x80]);
        value >>= 7;
    }
    out.extend([value as u8]);
}

/// How many bytes [`put_varint`] appends for `value`.
#[must_use]
pub fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends a length as a varint and then the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a tagged field: `tag varint, length varint, bytes`, where the tag is
/// `2 * number + required`. A reader refuses a required field that it does not know, and skips an
/// ignorable one: see [`ByteReader::field`].
pub fn put_field(out: &mut Vec<u8>, number: u64, required: bool, value: &[u8]) {
    put_varint(out, number << 1 | u64::from(required));
    put_bytes(out, value);
}

/// Reads coded values from the front of a byte slice. Hostile input gives an error, never a
/// panic, and nothing is allocated on the word of a length field.
#[derive(Clone, Debug)]
pub struct ByteReader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> ByteReader<'a> {
    /// A reader at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> ByteReader<'a> {
        ByteReader { bytes, offset: 0 }
    }

    /// How many bytes have been read.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The bytes not yet read.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.offset..]
    }

    /// All bytes not yet read; the reader stands at the end then.
    pub fn take_rest(&mut self) -> &'a [u8] {
        let rest = self.rest();
        self.offset = self.bytes.len();
        rest
    }

    /// Whether all bytes have been read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offset == self.bytes.len()
    }

    /// An error about the place that the reader stands at.
    #[must_use]
    pub fn error(&self, what: &'static str) -> CodecError {
        CodecError { offset: self.offset, what }
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], CodecError> {
        if count > self.bytes.len() - self.offset {
            return Err(self.error("the bytes end too early"));
        }
        let taken = &self.bytes[self.offset..self.offset + count];
        self.offset += count;
        Ok(taken)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, CodecError> {
        Ok(self.take(1)?[0])
    }

    /// A little-endian 16-bit integer.
    pub fn u16(&mut self) -> Result<u16, CodecError> {
        let bytes = self.take(2)?;
        Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    /// A little-endian 32-bit integer.
    pub fn u32(&mut self) -> Result<u32, CodecError> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A little-endian 64-bit integer.
    pub fn u64(&mut self) -> Result<u64, CodecError> {
        let mut word = [0; 8];
        word.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(word))
    }

    /// A little-endian 128-bit integer.
    pub fn u128(&mut self) -> Result<u128, CodecError> {
        let mut word = [0; 16];
        word.copy_from_slice(self.take(16)?);
        Ok(u128::from_le_bytes(word))
    }

    /// A varint in its shortest form; a longer form is refused, so that a value has one coding.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, CodecError> {
        let (value, bytes) = match *self.bytes.get(self.offset..).unwrap_or_default() {
            [a, ..] if a < 0x80 => (u64::from(a), 1),
            [a, b, ..] if b < 0x80 && b != 0 => (u64::from(a & 0x7f) | u64::from(b) << 7, 2),
            _ => return self.long_varint(),
        };
        self.offset += bytes;
        Ok(value)
    }

    /// As [`ByteReader::varint`], for those that are long or wrong.
    #[cold]
    fn long_varint(&mut self) -> Result<u64, CodecError> {
        let start = self.offset;
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                if byte == 0 && shift > 0 {
                    break;
                }
                return Ok(value);
            }
        }
        Err(CodecError { offset: start, what: "not a varint in its shortest form" })
    }

    /// A varint that counts or measures something in memory.
    #[inline]
    pub fn varint_usize(&mut self) -> Result<usize, CodecError> {
        let start = self.offset;
        usize::try_from(self.varint()?)
            .map_err(|_| CodecError { offset: start, what: "a length beyond this machine" })
    }

    /// A length as a varint and that many bytes: the inverse of [`put_bytes`].
    pub fn bytes(&mut self) -> Result<&'a [u8], CodecError> {
        let count = self.varint_usize()?;
        self.take(count)
    }

    /// A tagged field: its number, whether a reader must know it, and a reader of its value. The
    /// inverse of [`put_field`].
    pub fn field(&mut self) -> Result<(u64, bool, ByteReader<'a>), CodecError> {
        let tag = self.varint()?;
        Ok((tag >> 1, tag & 1 == 1, ByteReader::new(self.bytes()?)))
    }

    /// Nothing must be left.
    pub fn finish(&self) -> Result<(), CodecError> {
        if self.is_empty() { Ok(()) } else { Err(self.error("bytes are left over")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_boundary() {
        let mut values = vec![0, 1, u64::MAX, u64::MAX - 1];
        for bit in 0..64 {
            values.extend([1u64 << bit, (1u64 << bit) - 1]);
        }
        for value in values {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_bytes(value), "{value}");
            let mut reader = ByteReader::new(&out);
            assert_eq!(reader.varint(), Ok(value));
            assert!(reader.finish().is_ok());
        }
    }

    #[test]
    fn hostile_varints_are_refused() {
        for bytes in [&[][..], &[0x80], &[0x80, 0x00], &[0xff; 10], &[0xff; 11]] {
            assert!(ByteReader::new(bytes).varint().is_err(), "{bytes:?}");
        }
        let mut ten = [0x80; 10];
        ten[9] = 2;
        assert!(ByteReader::new(&ten).varint().is_err(), "2^64 does not fit");
    }

    #[test]
    fn a_length_beyond_the_bytes_is_refused_without_reserving_it() {
        let mut out = Vec::new();
        put_varint(&mut out, u64::from(u32::MAX));
        assert!(ByteReader::new(&out).bytes().is_err());
    }
}
