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
//! Version 2 knows what of a row is consumed (field 17 of an edit); where a manifest of version 1 is
//! read, nothing is.
//!
//! A row that an edit adds has a greater id than all others, or that of the newest row which the same
//! edit removes: it then stands in the place of the removed ones.
//!
//! An edit is a list of fields `tag varint, length varint, bytes`. A tag is `2 * number + required`:
//! a reader that does not know a required field refuses the file, and skips an ignorable one. A
//! table is a list of fields in the same coding.

use terrace_base::limits::STORED_KEY_BYTES_MAX;
use terrace_base::{
    ByteReader, Checksum, CodecError, Epoch, FileId, KeyRange, LevelNo, LogPosition, MemtableId,
    PREAMBLE_BYTES, Preamble, PreambleError, RangeId, RowId, SeqNo, TableUid, WallTime, put_bytes,
    put_field, put_varint,
};

use super::edit::{Repaired, RowMeta, TableMeta, VersionEdit};
use crate::l0::CutInterval;
use crate::l0::triangle::ContainerPlace;
use crate::merge::is_operator_name;
use crate::options::DRANGES_MAX;
use crate::table::TableLocation;
use crate::wal::LogStart;
use crate::wal::format::POSITION_END;

/// Bytes of a manifest's header, and of `CURRENT`.
pub const HEADER_BYTES: usize = 64;
/// Bytes in front of an edit.
pub const RECORD_HEADER_BYTES: usize = 8;
/// Records start at multiples of this.
pub const RECORD_ALIGNMENT: usize = 8;

/// No range comes as far, so that a number can follow any that a file holds.
pub const SEQNO_END: SeqNo = SeqNo(u64::MAX - (1 << 32));
/// Ids and positions lie below: they can be counted on from, whatever a file says.
pub(super) const NUMBER_END: u64 = POSITION_END;
/// Sizes and counts of a table lie below: they can be added up.
pub(super) const SIZE_END: u64 = 1 << 44;

const MANIFEST: Preamble = Preamble { magic: *b"terrmani", version: 2 };
const CURRENT: Preamble = Preamble { magic: *b"terrcurr", version: 1 };

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

    /// Whether a reader must know the field to read the range rightly.
    pub fn is_required(number: u64) -> bool {
        !matches!(number, REPAIRED | DRANGE_BOUNDARIES)
    }
}

/// The fields of a table. Numbers are persistent.
mod table_field {
    pub const ID: u64 = 1;
    pub const LOCATION: u64 = 2;
    pub const UID: u64 = 3;
    pub const SIZE: u64 = 4;
    pub const HASH: u64 = 5;
    pub const SEQNOS: u64 = 6;
    pub const BOUNDS: u64 = 7;
    pub const CLIP: u64 = 8;
    pub const SHARED: u64 = 9;
    /// Counts for statistics: a reader that does not know them loses nothing.
    pub const COUNTS: u64 = 10;
    /// What asks for a compaction: ignorable, as the counts; left out if there is nothing to say.
    pub const TOMBSTONE_RUN: u64 = 11;
    pub const EXPIRED_FROM: u64 = 12;
}

fn below(reader: &mut ByteReader<'_>, end: u64) -> Result<u64, CodecError> {
    let value = reader.varint()?;
    if value < end { Ok(value) } else { Err(reader.error("a number beyond all bounds")) }
}

/// An id or a position.
fn bounded(reader: &mut ByteReader<'_>) -> Result<u64, CodecError> {
    below(reader, NUMBER_END)
}

