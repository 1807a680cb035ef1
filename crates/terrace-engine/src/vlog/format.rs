//! The bytes of a value file. All integers are little-endian.
//!
//! ```text
//! header, 64 bytes
//!    0 preamble      16   magic "terrvals", version 1
//!   16 uid           16   drawn for this file; the checksums of what is not an entry start from it
//!   32 file id       16   epoch, counter: must match the name
//!   48 zeros         12
//!   60 checksum       4   of bytes 0..60
//!
//! entries, back to back
//!    0 checksum       4   of bytes 4..28, key and value, starting from the value's name
//!    4 key bytes      4
//!    8 value bytes    4
//!   12 number         8   the entry's sequence number; 0 for an ingested one
//!   20 offset         8   of the value's name
//!   28 segment        4   of the value's name, as its place in the directory
//!   32 key, value
//!
//! places, only in a file that was rewritten: for each segment of the directory its frames
//!   frame             up to 256 records, and a checksum (4) of them
//!     record          offset of the name 8, place in this file 8; offsets ascend in a segment
//!
//! directory
//!   varint            count of segments, ascending; for each:
//!     varint ×2       epoch, counter
//!     varint ×2       count of entries, bytes of entries
//!     varint ×n       in a rewritten file: the first offset of each frame
//!   checksum       4
//!
//! footer, 64 bytes
//!    0 uid           16
//!   16 file bytes     8   the footer included
//!   24 entries end    8   where the places begin, or the directory
//!   32 directory      8   its offset; it ends where the footer begins
//!   40 is rewritten   1   whether there are places
//!   41 zeros         19
//!   60 checksum       4   of bytes 0..60
//! ```
//!
//! The checksum of an entry does not depend on where it stands, so that a rewrite copies it as it
//! is, but for the last word of its header: that is not covered, and a wrong one makes a wrong
//! name, which does not pass. A rewritten file may hold a segment of which no value is left.

use terrace_base::limits::{SEQNO_END, STORED_KEY_BYTES_MAX, VALUE_BYTES_MAX};
use terrace_base::{
    ByteReader, Checksum, CodecError, Epoch, FileId, PREAMBLE_BYTES, Preamble, PreambleError,
    SeqNo, TableUid, put_varint,
};

use super::name::ValueName;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 64;
/// Bytes in front of an entry's key.
pub const ENTRY_HEADER_BYTES: usize = 32;
/// Bytes of the footer.
pub const FOOTER_BYTES: usize = 64;
/// Records of a frame of places at the most.
pub const RECORDS_PER_FRAME: usize = 256;
/// Bytes of a record of the places.
pub const RECORD_BYTES: usize = 16;
/// Bytes of a checksum behind a frame or the directory.
pub const CHECKSUM_BYTES: usize = 4;
/// No file becomes as long, so that sizes can be added up whatever a file says.
pub const FILE_BYTES_END: u64 = 1 << 44;

const PREAMBLE: Preamble = Preamble { magic: *b"terrvals", version: 1 };
/// Where the checksum of an entry begins to cover, and where the header's covered part ends.
const COVERED_FROM: usize = 4;
const SEGMENT_AT: usize = 28;

/// Bytes that a value takes in a value file.
#[must_use]
#[inline]
pub fn entry_bytes(key_bytes: usize, value_bytes: usize) -> u64 {
    (ENTRY_HEADER_BYTES + key_bytes + value_bytes) as u64
}

/// The header of the file with this id.
#[must_use]
pub fn encode_header(uid: TableUid, id: FileId) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..16].copy_from_slice(&PREAMBLE.encode());
    out[16..32].copy_from_slice(&uid.0.to_le_bytes());
    out[32..40].copy_from_slice(&id.epoch.0.to_le_bytes());
    out[40..48].copy_from_slice(&id.counter.to_le_bytes());
    let checksum = Checksum::at(uid.0, 0).bytes(&out[..60]).finish();
    out[60..].copy_from_slice(&checksum.to_le_bytes());
    out
}

