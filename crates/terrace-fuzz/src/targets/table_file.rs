//! Whole tables: opened, checked, read in every way.

use std::path::PathBuf;
use std::sync::Arc;

use terrace_base::{
    ByteReader, EntryKind, EntryRef, Epoch, FileId, LevelNo, SeqNo, TableUid, WallTime, put_bytes,
    put_varint,
};
use terrace_engine::cache::BlockCache;
use terrace_engine::iter::{Cursor, Stream};
use terrace_engine::range_tombstone::RangeTombstone;
use terrace_engine::table::format::BLOCK_BYTES_MAX;
use terrace_engine::table::format::footer::Footer;
use terrace_engine::table::format::frame::{self, TRAILER_BYTES};
use terrace_engine::table::format::index::IndexBuilder;
use terrace_engine::table::format::range_tombstones;
use terrace_engine::table::{
    ByteInterval, Compression, MemoryTableStore, ReadMode, ReadTicket, TableBuilder, TableFile,
    TableOptions, TableProperties, TableReader, TableStore, filter_hash,
};
use terrace_engine::vlog::{ValueName, ValuePointer};

use super::Target;
use super::table_parts::{build_block, sample_entries};
use crate::notes::{note, note_result, note_size};
use crate::seal;

/// Whole tables. The first byte says whether the rest is a file, a file to be sealed again, or the
/// parts of which one is put together.
pub const TABLE: Target = Target {
    name: "table",
    about: "whole tables: opened, verified, read in every way",
    run: table,
    seeds: table_seeds,
    words: &[b"terr.tbl", b"user:", b"\x80\x01"],
    executions: 250_000,
    // The largest block that may be declared, in the two places that a stream and a cursor have.
    memory_fixed_bytes: 2 * BLOCK_BYTES_MAX + (4 << 20),
    memory_per_byte: 512,
    ..Target::DEFAULT
};

/// A table in memory that is not copied to be read.
#[derive(Debug)]
struct Image(Vec<u8>);

impl TableFile for Image {
    fn read(&self, intervals: &[ByteInterval]) -> ReadTicket {
        let read = |interval: &ByteInterval| {
            interval.check_inside(self.0.len() as u64, &self.name())?;
            let start = interval.offset as usize;
            Ok(self.0[start..start + interval.bytes].to_vec())
        };
        ReadTicket::ready(intervals.iter().map(read).collect())
    }

    fn try_read(&self, interval: ByteInterval) -> terrace_engine::Result<Option<Vec<u8>>> {
        // Every third place needs the disk, so that readers are interrupted.
        if interval.offset % 3 == 1 {
            return Ok(None);
        }
        Ok(self.read(&[interval]).wait()?.pop())
    }

    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn name(&self) -> PathBuf {
        PathBuf::from("table")
    }
}

fn table(data: &[u8]) {
    let &[choice, ref rest @ ..] = data else { return };
    let file = match choice % 4 {
        0 => rest.to_vec(),
        1 => {
            let mut file = rest.to_vec();
            seal::table(&mut file);
            file
        }
        _ => assemble(rest),
    };
    let file_bytes = file.len();
    let cache = Arc::new(BlockCache::new(0));
    let opened = TableReader::open(Arc::new(Image(file)), cache, None);
    note_result("open", &opened.as_ref().map_err(ToString::to_string));
    let Ok(reader) = opened else { return };
    if let Some(damage) = reader.filter_damage() {
        note(&damage.detail);
    }
    let verified = reader.verify(None);
    note_result("verify", &verified.as_ref().map_err(ToString::to_string));
    // A block of compressed zeros may hold far more entries than the file has bytes.
    let steps_max = 1000;
    let seen = walk(&reader, steps_max);
    walk_back(&reader, steps_max);
    search(&reader, file_bytes);
    let segments = reader.properties().named.iter().map(|one| one.segment).collect();
    let named = reader.named_values(&segments);
    note_result("named values", &named.as_ref().map_err(ToString::to_string));
    assert!(named.is_ok() || verified.is_err(), "lists of a verified table are whole");
    if verified.is_ok()
        && let Some(seen) = seen
    {
        check_verified(&reader, &seen);
    }
}

