//! Every bit of small specimens, one per format (T5), and every length (T6), at the level of the
//! decoders: each flipped bit must be noticed by the decoder of what it stands in, or stand in
//! bytes that are known to be dead.

mod values;

use std::ops::Range;
use std::sync::Arc;

use terrace_base::{
    EntryKind, EntryRef, Epoch, FileId, LevelNo, LogPosition, SeqNo, TableUid, WallTime,
};
use terrace_engine::Result;
use terrace_engine::cache::BlockCache;
use terrace_engine::range_tombstone::RangeTombstone;
use terrace_engine::survey::{ManifestSurvey, Piece, Pieces, SegmentSurvey};
use terrace_engine::table::format::footer::{FOOTER_BYTES, Footer, Handle};
use terrace_engine::table::format::frame;
use terrace_engine::table::format::index::Index;
use terrace_engine::table::{
    ByteInterval, Compression, MemoryTableFile, MemoryTableStore, TableBuilder, TableOptions,
    TableReader, TableStore as _, decode_frame,
};
use terrace_engine::version::format::{
    HEADER_BYTES, decode_current, decode_manifest_header, decode_record, encode_current,
    encode_manifest_header, encode_record,
};
use terrace_engine::version::{LogEdit, TreeEdit, VersionEdit};
use terrace_engine::vlog::{ValueName, ValuePointer};
use terrace_engine::wal::format::{
    ClosingBody, RECORD_HEADER_BYTES, RecordHeader, RecordKind, SEGMENT_HEADER_BYTES,
    SegmentHeader, put_entry, put_memtables,
};
use terrace_env::SeededRng;

use crate::dead::of_segment;

/// The size that specimens come close to, and do not exceed.
pub const SPECIMEN_BYTES: usize = 32 << 10;

/// Whether a decoder notices that the byte at an offset is another.
type Notices = Box<dyn Fn(&[u8], usize) -> bool>;

/// Whether a decoder notices that only the first bytes are there.
type NoticesEnd = Box<dyn Fn(&[u8]) -> bool>;

/// The specimen of a format.
pub struct Format {
    /// What it is.
    pub name: &'static str,
    /// What was written.
    pub bytes: Vec<u8>,
    /// Bytes that nobody reads, each with the reason.
    pub dead: Vec<(Range<u64>, &'static str)>,
    notices: Notices,
    notices_end: NoticesEnd,
}

/// What became of the flips of a specimen.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct FlipCount {
    /// Bits flipped, one at a time.
    pub flips: u64,
    /// Noticed.
    pub noticed: u64,
    /// In dead bytes, and without effect.
    pub dead: u64,
    /// Lengths tried.
    pub lengths: u64,
    /// Bits that were missed, and lengths, if any.
    pub missed: Vec<String>,
}

impl Format {
    /// Flips every bit of every `stride`-th byte, and cuts at every `stride`-th length.
    #[must_use]
    pub fn flip_all(&self, stride: usize) -> FlipCount {
        let mut count = FlipCount::default();
        let mut damaged = self.bytes.clone();
        for offset in (0..damaged.len()).step_by(stride) {
            let is_dead = self.dead.iter().any(|(range, _)| range.contains(&(offset as u64)));
            for bit in 0..8 {
                damaged[offset] ^= 1 << bit;
                count.flips += 1;
                match ((self.notices)(&damaged, offset), is_dead) {
                    (true, false) => count.noticed += 1,
                    (false, true) => count.dead += 1,
                    (false, false) => count.missed.push(format!("bit {bit} of byte {offset}")),
                    (true, true) => {
                        count.missed.push(format!("dead byte {offset} has an effect after all"));
                    }
                }
                damaged[offset] ^= 1 << bit;
            }
        }
        for length in (0..self.bytes.len()).step_by(stride) {
            count.lengths += 1;
            if !(self.notices_end)(&self.bytes[..length]) {
                count.missed.push(format!("only {length} bytes"));
            }
        }
        count
    }
}

