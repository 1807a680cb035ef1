//! The bytes of a log segment.
//!
//! A segment is a preallocated file: a header, then records back to back, then whatever the file
//! held before (zeros, or the records of the segment that it was recycled from). All integers are
//! little-endian.
//!
//! ```text
//! header, 128 bytes at offset 0, and once more in the last 128 bytes of the file
//!   0 preamble        16   magic "terrlog\0", version 1; 2 if `durable` is not 0
//!  16 identity        16   drawn for this use of the file; every checksum starts from it
//!  32 file id         16   epoch, counter: must match the name
//!  48 predecessor     16   epoch, counter of the segment before this one; zeros for the first
//!  64 base position    8   position of the first record
//!  72 database        16   the database that the segment belongs to
//!  88 segment bytes    8   of the whole file; in the first header of one that was cut, before that
//!  96 durable          8   the log was durable below this position before this header; mostly 0
//! 104 zeros           20
//! 124 checksum         4   of bytes 0..124
//!
//! record, 8-byte aligned; offset and position differ by a constant of the segment
//!   0 checksum         4   of bytes 4..length
//!   4 length           4   header and body, without the padding to the next multiple of 8
//!   8 first number     8   of the first entry; the others follow (see `same number`)
//!  16 durable          8   the log was known to be durable below this position
//!  24 numbers          4   how many sequence numbers the record takes
//!  28 entries          2   low half of the count of entries in it, as a check on the body
//!  30 kind             1   1 batch, 2 closing
//!  31 zero             1
//!  32 body
//!
//! body of a batch
//!   memtables    varint count, then for each: varint epoch, varint counter
//!   places       with more than one memtable: for each entry, one byte naming its memtable
//!   entries      until the end of the body:
//!     kind       low 4 bits: EntryKind; 0x10: has an expiry; 0x20: shares the number of the
//!                entry before it (a range tombstone clipped to several dranges)
//!     expiry     varint, if flagged
//!     key        varint length; then the value's varint length; then the key's bytes
//!     value      the value's bytes
//!
//! body of a closing record: manifest epoch 8, manifest counter 8, manifest bytes 8
//! ```
//!
//! A checksum starts from the segment's identity and the record's offset, so a record that an
//! earlier use of the file left behind, or that was written to the wrong place, does not pass. The
//! same holds for the two headers. Without the identity no record can be told from what an earlier
//! use left behind, so the header stands twice, far apart: damage to one loses nothing.
//!
//! **Cut.** A segment that is cut off behind its last record gets a second header there first,
//! which names the new size of the file; the first header goes on naming the old one. A file that
//! is shorter than its first header says and does not end in such a header has lost a part.
//!
//! Not under any checksum, and never looked at: the padding behind a record, and what stands
//! behind the last record up to the second header.
//!
//! **Tail.** Reading stops at the first offset where no record passes. If some record that does
//! pass says that the log was durable beyond that place, the damage is corruption; else it is a
//! tail that a crash tore, and it never held anything that was promised to last.

use terrace_base::{
    ByteReader, Checksum, CodecError, EntryKind, EntryRef, Epoch, Expiry, FileId, LogPosition,
    MemtableId, PREAMBLE_BYTES, Preamble, PreambleError, SeqNo, put_varint,
};

/// Bytes of a segment's header.
pub const SEGMENT_HEADER_BYTES: u64 = 128;
/// Bytes of a record's header.
pub const RECORD_HEADER_BYTES: usize = 32;
/// Bytes of a record at the most, header and body: its length has 32 bits. The last ones are left
/// for the padding.
pub const RECORD_BYTES_MAX: usize = (u32::MAX as usize) & !(RECORD_ALIGNMENT - 1);
/// Records start at multiples of this.
pub const RECORD_ALIGNMENT: usize = 8;

/// No log becomes as long, so that positions can be added up whatever a file says.
pub const POSITION_END: u64 = 1 << 62;

const MAGIC: [u8; 8] = *b"terrlog\0";
/// Of a segment that an earlier version can read.
const PREAMBLE_V1: Preamble = Preamble { magic: MAGIC, version: 1 };
const PREAMBLE: Preamble = Preamble { magic: MAGIC, version: 2 };
const KIND_MASK: u8 = 0x0f;
const HAS_EXPIRY: u8 = 0x10;
const SAME_NUMBER: u8 = 0x20;

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Drawn for this use of the file.
    pub identity: u128,
    /// The file's id.
    pub file_id: FileId,
    /// The segment before this one in the append order.
    pub predecessor: Option<FileId>,
    /// The position of the first record.
    pub base: LogPosition,
    /// The database that the segment belongs to.
    pub database: u128,
    /// Bytes of the file.
    pub segment_bytes: u64,
    /// The log was durable below this position before the header was written: copies that an open
    /// made. 0 if there are none.
    pub durable: LogPosition,
}