/// All entries as a stream gives them, unless it fails or there are many.
fn walk(reader: &Arc<TableReader>, steps_max: usize) -> Option<Vec<(Vec<u8>, SeqNo)>> {
    let stream = reader.stream(None);
    note_result("stream", &stream.as_ref().map_err(ToString::to_string));
    let mut stream = stream.ok()?;
    let mut seen = Vec::new();
    while let Some(entry) = stream.entry() {
        seen.push((entry.key.to_vec(), entry.seqno));
        let advanced = stream.advance();
        note_result("advance", &advanced.as_ref().map_err(ToString::to_string));
        if advanced.is_err() || seen.len() >= steps_max {
            return None;
        }
    }
    note_size("entries", seen.len());
    Some(seen)
}

fn walk_back(reader: &Arc<TableReader>, steps_max: usize) {
    for (point, mode) in [(SeqNo(9), ReadMode::BLOCK), (SeqNo::MAX, ReadMode::NO_WAIT)] {
        let mut cursor = reader.cursor(point, mode);
        let mut moved = cursor.seek_back(None);
        for step in 0..steps_max {
            note_result("back", &moved.as_ref().map_err(ToString::to_string));
            let Some(entry) = cursor.entry().filter(|_| moved.is_ok()) else { break };
            assert!(entry.seqno <= point, "a cursor shows nothing above its read point");
            let (key, seqno) = (entry.key.to_vec(), entry.seqno);
            if step % 3 == 0 {
                let _ = cursor.older(seqno);
                moved = cursor.seek(&key);
            } else {
                moved = cursor.prev();
            }
            if step % 3 == 0 && moved.is_ok() && cursor.entry().is_some() {
                moved = cursor.prev();
            }
        }
    }
}

fn search(reader: &Arc<TableReader>, file_bytes: usize) {
    let keys = [&b""[..], b"user:1", b"user:10-a-long-name-2", &[0xff; 40]];
    for key in keys {
        let _ = reader.may_contain(filter_hash(key));
        for mode in [ReadMode::BLOCK, ReadMode::NO_WAIT] {
            let got = reader.get(key, SeqNo(100), mode);
            note_result("get", &got.as_ref().map_err(ToString::to_string));
            if let Ok(Some(entry)) = got {
                assert!(entry.seqno() <= SeqNo(100), "a get sees nothing above its read point");
                let _ = entry.entry(key).value.len();
            }
        }
        let _ = reader.range_tombstones().newest_covering(key, SeqNo::MAX);
    }
    assert!(reader.memory_bytes() <= 64 * file_bytes + (8 << 10), "an open table is small");
}

/// What a verified table must answer: the same by every way.
fn check_verified(reader: &Arc<TableReader>, seen: &[(Vec<u8>, SeqNo)]) {
    note("verified and read");
    let newest = seen
        .iter()
        .enumerate()
        .filter(|(index, (key, _))| *index == 0 || seen[index - 1].0 != *key);
    let newest: Vec<&(Vec<u8>, SeqNo)> = newest.map(|(_, entry)| entry).collect();
    assert_eq!(reader.properties().entry_count, seen.len() as u64);
    assert_eq!(reader.properties().key_count, newest.len() as u64);
    let mut cursor = reader.cursor(SeqNo::MAX, ReadMode::BLOCK);
    cursor.seek(b"").expect("a verified table");
    for (key, seqno) in &newest {
        let entry = cursor.entry().expect("a cursor shows every key");
        assert_eq!((entry.key, entry.seqno), (key.as_slice(), *seqno));
        cursor.next().expect("a verified table");
    }
    assert!(cursor.entry().is_none(), "and no other");
    cursor.seek_back(None).expect("a verified table");
    for (key, _) in newest.iter().rev() {
        assert_eq!(cursor.entry().map(|entry| entry.key), Some(key.as_slice()));
        cursor.prev().expect("a verified table");
    }
    for (key, seqno) in seen {
        assert!(reader.may_contain(filter_hash(key)), "the filter denies no key");
        let got = reader.get(key, *seqno, ReadMode::BLOCK).expect("a verified table");
        assert_eq!(got.map(|entry| entry.seqno()), Some(*seqno), "every version is found");
    }
}