/// The specimens of all formats.
///
/// Errors: none; they are built in memory.
pub fn formats(seed: u64) -> Result<Vec<Format>> {
    let blocks = |name, compression| table_blocks(name, seed, compression, 4096, 40);
    Ok(vec![
        blocks("table blocks, plain", Compression::None)?,
        blocks("table blocks, lz4", Compression::Lz4)?,
        blocks("table blocks, zstd", Compression::Zstd)?,
        table_blocks("table blocks of single large values", seed, Compression::None, 4096, 9000)?,
        table_part("table index", seed, |footer| footer.index)?,
        table_part(TRIE, seed, |footer| footer.index)?,
        table_part("table filter", seed, |footer| footer.filter)?,
        table_part("table range tombstones", seed, |footer| footer.range_tombstones)?,
        table_part(NAMES, seed, |footer| footer.names)?,
        table_part("table properties", seed, |footer| footer.properties)?,
        table_footer(seed)?,
        segment("log segment, small records", seed, 90),
        segment("log segment, large records", seed, 5000),
        manifest("manifest, small edits", seed, 1),
        manifest("manifest, large edits", seed, 60),
        current(),
        values::value_file("value file", seed, false)?,
        values::value_file("value file, rewritten", seed, true)?,
    ])
}

const ID: FileId = FileId { epoch: Epoch(3), counter: 17 };

fn uid(seed: u64) -> TableUid {
    TableUid(u128::from(seed) << 64 | 0x0123_4567_89ab_cdef)
}

/// What a table is made of.
struct TableShape {
    entries: usize,
    key_bytes: usize,
    value_bytes: usize,
    range_tombstones: usize,
    /// Whether all values are pointers into one segment.
    are_pointers: bool,
    options: TableOptions,
}

/// The specimen of which each entry points to a value.
const NAMES: &str = "table names";
/// The specimen that has a trie.
const TRIE: &str = "table trie";

fn table(seed: u64, shape: &TableShape) -> Result<(Vec<u8>, Footer)> {
    let store = MemoryTableStore::new();
    let writer = store.create(FileId { epoch: Epoch(1), counter: 1 }, LevelNo(1), 0)?;
    let mut builder = TableBuilder::new(writer, uid(seed), &shape.options, WallTime(1 << 40));
    let mut random = SeededRng::new(seed);
    for number in 0..shape.entries {
        let key = format!("{:0width$}", number, width = shape.key_bytes);
        let mut value: Vec<u8> = Vec::with_capacity(shape.value_bytes);
        while value.len() < shape.value_bytes {
            // Half of it can be compressed.
            let letter = if random.one_in(2) { b'v' } else { random.next_u64() as u8 };
            value.push(letter);
        }
        let kind = match random.one_in(9) {
            true => EntryKind::Tombstone,
            false if shape.are_pointers => EntryKind::ValuePointer,
            false => EntryKind::Value,
        };
        if kind == EntryKind::ValuePointer {
            let offset = 64 + random.next_u64() % (1 << 26);
            let name = ValueName { segment: ID, offset };
            value.clear();
            ValuePointer { name, bytes: 1000, checksum: None }.encode(&mut value);
        }
        let value: &[u8] = if kind == EntryKind::Tombstone { &[] } else { &value };
        let seqno = SeqNo(number as u64 + 1);
        builder.add(EntryRef { key: key.as_bytes(), seqno, kind, expiry: None, value })?;
    }
    for number in 0..shape.range_tombstones {
        let (start, end) = (format!("r{number:08}a"), format!("r{number:08}c"));
        let (start, end) = (start.as_bytes(), end.as_bytes());
        builder.add_range_tombstone(RangeTombstone { start, end, seqno: SeqNo(5) });
    }
    let built = builder.finish()?;
    let file = store.open(&built.location)?;
    let whole = ByteInterval { offset: 0, bytes: file.bytes() as usize };
    let bytes = file.read(&[whole]).wait()?.pop().unwrap_or_default();
    let stored = bytes.last_chunk::<FOOTER_BYTES>().copied().unwrap_or([0; FOOTER_BYTES]);
    let footer = Footer::decode(&stored, bytes.len() as u64);
    let footer = footer.map_err(|error| terrace_engine::Error::invalid(error.to_string()))?;
    Ok((bytes, footer))
}