impl SegmentHeader {
    /// Where the second header stands, in a segment of a given number of bytes.
    #[must_use]
    pub fn second_offset(segment_bytes: u64) -> u64 {
        segment_bytes.saturating_sub(SEGMENT_HEADER_BYTES)
    }

    /// The stored form of the header at `offset`.
    #[must_use]
    pub fn encode(&self, offset: u64) -> [u8; SEGMENT_HEADER_BYTES as usize] {
        let none = FileId { epoch: Epoch(0), counter: 0 };
        let predecessor = self.predecessor.unwrap_or(none);
        let mut out = [0; SEGMENT_HEADER_BYTES as usize];
        let preamble = if self.durable == LogPosition(0) { PREAMBLE_V1 } else { PREAMBLE };
        out[..16].copy_from_slice(&preamble.encode());
        out[16..32].copy_from_slice(&self.identity.to_le_bytes());
        out[32..40].copy_from_slice(&self.file_id.epoch.0.to_le_bytes());
        out[40..48].copy_from_slice(&self.file_id.counter.to_le_bytes());
        out[48..56].copy_from_slice(&predecessor.epoch.0.to_le_bytes());
        out[56..64].copy_from_slice(&predecessor.counter.to_le_bytes());
        out[64..72].copy_from_slice(&self.base.0.to_le_bytes());
        out[72..88].copy_from_slice(&self.database.to_le_bytes());
        out[88..96].copy_from_slice(&self.segment_bytes.to_le_bytes());
        out[96..104].copy_from_slice(&self.durable.0.to_le_bytes());
        let checksum = Checksum::at(self.identity, offset).bytes(&out[..124]).finish();
        out[124..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Below which position the log was durable before the segment was made, as far as the header
    /// says: an open begins its first one behind that.
    #[must_use]
    pub fn durable_before(&self) -> LogPosition {
        let begins = self.predecessor.is_some_and(|before| before.epoch < self.file_id.epoch);
        if begins { self.base } else { LogPosition(0) }
    }

    /// As [`SegmentHeader::durable_before`], before the header was written: with the copies in the
    /// segment.
    #[must_use]
    pub fn durable_below(&self) -> LogPosition {
        self.durable.max(self.durable_before())
    }

    /// Whether this, in the place of the second header of a file of `file_bytes`, says that the
    /// segment with the `first` header was cut off there on purpose.
    #[must_use]
    pub fn is_cut_of(&self, first: &SegmentHeader, file_bytes: u64) -> bool {
        let cut = SegmentHeader { segment_bytes: file_bytes, ..*first };
        first.segment_bytes > file_bytes && *self == cut
    }

    /// What stands in the place of the identity, whether or not the header is valid.
    #[must_use]
    pub fn identity_in(bytes: &[u8]) -> u128 {
        let mut reader = ByteReader::new(bytes);
        reader.take(PREAMBLE_BYTES).and_then(|_| reader.u128()).unwrap_or_default()
    }

    /// Whether these bytes begin as a segment does.
    #[must_use]
    pub fn has_magic(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Reads the header at `offset`. One of a later version is intact, and is told apart from
    /// damage.
    pub fn decode(bytes: &[u8], offset: u64) -> Result<SegmentHeader, PreambleError> {
        let mut reader = ByteReader::new(bytes);
        reader.take(PREAMBLE_BYTES)?;
        let identity = reader.u128()?;
        let file_id = file_id(&mut reader)?;
        let predecessor = file_id_or_none(&mut reader)?;
        let base = LogPosition(reader.u64()?);
        let database = reader.u128()?;
        let segment_bytes = reader.u64()?;
        let durable = LogPosition(reader.u64()?);
        let zeros = reader.take(20)?;
        if reader.u32()? != Checksum::at(identity, offset).bytes(&bytes[..124]).finish() {
            return Err(
                CodecError { offset: 124, what: "wrong checksum of a segment header" }.into()
            );
        }
        PREAMBLE.check(&mut ByteReader::new(bytes))?;
        if zeros.iter().any(|&byte| byte != 0) {
            return Err(CodecError { offset: 104, what: "reserved bytes are not zero" }.into());
        }
        if base.max(durable).0 >= POSITION_END {
            return Err(CodecError { offset: 64, what: "a position beyond any log" }.into());
        }
        Ok(SegmentHeader { identity, file_id, predecessor, base, database, segment_bytes, durable })
    }
}

fn file_id(reader: &mut ByteReader<'_>) -> Result<FileId, CodecError> {
    Ok(FileId { epoch: Epoch(reader.u64()?), counter: reader.u64()? })
}

fn file_id_or_none(reader: &mut ByteReader<'_>) -> Result<Option<FileId>, CodecError> {
    let id = file_id(reader)?;
    Ok((id.epoch.0 != 0).then_some(id))
}

/// What a record is for. The values are persistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// The entries of one batch.
    Batch = 1,
    /// The log was closed; nothing follows in this epoch.
    Closing = 2,
}

/// The header of a record, but for its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Header and body, without padding.
    pub bytes: u32,
    /// The number of the first entry.
    pub first_seqno: SeqNo,
    /// The log was durable below this position when the record was written.
    pub durable: LogPosition,
    /// How many sequence numbers the record takes.
    pub seqno_count: u32,
    /// Low half of the count of entries.
    pub entry_count: u16,
    /// What the record is for.
    pub kind: RecordKind,
}

impl RecordHeader {
    /// The stored form, checksum included, of a record at `offset` of the segment with this
    /// identity. `body` is what follows the header, in pieces.
    #[must_use]
    pub fn encode(&self, identity: u128, offset: u64, body: &[&[u8]]) -> [u8; RECORD_HEADER_BYTES] {
        debug_assert_eq!(
            self.bytes as usize,
            RECORD_HEADER_BYTES + body.iter().map(|piece| piece.len()).sum::<usize>(),
            "a record is as long as its header says"
        );
        let mut out = [0; RECORD_HEADER_BYTES];
        out[4..8].copy_from_slice(&self.bytes.to_le_bytes());
        out[8..16].copy_from_slice(&self.first_seqno.0.to_le_bytes());
        out[16..24].copy_from_slice(&self.durable.0.to_le_bytes());
        out[24..28].copy_from_slice(&self.seqno_count.to_le_bytes());
        out[28..30].copy_from_slice(&self.entry_count.to_le_bytes());
        out[30] = self.kind as u8;
        let mut checksum = Checksum::at(identity, offset).bytes(&out[4..]);
        for piece in body {
            checksum = checksum.bytes(piece);
        }
        out[..4].copy_from_slice(&checksum.finish().to_le_bytes());
        out
    }