/// The uid and the id in a header.
pub fn decode_header(bytes: &[u8]) -> Result<(TableUid, FileId), PreambleError> {
    let mut reader = ByteReader::new(bytes);
    reader.take(PREAMBLE_BYTES)?;
    let uid = TableUid(reader.u128()?);
    let id = FileId { epoch: Epoch(reader.u64()?), counter: reader.u64()? };
    let zeros = reader.take(12)?;
    if reader.u32()? != Checksum::at(uid.0, 0).bytes(&bytes[..60]).finish() {
        return Err(
            CodecError { offset: 60, what: "wrong checksum of a value file's header" }.into()
        );
    }
    PREAMBLE.check(&mut ByteReader::new(bytes))?;
    if zeros.iter().any(|&byte| byte != 0) {
        return Err(CodecError { offset: 48, what: "reserved bytes are not zero" }.into());
    }
    Ok((uid, id))
}

/// One value with all that stands beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueEntry<'a> {
    /// The key that the value was written under.
    pub key: &'a [u8],
    /// The number of the write; zero of an ingested one.
    pub seqno: SeqNo,
    /// The value.
    pub value: &'a [u8],
}

/// What the header of an entry says; it is not checked before the entry is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHeader {
    /// Of the key and the value.
    checksum: u32,
    /// Bytes of the key.
    pub key_bytes: usize,
    /// Bytes of the value.
    pub value_bytes: usize,
    seqno: SeqNo,
    /// Of the value's name.
    pub offset: u64,
    /// Which segment of the directory the name is in.
    pub segment: u32,
}

impl EntryHeader {
    /// Reads the header of an entry, of which nothing is known yet. Errors: a length, a number or
    /// an offset is out of bounds.
    pub fn decode(bytes: &[u8]) -> Result<EntryHeader, CodecError> {
        let mut reader = ByteReader::new(bytes);
        let checksum = reader.u32()?;
        let key_bytes = reader.u32()? as usize;
        let value_bytes = reader.u32()? as usize;
        let seqno = SeqNo(reader.u64()?);
        let offset = reader.u64()?;
        let segment = reader.u32()?;
        if key_bytes > STORED_KEY_BYTES_MAX || value_bytes > VALUE_BYTES_MAX {
            return Err(CodecError { offset: 4, what: "a length of a value's entry is too great" });
        }
        if seqno >= SEQNO_END || offset >= FILE_BYTES_END {
            return Err(CodecError {
                offset: 12,
                what: "a number of a value's entry is too great",
            });
        }
        Ok(EntryHeader { checksum, key_bytes, value_bytes, seqno, offset, segment })
    }

    /// Bytes of the whole entry.
    #[must_use]
    pub fn entry_bytes(&self) -> u64 {
        entry_bytes(self.key_bytes, self.value_bytes)
    }
}

pub(super) fn checksum_at(name: ValueName) -> Checksum {
    let ValueName { segment, offset } = name;
    let identity = u128::from(segment.epoch.0) << 64 | u128::from(segment.counter);
    Checksum::at(identity, offset)
}

/// Appends an entry. `segment`: which one of the directory the name is in.
pub fn put_entry(out: &mut Vec<u8>, name: ValueName, segment: u32, entry: &ValueEntry<'_>) {
    let mut header = [0; ENTRY_HEADER_BYTES];
    header[4..8].copy_from_slice(&(entry.key.len() as u32).to_le_bytes());
    header[8..12].copy_from_slice(&(entry.value.len() as u32).to_le_bytes());
    header[12..20].copy_from_slice(&entry.seqno.0.to_le_bytes());
    header[20..28].copy_from_slice(&name.offset.to_le_bytes());
    header[SEGMENT_AT..].copy_from_slice(&segment.to_le_bytes());
    let covered = &header[COVERED_FROM..SEGMENT_AT];
    let checksum = checksum_at(name).bytes(covered).bytes(entry.key).bytes(entry.value).finish();
    header[..4].copy_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(entry.key);
    out.extend_from_slice(entry.value);
}

