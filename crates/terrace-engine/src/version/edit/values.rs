use terrace_base::{ByteReader, CodecError, FileId, TableUid, put_bytes, put_varint};

use super::table::bounded_size;
use super::{FieldWriter, field};
use crate::placement::TableLocation;
use crate::version::format::{put_file_id, read_file_id};
use crate::vlog::{HeldSegment, ValueFileMeta, ValueHome};

/// What an edit changes of the value log. Files are removed before others are added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValuesEdit {
    /// Value files that go.
    pub removed: Vec<FileId>,
    /// Value files that come.
    pub added: Vec<ValueFileMeta>,
}

impl ValuesEdit {
    pub(super) fn put(&self, out: &mut FieldWriter<'_>) {
        for id in &self.removed {
            out.put(field::VALUES_REMOVED, |v| put_file_id(v, *id));
        }
        for file in &self.added {
            let number = match file.home {
                ValueHome::File => field::VALUES_ADDED,
                ValueHome::Log => field::SEGMENT_RETIRED,
            };
            out.put(number, |v| put_value_file(v, file));
        }
    }

    /// Reads the field with this number, if it is one of the value log's.
    pub(super) fn read(
        &mut self,
        number: u64,
        value: &mut ByteReader<'_>,
    ) -> Result<bool, CodecError> {
        match number {
            field::VALUES_REMOVED => self.removed.push(read_file_id(value)?),
            field::VALUES_ADDED => self.added.push(read_value_file(value, ValueHome::File)?),
            field::SEGMENT_RETIRED => self.added.push(read_value_file(value, ValueHome::Log)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Appends what is known of a value file, as edits and compaction plans store it; which home it
/// has, the number of their field says.
pub fn put_value_file(out: &mut Vec<u8>, file: &ValueFileMeta) {
    put_file_id(out, file.id);
    put_bytes(out, file.location.bytes());
    out.extend_from_slice(&file.uid.0.to_le_bytes());
    out.extend_from_slice(&file.hash.to_le_bytes());
    put_varint(out, file.bytes);
    for segment in &file.segments {
        put_file_id(out, segment.id);
        put_varint(out, segment.count);
        put_varint(out, segment.bytes);
    }
}

/// The inverse of [`put_value_file`]: all of `reader` is one value file. Its segments ascend.
pub fn read_value_file(
    reader: &mut ByteReader<'_>,
    home: ValueHome,
) -> Result<ValueFileMeta, CodecError> {
    let mut file = ValueFileMeta {
        id: read_file_id(reader)?,
        location: TableLocation::new(reader.bytes()?),
        uid: TableUid(reader.u128()?),
        hash: reader.u128()?,
        bytes: bounded_size(reader)?,
        segments: Vec::new(),
        home,
    };
    while !reader.is_empty() {
        let id = read_file_id(reader)?;
        let (count, bytes) = (bounded_size(reader)?, bounded_size(reader)?);
        let before = file.segments.last().map(|one: &HeldSegment| one.id);
        if before.is_some_and(|before| before >= id) || count > bytes {
            return Err(reader.error("segments of a value file that cannot be"));
        }
        file.segments.push(HeldSegment { id, count, bytes });
    }
    let is_own = || matches!(file.segments.as_slice(), [one] if one.id == file.id);
    let is_wrong = home == ValueHome::Log && !is_own();
    // The values of a segment of the log count as what they would take in a file of values.
    let is_too_much = home == ValueHome::File && file.entry_bytes() > file.bytes;
    if file.segments.is_empty() || is_too_much || is_wrong {
        return Err(reader.error("a value file that cannot be"));
    }
    Ok(file)
}