    /// The record that starts at `bytes`, which is what the segment holds from `offset` on: its
    /// header and its body, checked.
    pub fn decode(
        bytes: &[u8],
        identity: u128,
        offset: u64,
    ) -> Result<(RecordHeader, &[u8]), CodecError> {
        let mut reader = ByteReader::new(bytes);
        let checksum = reader.u32()?;
        let length = reader.u32()?;
        let first_seqno = SeqNo(reader.u64()?);
        let durable = LogPosition(reader.u64()?);
        let seqno_count = reader.u32()?;
        let entry_count = reader.u32()? as u16;
        if (length as usize) < RECORD_HEADER_BYTES || length as usize > bytes.len() {
            return Err(CodecError { offset: 4, what: "a record's length is out of bounds" });
        }
        let covered = &bytes[4..length as usize];
        if checksum != Checksum::at(identity, offset).bytes(covered).finish() {
            return Err(CodecError { offset: 0, what: "wrong checksum of a record" });
        }
        let kind = match bytes[30] {
            1 => RecordKind::Batch,
            2 => RecordKind::Closing,
            _ => return Err(CodecError { offset: 30, what: "an unknown kind of record" }),
        };
        if bytes[31] != 0 {
            return Err(CodecError { offset: 31, what: "a reserved byte of a record is not zero" });
        }
        let header =
            RecordHeader { bytes: length, first_seqno, durable, seqno_count, entry_count, kind };
        Ok((header, &bytes[RECORD_HEADER_BYTES..length as usize]))
    }

    /// Bytes that the record at the front of `stored` would take in the log, by its length, which
    /// is not checked. `stored` has a header's bytes at least.
    #[must_use]
    pub fn padded_length_in(stored: &[u8]) -> u64 {
        let word = stored[4..8].first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        u64::from(word).next_multiple_of(RECORD_ALIGNMENT as u64)
    }