/// A size or a count.
fn bounded_size(reader: &mut ByteReader<'_>) -> Result<u64, CodecError> {
    below(reader, SIZE_END)
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

/// Appends a table's fields, as edits and compaction plans store them.
pub fn put_table(out: &mut Vec<u8>, table: &TableMeta) {
    let mut value = Vec::with_capacity(64);
    let mut put = |number, required, fill: &dyn Fn(&mut Vec<u8>)| {
        value.clear();
        fill(&mut value);
        put_field(out, number, required, &value);
    };
    put(table_field::ID, true, &|v| put_file_id(v, table.id));
    put(table_field::LOCATION, true, &|v| v.extend_from_slice(&table.location.0));
    put(table_field::UID, true, &|v| v.extend_from_slice(&table.uid.0.to_le_bytes()));
    put(table_field::SIZE, true, &|v| put_varint(v, table.bytes));
    put(table_field::HASH, true, &|v| v.extend_from_slice(&table.hash.to_le_bytes()));
    put(table_field::SEQNOS, true, &|v| {
        put_varint(v, table.least_seqno.0);
        put_varint(v, table.greatest_seqno.0);
    });
    put(table_field::BOUNDS, true, &|v| put_range(v, &table.bounds));
    if table.clip != KeyRange::all() {
        put(table_field::CLIP, true, &|v| put_range(v, &table.clip));
    }
    if table.shared {
        put(table_field::SHARED, true, &|_| ());
    }
    put(table_field::COUNTS, false, &|v| {
        put_varint(v, table.entry_count);
        put_varint(v, table.tombstone_count);
        put_varint(v, table.range_tombstone_count);
        put_varint(v, table.raw_bytes);
    });
    if table.tombstone_run > 0 {
        put(table_field::TOMBSTONE_RUN, false, &|v| put_varint(v, table.tombstone_run));
    }
    if let Some(moment) = table.expired_from {
        put(table_field::EXPIRED_FROM, false, &|v| put_varint(v, moment.0));
    }
}

/// The inverse of [`put_table`]: all of `reader` is one table.
pub fn read_table(reader: &mut ByteReader<'_>) -> Result<TableMeta, CodecError> {
    let nothing = FileId { epoch: Epoch(0), counter: 0 };
    let mut table = TableMeta {
        id: nothing,
        location: TableLocation(Vec::new()),
        uid: TableUid(0),
        bytes: 0,
        hash: 0,
        least_seqno: SeqNo::ZERO,
        greatest_seqno: SeqNo::ZERO,
        bounds: KeyRange::all(),
        clip: KeyRange::all(),
        shared: false,
        entry_count: 0,
        tombstone_count: 0,
        range_tombstone_count: 0,
        raw_bytes: 0,
        tombstone_run: 0,
        expired_from: None,
    };
    let mut seen = 0u32;
    while !reader.is_empty() {
        let (number, required, mut value) = reader.field()?;
        match number {
            table_field::ID => table.id = read_file_id(&mut value)?,
            table_field::LOCATION => table.location = TableLocation(value.take_rest().to_vec()),
            table_field::UID => table.uid = TableUid(value.u128()?),
            table_field::SIZE => table.bytes = bounded_size(&mut value)?,
            table_field::HASH => table.hash = value.u128()?,
            table_field::SEQNOS => {
                table.least_seqno = SeqNo(value.varint()?);
                table.greatest_seqno = SeqNo(value.varint()?);
            }
            table_field::BOUNDS => table.bounds = read_range(&mut value)?,
            table_field::CLIP => table.clip = read_range(&mut value)?,
            table_field::SHARED => table.shared = true,
            table_field::COUNTS => {
                table.entry_count = bounded_size(&mut value)?;
                table.tombstone_count = bounded_size(&mut value)?;
                table.range_tombstone_count = bounded_size(&mut value)?;
                table.raw_bytes = bounded_size(&mut value)?;
            }
            table_field::TOMBSTONE_RUN => table.tombstone_run = bounded_size(&mut value)?,
            table_field::EXPIRED_FROM => table.expired_from = Some(WallTime(value.varint()?)),
            _ if required => return Err(reader.error("an unknown required field of a table")),
            _ => continue,
        }
        value.finish()?;
        seen |= 1 << number;
    }
    let needed = (table_field::ID..=table_field::BOUNDS).map(|number| 1u32 << number).sum::<u32>();
    if seen & needed != needed {
        return Err(reader.error("a table lacks a field"));
    }
    Ok(table)
}

fn put_row(out: &mut Vec<u8>, row: &RowMeta) {
    put_varint(out, row.id.0);
    for table in &row.tables {
        let mut fields = Vec::with_capacity(160);
        put_table(&mut fields, table);
        put_bytes(out, &fields);
    }
}

fn read_row(reader: &mut ByteReader<'_>) -> Result<RowMeta, CodecError> {
    let id = RowId(bounded(reader)?);
    let mut tables = Vec::new();
    while !reader.is_empty() {
        tables.push(read_table(&mut ByteReader::new(reader.bytes()?))?);
    }
    Ok(RowMeta { id, tables })
}

/// The name of a merge operator: all of `reader`.
pub fn read_operator(reader: &mut ByteReader<'_>) -> Result<String, CodecError> {
    let bytes = reader.take_rest();
    match std::str::from_utf8(bytes) {
        Ok(name) if is_operator_name(name) => Ok(name.to_string()),
        _ => Err(reader.error("not the name of a merge operator")),
    }
}

/// The stored form of an edit.
#[must_use]
pub fn encode_edit(edit: &VersionEdit) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    let mut value = Vec::with_capacity(256);
    let mut put = |number, fill: &dyn Fn(&mut Vec<u8>)| {
        value.clear();
        fill(&mut value);
        put_field(&mut out, number, field::is_required(number), &value);
    };
    if edit.is_snapshot {
        put(field::SNAPSHOT, &|_| ());
    }
    if let Some(database) = edit.database {
        put(field::DATABASE, &|v| v.extend_from_slice(&database.to_le_bytes()));
    }
    if let Some((id, keys)) = &edit.range {
        put(field::RANGE, &|v| {
            put_varint(v, id.0);
            put_range(v, keys);
        });
    }
    if let Some(epoch) = edit.epoch {
        put(field::EPOCH, &|v| put_varint(v, epoch.0));
    }
    for row in &edit.rows_removed {
        put(field::ROW_REMOVED, &|v| put_varint(v, row.0));
    }
    for row in &edit.rows_added {
        put(field::ROW_ADDED, &|v| put_row(v, row));
    }
    if !edit.cuts.is_empty() {
        put(field::CUTS, &|v| {
            for cut in &edit.cuts {
                put_range(v, &cut.slice);
                put_varint(v, cut.through.0);
            }
        });
    }
    if let Some(row) = edit.next_row {
        put(field::NEXT_ROW, &|v| put_varint(v, row.0));
    }
    for (level, id) in &edit.tables_removed {
        put(field::TABLE_REMOVED, &|v| {
            v.push(level.0);
            put_file_id(v, *id);
        });
    }
    for (level, table) in &edit.tables_added {
        put(field::TABLE_ADDED, &|v| {
            v.push(level.0);
            put_table(v, table);
        });
    }
    for (memtable, end) in &edit.memtables_flushed {
        put(field::MEMTABLE_FLUSHED, &|v| {
            put_varint(v, memtable.epoch.0);
            put_varint(v, memtable.counter);
            put_varint(v, end.0);
        });
    }
    if let Some(start) = edit.log_start {
        put(field::LOG_START, &|v| {
            put_varint(v, start.position.0);
            if let Some(segment) = start.segment {
                put_file_id(v, segment);
            }
        });
    }
    if let Some(seqno) = edit.greatest_seqno {
        put(field::GREATEST_SEQNO, &|v| put_varint(v, seqno.0));
    }
    if let Some(position) = edit.closed {
        put(field::CLOSED, &|v| put_varint(v, position.0));
    }
    if let Some(repaired) = edit.repaired {
        put(field::REPAIRED, &|v| {
            put_varint(v, repaired.at_ms);
            v.push(u8::from(repaired.is_incomplete));
            v.extend_from_slice(&repaired.source_database.to_le_bytes());
        });
    }
    if let Some(boundaries) = &edit.drange_boundaries {
        put(field::DRANGE_BOUNDARIES, &|v| boundaries.iter().for_each(|key| put_bytes(v, key)));
    }
    if let Some(place) = &edit.container {
        put(field::CONTAINER, &|v| {
            put_bytes(v, place.path.as_bytes());
            put_varint(v, place.bytes);
            put_varint(v, place.page_bytes);
        });
    }
    if let Some(path) = &edit.row_directory {
        put(field::ROW_DIRECTORY, &|v| v.extend_from_slice(path.as_bytes()));
    }
    if let Some(paths) = &edit.log_directories {
        put(field::LOG_DIRECTORIES, &|v| {
            paths.iter().for_each(|path| put_bytes(v, path.as_bytes()));
        });
    }
    if let Some(name) = &edit.merge_operator {
        put(field::MERGE_OPERATOR, &|v| v.extend_from_slice(name.as_bytes()));
    }
    out
}

