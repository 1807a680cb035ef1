//! The log in the object store: an object of it, with the records that it holds.

use terrace_base::{EntryKind, Epoch, LogPosition, MemtableId, SeqNo, WallTime};
use terrace_engine::cloud::format::Author;
use terrace_engine::cloud::{
    LogContent, LogPiece, LogRecords, decode_log, encode_fence, encode_stone, records_in,
};
use terrace_engine::wal::format::{
    BatchBody, RECORD_HEADER_BYTES, RecordHeader, RecordKind, put_entry, put_memtables,
};

use super::Target;
use crate::notes::{note, note_result, note_size};
use crate::seal;

/// Objects. The first byte says whether their checksums are set right.
pub const LOG_OBJECT: Target = Target {
    name: "log_object",
    about: "objects of the log in the store: fences, stones, records",
    run: log_object,
    seeds,
    words: &[b"terrclog"],
    executions: 4_000_000,
    ..Target::DEFAULT
};

const DATABASE: u128 = 0x0db0_0db0_0db0_0db0_0db0_0db0_0db0_0db0;
const NUMBER: u64 = 12;

/// Behind the versions in the preamble, which may be those of a later writer.
const BEHIND_VERSIONS: usize = 16;
const CHECKSUM_BYTES: usize = 4;

fn log_object(data: &[u8]) {
    let &[choice, ref rest @ ..] = data else { return };
    let mut bytes = rest.to_vec();
    if choice % 2 == 1 {
        seal::log_object(&mut bytes, DATABASE, NUMBER);
    }
    let decoded = decode_log(DATABASE, NUMBER, bytes);
    note_result("object", &decoded);
    let Ok(object) = decoded else { return };
    match object.what {
        LogContent::Fence => has_one_coding(rest, &encode_fence(DATABASE, NUMBER, object.author)),
        LogContent::Stone => has_one_coding(rest, &encode_stone(DATABASE, NUMBER, object.author)),
        LogContent::Records(records) => check_records(object.author, &records),
    }
}

fn has_one_coding(read: &[u8], again: &[u8]) {
    note("nothing but an author");
    let part = BEHIND_VERSIONS..again.len() - CHECKSUM_BYTES;
    assert_eq!(read[part.clone()], again[part], "it has one coding");
    assert_eq!(read.len(), again.len());
}

/// Header and body of each record in an object, of which each follows on the one before.
fn content(records: &LogRecords) -> Vec<(RecordHeader, &[u8])> {
    let LogRecords { chain, base, end, bytes, .. } = records;
    let mut position = *base;
    let mut content = Vec::new();
    for record in records_in(bytes, *chain, *base) {
        let record = record.expect("whoever decoded the object has looked at it");
        assert_eq!(record.position, position, "there is no gap");
        position = LogPosition(position.0 + record.header.padded_bytes());
        content.push((record.header, &bytes[record.body]));
    }
    assert_eq!(position, *end, "the last one ends where the object says");
    content
}

fn check_records(author: Author, records: &LogRecords) {
    let read = content(records);
    note_size("records", read.len());
    let mut piece = LogPiece::new(records.chain, records.base, records.gathered);
    for (header, body) in &read {
        note(&format!("{:?}", header.kind));
        // What a replay makes of it.
        if header.kind == RecordKind::Batch
            && let Ok(batch) = BatchBody::decode(header, body)
        {
            note_size("entries", batch.entries().take_while(Result::is_ok).count());
        }
        piece.push(header, body);
    }
    let again = decode_log(DATABASE, NUMBER, piece.encode(DATABASE, NUMBER, author));
    let again = again.expect("just encoded");
    assert_eq!(again.author, author);
    let again = again.records().expect("it holds records");
    let what = |records: &LogRecords| (records.chain, records.base, records.end, records.gathered);
    assert_eq!(what(&again), what(records));
    assert!(content(&again) == read, "records are decoded to what was encoded");
}

fn batch(first: u64) -> (RecordHeader, Vec<u8>) {
    let mut body = Vec::new();
    put_memtables(&mut body, &[MemtableId { epoch: Epoch(3), counter: first }], &[]);
    put_entry(&mut body, EntryKind::Value, false, None, b"key", b"value");
    put_entry(&mut body, EntryKind::Tombstone, false, None, b"gone", b"");
    let header = RecordHeader {
        bytes: (RECORD_HEADER_BYTES + body.len()) as u32,
        first_seqno: SeqNo(first),
        durable: LogPosition(40),
        seqno_count: 2,
        entry_count: 2,
        kind: RecordKind::Batch,
    };
    (header, body)
}

fn seeds() -> Vec<Vec<u8>> {
    let author = Author { epoch: Epoch(3), nonce: 0x77 };
    let piece = |count: u64, base: u64| {
        let mut piece = LogPiece::new(2, LogPosition(base), WallTime(base));
        for number in 0..count {
            let (header, body) = batch(1 + 2 * number);
            piece.push(&header, &body);
        }
        piece.encode(DATABASE, NUMBER, author)
    };
    let objects = [
        encode_fence(DATABASE, NUMBER, author),
        encode_stone(DATABASE, NUMBER, author),
        piece(0, 100),
        piece(1, 1 << 40),
        piece(3, 4096),
    ];
    let as_it_is = [&[0], &objects[4][..]].concat();
    let sealed = objects.iter().map(|object| [&[1], &object[..]].concat());
    [as_it_is].into_iter().chain(sealed).collect()
}
