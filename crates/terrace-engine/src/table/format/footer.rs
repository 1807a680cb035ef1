//! The last 128 bytes of a table: where everything is, and which builds may read it.
//!
//! ```text
//!   0  u128   uid of the table
//!  16  u64    bytes of the whole file, the footer included
//!  24  u64 ×2 filter: offset, bytes of its frame (0 bytes: there is none)
//!  40  u64 ×2 index
//!  56  u64 ×2 range tombstones (0 bytes: there are none)
//!  72  u64 ×2 properties
//!  88  u32    compatible features: a reader may ignore a bit that it does not know
//!  92  u32    incompatible features: a reader must refuse a bit that it does not know;
//!             bit 0: there are names; bit 1: a trie stands at the index's place
//!  96  u16    format version of the writer
//!  98  u16    least version of a reader that understands the file
//! 100  u64    bytes of all names between range tombstones and properties; 0 if there are none
//! 108  u8 ×4  zero
//! 112  u8 ×8  magic
//! 120  u32    zero
//! 124  u32    checksum over the uid, the footer's offset in the file, and bytes 0 to 124
//! ```
//!
//! This picture holds for every version of the format, so that an old reader can always tell
//! *damaged* from *too new*. The four handles, in the order above, lie back to back, but for the
//! names, and end where the footer begins; the data blocks fill the file from its start to the
//! first of them. A table that names no values has no bit for it, and is what it was before there
//! were names, byte for byte; so has one with an index.

use terrace_base::{ByteReader, Checksum, TableUid};

use terrace_base::CodecError;

use super::FormatError;

/// How many bytes a footer has.
pub const FOOTER_BYTES: usize = 128;

/// The version that this code writes. The ladder so far:
///
/// 1. The first format.
pub const FORMAT_VERSION: u16 = 1;

/// The least version of a reader that understands what this code writes.
pub const READER_VERSION_MIN: u16 = 1;

const MAGIC: [u8; 8] = *b"terr.tbl";
const COVERED_BYTES: usize = FOOTER_BYTES - 4;

/// There are names: a reader that does not know of them finds parts that do not lie back to back.
const HAS_NAMES: u32 = 1;

/// A [trie](crate::table::mashmeta) stands at the place of the index.
const HAS_TRIE: u32 = 2;

const KNOWN_INCOMPATIBLE_FEATURES: u32 = HAS_NAMES | HAS_TRIE;

/// Where a frame lies in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handle {
    /// Offset of its first byte.
    pub offset: u64,
    /// Bytes of the whole frame, its trailer included; 0 if there is none.
    pub bytes: u64,
}

impl Handle {
    /// Whether the frame is left out.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.bytes == 0
    }
}

/// A decoded footer. One that [`Footer::decode`] returned has handles that lie inside the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The table's own identity.
    pub uid: TableUid,
    /// Bytes of the data blocks, which fill the file from its start.
    pub data_bytes: u64,
    /// The filter, if any.
    pub filter: Handle,
    /// The index, or the trie that stands in its place.
    pub index: Handle,
    /// Whether it is a trie.
    pub has_trie: bool,
    /// The range tombstones, if any.
    pub range_tombstones: Handle,
    /// The frames of names, if any.
    pub names: Handle,
    /// The properties.
    pub properties: Handle,
}

impl Footer {
    /// Lays the parts of a table behind its data: their sizes, trailers included, in the order of
    /// the file: filter, index, range tombstones, all names, properties.
    #[must_use]
    pub fn lay_out(uid: TableUid, data_bytes: u64, frame_bytes: [u64; 5]) -> Footer {
        let mut offset = data_bytes;
        let [filter, index, range_tombstones, names, properties] = frame_bytes.map(|bytes| {
            let handle = Handle { offset, bytes };
            offset += bytes;
            handle
        });
        let has_trie = false;
        Footer { uid, data_bytes, filter, index, has_trie, range_tombstones, names, properties }
    }

    /// The same of a table whose index is a trie.
    #[must_use]
    pub fn with_trie(self, has_trie: bool) -> Footer {
        Footer { has_trie, ..self }
    }

