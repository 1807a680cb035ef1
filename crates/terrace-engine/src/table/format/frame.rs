//! What surrounds every block of a table.
//!
//! ```text
//!  ┌──────────────────┬────────────────┬──────────────┐
//!  │ payload, n bytes │ compression u8 │ checksum u32 │
//!  └──────────────────┴────────────────┴──────────────┘
//! ```
//!
//! The checksum is CRC-32C over the table's uid, the offset of the frame in the file, the payload
//! and the compression byte, so that a frame from another place or another table fails.
//!
//! With compression 0 the payload is the block itself. Otherwise it is the size of the decoded
//! block (u32) and the compressed bytes. The checksum is verified before anything is decoded.

use std::fmt;
use std::str::FromStr;

use terrace_base::{ByteReader, Checksum, CodecError, TableUid};

/// How many bytes a frame adds to its payload.
pub const TRAILER_BYTES: usize = 5;

/// How a block is compressed. The values are persistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    None = 0,
    /// LZ4 block format: fast both ways.
    Lz4 = 1,
    /// Zstandard: smaller, several times slower.
    Zstd = 2,
}

impl Compression {
    /// The compression with this stored byte.
    #[must_use]
    pub fn from_stored(byte: u8) -> Option<Compression> {
        Some(match byte {
            0 => Compression::None,
            1 => Compression::Lz4,
            2 => Compression::Zstd,
            _ => return None,
        })
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        })
    }
}

impl FromStr for Compression {
    type Err = String;

    fn from_str(text: &str) -> Result<Compression, String> {
        match text {
            "none" => Ok(Compression::None),
            "lz4" => Ok(Compression::Lz4),
            "zstd" => Ok(Compression::Zstd),
            _ => Err(format!("\"{text}\" is no compression: use none, lz4 or zstd")),
        }
    }
}

/// Closes the frame whose payload is `out[payload_start..]` and which will lie at `offset` of the
/// file.
pub fn seal(
    out: &mut Vec<u8>,
    payload_start: usize,
    compression: Compression,
    uid: TableUid,
    offset: u64,
) {
    out.push(compression as u8);
    let checksum = Checksum::at(uid.0, offset).bytes(&out[payload_start..]).finish();
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// Verifies the frame that was read at `offset` and returns its payload, still compressed.
///
/// Errors: the frame is too short, its checksum does not fit, its compression is unknown.
pub fn open(frame: &[u8], uid: TableUid, offset: u64) -> Result<(Compression, &[u8]), CodecError> {
    let error = |what| CodecError { offset: 0, what };
    let Some((covered, stored)) = frame.split_last_chunk::<4>() else {
        return Err(error("a block shorter than its checksum"));
    };
    if Checksum::at(uid.0, offset).bytes(covered).finish() != u32::from_le_bytes(*stored) {
        return Err(error("the checksum of a block does not fit"));
    }
    let Some((&compression, payload)) = covered.split_last() else {
        return Err(error("a block without its compression byte"));
    };
    match Compression::from_stored(compression) {
        Some(compression) => Ok((compression, payload)),
        None => Err(error("an unknown compression")),
    }
}

/// The payload of a frame that must not be compressed.
pub fn open_plain(frame: &[u8], uid: TableUid, offset: u64) -> Result<&[u8], CodecError> {
    match open(frame, uid, offset)? {
        (Compression::None, payload) => Ok(payload),
        _ => Err(CodecError { offset: 0, what: "a block that must not be compressed is" }),
    }
}

/// Splits a compressed payload into the size of the decoded block, at most `bytes_max`, and the
/// compressed bytes.
pub fn split_compressed(payload: &[u8], bytes_max: usize) -> Result<(usize, &[u8]), CodecError> {
    let mut reader = ByteReader::new(payload);
    let decoded_bytes = reader.u32()? as usize;
    if decoded_bytes > bytes_max {
        return Err(CodecError { offset: 0, what: "a decoded size beyond the bound" });
    }
    Ok((decoded_bytes, reader.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: TableUid = TableUid(77);

    #[test]
    fn a_frame_opens_only_where_it_was_written() {
        let mut out = b"before".to_vec();
        let start = out.len();
        out.extend_from_slice(b"payload");
        seal(&mut out, start, Compression::Lz4, UID, 4096);
        let frame = &out[start..];
        assert_eq!(frame.len(), 7 + TRAILER_BYTES);
        assert_eq!(open(frame, UID, 4096), Ok((Compression::Lz4, &b"payload"[..])));
        assert!(open(frame, UID, 4097).is_err(), "another offset");
        assert!(open(frame, TableUid(78), 4096).is_err(), "another table");
        assert!(open_plain(frame, UID, 4096).is_err(), "compressed");
        for bytes in 0..frame.len() {
            assert!(open(&frame[..bytes], UID, 4096).is_err(), "cut to {bytes}");
        }
        for bit in 0..frame.len() * 8 {
            let mut flipped = frame.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&flipped, UID, 4096).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn an_unknown_compression_is_refused() {
        let mut out = vec![1, 2, 3, 9];
        let checksum = Checksum::at(UID.0, 0).bytes(&out).finish();
        out.extend_from_slice(&checksum.to_le_bytes());
        assert_eq!(open(&out, UID, 0).unwrap_err().what, "an unknown compression");
    }

    #[test]
    fn a_decoded_size_beyond_the_bound_is_refused() {
        let payload = [0xff, 0xff, 0xff, 0xff, 1, 2, 3];
        assert!(split_compressed(&payload, 1 << 20).is_err());
        assert_eq!(split_compressed(&[3, 0, 0, 0, 9], 3), Ok((3, &[9][..])));
        assert!(split_compressed(&[3, 0, 0], 3).is_err());
    }
}