    /// Bytes that the record takes in the log: its length, padded.
    #[must_use]
    pub fn padded_bytes(&self) -> u64 {
        (self.bytes as u64).next_multiple_of(RECORD_ALIGNMENT as u64)
    }
}

/// The first good record at or behind `offset` of the segment that `bytes` are the front of, and
/// where it stands.
#[must_use]
pub fn next_record(bytes: &[u8], identity: u128, offset: u64) -> Option<(u64, RecordHeader)> {
    let mut offset = offset;
    loop {
        let at = next_likely_record(bytes, offset)?;
        if let Ok((header, _)) = RecordHeader::decode(&bytes[at as usize..], identity, at) {
            return Some((at, header));
        }
        offset = at + RECORD_ALIGNMENT as u64;
    }
}

/// The first place at or behind `offset` where a record may begin, by the looks of it; `bytes`
/// begin where one may begin. Most places hold zeros or the middle of something: this is for
/// looking before checking the checksum.
#[must_use]
pub fn next_likely_record(bytes: &[u8], offset: u64) -> Option<u64> {
    let mut offset = offset.next_multiple_of(RECORD_ALIGNMENT as u64) as usize;
    while offset + RECORD_HEADER_BYTES <= bytes.len() {
        let rest = &bytes[offset..];
        if rest[4..8] != [0; 4] && matches!(rest[30], 1 | 2) && rest[31] == 0 {
            return Some(offset as u64);
        }
        offset += RECORD_ALIGNMENT;
    }
    None
}

/// Appends one entry in the coding of a batch's body. `same_number` marks an entry that shares
/// the sequence number of the one before it.
pub fn put_entry(
    out: &mut Vec<u8>,
    kind: EntryKind,
    same_number: bool,
    expiry: Option<Expiry>,
    key: &[u8],
    value: &[u8],
) {
    let mut first = kind as u8;
    if same_number {
        first |= SAME_NUMBER;
    }
    if expiry.is_some() {
        first |= HAS_EXPIRY;
    }
    out.push(first);
    if expiry.is_some() {
        put_varint(out, Expiry::to_stored(expiry));
    }
    put_varint(out, key.len() as u64);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// The entries of a batch's body, in order, numbered from `first_seqno`.
#[derive(Clone, Debug)]
pub struct EntryReader<'a> {
    reader: ByteReader<'a>,
    next: SeqNo,
}

impl<'a> EntryReader<'a> {
    /// Reads the entries in `body` (what stands after the places).
    #[must_use]
    pub fn new(body: &'a [u8], first_seqno: SeqNo) -> EntryReader<'a> {
        EntryReader { reader: ByteReader::new(body), next: first_seqno }
    }

    /// Where the next entry begins in the body.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.reader.offset()
    }

    #[inline]
    fn read(&mut self) -> Result<EntryRef<'a>, CodecError> {
        let reader = &mut self.reader;
        let start = reader.offset();
        let first = reader.u8()?;
        let bad = |what| CodecError { offset: start, what };
        let kind = EntryKind::from_stored(first & KIND_MASK)
            .filter(|_| first & !(KIND_MASK | HAS_EXPIRY | SAME_NUMBER) == 0)
            .ok_or_else(|| bad("an unknown kind of entry"))?;
        let expiry = match first & HAS_EXPIRY {
            0 => None,
            _ => Some(Expiry::from_stored(reader.varint()?).ok_or_else(|| bad("an empty expiry"))?),
        };
        let key_bytes = reader.varint_usize()?;
        let value_bytes = reader.varint_usize()?;
        let key = reader.take(key_bytes)?;
        let value = reader.take(value_bytes)?;
        let seqno = match first & SAME_NUMBER {
            0 => {
                let seqno = self.next;
                self.next = SeqNo(seqno.0.checked_add(1).ok_or_else(|| bad("a number too large"))?);
                seqno
            }
            _ => SeqNo(self.next.0.saturating_sub(1)),
        };
        Ok(EntryRef { key, seqno, kind, expiry, value })
    }
}

impl<'a> Iterator for EntryReader<'a> {
    type Item = Result<EntryRef<'a>, CodecError>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.reader.is_empty()).then(|| self.read())
    }
}

/// The body of a batch, taken apart.
#[derive(Clone, Debug)]
pub struct BatchBody<'a> {
    /// The memtables that the entries went to.
    pub memtables: Vec<MemtableId>,
    places: &'a [u8],
    entries: &'a [u8],
    first_seqno: SeqNo,
}