/// The largest number for which `bytes_of` is within the size of a specimen.
fn largest(bytes_of: impl Fn(usize) -> Result<usize>) -> Result<usize> {
    let (mut fits, mut exceeds) = (1, 2);
    while bytes_of(exceeds)? <= SPECIMEN_BYTES {
        fits = exceeds;
        exceeds *= 2;
    }
    while exceeds - fits > 1 {
        let middle = fits + (exceeds - fits) / 2;
        if bytes_of(middle)? <= SPECIMEN_BYTES { fits = middle } else { exceeds = middle }
    }
    Ok(fits)
}

fn table_blocks(
    name: &'static str,
    seed: u64,
    compression: Compression,
    block_bytes: usize,
    value_bytes: usize,
) -> Result<Format> {
    let options = TableOptions { block_bytes, filter_bits_per_key: 10, compression, trie: false };
    let shape = |entries| TableShape {
        entries,
        key_bytes: 12,
        value_bytes,
        range_tombstones: 0,
        are_pointers: false,
        options,
    };
    let entries = largest(|count| Ok(table(seed, &shape(count))?.1.data_bytes as usize))?;
    let (whole, footer) = table(seed, &shape(entries))?;
    let index = &whole[footer.index.offset as usize..][..footer.index.bytes as usize];
    let damaged = |error: terrace_base::CodecError| terrace_engine::Error::invalid(error.what);
    let index = frame::open_plain(index, uid(seed), footer.index.offset).map_err(damaged)?;
    let index = Index::decode(index, footer.data_bytes).map_err(damaged)?;
    let handles: Vec<Handle> = (0..index.block_count()).map(|block| index.handle(block)).collect();
    let bytes = whole[..footer.data_bytes as usize].to_vec();
    let notices = move |bytes: &[u8], offset: usize| {
        let block = handles.partition_point(|handle| handle.offset <= offset as u64) - 1;
        let Handle { offset, bytes: length } = handles[block];
        let frame = &bytes[offset as usize..(offset + length) as usize];
        decode_frame(frame, uid(seed), offset).is_err()
    };
    // What is left of a table always lacks its footer.
    let notices_end = move |bytes: &[u8]| {
        let file = Arc::new(MemoryTableFile::new("cut", bytes.to_vec()));
        TableReader::open(file, Arc::new(BlockCache::new(0)), None).is_err()
    };
    let (notices, notices_end) = (Box::new(notices), Box::new(notices_end));
    Ok(Format { name, bytes, dead: Vec::new(), notices, notices_end })
}

fn table_part(name: &'static str, seed: u64, part: fn(&Footer) -> Handle) -> Result<Format> {
    let plain = |block_bytes| TableOptions {
        block_bytes,
        filter_bits_per_key: 10,
        compression: Compression::None,
        trie: name == TRIE,
    };
    let shape = |count: usize| match name {
        "table index" => TableShape {
            entries: count,
            key_bytes: 40,
            value_bytes: 60,
            range_tombstones: 0,
            are_pointers: false,
            options: plain(64),
        },
        TRIE => TableShape {
            entries: count,
            key_bytes: 40,
            value_bytes: 0,
            range_tombstones: 0,
            are_pointers: false,
            options: plain(256),
        },
        "table filter" => TableShape {
            entries: count,
            key_bytes: 8,
            value_bytes: 0,
            range_tombstones: 0,
            are_pointers: false,
            options: plain(32 << 10),
        },
        "table range tombstones" => TableShape {
            entries: 1,
            key_bytes: 8,
            value_bytes: 0,
            range_tombstones: count,
            are_pointers: false,
            options: plain(4096),
        },
        // Each names a value of the same segment, and all of them have one frame.
        NAMES => TableShape {
            entries: count,
            key_bytes: 8,
            value_bytes: 0,
            range_tombstones: 0,
            are_pointers: true,
            options: plain(4096),
        },
        // The smallest and the largest key stand in the properties.
        _ => TableShape {
            entries: 2,
            key_bytes: count.min(60_000),
            value_bytes: 0,
            range_tombstones: 0,
            are_pointers: false,
            options: plain(4096),
        },
    };
    let count = largest(|count| Ok(part(&table(seed, &shape(count))?.1).bytes as usize))?;
    let (whole, footer) = table(seed, &shape(count))?;
    assert_eq!(footer.has_trie, name == TRIE, "a specimen of its kind");
    let Handle { offset, bytes: length } = part(&footer);
    let bytes = whole[offset as usize..(offset + length) as usize].to_vec();
    let is_damaged = move |bytes: &[u8]| frame::open_plain(bytes, uid(seed), offset).is_err();
    let notices = Box::new(move |bytes: &[u8], _: usize| is_damaged(bytes));
    Ok(Format { name, bytes, dead: Vec::new(), notices, notices_end: Box::new(is_damaged) })
}