fn read_container(reader: &mut ByteReader<'_>) -> Result<ContainerPlace, CodecError> {
    let error = reader.error("the path of L0's container is no text");
    let path = str::from_utf8(reader.bytes()?).map_err(|_| error)?.to_string();
    Ok(ContainerPlace { path, bytes: bounded_size(reader)?, page_bytes: bounded_size(reader)? })
}

fn read_row_directory(reader: &mut ByteReader<'_>) -> Result<String, CodecError> {
    let error = reader.error("the path of L0's directory is no text");
    str::from_utf8(reader.take_rest()).map(str::to_string).map_err(|_| error)
}

fn read_log_directories(reader: &mut ByteReader<'_>) -> Result<Vec<String>, CodecError> {
    let mut paths = Vec::new();
    while !reader.is_empty() {
        let error = reader.error("the path of a directory of the log is no text");
        paths.push(str::from_utf8(reader.bytes()?).map(str::to_string).map_err(|_| error)?);
    }
    Ok(paths)
}

fn read_boundaries(reader: &mut ByteReader<'_>) -> Result<Vec<Vec<u8>>, CodecError> {
    let mut boundaries: Vec<Vec<u8>> = Vec::new();
    while !reader.is_empty() {
        let key = reader.bytes()?;
        let ascends = boundaries.last().map_or(&[][..], Vec::as_slice) < key;
        if !ascends || key.len() > STORED_KEY_BYTES_MAX || boundaries.len() + 1 >= DRANGES_MAX {
            return Err(reader.error("boundaries of dranges that cannot be"));
        }
        boundaries.push(key.to_vec());
    }
    Ok(boundaries)
}