impl<'a> BatchBody<'a> {
    /// Takes the body of the record with this header apart; entries are checked as they are read.
    pub fn decode(header: &RecordHeader, body: &'a [u8]) -> Result<BatchBody<'a>, CodecError> {
        let mut reader = ByteReader::new(body);
        let count = reader.varint_usize()?;
        if count == 0 || count > usize::from(u8::MAX) {
            return Err(reader.error("a batch names no memtable, or too many"));
        }
        let mut memtables = Vec::with_capacity(count);
        for _ in 0..count {
            let epoch = Epoch(reader.varint()?);
            memtables.push(MemtableId { epoch, counter: reader.varint()? });
        }
        let places = match count {
            1 => &[][..],
            _ => {
                let places = reader.varint_usize()?;
                reader.take(places)?
            }
        };
        let entries = reader.rest();
        Ok(BatchBody { memtables, places, entries, first_seqno: header.first_seqno })
    }

    /// Each entry with the memtable that it went to.
    pub fn entries(
        &self,
    ) -> impl Iterator<Item = Result<(MemtableId, EntryRef<'a>), CodecError>> + '_ {
        let entries = EntryReader::new(self.entries, self.first_seqno);
        entries.enumerate().map(|(index, entry)| {
            let entry = entry?;
            let place = match self.memtables.len() {
                1 => 0,
                _ => self.places.get(index).copied().unwrap_or(u8::MAX),
            };
            let memtable = self.memtables.get(usize::from(place));
            let memtable = memtable.ok_or(CodecError {
                offset: 0,
                what: "an entry names a memtable beyond the list",
            })?;
            Ok((*memtable, entry))
        })
    }
}

/// Appends the part of a batch's body that stands before the entries. `places` is empty when
/// there is one memtable, and else has one byte an entry.
pub fn put_memtables(out: &mut impl Extend<u8>, memtables: &[MemtableId], places: &[u8]) {
    put_varint(out, memtables.len() as u64);
    for memtable in memtables {
        put_varint(out, memtable.epoch.0);
        put_varint(out, memtable.counter);
    }
    debug_assert!(
        (1..=usize::from(u8::MAX)).contains(&memtables.len()),
        "a batch goes to {} memtables",
        memtables.len()
    );
    if memtables.len() > 1 {
        put_varint(out, places.len() as u64);
        out.extend(places.iter().copied());
    }
}

/// What the log and the manifest know of each other after a clean close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosingBody {
    /// The manifest in use at the close.
    pub manifest: FileId,
    /// How many bytes of it were durable.
    pub manifest_bytes: u64,
}

impl ClosingBody {
    /// The stored form.
    #[must_use]
    pub fn encode(&self) -> [u8; 24] {
        let mut out = [0; 24];
        out[..8].copy_from_slice(&self.manifest.epoch.0.to_le_bytes());
        out[8..16].copy_from_slice(&self.manifest.counter.to_le_bytes());
        out[16..].copy_from_slice(&self.manifest_bytes.to_le_bytes());
        out
    }