/// The entry that all of `bytes` are, if it is that of the value with this name.
pub fn decode_entry(bytes: &[u8], name: ValueName) -> Result<ValueEntry<'_>, CodecError> {
    let header = EntryHeader::decode(bytes)?;
    if header.entry_bytes() != bytes.len() as u64 {
        return Err(CodecError { offset: 4, what: "a value's entry has another length" });
    }
    let covered = checksum_at(name).bytes(&bytes[COVERED_FROM..SEGMENT_AT]);
    if header.checksum != covered.bytes(&bytes[ENTRY_HEADER_BYTES..]).finish() {
        return Err(CodecError { offset: 0, what: "wrong checksum of a value" });
    }
    let (key, value) = bytes[ENTRY_HEADER_BYTES..].split_at(header.key_bytes);
    Ok(ValueEntry { key, seqno: header.seqno, value })
}

/// The stored form of a frame of places at `offset` of the file.
#[must_use]
pub fn encode_frame(uid: TableUid, offset: u64, records: &[(u64, u64)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(records.len() * RECORD_BYTES + CHECKSUM_BYTES);
    for (name_offset, place) in records {
        out.extend_from_slice(&name_offset.to_le_bytes());
        out.extend_from_slice(&place.to_le_bytes());
    }
    seal(&mut out, uid, offset);
    out
}

/// Bytes of a frame with this number of records.
#[must_use]
pub fn frame_bytes(records: usize) -> usize {
    records * RECORD_BYTES + CHECKSUM_BYTES
}

/// Checks a frame that was read at `offset`; its records.
pub fn check_frame(bytes: &[u8], uid: TableUid, offset: u64) -> Result<&[u8], CodecError> {
    let records = check_sealed(bytes, uid, offset, "wrong checksum of the places of values")?;
    match records.len().is_multiple_of(RECORD_BYTES) {
        true => Ok(records),
        false => Err(CodecError { offset: 0, what: "a record of a value's place is cut" }),
    }
}

/// The place of the value with this offset in its name, by the checked records of a frame.
#[must_use]
pub fn place_in(records: &[u8], name_offset: u64) -> Option<u64> {
    let (records, _) = records.as_chunks::<RECORD_BYTES>();
    let found = records.binary_search_by_key(&name_offset, |record| record_in(record).0).ok()?;
    Some(record_in(&records[found]).1)
}

/// A record of the checked ones of a frame: the offset of a name, and the place.
#[must_use]
pub fn record_at(records: &[u8], index: usize) -> Option<(u64, u64)> {
    records.as_chunks::<RECORD_BYTES>().0.get(index).map(record_in)
}

fn record_in(record: &[u8; RECORD_BYTES]) -> (u64, u64) {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&record[at..at + 8]);
        u64::from_le_bytes(word)
    };
    (word(0), word(8))
}

fn seal(out: &mut Vec<u8>, uid: TableUid, offset: u64) {
    let checksum = Checksum::at(uid.0, offset).bytes(out).finish();
    out.extend_from_slice(&checksum.to_le_bytes());
}

fn check_sealed<'a>(
    bytes: &'a [u8],
    uid: TableUid,
    offset: u64,
    what: &'static str,
) -> Result<&'a [u8], CodecError> {
    let Some((covered, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(CodecError { offset: 0, what: "the bytes end too early" });
    };
    let wanted = Checksum::at(uid.0, offset).bytes(covered).finish();
    if u32::from_le_bytes(*checksum) == wanted {
        Ok(covered)
    } else {
        Err(CodecError { offset: covered.len(), what })
    }
}

/// What the directory of a value file says of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectorySegment {
    /// The segment.
    pub id: FileId,
    /// Count of its values in the file.
    pub count: u64,
    /// Bytes of their entries.
    pub bytes: u64,
    /// In a rewritten file: the first offset of each frame of places.
    pub fences: Vec<u64>,
}

impl DirectorySegment {
    /// Bytes of its frames of places.
    #[must_use]
    pub fn places_bytes(&self) -> u64 {
        self.count * RECORD_BYTES as u64 + (self.fences.len() * CHECKSUM_BYTES) as u64
    }
}

/// The stored form of the directory at `offset` of the file.
#[must_use]
pub fn encode_directory(uid: TableUid, offset: u64, segments: &[DirectorySegment]) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + segments.len() * 32);
    put_varint(&mut out, segments.len() as u64);
    for segment in segments {
        put_varint(&mut out, segment.id.epoch.0);
        put_varint(&mut out, segment.id.counter);
        put_varint(&mut out, segment.count);
        put_varint(&mut out, segment.bytes);
        segment.fences.iter().for_each(|fence| put_varint(&mut out, *fence));
    }
    seal(&mut out, uid, offset);
    out
}