fn table_footer(seed: u64) -> Result<Format> {
    let options = TableOptions {
        block_bytes: 512,
        filter_bits_per_key: 10,
        compression: Compression::None,
        trie: false,
    };
    let shape = TableShape {
        entries: 50,
        key_bytes: 9,
        value_bytes: 30,
        range_tombstones: 3,
        are_pointers: true,
        options,
    };
    let (whole, _) = table(seed, &shape)?;
    let file_bytes = whole.len() as u64;
    let bytes = whole[whole.len() - FOOTER_BYTES..].to_vec();
    let is_damaged = move |bytes: &[u8]| match bytes.first_chunk::<FOOTER_BYTES>() {
        Some(stored) => Footer::decode(stored, file_bytes).is_err(),
        None => true,
    };
    let notices = Box::new(move |bytes: &[u8], _: usize| is_damaged(bytes));
    let (name, dead) = ("table footer", Vec::new());
    Ok(Format { name, bytes, dead, notices, notices_end: Box::new(is_damaged) })
}

/// A good record: where it stands, and its bytes.
type Found = (u64, u32, Vec<u8>);

fn records(bytes: &[u8]) -> (usize, Vec<Found>) {
    let survey = SegmentSurvey::of_file(ID, bytes);
    let Some(header) = survey.header() else { return (2, Vec::new()) };
    let pieces = Pieces::new(bytes, header.identity, survey.record_offsets());
    let found = pieces.filter_map(|piece| match piece {
        Piece::Record { offset, header, body } => Some((offset, header.bytes, body.to_vec())),
        Piece::Gap(_) => None,
    });
    (survey.damaged_headers().count(), found.collect())
}

fn segment(name: &'static str, seed: u64, value_bytes: usize) -> Format {
    let mut random = SeededRng::new(seed);
    let segment_bytes = SPECIMEN_BYTES as u64;
    let header = SegmentHeader {
        identity: u128::from(random.next_u64()) << 64 | u128::from(random.next_u64()),
        file_id: ID,
        predecessor: Some(FileId { epoch: Epoch(3), counter: 9 }),
        base: LogPosition(4096),
        database: u128::from(random.next_u64()),
        segment_bytes,
        durable: LogPosition(0),
    };
    let second = SegmentHeader::second_offset(segment_bytes);
    let mut bytes = vec![0; SPECIMEN_BYTES];
    for offset in [0, second] {
        bytes[offset as usize..][..SEGMENT_HEADER_BYTES as usize]
            .copy_from_slice(&header.encode(offset));
    }
    let mut offset = SEGMENT_HEADER_BYTES;
    let mut seqno = 100;
    loop {
        let mut body = Vec::new();
        let memtable = terrace_base::MemtableId { epoch: Epoch(3), counter: 4 };
        put_memtables(&mut body, &[memtable], &[]);
        let value: Vec<u8> =
            (0..random.index(2 * value_bytes)).map(|_| random.next_u64() as u8).collect();
        put_entry(&mut body, EntryKind::Value, false, None, b"some key", &value);
        let is_last = offset + body.len() as u64 + 200 > second - 1024;
        if is_last {
            body = ClosingBody { manifest: ID, manifest_bytes: 512 }.encode().to_vec();
        }
        let record = RecordHeader {
            bytes: (RECORD_HEADER_BYTES + body.len()) as u32,
            first_seqno: SeqNo(seqno),
            durable: LogPosition(4096),
            seqno_count: u32::from(!is_last),
            entry_count: u16::from(!is_last),
            kind: if is_last { RecordKind::Closing } else { RecordKind::Batch },
        };
        let encoded = [&record.encode(header.identity, offset, &[&body])[..], &body].concat();
        bytes[offset as usize..][..encoded.len()].copy_from_slice(&encoded);
        offset += record.padded_bytes();
        seqno += 1;
        if is_last {
            break;
        }
    }
    let dead = of_segment(ID, &bytes);
    let (_, whole) = records(&bytes);
    let notices = move |bytes: &[u8], _: usize| {
        let (damaged_headers, found) = records(bytes);
        let is_subset = found.iter().all(|record| whole.contains(record));
        assert!(is_subset, "damage was taken for a record");
        damaged_headers > 0 || found != whole
    };
    let notices_end = move |bytes: &[u8]| {
        let survey = SegmentSurvey::of_file(ID, bytes);
        survey.header().is_none_or(|header| header.segment_bytes != bytes.len() as u64)
    };
    Format { name, bytes, dead, notices: Box::new(notices), notices_end: Box::new(notices_end) }
}