    /// The inverse of [`ClosingBody::encode`].
    pub fn decode(body: &[u8]) -> Result<ClosingBody, CodecError> {
        let mut reader = ByteReader::new(body);
        let manifest = file_id(&mut reader)?;
        let manifest_bytes = reader.u64()?;
        reader.finish()?;
        Ok(ClosingBody { manifest, manifest_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_base::WallTime;

    fn id(epoch: u64, counter: u64) -> FileId {
        FileId { epoch: Epoch(epoch), counter }
    }

    fn header() -> SegmentHeader {
        SegmentHeader {
            identity: 0x1234_5678_9abc_def0_1122_3344_5566_7788,
            file_id: id(3, 17),
            predecessor: Some(id(3, 9)),
            base: LogPosition(4096),
            database: 1 << 99,
            segment_bytes: 65_536,
            durable: LogPosition(0),
        }
    }

    fn record() -> Vec<u8> {
        let mut body = Vec::new();
        let memtables = [
            MemtableId { epoch: Epoch(3), counter: 1 },
            MemtableId { epoch: Epoch(3), counter: 2 },
        ];
        put_memtables(&mut body, &memtables, &[0, 1, 0, 1]);
        let expiry = Some(Expiry::at(WallTime(99)));
        put_entry(&mut body, EntryKind::Value, false, expiry, b"key", b"value");
        put_entry(&mut body, EntryKind::Tombstone, false, None, b"", b"");
        put_entry(&mut body, EntryKind::RangeTombstone, false, None, b"a", b"m");
        put_entry(&mut body, EntryKind::RangeTombstone, true, None, b"m", b"z");
        let record = RecordHeader {
            bytes: (RECORD_HEADER_BYTES + body.len()) as u32,
            first_seqno: SeqNo(70),
            durable: LogPosition(4000),
            seqno_count: 3,
            entry_count: 4,
            kind: RecordKind::Batch,
        };
        let mut out = record.encode(header().identity, 256, &[&body]).to_vec();
        out.extend_from_slice(&body);
        out
    }

    #[test]
    fn headers_round_trip_and_every_flipped_bit_is_noticed() {
        let stored = header().encode(0);
        assert_eq!(SegmentHeader::decode(&stored, 0), Ok(header()));
        let second = SegmentHeader::second_offset(65_536);
        assert_eq!(SegmentHeader::decode(&header().encode(second), second), Ok(header()));
        assert!(SegmentHeader::decode(&stored, second).is_err(), "a header in the other's place");
        let copied = SegmentHeader { durable: LogPosition(5000), ..header() };
        assert_eq!(SegmentHeader::decode(&copied.encode(0), 0), Ok(copied));
        assert_eq!((copied.durable_below().0, header().durable_below().0), (5000, 0));
        assert_eq!((copied.encode(0)[10], header().encode(0)[10]), (2, 1), "the oldest reader");
        let first = SegmentHeader { predecessor: None, ..header() };
        assert_eq!(SegmentHeader::decode(&first.encode(0), 0), Ok(first));
        for bit in 0..stored.len() * 8 {
            let mut damaged = stored;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(&damaged, 0).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn records_round_trip() {
        let bytes = record();
        let (header, body) =
            RecordHeader::decode(&bytes, header().identity, 256).expect("just encoded");
        let body = BatchBody::decode(&header, body).expect("just encoded");
        let entries: Vec<_> = body.entries().map(|entry| entry.expect("just encoded")).collect();
        let shown: Vec<_> =
            entries.iter().map(|(memtable, entry)| format!("{memtable:?} {entry:?}")).collect();
        assert_eq!(
            shown,
            [
                "m3.1 \"key\"#70 Value \"value\" until 99",
                "m3.2 \"\"#71 Tombstone \"\"",
                "m3.1 \"a\"#72 RangeTombstone \"m\"",
                "m3.2 \"m\"#72 RangeTombstone \"z\"",
            ]
        );
    }

    #[test]
    fn every_flipped_bit_of_a_record_and_every_wrong_place_is_noticed() {
        let bytes = record();
        let identity = header().identity;
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(RecordHeader::decode(&damaged, identity, 256).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(RecordHeader::decode(&bytes[..length], identity, 256).is_err());
        }
        assert!(RecordHeader::decode(&bytes, identity, 264).is_err(), "another offset");
        assert!(RecordHeader::decode(&bytes, identity + 1, 256).is_err(), "another segment");
    }

    #[test]
    fn a_sealed_record_of_another_format_is_refused() {
        let (bytes, identity) = (record(), header().identity);
        for (at, what) in [(30, "an unknown kind"), (31, "a reserved byte")] {
            let mut other = bytes.clone();
            other[at] = 9;
            let checksum = Checksum::at(identity, 256).bytes(&other[4..]).finish();
            other[..4].copy_from_slice(&checksum.to_le_bytes());
            let refused = RecordHeader::decode(&other, identity, 256).expect_err("nobody knows it");
            assert!(refused.offset == at && refused.what.starts_with(what), "{refused:?}");
        }
    }

    /// Sealed headers whose position leaves no room for the next one once made an open panic, on
    /// every attempt: nobody could have reached their data, nor been told which file was wrong.
    #[test]
    fn positions_beyond_all_bounds_are_refused() {
        let far = SegmentHeader { base: LogPosition(POSITION_END), ..header() };
        assert!(SegmentHeader::decode(&far.encode(0), 0).is_err());
        let last = SegmentHeader { base: LogPosition(POSITION_END - 1), ..header() };
        assert_eq!(SegmentHeader::decode(&last.encode(0), 0), Ok(last));
    }

    #[test]
    fn a_closing_body_round_trips() {
        let body = ClosingBody { manifest: id(4, 5), manifest_bytes: 6789 };
        assert_eq!(ClosingBody::decode(&body.encode()), Ok(body));
        assert!(ClosingBody::decode(&body.encode()[..23]).is_err());
    }
}
