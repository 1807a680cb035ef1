//! A version edit, in parts: what it changes of the tree and of the value log, and what it says of
//! the log, of the range and of where data lies. Each part has its codec beside it.
//!
//! An edit is a list of fields `tag varint, length varint, bytes`, in any order. A tag is
//! `2 * number + required`: a reader that does not know a required field refuses the file, and
//! skips an ignorable one. A table is a list of fields in the same coding.
//!
//! A row that an edit adds has a greater id than all others, or that of the newest row which the
//! same edit removes: it then stands in the place of the removed ones.

mod cloud;
mod log;
mod media;
mod range;
mod table;
mod tree;
mod values;

use terrace_base::{ByteReader, CodecError, put_field};

use crate::placement::Media;

pub use self::cloud::{CloudEdit, FeedAuthors, LogBehind, StoreLog, VolumeLog};
pub use self::log::LogEdit;
pub(crate) use self::range::read_operator;
pub use self::range::{RangeEdit, Repaired};
#[cfg(test)]
pub(super) use self::table::SIZE_END;
pub use self::table::{put_table, read_table};
pub use self::tree::{NewRow, RowMeta, TreeEdit};
pub use self::values::{ValuesEdit, put_value_file, read_value_file};

/// A change of a [`Version`](super::Version): what one flush, one compaction or one open did.
///
/// What is `None` or empty changes nothing. Edits are applied in the order of the feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionEdit {
    /// Starts from an empty version: the first edit of every manifest.
    pub is_snapshot: bool,
    /// What changes of the range itself.
    pub range: RangeEdit,
    /// What changes of the tree.
    pub tree: TreeEdit,
    /// What changes of the log.
    pub log: LogEdit,
    /// What changes of the value log.
    pub values: ValuesEdit,
    /// Where data lies from now on, all of it; the manifest can say so in a snapshot only.
    pub media: Option<Media>,
}

impl From<RangeEdit> for VersionEdit {
    fn from(range: RangeEdit) -> VersionEdit {
        VersionEdit { range, ..VersionEdit::default() }
    }
}

impl From<TreeEdit> for VersionEdit {
    fn from(tree: TreeEdit) -> VersionEdit {
        VersionEdit { tree, ..VersionEdit::default() }
    }
}

impl From<LogEdit> for VersionEdit {
    fn from(log: LogEdit) -> VersionEdit {
        VersionEdit { log, ..VersionEdit::default() }
    }
}

/// The fields of an edit. Numbers are persistent; which are required, `is_required` says.
mod field {
    pub const SNAPSHOT: u64 = 1;
    pub const DATABASE: u64 = 2;
    pub const RANGE: u64 = 3;
    pub const EPOCH: u64 = 4;
    pub const ROW_REMOVED: u64 = 5;
    pub const ROW_ADDED: u64 = 6;
    pub const NEXT_ROW: u64 = 7;
    pub const TABLE_REMOVED: u64 = 8;
    pub const TABLE_ADDED: u64 = 9;
    pub const MEMTABLE_FLUSHED: u64 = 10;
    pub const LOG_START: u64 = 11;
    pub const GREATEST_SEQNO: u64 = 12;
    pub const CLOSED: u64 = 13;
    /// Ignorable: a reader that does not know it reads the range as any other.
    pub const REPAIRED: u64 = 14;
    /// Ignorable: how memtables divide the keys says nothing about what is in them.
    pub const DRANGE_BOUNDARIES: u64 = 15;
    /// Required: operands mean nothing without it.
    pub const MERGE_OPERATOR: u64 = 16;
    /// Required: what is consumed would be read again, older entries above newer ones.
    pub const CUTS: u64 = 17;
    /// Required: the rows in it are part of the range.
    pub const CONTAINER: u64 = 18;
    /// Required: the tables in it are part of the range.
    pub const ROW_DIRECTORY: u64 = 19;

    /// Required: the records in them are part of the range.
    pub const LOG_DIRECTORIES: u64 = 20;
    /// Required: tables name values in the files.
    pub const VALUES_REMOVED: u64 = 21;
    /// Required: as above.
    pub const VALUES_ADDED: u64 = 22;
    /// Required: as above. Segments of the log that are value files where they lie.
    pub const SEGMENT_RETIRED: u64 = 23;
    /// Required: whoever writes the range without feeding it would be taken for an older copy.
    pub const CLOUD: u64 = 24;
    /// Required: whoever takes the range over without it loses what was acknowledged.
    pub const STORE_LOG: u64 = 25;
    /// Required: as above.
    pub const VOLUME_LOG: u64 = 26;
    /// Required: a replay without it counts what is in tables twice.
    pub const LOG_SETTLED: u64 = 27;
    /// Ignorable: it tells an older copy of a directory from a newer one, and nothing of the range.
    pub const EDIT_COUNT: u64 = 28;

    /// Whether a reader must know the field to read the range rightly.
    pub fn is_required(number: u64) -> bool {
        !matches!(number, REPAIRED | DRANGE_BOUNDARIES | EDIT_COUNT)
    }
}

/// Appends the fields of an edit.
struct FieldWriter<'a> {
    out: &'a mut Vec<u8>,
    value: Vec<u8>,
}

impl FieldWriter<'_> {
    fn put(&mut self, number: u64, fill: impl FnOnce(&mut Vec<u8>)) {
        self.value.clear();
        fill(&mut self.value);
        put_field(self.out, number, field::is_required(number), &self.value);
    }
}

/// The stored form of an edit.
#[must_use]
pub fn encode_edit(edit: &VersionEdit) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    let mut writer = FieldWriter { out: &mut out, value: Vec::with_capacity(256) };
    if edit.is_snapshot {
        writer.put(field::SNAPSHOT, |_| ());
    }
    edit.range.put(&mut writer);
    edit.tree.put(&mut writer);
    edit.log.put(&mut writer);
    edit.values.put(&mut writer);
    if let Some(media) = &edit.media {
        media.put(&mut writer);
    }
    out
}

/// The inverse of [`encode_edit`].
pub fn decode_edit(bytes: &[u8]) -> Result<VersionEdit, CodecError> {
    let mut reader = ByteReader::new(bytes);
    let mut edit = VersionEdit::default();
    while !reader.is_empty() {
        let (number, required, mut value) = reader.field()?;
        let is_snapshot = number == field::SNAPSHOT;
        edit.is_snapshot |= is_snapshot;
        let is_known = is_snapshot
            || edit.range.read(number, &mut value)?
            || edit.tree.read(number, &mut value)?
            || edit.log.read(number, &mut value)?
            || edit.values.read(number, &mut value)?
            || Media::read(&mut edit.media, number, &mut value)?;
        match (is_known, required) {
            (true, _) => value.finish()?,
            (false, true) => return Err(reader.error("an unknown required field of an edit")),
            (false, false) => {}
        }
    }
    Ok(edit)
}