fn manifest(name: &'static str, seed: u64, flushed_count: u64) -> Format {
    let identity = u128::from(seed) << 64 | 77;
    let mut bytes = encode_manifest_header(identity, ID).to_vec();
    let mut starts = vec![0];
    for number in 0u64.. {
        let memtables_flushed = (0..flushed_count)
            .map(|counter| {
                let epoch = Epoch(3);
                let id = terrace_base::MemtableId { epoch, counter: number * 100 + counter };
                (id, LogPosition(number << 12 | counter))
            })
            .collect();
        let edit = VersionEdit {
            is_snapshot: number == 0,
            tree: TreeEdit { greatest_seqno: Some(SeqNo(number * 31)), ..TreeEdit::default() },
            log: LogEdit { memtables_flushed, ..LogEdit::default() },
            ..VersionEdit::default()
        };
        let record = encode_record(identity, bytes.len() as u64, &edit);
        if bytes.len() + record.len() > SPECIMEN_BYTES {
            break;
        }
        starts.push(bytes.len());
        bytes.extend_from_slice(&record);
    }
    let count = starts.len() - 1;
    let of_record = starts.clone();
    let notices = move |bytes: &[u8], offset: usize| {
        if offset < HEADER_BYTES {
            return decode_manifest_header(bytes).is_err();
        }
        let start = of_record[of_record.partition_point(|start| *start <= offset) - 1];
        let is_noticed = decode_record(&bytes[start..], identity, start as u64).is_err();
        if offset.is_multiple_of(97) {
            let survey = ManifestSurvey::read(bytes);
            assert_eq!(survey.edits.len() + 1, count, "one edit is damaged, the others are found");
        }
        is_noticed
    };
    // At the end of a record a manifest is an earlier one, which the closing record of the log
    // tells apart; anywhere else the last record is cut.
    let notices_end = move |bytes: &[u8]| {
        let survey = ManifestSurvey::read(bytes);
        let is_earlier = starts.contains(&bytes.len()) && bytes.len() > HEADER_BYTES;
        survey.header.is_err() || survey.edits.is_empty() || survey.tail().is_some() != is_earlier
    };
    let (notices, notices_end) = (Box::new(notices), Box::new(notices_end));
    Format { name, bytes, dead: Vec::new(), notices, notices_end }
}

fn current() -> Format {
    let bytes = encode_current(ID).to_vec();
    let notices = Box::new(|bytes: &[u8], _: usize| decode_current(bytes).is_err());
    let notices_end = Box::new(|bytes: &[u8]| decode_current(bytes).is_err());
    Format { name: "CURRENT", bytes, dead: Vec::new(), notices, notices_end }
}
