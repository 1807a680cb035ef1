//! The bytes of a claim. All integers are little-endian.
//!
//! ```text
//! CLAIM
//!    0 preamble      16   magic "terrclam", version 1
//!   16 database      16   the checksum starts from it
//!   32 path length    4   at most 4096
//!   36 path               the real name of the range's directory, as the system spells it
//!    . checksum       4   of everything before it
//! ```
//! A claim is written under another name, synced and renamed, so a crash leaves the one of before
//! or this one.

use terrace_base::{ByteReader, Checksum, CodecError, PREAMBLE_BYTES, Preamble, PreambleError};

/// The greatest length of a path in a claim, in bytes: no system takes longer ones.
pub const PATH_BYTES_MAX: usize = 4096;

const CLAIM: Preamble = Preamble { magic: *b"terrclam", version: 1 };

/// A claim, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimBytes<'a> {
    /// The database that has data on the medium.
    pub database: u128,
    /// The directory of the range that they belong to.
    pub path: &'a [u8],
}

/// The bytes of a claim.
///
/// # Panics
/// If the path is empty or longer than [`PATH_BYTES_MAX`].
#[must_use]
pub fn encode_claim(claim: ClaimBytes<'_>) -> Vec<u8> {
    let ClaimBytes { database, path } = claim;
    assert!((1..=PATH_BYTES_MAX).contains(&path.len()), "a path of {} bytes", path.len());
    let path_bytes = u32::try_from(path.len()).expect("it is at most 4096");
    let mut out = Vec::from(CLAIM.encode());
    out.extend_from_slice(&database.to_le_bytes());
    out.extend_from_slice(&path_bytes.to_le_bytes());
    out.extend_from_slice(path);
    let checksum = Checksum::at(database, 0).bytes(&out).finish();
    out.extend_from_slice(&checksum.to_le_bytes());
    debug_assert_eq!(decode_claim(&out), Ok(claim), "what is written can be read");
    out
}

/// Takes a claim apart. Errors: its checksum is wrong, or something in it cannot be; it was written
/// by a later version.
pub fn decode_claim(bytes: &[u8]) -> Result<ClaimBytes<'_>, PreambleError> {
    let mut reader = ByteReader::new(bytes);
    reader.take(PREAMBLE_BYTES)?;
    let database = reader.u128()?;
    let path_bytes = reader.u32()? as usize;
    if !(1..=PATH_BYTES_MAX).contains(&path_bytes) {
        return Err(CodecError { offset: 32, what: "a path of this length cannot be" }.into());
    }
    let path = reader.take(path_bytes)?;
    let covered = &bytes[..reader.offset()];
    if reader.u32()? != Checksum::at(database, 0).bytes(covered).finish() {
        return Err(CodecError { offset: 0, what: "wrong checksum of a claim" }.into());
    }
    reader.finish()?;
    CLAIM.check(&mut ByteReader::new(bytes))?;
    if path.contains(&0) {
        return Err(CodecError { offset: 36, what: "a zero in a path" }.into());
    }
    Ok(ClaimBytes { database, path })
}

#[cfg(test)]
mod tests {
    //! Goal: the bytes are those of the picture, for ever, and nothing else is taken for a claim.

    use super::*;

    const PLAIN: ClaimBytes<'_> =
        ClaimBytes { database: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10, path: b"/data/db" };

    /// Written by version 1; a later program has to read it.
    const GOLDEN: [u8; 48] = [
        0x74, 0x65, 0x72, 0x72, 0x63, 0x6c, 0x61, 0x6d, 1, 0, 1, 0, 0, 0, 0, 0, // preamble
        0x10, 0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 9, 8, 7, 6, 5, 4, 3, 2, 1, // database
        8, 0, 0, 0, b'/', b'd', b'a', b't', b'a', b'/', b'd', b'b', // path
        0xf1, 0x8a, 0x6b, 0xfd, // checksum
    ];

    #[test]
    fn a_claim_is_the_golden_one() {
        assert_eq!(encode_claim(PLAIN), GOLDEN);
        assert_eq!(decode_claim(&GOLDEN), Ok(PLAIN));
    }

    #[test]
    fn a_claim_that_is_cut_or_changed_is_refused() {
        let whole = encode_claim(PLAIN);
        for length in 0..whole.len() {
            assert!(decode_claim(&whole[..length]).is_err(), "{length}");
        }
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_claim(&changed).is_err(), "{bit}");
        }
        let longer = [whole.as_slice(), &[0]].concat();
        assert!(decode_claim(&longer).is_err());
    }

    #[test]
    fn a_claim_of_a_later_version_is_unsupported() {
        let mut later = encode_claim(PLAIN);
        later[8] = 2;
        later[10] = 2;
        let end = later.len() - 4;
        let checksum = Checksum::at(PLAIN.database, 0).bytes(&later[..end]).finish();
        later[end..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(decode_claim(&later), Err(PreambleError::Unsupported));
    }
}