    /// Where the footer itself lies.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.properties.offset.saturating_add(self.properties.bytes)
    }

    /// Appends the 128 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let names = if self.names.is_none() { 0 } else { HAS_NAMES };
        let trie = if self.has_trie { HAS_TRIE } else { 0 };
        self.encode_with(out, 0, names | trie, FORMAT_VERSION, READER_VERSION_MIN);
    }

    fn encode_with(
        &self,
        out: &mut Vec<u8>,
        compatible: u32,
        incompatible: u32,
        version: u16,
        reader_version_min: u16,
    ) {
        let start = out.len();
        out.extend_from_slice(&self.uid.0.to_le_bytes());
        out.extend_from_slice(&(self.offset() + FOOTER_BYTES as u64).to_le_bytes());
        for handle in [self.filter, self.index, self.range_tombstones, self.properties] {
            out.extend_from_slice(&handle.offset.to_le_bytes());
            out.extend_from_slice(&handle.bytes.to_le_bytes());
        }
        out.extend_from_slice(&compatible.to_le_bytes());
        out.extend_from_slice(&incompatible.to_le_bytes());
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&reader_version_min.to_le_bytes());
        out.extend_from_slice(&self.names.bytes.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[0; 4]);
        assert_eq!(out.len() - start, COVERED_BYTES, "the picture above");
        let checksum = Checksum::at(self.uid.0, self.offset()).bytes(&out[start..]).finish();
        out.extend_from_slice(&checksum.to_le_bytes());
    }

    /// Decodes the last 128 bytes of a file of `file_bytes` bytes.
    ///
    /// Errors: [`FormatError::Damaged`], with offsets counted from the start of the footer;
    /// [`FormatError::Unsupported`] for an intact footer of a newer version.
    pub fn decode(bytes: &[u8; FOOTER_BYTES], file_bytes: u64) -> Result<Footer, FormatError> {
        let error = |offset, what| Err(FormatError::Damaged(CodecError { offset, what }));
        let Some(footer_offset) = file_bytes.checked_sub(FOOTER_BYTES as u64) else {
            return error(0, "a file shorter than a footer");
        };
        if bytes[112..120] != MAGIC {
            return error(112, "this is not the end of a table");
        }
        let mut reader = ByteReader::new(bytes);
        let uid = TableUid(reader.u128()?);
        let stored = ByteReader::new(&bytes[COVERED_BYTES..]).u32()?;
        let found = Checksum::at(uid.0, footer_offset).bytes(&bytes[..COVERED_BYTES]).finish();
        if stored != found {
            return error(COVERED_BYTES, "the checksum of the footer does not fit");
        }
        let stored_file_bytes = reader.u64()?;
        let mut handles = [Handle::default(); 4];
        for handle in &mut handles {
            *handle = Handle { offset: reader.u64()?, bytes: reader.u64()? };
        }
        let _compatible = reader.u32()?;
        let incompatible = reader.u32()?;
        let versions = reader.u32()?;
        let (version, reader_version_min) = (versions as u16, (versions >> 16) as u16);
        if reader_version_min > FORMAT_VERSION {
            return Err(FormatError::Unsupported(format!(
                "the table has format version {version} and needs a reader of version \
                 {reader_version_min}; this is version {FORMAT_VERSION}"
            )));
        }
        if incompatible & !KNOWN_INCOMPATIBLE_FEATURES != 0 {
            return Err(FormatError::Unsupported(format!(
                "the table uses features that this version does not know (bits {:#x})",
                incompatible & !KNOWN_INCOMPATIBLE_FEATURES
            )));
        }
        if version == 0 || reader_version_min == 0 || reader_version_min > version {
            return error(96, "a format version that cannot be");
        }
        let names_bytes = reader.u64()?;
        if bytes[108..112] != [0; 4] || bytes[120..124] != [0; 4] {
            return error(108, "reserved bytes are not zero");
        }
        if (incompatible & HAS_NAMES != 0) != (names_bytes != 0) {
            return error(100, "names are there that are not announced, or the other way round");
        }
        if stored_file_bytes != file_bytes {
            return error(16, "the file does not have the size that it was written with");
        }
        let [filter, index, range_tombstones, properties] = handles;
        let names_offset = properties.offset.saturating_sub(names_bytes);
        let names = Handle { offset: names_offset, bytes: names_bytes };
        let mut end = filter.offset;
        for handle in [filter, index, range_tombstones, names, properties] {
            if handle.offset != end {
                return error(24, "the parts of the table do not lie back to back");
            }
            let Some(next) = end.checked_add(handle.bytes) else {
                return error(24, "a part of the table lies beyond its end");
            };
            end = next;
        }
        if end != footer_offset {
            return error(24, "the parts of the table do not end at the footer");
        }
        if index.is_none() || properties.is_none() {
            return error(24, "a table without index or properties");
        }
        let data_bytes = filter.offset;
        let has_trie = incompatible & HAS_TRIE != 0;
        Ok(Footer { uid, data_bytes, filter, index, has_trie, range_tombstones, names, properties })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footer() -> Footer {
        Footer::lay_out(TableUid(0x1234_5678), 1000, [65, 40, 0, 0, 90])
    }

    fn with_names() -> Footer {
        Footer::lay_out(TableUid(0x1234_5678), 1000, [65, 40, 0, 30, 60])
    }

    fn encoded(write: impl FnOnce(&Footer, &mut Vec<u8>)) -> [u8; FOOTER_BYTES] {
        let mut out = Vec::new();
        write(&footer(), &mut out);
        out.try_into().unwrap()
    }

    const FILE_BYTES: u64 = 1000 + 65 + 40 + 90 + 128;

    #[test]
    fn a_footer_round_trips() {
        let bytes = encoded(|footer, out| footer.encode(out));
        assert_eq!(Footer::decode(&bytes, FILE_BYTES), Ok(footer()));
        assert_eq!(footer().offset(), FILE_BYTES - 128);
        assert_eq!((&bytes[88..96], &bytes[100..112]), (&[0; 8][..], &[0; 12][..]), "as ever");
    }

    #[test]
    fn names_are_announced_and_lie_before_the_properties() {
        let bytes = encoded(|_, out| with_names().encode(out));
        assert_eq!(Footer::decode(&bytes, FILE_BYTES), Ok(with_names()));
        assert_eq!(with_names().names, Handle { offset: 1105, bytes: 30 });
        assert_eq!(bytes[92..96], [1, 0, 0, 0]);
        let silent = encoded(|_, out| with_names().encode_with(out, 0, 0, 1, 1));
        assert!(matches!(Footer::decode(&silent, FILE_BYTES), Err(FormatError::Damaged(_))));
        let empty = encoded(|footer, out| footer.encode_with(out, 0, HAS_NAMES, 1, 1));
        assert!(matches!(Footer::decode(&empty, FILE_BYTES), Err(FormatError::Damaged(_))));
    }

    #[test]
    fn a_trie_is_announced() {
        let bytes = encoded(|_, out| footer().with_trie(true).encode(out));
        assert_eq!(Footer::decode(&bytes, FILE_BYTES), Ok(footer().with_trie(true)));
        assert_eq!(bytes[92..96], [2, 0, 0, 0]);
    }

    #[test]
    fn every_flipped_bit_and_every_other_place_is_damage() {
        let bytes = encoded(|footer, out| footer.encode(out));
        for bit in 0..FOOTER_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let outcome = Footer::decode(&flipped, FILE_BYTES);
            assert!(matches!(outcome, Err(FormatError::Damaged(_))), "bit {bit}: {outcome:?}");
        }
        for file_bytes in [0, 127, 128, FILE_BYTES - 1, FILE_BYTES + 1, u64::MAX] {
            assert!(Footer::decode(&bytes, file_bytes).is_err(), "{file_bytes}");
        }
    }

    #[test]
    fn newer_formats_are_unsupported_and_not_damaged() {
        let newer = encoded(|footer, out| footer.encode_with(out, 0, 0, 9, 2));
        assert!(matches!(Footer::decode(&newer, FILE_BYTES), Err(FormatError::Unsupported(_))));
        let feature = encoded(|footer, out| footer.encode_with(out, 0, 1 << 31, 1, 1));
        assert!(matches!(Footer::decode(&feature, FILE_BYTES), Err(FormatError::Unsupported(_))));
        let readable = encoded(|footer, out| footer.encode_with(out, 1 << 31, 0, 9, 1));
        assert_eq!(Footer::decode(&readable, FILE_BYTES), Ok(footer()), "readable by version 1");
        let nonsense = encoded(|footer, out| footer.encode_with(out, 0, 0, 0, 0));
        assert!(matches!(Footer::decode(&nonsense, FILE_BYTES), Err(FormatError::Damaged(_))));
    }

    #[test]
    fn forged_handles_are_refused() {
        for break_one in 0..9 {
            let mut footer = with_names();
            let mut file_bytes = FILE_BYTES;
            match break_one {
                0 => footer.filter.offset = 999,
                1 => footer.index.bytes = u64::MAX,
                2 => footer.range_tombstones.offset = 0,
                3 => footer.properties = Handle { offset: 1135, bytes: 0 },
                4 => footer.index = Handle { offset: 1065, bytes: 0 },
                5 => footer.properties.bytes = 59,
                6 => footer.names.bytes = 29,
                7 => footer.names.bytes = u64::MAX,
                _ => file_bytes -= 1,
            }
            let mut out = Vec::new();
            footer.encode_with(&mut out, 0, HAS_NAMES, 1, 1);
            // The forger also knows the checksum.
            out[16..24].copy_from_slice(&file_bytes.to_le_bytes());
            let checksum = Checksum::at(footer.uid.0, FILE_BYTES - 128).bytes(&out[..124]).finish();
            out[124..].copy_from_slice(&checksum.to_le_bytes());
            let outcome = Footer::decode(&out.try_into().unwrap(), FILE_BYTES);
            assert!(matches!(outcome, Err(FormatError::Damaged(_))), "{break_one}: {outcome:?}");
        }
    }
}
