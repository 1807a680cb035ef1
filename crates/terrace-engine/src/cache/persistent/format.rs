//! The bytes of the persistent cache.
//!
//! A bucket of blocks:
//! ```text
//!  0                64                                 slots_at
//!  ┌────────────────┬──────────┬───┬──────────┬───────┬────────┬───┬────────┐
//!  │ header, 64 B   │ record 0 │ … │ record n │ zeros │ slot 0 │ … │ slot n │
//!  └────────────────┴──────────┴───┴──────────┴───────┴────────┴───┴────────┘
//!
//!  header                                   record, 32 bytes; zeros if its slot is empty
//!   0  u8 ×8  magic                          0  u128  number of the table
//!   8  u16    version                       16  u64   offset of the bytes in the table
//!  10  u16    zero                          24  u32   how many bytes of the slot are used
//!  12  u32    bytes of a slot               28  u32   checksum over the number, the offset
//!  16  u32    how many slots                          and the bytes in the slot
//!  20  u32    zero
//!  24  u128   id of the database
//!  40  u8 ×20 zero
//!  60  u32    checksum over the id and bytes 0 to 60
//! ```
//! A record is written after its slot; whichever of them a crash loses, the checksum does not fit.
//!
//! Metadata of a table:
//! ```text
//!   0  u8 ×8  magic
//!   8  u16    version
//!  10  u16    zero
//!  12  u32    bytes of the tail
//!  16  u128   number of the table
//!  32  u64    offset of the tail, which ends where the table ends
//!  40         the tail
//!      u32    checksum over the number, zero, and all bytes before
//! ```
//! All integers are little-endian.

use terrace_base::{ByteReader, Checksum, CodecError};

/// The version that this code writes. One that differs is as good as no cache.
pub const VERSION: u16 = 1;

/// How many bytes the header of a bucket has.
pub const HEADER_BYTES: usize = 64;

/// How many bytes a record has.
pub const RECORD_BYTES: usize = 32;

const BUCKET_MAGIC: [u8; 8] = *b"terr.bkt";
const META_MAGIC: [u8; 8] = *b"terr.mtc";

const META_HEADER_BYTES: usize = 40;

/// Slots begin at a multiple of this, so that records and slots share no page.
const SLOTS_ALIGN: u64 = 4096;

/// How a bucket is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketShape {
    /// Bytes of a slot.
    pub slot_bytes: u32,
    /// How many slots there may be.
    pub slot_count: u32,
}

impl BucketShape {
    /// As many slots as fit into a bucket of `bucket_bytes`.
    #[must_use]
    pub fn within(bucket_bytes: u64, slot_bytes: u32) -> BucketShape {
        let each = u64::from(slot_bytes) + RECORD_BYTES as u64;
        let room = bucket_bytes.saturating_sub(HEADER_BYTES as u64 + SLOTS_ALIGN);
        BucketShape { slot_bytes, slot_count: u32::try_from(room / each).unwrap_or(u32::MAX) }
    }

    /// Where the record of a slot lies.
    #[must_use]
    pub fn record_at(&self, slot: u32) -> u64 {
        HEADER_BYTES as u64 + u64::from(slot) * RECORD_BYTES as u64
    }

    /// Where a slot lies.
    #[must_use]
    pub fn slot_at(&self, slot: u32) -> u64 {
        let records = self.record_at(self.slot_count);
        records.next_multiple_of(SLOTS_ALIGN) + u64::from(slot) * u64::from(self.slot_bytes)
    }

    /// How many slots fit into a file of `bytes`.
    #[must_use]
    pub fn slots_within(&self, bytes: u64) -> u32 {
        let room = bytes.saturating_sub(self.slot_at(0)) / u64::from(self.slot_bytes).max(1);
        u32::try_from(room).unwrap_or(u32::MAX).min(self.slot_count)
    }
}