/// Intervals that ascend, are disjoint and not empty.
fn read_cuts(reader: &mut ByteReader<'_>) -> Result<Vec<CutInterval>, CodecError> {
    let mut cuts: Vec<CutInterval> = Vec::new();
    while !reader.is_empty() {
        let slice = read_range(reader)?;
        let through = RowId(bounded(reader)?);
        let ascends = cuts.last().is_none_or(|last| last.slice.is_before(slice.start()));
        if !ascends || slice.is_empty() || through == RowId(0) {
            return Err(reader.error("consumed intervals of rows that cannot be"));
        }
        cuts.push(CutInterval { slice, through });
    }
    Ok(cuts)
}

/// The inverse of [`encode_edit`].
pub fn decode_edit(bytes: &[u8]) -> Result<VersionEdit, CodecError> {
    let mut reader = ByteReader::new(bytes);
    let mut edit = VersionEdit::default();
    while !reader.is_empty() {
        let (number, required, mut value) = reader.field()?;
        match number {
            field::SNAPSHOT => edit.is_snapshot = true,
            field::DATABASE => edit.database = Some(value.u128()?),
            field::RANGE => {
                edit.range = Some((RangeId(value.varint()?), read_range(&mut value)?));
            }
            field::EPOCH => edit.epoch = Some(Epoch(bounded(&mut value)?)),
            field::ROW_REMOVED => edit.rows_removed.push(RowId(bounded(&mut value)?)),
            field::ROW_ADDED => edit.rows_added.push(read_row(&mut value)?),
            field::CUTS => edit.cuts = read_cuts(&mut value)?,
            field::NEXT_ROW => edit.next_row = Some(RowId(bounded(&mut value)?)),
            field::TABLE_REMOVED => {
                let level = LevelNo(value.u8()?);
                edit.tables_removed.push((level, read_file_id(&mut value)?));
            }
            field::TABLE_ADDED => {
                let level = LevelNo(value.u8()?);
                edit.tables_added.push((level, read_table(&mut value)?));
            }
            field::MEMTABLE_FLUSHED => {
                let epoch = Epoch(bounded(&mut value)?);
                let memtable = MemtableId { epoch, counter: bounded(&mut value)? };
                edit.memtables_flushed.push((memtable, LogPosition(bounded(&mut value)?)));
            }
            field::LOG_START => {
                let position = LogPosition(bounded(&mut value)?);
                let segment = if value.is_empty() { None } else { Some(read_file_id(&mut value)?) };
                edit.log_start = Some(LogStart { segment, position });
            }
            field::GREATEST_SEQNO => {
                edit.greatest_seqno = Some(SeqNo(below(&mut value, SEQNO_END.0)?));
            }
            field::CLOSED => edit.closed = Some(LogPosition(bounded(&mut value)?)),
            field::REPAIRED => {
                let at_ms = value.varint()?;
                let is_incomplete = match value.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(reader.error("neither complete nor incomplete")),
                };
                let source_database = value.u128()?;
                edit.repaired = Some(Repaired { at_ms, source_database, is_incomplete });
            }
            field::DRANGE_BOUNDARIES => {
                edit.drange_boundaries = Some(read_boundaries(&mut value)?);
            }
            field::CONTAINER => edit.container = Some(read_container(&mut value)?),
            field::ROW_DIRECTORY => edit.row_directory = Some(read_row_directory(&mut value)?),
            field::LOG_DIRECTORIES => {
                edit.log_directories = Some(read_log_directories(&mut value)?);
            }
            field::MERGE_OPERATOR => edit.merge_operator = Some(read_operator(&mut value)?),
            _ if required => return Err(reader.error("an unknown required field of an edit")),
            _ => continue,
        }
        value.finish()?;
    }
    Ok(edit)
}

/// The stored form of a record: an edit at `offset` of the manifest with this identity, padded.
#[must_use]
pub fn encode_record(identity: u128, offset: u64, edit: &VersionEdit) -> Vec<u8> {
    let edit = encode_edit(edit);
    let length = (RECORD_HEADER_BYTES + edit.len()) as u32;
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