/// The inverse of [`encode_directory`]. Allocates in proportion to the bytes.
pub fn decode_directory(
    bytes: &[u8],
    uid: TableUid,
    offset: u64,
    is_rewritten: bool,
) -> Result<Vec<DirectorySegment>, CodecError> {
    let covered = check_sealed(bytes, uid, offset, "wrong checksum of a value file's directory")?;
    let mut reader = ByteReader::new(covered);
    let count = reader.varint_usize()?;
    let mut segments: Vec<DirectorySegment> = Vec::new();
    for _ in 0..count {
        let id = FileId { epoch: Epoch(reader.varint()?), counter: reader.varint()? };
        let (count, bytes) = (reader.varint()?, reader.varint()?);
        let ascends = segments.last().is_none_or(|last| last.id < id);
        if !ascends || bytes >= FILE_BYTES_END || count > bytes || (count == 0) != (bytes == 0) {
            return Err(reader.error("a segment of a value file that cannot be"));
        }
        let frames = if is_rewritten { count.div_ceil(RECORDS_PER_FRAME as u64) } else { 0 };
        let mut fences: Vec<u64> = Vec::new();
        for _ in 0..frames {
            let fence = reader.varint()?;
            if fences.last().is_some_and(|last| *last >= fence) {
                return Err(reader.error("places of values are out of order"));
            }
            fences.push(fence);
        }
        segments.push(DirectorySegment { id, count, bytes, fences });
    }
    reader.finish()?;
    if segments.is_empty() || !is_rewritten && segments.len() > 1 {
        return Err(reader.error("a value file has another count of segments"));
    }
    Ok(segments)
}

/// The end of a value file: where everything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The file's identity.
    pub uid: TableUid,
    /// Bytes of the whole file.
    pub file_bytes: u64,
    /// Where the entries end.
    pub entries_end: u64,
    /// Where the directory begins; it ends where the footer begins.
    pub directory: u64,
    /// Whether values were moved here, so that there are places.
    pub is_rewritten: bool,
}

