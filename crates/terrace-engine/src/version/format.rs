//! The bytes of the manifest, of `CURRENT`, and of version edits. All integers are little-endian.
//!
//! ```text
//! <id>.manifest
//!   header, 64 bytes
//!     0 preamble     16   magic "terrmani", version 2
//!    16 identity     16   drawn for this file; every checksum starts from it
//!    32 file id      16   epoch, counter: must match the name
//!    48 zeros        12
//!    60 checksum      4   of bytes 0..60
//!   records, each 8-byte aligned
//!     0 checksum      4   of bytes 4..length, with the identity and the record's offset
//!     4 length        4   header and edit, without the padding to the next multiple of 8
//!     8 edit
//!
//! CURRENT, 64 bytes: preamble (magic "terrcurr"), file id of the manifest 16, zeros 28, checksum 4
//! ```
//!
//! The first edit of a manifest is a snapshot; each record is synced before the next is written.
//! So only the last one can be torn, and a torn one was never installed.
//!
//! Version 2 knows what of a row is consumed (field 17 of an edit); where a manifest of version 1
//! is read, nothing is.
//!
//! What an edit consists of, `edit/` says.

use terrace_base::{
    ByteReader, Checksum, CodecError, Epoch, FileId, KeyRange, PREAMBLE_BYTES, Preamble,
    PreambleError, put_bytes, put_varint,
};

use super::edit::VersionEdit;
pub(crate) use super::edit::read_operator;
pub use super::edit::{
    decode_edit, encode_edit, put_table, put_value_file, read_table, read_value_file,
};
use crate::wal::format::POSITION_END;

/// Bytes of a manifest's header, and of `CURRENT`.
pub const HEADER_BYTES: usize = 64;
/// Bytes in front of an edit.
pub const RECORD_HEADER_BYTES: usize = 8;
/// Records start at multiples of this.
pub const RECORD_ALIGNMENT: usize = 8;

/// Ids and positions lie below: they can be counted on from, whatever a file says.
pub(super) const NUMBER_END: u64 = POSITION_END;
const MANIFEST: Preamble = Preamble { magic: *b"terrmani", version: 2 };
const CURRENT: Preamble = Preamble { magic: *b"terrcurr", version: 1 };

pub(super) fn below(reader: &mut ByteReader<'_>, end: u64) -> Result<u64, CodecError> {
    let value = reader.varint()?;
    if value < end { Ok(value) } else { Err(reader.error("a number beyond all bounds")) }
}

/// An id or a position.
pub(super) fn bounded(reader: &mut ByteReader<'_>) -> Result<u64, CodecError> {
    below(reader, NUMBER_END)
}

/// Appends a file id.
pub fn put_file_id(out: &mut Vec<u8>, id: FileId) {
    put_varint(out, id.epoch.0);
    put_varint(out, id.counter);
}

/// The inverse of [`put_file_id`].
pub fn read_file_id(reader: &mut ByteReader<'_>) -> Result<FileId, CodecError> {
    Ok(FileId { epoch: Epoch(bounded(reader)?), counter: bounded(reader)? })
}

/// Appends a key interval.
pub fn put_range(out: &mut Vec<u8>, range: &KeyRange) {
    put_bytes(out, range.start());
    out.push(u8::from(range.end().is_some()));
    put_bytes(out, range.end().unwrap_or_default());
}

/// The inverse of [`put_range`].
pub fn read_range(reader: &mut ByteReader<'_>) -> Result<KeyRange, CodecError> {
    let start = reader.bytes()?.to_vec();
    let bounded = reader.u8()?;
    let end = reader.bytes()?.to_vec();
    match bounded {
        0 if end.is_empty() => Ok(KeyRange::new(start, None)),
        1 => Ok(KeyRange::new(start, Some(end))),
        _ => Err(reader.error("not a key interval")),
    }
}

