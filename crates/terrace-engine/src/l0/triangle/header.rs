//! The first page of the container: whose it is, and how large its pages are.
//!
//! ```text
//!  0  preamble             16   magic "terr.tri"
//! 16  u128  the database
//! 32  u64   bytes of a page: a power of two, 4096 to 2^20
//! 40  u64   bytes of the container: a multiple of them
//! 48  u32   zero
//! 52  u32   checksum over the database, offset 0, and bytes 0 to 52
//! 56        zeros, up to the end of the page
//! ```
//!
//! Written once, when the container is created; all else in it is rows.

use terrace_base::{ByteReader, Checksum, CodecError, PREAMBLE_BYTES, Preamble, PreambleError};

/// How many bytes the header has.
pub const HEADER_BYTES: usize = 56;
/// The smallest page.
pub const PAGE_BYTES_MIN: u64 = 4096;
/// The largest page.
pub const PAGE_BYTES_MAX: u64 = 1 << 20;

const PREAMBLE: Preamble = Preamble { magic: *b"terr.tri", version: 1 };
const COVERED_BYTES: usize = HEADER_BYTES - 4;

/// What the first page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The database that the container belongs to.
    pub database: u128,
    /// The size of a page.
    pub page_bytes: u64,
    /// The size of the container.
    pub bytes: u64,
}

impl Header {
    /// Whether pages of this size can be.
    #[must_use]
    pub fn is_page_size(page_bytes: u64) -> bool {
        page_bytes.is_power_of_two() && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes)
    }

    /// The stored form.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..PREAMBLE_BYTES].copy_from_slice(&PREAMBLE.encode());
        out[16..32].copy_from_slice(&self.database.to_le_bytes());
        out[32..40].copy_from_slice(&self.page_bytes.to_le_bytes());
        out[40..48].copy_from_slice(&self.bytes.to_le_bytes());
        let checksum = Checksum::at(self.database, 0).bytes(&out[..COVERED_BYTES]).finish();
        out[COVERED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Decodes the header of a container that has `file_bytes` bytes.
    pub fn decode(bytes: &[u8], file_bytes: u64) -> Result<Header, PreambleError> {
        let mut reader = ByteReader::new(bytes);
        let covered = reader.take(COVERED_BYTES)?;
        let stored = reader.u32()?;
        let mut reader = ByteReader::new(covered);
        let mut skipped = ByteReader::new(covered);
        skipped.take(PREAMBLE_BYTES)?;
        let database = skipped.u128()?;
        if stored != Checksum::at(database, 0).bytes(covered).finish() {
            return Err(error(COVERED_BYTES, "the checksum of the header does not fit").into());
        }
        PREAMBLE.check(&mut reader)?;
        let header = Header { database, page_bytes: skipped.u64()?, bytes: skipped.u64()? };
        if !Header::is_page_size(header.page_bytes) {
            return Err(error(32, "a page size that cannot be").into());
        }
        if header.bytes != file_bytes || !header.bytes.is_multiple_of(header.page_bytes) {
            return Err(error(40, "the container does not have the size it was made with").into());
        }
        if skipped.u32()? != 0 {
            return Err(error(48, "reserved bytes are not zero").into());
        }
        Ok(header)
    }
}

fn error(offset: usize, what: &'static str) -> CodecError {
    CodecError { offset, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header { database: 77, page_bytes: 4096, bytes: 1 << 20 };

    #[test]
    fn a_header_round_trips_and_every_flipped_bit_is_damage() {
        let bytes = HEADER.encode();
        assert_eq!(Header::decode(&bytes, 1 << 20), Ok(HEADER));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let outcome = Header::decode(&flipped, 1 << 20);
            assert!(matches!(outcome, Err(PreambleError::Codec(_))), "bit {bit}: {outcome:?}");
        }
        for length in 0..bytes.len() {
            assert!(Header::decode(&bytes[..length], 1 << 20).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        assert!(Header::decode(&HEADER.encode(), 1 << 21).is_err());
        for page_bytes in [0, 2048, 4097, 12288, 1 << 21] {
            let header = Header { page_bytes, ..HEADER };
            assert!(Header::decode(&header.encode(), 1 << 20).is_err(), "{page_bytes}");
        }
        let header = Header { bytes: 4097, ..HEADER };
        assert!(Header::decode(&header.encode(), 4097).is_err());
    }

    #[test]
    fn a_later_version_is_unsupported() {
        let mut bytes = HEADER.encode();
        bytes[10] = 9;
        let checksum = Checksum::at(77, 0).bytes(&bytes[..COVERED_BYTES]).finish();
        bytes[COVERED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Header::decode(&bytes, 1 << 20), Err(PreambleError::Unsupported));
    }
}