impl Footer {
    /// Where the footer begins.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.file_bytes - FOOTER_BYTES as u64
    }

    /// The stored form.
    #[must_use]
    pub fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut out = [0; FOOTER_BYTES];
        out[..16].copy_from_slice(&self.uid.0.to_le_bytes());
        out[16..24].copy_from_slice(&self.file_bytes.to_le_bytes());
        out[24..32].copy_from_slice(&self.entries_end.to_le_bytes());
        out[32..40].copy_from_slice(&self.directory.to_le_bytes());
        out[40] = u8::from(self.is_rewritten);
        let checksum = Checksum::at(self.uid.0, self.offset()).bytes(&out[..60]).finish();
        out[60..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Reads the footer of a file of `file_bytes` bytes.
    pub fn decode(bytes: &[u8; FOOTER_BYTES], file_bytes: u64) -> Result<Footer, CodecError> {
        let mut reader = ByteReader::new(bytes);
        let uid = TableUid(reader.u128()?);
        let footer = Footer {
            uid,
            file_bytes: reader.u64()?,
            entries_end: reader.u64()?,
            directory: reader.u64()?,
            is_rewritten: match reader.u8()? {
                0 => false,
                1 => true,
                _ => return Err(reader.error("neither as written nor rewritten")),
            },
        };
        let offset = file_bytes.saturating_sub(FOOTER_BYTES as u64);
        let zeros = reader.take(19)?;
        if reader.u32()? != Checksum::at(uid.0, offset).bytes(&bytes[..60]).finish() {
            return Err(CodecError { offset: 60, what: "wrong checksum of a value file's footer" });
        }
        let is_in_order = HEADER_BYTES as u64 <= footer.entries_end
            && footer.entries_end <= footer.directory
            && footer.directory <= offset
            && footer.file_bytes == file_bytes
            && file_bytes < FILE_BYTES_END;
        if !is_in_order || zeros.iter().any(|&byte| byte != 0) {
            return Err(CodecError { offset: 16, what: "parts of a value file that cannot be" });
        }
        Ok(footer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: TableUid = TableUid(0x1234);

    fn segment(counter: u64) -> FileId {
        FileId { epoch: Epoch(1), counter }
    }

    fn name(counter: u64, offset: u64) -> ValueName {
        ValueName { segment: segment(counter), offset }
    }

    fn entry() -> ValueEntry<'static> {
        ValueEntry { key: b"key", seqno: SeqNo(7), value: b"a value that is large" }
    }

    #[test]
    fn an_entry_passes_under_its_own_name_only() {
        let mut stored = Vec::new();
        put_entry(&mut stored, name(3, 64), 0, &entry());
        assert_eq!(decode_entry(&stored, name(3, 64)), Ok(entry()));
        for other in [name(4, 64), name(3, 65)] {
            assert!(decode_entry(&stored, other).is_err(), "{other:?}");
        }
        for at in (0..stored.len()).filter(|at| !(SEGMENT_AT..ENTRY_HEADER_BYTES).contains(at)) {
            stored[at] ^= 1;
            assert!(decode_entry(&stored, name(3, 64)).is_err(), "byte {at}");
            stored[at] ^= 1;
        }
        for bytes in 0..stored.len() {
            assert!(decode_entry(&stored[..bytes], name(3, 64)).is_err(), "{bytes} bytes");
        }
    }

    #[test]
    fn places_are_found_and_others_are_not() {
        let records: Vec<(u64, u64)> = (0..200).map(|index| (index * 10 + 64, index * 7)).collect();
        let mut stored = encode_frame(UID, 4096, &records);
        assert_eq!(stored.len(), frame_bytes(200));
        let checked = check_frame(&stored, UID, 4096).expect("it is whole");
        for (offset, place) in records {
            assert_eq!(place_in(checked, offset), Some(place));
            assert_eq!(place_in(checked, offset + 1), None);
        }
        assert!(check_frame(&stored, UID, 4097).is_err());
        stored[17] ^= 1;
        assert!(check_frame(&stored, UID, 4096).is_err());
    }

    fn directory(is_rewritten: bool) -> Vec<DirectorySegment> {
        let fences =
            |count| if is_rewritten { (0..count).map(|at| at * 5).collect() } else { vec![] };
        let all = [
            DirectorySegment { id: segment(1), count: 300, bytes: 90_000, fences: fences(2) },
            DirectorySegment { id: segment(9), count: 1, bytes: 40, fences: fences(1) },
        ];
        all.into_iter().take(if is_rewritten { 2 } else { 1 }).collect()
    }

    #[test]
    fn header_directory_and_footer_are_read_back_and_damage_is_seen() {
        for is_rewritten in [false, true] {
            let segments = directory(is_rewritten);
            let mut stored = encode_directory(UID, 100, &segments);
            assert_eq!(decode_directory(&stored, UID, 100, is_rewritten), Ok(segments));
            assert!(decode_directory(&stored, UID, 100, !is_rewritten).is_err());
            for at in 0..stored.len() {
                stored[at] ^= 1;
                assert!(decode_directory(&stored, UID, 100, is_rewritten).is_err(), "byte {at}");
                stored[at] ^= 1;
            }
            let footer = Footer {
                uid: UID,
                file_bytes: 1000,
                entries_end: 500,
                directory: 600,
                is_rewritten,
            };
            let mut stored = footer.encode();
            assert_eq!(Footer::decode(&stored, 1000), Ok(footer));
            assert!(Footer::decode(&stored, 1001).is_err());
            for at in 0..stored.len() {
                stored[at] ^= 1;
                assert!(Footer::decode(&stored, 1000).is_err(), "byte {at}");
                stored[at] ^= 1;
            }
        }
        let mut stored = encode_header(UID, segment(3));
        assert_eq!(decode_header(&stored), Ok((UID, segment(3))));
        for at in 0..stored.len() {
            stored[at] ^= 1;
            assert!(decode_header(&stored).is_err(), "byte {at}");
            stored[at] ^= 1;
        }
    }
}