/// Mostly makes the decoded size that a compressed payload declares one that costs little to try.
fn shrink_declared(payload: &mut [u8]) {
    if let Some([_, middle, high, highest]) = payload.first_chunk_mut::<4>()
        && *middle != 0x42
    {
        (*high, *highest) = (0, 0);
    }
}

/// How many blocks a table is put together of.
const BLOCKS_MAX: u64 = 64;

/// The bytes behind a length, or what is left of them.
pub(super) fn next_part<'a>(reader: &mut ByteReader<'a>) -> &'a [u8] {
    let length = reader.varint_usize().unwrap_or(0).min(reader.rest().len());
    reader.take(length).unwrap_or_default()
}

/// The parts of a table, each with its length in front: properties, range tombstones, filter,
/// separators, then blocks, each with its compression in front. What is missing is empty.
fn assemble(parts: &[u8]) -> Vec<u8> {
    let uid = TableUid(77);
    let mut reader = ByteReader::new(parts);
    let (properties, range_tombstones, filter) =
        (next_part(&mut reader), next_part(&mut reader), next_part(&mut reader));
    let mut separators = ByteReader::new(next_part(&mut reader));
    let mut file = Vec::new();
    let mut index = IndexBuilder::default();
    while index.count() < BLOCKS_MAX
        && let Some((&compression, payload)) = next_part(&mut reader).split_first()
    {
        let offset = file.len();
        file.extend_from_slice(payload);
        let compression = Compression::from_stored(compression % 3).unwrap_or(Compression::None);
        if compression != Compression::None {
            shrink_declared(&mut file[offset..]);
        }
        frame::seal(&mut file, offset, compression, uid, offset as u64);
        let seqno = separators.varint().unwrap_or(0);
        let separator = separators.bytes().unwrap_or_default();
        let goes_on = (seqno != 0).then_some(SeqNo(seqno));
        index.add((file.len() - offset) as u64, separator, goes_on);
    }
    let data_bytes = file.len() as u64;
    let properties = counted(properties, range_tombstones, index.count(), data_bytes);
    let mut index_payload = Vec::new();
    index.encode(&mut index_payload);
    // A table of parts has no names; one that is sealed again may have.
    let payloads = [filter, &index_payload, range_tombstones, &[], &properties];
    let mut frame_bytes = [0; 5];
    for (payload, bytes) in payloads.into_iter().zip(&mut frame_bytes) {
        // Properties and an index are always there.
        let is_wanted = std::ptr::eq(payload, properties.as_slice());
        if !payload.is_empty() || is_wanted {
            let offset = file.len();
            file.extend_from_slice(payload);
            frame::seal(&mut file, offset, Compression::None, uid, offset as u64);
            *bytes = (payload.len() + TRAILER_BYTES) as u64;
        }
    }
    Footer::lay_out(uid, data_bytes, frame_bytes).encode(&mut file);
    file
}

/// These properties, with the counts that an open compares set right.
fn counted(stored: &[u8], range_tombstones: &[u8], blocks: u64, data_bytes: u64) -> Vec<u8> {
    let Ok(mut properties) = TableProperties::decode(stored) else { return stored.to_vec() };
    properties.lists.clear();
    properties.block_count = blocks;
    properties.data_bytes = data_bytes;
    if let Ok(decoded) = range_tombstones::decode(range_tombstones) {
        properties.range_tombstone_count = decoded.len() as u64;
    }
    let mut encoded = Vec::new();
    properties.encode(&mut encoded);
    encoded
}

/// A table as the builder writes it.
fn built(options: &TableOptions) -> Vec<u8> {
    built_of(options, &[])
}