/// The first bytes of a bucket of this database.
#[must_use]
pub fn encode_header(shape: BucketShape, database: u128) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&BUCKET_MAGIC);
    header[8..10].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&shape.slot_bytes.to_le_bytes());
    header[16..20].copy_from_slice(&shape.slot_count.to_le_bytes());
    header[24..40].copy_from_slice(&database.to_le_bytes());
    let checksum = Checksum::at(database, 0).bytes(&header[..60]).finish();
    header[60..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// How the bucket that begins with this header is divided, and the id of its database.
///
/// Errors: it is no header that [`encode_header`] made.
pub fn decode_header(header: &[u8; HEADER_BYTES]) -> Result<(BucketShape, u128), CodecError> {
    let mut reader = ByteReader::new(&header[12..]);
    let shape = BucketShape { slot_bytes: reader.u32()?, slot_count: reader.u32()? };
    reader.u32()?;
    let database = reader.u128()?;
    match *header == encode_header(shape, database) {
        true => Ok((shape, database)),
        false => Err(CodecError { offset: 0, what: "the header of a bucket is damaged" }),
    }
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRecord {
    /// The number of the table.
    pub table: u128,
    /// Where the bytes lie in it.
    pub offset: u64,
    /// How many they are; not 0.
    pub bytes: u32,
    /// [`checksum_of`] them.
    pub checksum: u32,
}

impl SlotRecord {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        record[..16].copy_from_slice(&self.table.to_le_bytes());
        record[16..24].copy_from_slice(&self.offset.to_le_bytes());
        record[24..28].copy_from_slice(&self.bytes.to_le_bytes());
        record[28..].copy_from_slice(&self.checksum.to_le_bytes());
        record
    }

    /// What the record of a slot of `slot_bytes` says; `None` if that cannot be, as in an empty
    /// one. Whether it is true only the bytes in the slot tell.
    #[must_use]
    pub fn decode(record: &[u8; RECORD_BYTES], slot_bytes: u32) -> Option<SlotRecord> {
        let mut reader = ByteReader::new(record);
        let decoded = SlotRecord {
            table: reader.u128().ok()?,
            offset: reader.u64().ok()?,
            bytes: reader.u32().ok()?,
            checksum: reader.u32().ok()?,
        };
        (1..=slot_bytes).contains(&decoded.bytes).then_some(decoded)
    }
}

/// The checksum of bytes that lie at `offset` of a table.
#[must_use]
pub fn checksum_of(table: u128, offset: u64, bytes: &[u8]) -> u32 {
    Checksum::at(table, offset).bytes(bytes).finish()
}

/// The file that keeps the end of a table from `offset` on.
#[must_use]
pub fn encode_meta(table: u128, offset: u64, tail: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(META_HEADER_BYTES + tail.len() + 4);
    file.extend_from_slice(&META_MAGIC);
    file.extend_from_slice(&VERSION.to_le_bytes());
    file.extend_from_slice(&[0; 2]);
    // Whoever keeps more than 4 GiB of metadata finds that it does not decode.
    file.extend_from_slice(&(tail.len() as u32).to_le_bytes());
    file.extend_from_slice(&table.to_le_bytes());
    file.extend_from_slice(&offset.to_le_bytes());
    file.extend_from_slice(tail);
    let checksum = Checksum::at(table, 0).bytes(&file).finish();
    file.extend_from_slice(&checksum.to_le_bytes());
    file
}

/// The number of the table that a file of metadata says it belongs to; whether it does, only
/// [`decode_meta`] tells. `None` if the file is too short to say it.
#[must_use]
pub fn meta_table(file: &[u8]) -> Option<u128> {
    ByteReader::new(file.get(16..32)?).u128().ok()
}

/// The offset of the tail that such a file of this table keeps, and the tail.
///
/// Errors: it is another table's, or not what [`encode_meta`] made.
pub fn decode_meta(file: &[u8], table: u128) -> Result<(u64, &[u8]), CodecError> {
    let error = |offset, what| Err(CodecError { offset, what });
    let Some((covered, stored)) = file.split_last_chunk::<4>() else {
        return error(0, "a file shorter than its checksum");
    };
    if Checksum::at(table, 0).bytes(covered).finish() != u32::from_le_bytes(*stored) {
        return error(covered.len(), "the checksum of cached metadata does not fit");
    }
    let Some((header, tail)) = covered.split_at_checked(META_HEADER_BYTES) else {
        return error(0, "a file shorter than its header");
    };
    let is_ours = header[..8] == META_MAGIC;
    let mut reader = ByteReader::new(&header[8..]);
    let is_ours = is_ours && reader.u32()? == u32::from(VERSION);
    let tail_bytes = reader.u32()?;
    if !is_ours || reader.u128()? != table || tail_bytes as usize != tail.len() {
        return error(0, "cached metadata of another table, or of another version");
    }
    Ok((reader.u64()?, tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_bucket_do_not_overlap() {
        for bucket_bytes in [0, 4096, 10_000, 1 << 20, 8 << 20, 120 << 20] {
            let shape = BucketShape::within(bucket_bytes, 4160);
            let end = shape.slot_at(shape.slot_count);
            assert!(shape.slot_count == 0 || end <= bucket_bytes, "{shape:?}");
            assert!(shape.record_at(shape.slot_count) <= shape.slot_at(0));
            assert_eq!(shape.slot_at(1) - shape.slot_at(0), 4160);
            assert_eq!(shape.slots_within(u64::MAX), shape.slot_count);
            for slots in [0, 1, shape.slot_count / 2, shape.slot_count] {
                let slots = slots.min(shape.slot_count);
                assert_eq!(shape.slots_within(shape.slot_at(slots)), slots);
                assert_eq!(shape.slots_within(shape.slot_at(slots) - 1), slots.saturating_sub(1));
            }
        }
    }

    #[test]
    fn a_record_round_trips_and_an_empty_one_says_nothing() {
        let record = SlotRecord { table: 7 << 99, offset: 1 << 40, bytes: 4101, checksum: 9 };
        let bytes = record.encode();
        assert_eq!(SlotRecord::decode(&bytes, 4160), Some(record));
        assert_eq!(SlotRecord::decode(&bytes, 4100), None, "more than a slot holds");
        assert_eq!(SlotRecord::decode(&[0; RECORD_BYTES], 4160), None);
    }

    #[test]
    fn the_bytes_stay_as_they_are() {
        let shape = BucketShape { slot_bytes: 4160, slot_count: 2000 };
        let header = encode_header(shape, 0x1122);
        let expected = [
            &b"terr.bkt\x01\0\0\0\x40\x10\0\0\xd0\x07\0\0\0\0\0\0\x22\x11"[..],
            &[0; 34],
            &Checksum::at(0x1122, 0).bytes(&header[..60]).finish().to_le_bytes(),
        ];
        assert_eq!(header[..], expected.concat()[..]);
        assert_eq!(decode_header(&header), Ok((shape, 0x1122)));
        for bit in 0..header.len() * 8 {
            let mut flipped = header;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_header(&flipped).is_err(), "bit {bit}");
        }
        let meta = encode_meta(3, 500, b"tail");
        let expected =
            b"terr.mtc\x01\0\0\0\x04\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xf4\x01\0\0\
                         \0\0\0\0tail";
        assert_eq!(meta[..44], expected[..]);
        assert_eq!(meta.len(), 48);
    }

    #[test]
    fn metadata_opens_for_its_table_only() {
        let file = encode_meta(3, 500, b"tail");
        assert_eq!(decode_meta(&file, 3), Ok((500, &b"tail"[..])));
        assert_eq!((meta_table(&file), meta_table(&file[..31])), (Some(3), None));
        assert!(decode_meta(&file, 4).is_err());
        for bytes in 0..file.len() {
            assert!(decode_meta(&file[..bytes], 3).is_err(), "cut to {bytes}");
        }
        for bit in 0..file.len() * 8 {
            let mut flipped = file.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_meta(&flipped, 3).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_forged_length_is_refused() {
        let mut file = encode_meta(3, 500, b"tail");
        file[12] = 5;
        let covered = file.len() - 4;
        let checksum = Checksum::at(3, 0).bytes(&file[..covered]).finish();
        file[covered..].copy_from_slice(&checksum.to_le_bytes());
        assert!(decode_meta(&file, 3).is_err());
    }
}
