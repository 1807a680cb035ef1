use terrace_base::{
    ByteReader, CodecError, Epoch, FileId, KeyRange, SeqNo, TableUid, WallTime, put_field,
    put_varint,
};

use crate::placement::TableLocation;
use crate::table::TableMeta;
use crate::table::format::properties::{put_named, take_named};
use crate::version::format::{below, put_file_id, put_range, read_file_id, read_range};
use crate::vlog::NamedSegments;

/// Sizes and counts of a table lie below: they can be added up.
pub(in crate::version) const SIZE_END: u64 = 1 << 44;

/// A size or a count.
pub(super) fn bounded_size(reader: &mut ByteReader<'_>) -> Result<u64, CodecError> {
    below(reader, SIZE_END)
}

/// The fields of a table. Numbers are persistent.
mod field {
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
    /// The values that it names; left out if there are none. Required: values that nobody seems to
    /// name would be dropped.
    pub const NAMED: u64 = 13;
}

/// Appends a table's fields, as edits and compaction plans store them.
pub fn put_table(out: &mut Vec<u8>, table: &TableMeta) {
    let mut value = Vec::with_capacity(64);
    let mut put = |number, required, fill: &dyn Fn(&mut Vec<u8>)| {
        value.clear();
        fill(&mut value);
        put_field(out, number, required, &value);
    };
    put(field::ID, true, &|v| put_file_id(v, table.id));
    put(field::LOCATION, true, &|v| v.extend_from_slice(table.location.bytes()));
    put(field::UID, true, &|v| v.extend_from_slice(&table.uid.0.to_le_bytes()));
    put(field::SIZE, true, &|v| put_varint(v, table.bytes));
    put(field::HASH, true, &|v| v.extend_from_slice(&table.hash.to_le_bytes()));
    put(field::SEQNOS, true, &|v| {
        put_varint(v, table.least_seqno.0);
        put_varint(v, table.greatest_seqno.0);
    });
    put(field::BOUNDS, true, &|v| put_range(v, &table.bounds));
    if table.clip != KeyRange::all() {
        put(field::CLIP, true, &|v| put_range(v, &table.clip));
    }
    if table.shared {
        put(field::SHARED, true, &|_| ());
    }
    put(field::COUNTS, false, &|v| {
        put_varint(v, table.entry_count);
        put_varint(v, table.tombstone_count);
        put_varint(v, table.range_tombstone_count);
        put_varint(v, table.raw_bytes);
    });
    if table.tombstone_run > 0 {
        put(field::TOMBSTONE_RUN, false, &|v| put_varint(v, table.tombstone_run));
    }
    if let Some(moment) = table.expired_from {
        put(field::EXPIRED_FROM, false, &|v| put_varint(v, moment.0));
    }
    if !table.named.is_empty() {
        put(field::NAMED, true, &|v| put_named(v, &table.named));
    }
}

/// The inverse of [`put_table`]: all of `reader` is one table.
pub fn read_table(reader: &mut ByteReader<'_>) -> Result<TableMeta, CodecError> {
    let nothing = FileId { epoch: Epoch(0), counter: 0 };
    let mut table = TableMeta {
        id: nothing,
        location: TableLocation::new(Vec::new()),
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
        named: NamedSegments::default(),
    };
    let mut seen = 0u32;
    while !reader.is_empty() {
        let (number, required, mut value) = reader.field()?;
        match number {
            field::ID => table.id = read_file_id(&mut value)?,
            field::LOCATION => table.location = TableLocation::new(value.take_rest()),
            field::UID => table.uid = TableUid(value.u128()?),
            field::SIZE => table.bytes = bounded_size(&mut value)?,
            field::HASH => table.hash = value.u128()?,
            field::SEQNOS => {
                table.least_seqno = SeqNo(value.varint()?);
                table.greatest_seqno = SeqNo(value.varint()?);
            }
            field::BOUNDS => table.bounds = read_range(&mut value)?,
            field::CLIP => table.clip = read_range(&mut value)?,
            field::SHARED => table.shared = true,
            field::COUNTS => {
                table.entry_count = bounded_size(&mut value)?;
                table.tombstone_count = bounded_size(&mut value)?;
                table.range_tombstone_count = bounded_size(&mut value)?;
                table.raw_bytes = bounded_size(&mut value)?;
            }
            field::TOMBSTONE_RUN => table.tombstone_run = bounded_size(&mut value)?,
            field::EXPIRED_FROM => table.expired_from = Some(WallTime(value.varint()?)),
            field::NAMED => table.named = take_named(&mut value)?,
            _ if required => return Err(reader.error("an unknown required field of a table")),
            _ => continue,
        }
        value.finish()?;
        seen |= 1 << number;
    }
    let needed = (field::ID..=field::BOUNDS).map(|number| 1u32 << number).sum::<u32>();
    if seen & needed != needed {
        return Err(reader.error("a table lacks a field"));
    }
    Ok(table)
}