/// The same with pointers to these values behind its other entries.
fn built_of(options: &TableOptions, pointers: &[(u64, u64)]) -> Vec<u8> {
    let store = MemoryTableStore::new();
    let id = FileId { epoch: Epoch(1), counter: 1 };
    let writer = store.create(id, LevelNo(1), 0).expect("memory takes a table");
    let mut builder = TableBuilder::new(writer, TableUid(77), options, WallTime(5));
    for entry in sample_entries() {
        builder.add(entry.as_ref()).expect("memory takes an entry");
    }
    for (number, (counter, offset)) in pointers.iter().enumerate() {
        let segment = FileId { epoch: Epoch(1), counter: *counter };
        let name = ValueName { segment, offset: *offset };
        let mut value = Vec::new();
        ValuePointer { name, bytes: 1000, checksum: None }.encode(&mut value);
        let (seqno, kind) = (SeqNo(12), EntryKind::ValuePointer);
        let key = [&[0xff; 21][..], &[number as u8]].concat();
        let entry = EntryRef { key: &key, seqno, kind, expiry: None, value: &value };
        builder.add(entry).expect("memory takes an entry");
    }
    for (start, end, seqno) in [(&b"user:1"[..], &b"user:2"[..], 20), (b"z", b"zz", 30)] {
        builder.add_range_tombstone(RangeTombstone { start, end, seqno: SeqNo(seqno) });
    }
    let built = builder.finish().expect("memory takes a table");
    let file = store.open(&built.location).expect("just written");
    let whole = ByteInterval { offset: 0, bytes: built.bytes as usize };
    let mut bytes = file.read(&[whole]).wait().expect("just written");
    bytes.pop().expect("one interval")
}

/// The parts of a table that the builder wrote, as [`assemble`] takes them.
fn taken_apart(file: &[u8]) -> Vec<u8> {
    let (_, footer) = file.split_last_chunk().expect("a table ends with a footer");
    let footer = Footer::decode(footer, file.len() as u64).expect("just built");
    let payload = |handle: terrace_engine::table::format::footer::Handle| {
        let start = handle.offset as usize;
        &file[start..start + (handle.bytes as usize).saturating_sub(TRAILER_BYTES)]
    };
    let mut parts = Vec::new();
    put_bytes(&mut parts, payload(footer.properties));
    put_bytes(&mut parts, payload(footer.range_tombstones));
    put_bytes(&mut parts, payload(footer.filter));
    let mut index = ByteReader::new(payload(footer.index));
    let mut separators = Vec::new();
    let mut blocks = Vec::new();
    let mut at = 0;
    for _ in 0..index.varint().expect("just built") {
        let frame_bytes = index.varint_usize().expect("just built");
        put_varint(&mut separators, index.varint().expect("just built"));
        put_bytes(&mut separators, index.bytes().expect("just built"));
        let frame = &file[at..at + frame_bytes];
        let (payload, trailer) = frame.split_at(frame_bytes - TRAILER_BYTES);
        put_bytes(&mut blocks, &[&trailer[..1], payload].concat());
        at += frame_bytes;
    }
    put_bytes(&mut parts, &separators);
    parts.extend_from_slice(&blocks);
    parts
}

fn table_seeds() -> Vec<Vec<u8>> {
    let options = TableOptions::default();
    let whole = built(&options);
    let blocks = built(&TableOptions { block_bytes: 64, filter_bits_per_key: 0, ..options });
    let zstd = built(&TableOptions { compression: Compression::Zstd, ..options });
    let lz4 = built(&TableOptions { compression: Compression::Lz4, block_bytes: 256, ..options });
    let trie = built(&TableOptions { trie: true, block_bytes: 64, ..options });
    let naming = built_of(&options, &[(7, 1096), (3, 64), (7, 64), (9, 1 << 30)]);
    let one_block = build_block(&sample_entries()[..2]);
    let mut no_parts = vec![2, 0, 0, 0, 3, 0, 1, b'z'];
    put_bytes(&mut no_parts, &[&[0], &one_block[..]].concat());
    vec![
        [&[0], &whole[..]].concat(),
        [&[1], &whole[..]].concat(),
        [&[1], &blocks[..]].concat(),
        [&[0], &naming[..]].concat(),
        [&[0], &trie[..]].concat(),
        [&[1], &trie[..]].concat(),
        [&[1], &naming[..]].concat(),
        [&[2], &taken_apart(&whole)[..]].concat(),
        [&[2], &taken_apart(&blocks)[..]].concat(),
        [&[2], &taken_apart(&zstd)[..]].concat(),
        [&[2], &taken_apart(&lz4)[..]].concat(),
        no_parts,
    ]
}