/// The stored form of a record: an edit at `offset` of the manifest with this identity, padded.
#[must_use]
pub fn encode_record(identity: u128, offset: u64, edit: &VersionEdit) -> Vec<u8> {
    let edit = encode_edit(edit);
    let length = u32::try_from(RECORD_HEADER_BYTES + edit.len()).expect("an edit of 4 GiB");
    let mut out = Vec::with_capacity(length as usize + RECORD_ALIGNMENT);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&edit);
    let checksum = Checksum::at(identity, offset).bytes(&out[4..]).finish();
    out[..4].copy_from_slice(&checksum.to_le_bytes());
    out.resize(out.len().next_multiple_of(RECORD_ALIGNMENT), 0);
    out
}

/// The record at the start of `bytes`, which is what the manifest holds from `offset` on: the
/// edit's bytes, checked, and how many bytes the record takes.
pub fn decode_record(
    bytes: &[u8],
    identity: u128,
    offset: u64,
) -> Result<(&[u8], usize), CodecError> {
    let mut reader = ByteReader::new(bytes);
    let checksum = reader.u32()?;
    let length = reader.u32()? as usize;
    if length < RECORD_HEADER_BYTES || length > bytes.len() {
        return Err(CodecError { offset: 4, what: "a record's length is out of bounds" });
    }
    if checksum != Checksum::at(identity, offset).bytes(&bytes[4..length]).finish() {
        return Err(CodecError { offset: 0, what: "wrong checksum of a version edit" });
    }
    let padded = length.next_multiple_of(RECORD_ALIGNMENT);
    let padding = bytes.get(length..padded).ok_or(reader.error("a record's padding is cut off"))?;
    if padding.iter().any(|&byte| byte != 0) {
        return Err(CodecError { offset: length, what: "a record's padding is not zero" });
    }
    Ok((&bytes[RECORD_HEADER_BYTES..length], padded))
}

fn encode_header(preamble: Preamble, identity: u128, id: FileId) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..16].copy_from_slice(&preamble.encode());
    out[16..32].copy_from_slice(&identity.to_le_bytes());
    out[32..40].copy_from_slice(&id.epoch.0.to_le_bytes());
    out[40..48].copy_from_slice(&id.counter.to_le_bytes());
    let checksum = Checksum::at(identity, 0).bytes(&out[..60]).finish();
    out[60..].copy_from_slice(&checksum.to_le_bytes());
    out
}

fn decode_header(preamble: Preamble, bytes: &[u8]) -> Result<(u128, FileId), PreambleError> {
    let mut reader = ByteReader::new(bytes);
    reader.take(PREAMBLE_BYTES)?;
    let identity = reader.u128()?;
    let id = FileId { epoch: Epoch(reader.u64()?), counter: reader.u64()? };
    let zeros = reader.take(12)?;
    if reader.u32()? != Checksum::at(identity, 0).bytes(&bytes[..60]).finish() {
        return Err(CodecError { offset: 60, what: "wrong checksum of a header" }.into());
    }
    preamble.check(&mut ByteReader::new(bytes))?;
    if zeros.iter().any(|&byte| byte != 0) {
        return Err(CodecError { offset: 48, what: "reserved bytes are not zero" }.into());
    }
    Ok((identity, id))
}

/// The header of the manifest with this id.
#[must_use]
pub fn encode_manifest_header(identity: u128, id: FileId) -> [u8; HEADER_BYTES] {
    encode_header(MANIFEST, identity, id)
}

/// The identity and the id in a manifest's header.
pub fn decode_manifest_header(bytes: &[u8]) -> Result<(u128, FileId), PreambleError> {
    decode_header(MANIFEST, bytes)
}

/// The content of `CURRENT` that names this manifest.
#[must_use]
pub fn encode_current(manifest: FileId) -> [u8; HEADER_BYTES] {
    encode_header(CURRENT, 0, manifest)
}

/// The manifest that the content of `CURRENT` names.
pub fn decode_current(bytes: &[u8]) -> Result<FileId, PreambleError> {
    let (identity, id) = decode_header(CURRENT, bytes)?;
    if identity != 0 || bytes.len() != HEADER_BYTES {
        return Err(CodecError { offset: 16, what: "not the content of CURRENT" }.into());
    }
    Ok(id)
}
