//! The log: the header of a segment, a record with its batch, and a whole directory of segments.

use std::path::Path;

use terrace_base::{
    ByteReader, EntryKind, Epoch, Expiry, FileId, LogPosition, MemtableId, SeqNo, WallTime,
    put_bytes, put_varint,
};
use terrace_engine::wal::format::{
    BatchBody, ClosingBody, RECORD_HEADER_BYTES, RecordHeader, RecordKind, SEGMENT_HEADER_BYTES,
    SegmentHeader, put_entry, put_memtables,
};
use terrace_engine::wal::{LocalLogStore, LogFacts, LogStart, LogStore, SegmentFile};
use terrace_env::{DiskImage, SharedEnv, SimOptions};

use super::Target;
use super::simulation::simulate;
use crate::notes::{note, note_result, note_size};
use crate::seal;

/// Headers of segments. The first byte says whether they are sealed again.
pub const SEGMENT_HEADER: Target = Target {
    name: "segment_header",
    about: "headers of log segments",
    run: segment_header,
    seeds: || {
        let header = sample_header(2, Some(1), 4096).encode(0);
        vec![[&[0], &header[..]].concat(), [&[1], &header[..]].concat()]
    },
    words: &[b"terrlog\0"],
    executions: 4_000_000,
    bytes_max: 256,
    ..Target::DEFAULT
};

/// Records. The first byte says whether they are sealed again.
pub const LOG_RECORD: Target = Target {
    name: "log_record",
    about: "log records, batches, entries, closing records",
    run: log_record,
    seeds: record_seeds,
    executions: 1_500_000,
    ..Target::DEFAULT
};

/// Directories of segments. The first byte says whether they are sealed again.
pub const LOG_DIRECTORY: Target = Target {
    name: "log_directory",
    about: "the replay of a whole directory of log segments",
    run: log_directory,
    seeds: directory_seeds,
    words: &[b"terrlog\0"],
    executions: 60_000,
    memory_fixed_bytes: 1 << 20,
    memory_per_byte: 512,
    ..Target::DEFAULT
};

/// The bytes of a segment's header in front of its checksum.
const SEALED_BYTES: usize = SEGMENT_HEADER_BYTES as usize - 4;
const IDENTITY: u128 = 0x1234_5678_9abc_def0_1122_3344_5566_7788;
const DATABASE: u128 = 0x0db0_0db0_0db0_0db0_0db0_0db0_0db0_0db0;
const RECORD_OFFSET: u64 = 256;

fn segment_header(data: &[u8]) {
    let &[choice, ref rest @ ..] = data else { return };
    let mut bytes = rest.to_vec();
    if choice % 2 == 1 {
        seal::header(&mut bytes, SEGMENT_HEADER_BYTES as usize);
    }
    let decoded = SegmentHeader::decode(&bytes, 0);
    note(&format!("{:?}", decoded.as_ref().map(|header| header.predecessor.is_some())));
    if let Ok(header) = decoded {
        let again = header.encode(0);
        assert_eq!(SegmentHeader::decode(&again, 0), Ok(header));
        // The versions in front may be a later writer's; the predecessor's counter means nothing
        // if there is none.
        let same = again[16..SEALED_BYTES] == bytes[16..SEALED_BYTES];
        assert!(same || header.predecessor.is_none());
    }
}

fn log_record(data: &[u8]) {
    let &[choice, ref rest @ ..] = data else { return };
    let mut bytes = rest.to_vec();
    if choice % 2 == 1 {
        seal::log_record(&mut bytes, IDENTITY, RECORD_OFFSET);
    }
    let decoded = RecordHeader::decode(&bytes, IDENTITY, RECORD_OFFSET);
    note_result("record", &decoded);
    let Ok((header, body)) = decoded else { return };
    assert!(header.padded_bytes() >= u64::from(header.bytes));
    match header.kind {
        RecordKind::Batch => check_batch(&header, body),
        RecordKind::Closing => {
            let closing = ClosingBody::decode(body);
            note_result("closing", &closing);
            if let Ok(closing) = closing {
                assert_eq!(closing.encode(), body, "a closing record has one coding");
            }
        }
    }
}

fn check_batch(header: &RecordHeader, body: &[u8]) {
    let batch = BatchBody::decode(header, body);
    note_result("batch", &batch);
    let Ok(batch) = batch else { return };
    note_size("memtables", batch.memtables.len());
    let mut places = Vec::new();
    let mut again = Vec::new();
    let mut before: Option<SeqNo> = None;
    let mut is_plain = true;
    for entry in batch.entries() {
        note_result("entry", &entry.as_ref().map(|_| ()).map_err(|error| *error));
        let Ok((memtable, entry)) = entry else { return };
        let place = batch.memtables.iter().position(|known| *known == memtable);
        places.push(u8::try_from(place.expect("it is in the list")).expect("there are few"));
        let same_number = before == Some(entry.seqno);
        // The first entry of a batch shares its number with nobody.
        is_plain &= before.is_some_and(|before| before <= entry.seqno) || before.is_none();
        is_plain &= before.is_some() || entry.seqno == header.first_seqno;
        before = Some(entry.seqno);
        put_entry(&mut again, entry.kind, same_number, entry.expiry, entry.key, entry.value);
    }
    note_size("entries", places.len());
    if is_plain {
        let mut whole = Vec::new();
        put_memtables(&mut whole, &batch.memtables, &places);
        whole.extend_from_slice(&again);
        let twice = BatchBody::decode(header, &whole).expect("just encoded");
        let entries = |batch: &BatchBody<'_>| {
            let entries =
                batch.entries().map(|entry| entry.map(|(id, entry)| format!("{id}{entry:?}")));
            entries.collect::<Result<Vec<_>, _>>()
        };
        assert_eq!(entries(&twice), entries(&batch), "a batch decodes to what was encoded");
    }
}

fn id(counter: u64) -> FileId {
    FileId { epoch: Epoch(3), counter }
}

/// A directory as an input: where the replay starts, then files as (counter, bytes).
fn log_directory(data: &[u8]) {
    let &[choice, ref rest @ ..] = data else { return };
    let mut reader = ByteReader::new(rest);
    let first = reader.varint().unwrap_or(0);
    let start = LogStart {
        segment: (first != 0).then_some(id(first)),
        position: LogPosition(reader.varint().unwrap_or(0)),
    };
    let mut disk = DiskImage::new();
    let dir = Path::new("/db");
    let made = disk.write(&dir.join("LOCK"), 0, &[]);
    made.expect("an image takes any file");
    for _ in 0..6 {
        let (Ok(counter), Ok(length)) = (reader.varint(), reader.varint_usize()) else { break };
        let mut file = reader.take(length.min(reader.rest().len())).unwrap_or_default().to_vec();
        if choice % 2 == 1 {
            seal::segment(&mut file);
        }
        let path = dir.join(format!("{}.log", id(counter)));
        disk.write(&path, 0, &file).expect("an image takes any bytes");
    }
    simulate(SimOptions { disk, ..SimOptions::new(1) }, |env| replay(env, start));
}

fn replay(env: SharedEnv, start: LogStart) {
    let store = LocalLogStore { env, dir: "/db".into(), segment_bytes: 4096, medium: None };
    let mut end = start.position;
    let mut records = 0;
    let facts =
        LogFacts { database: DATABASE, start, durable: start.position, ..LogFacts::default() };
    let replayed = store.replay(facts, &mut |record| {
        assert!(record.position >= end, "records are replayed in their order, from the start on");
        end = LogPosition(record.position.0 + record.header.padded_bytes());
        records += 1;
        if let Ok(batch) = BatchBody::decode(record.header, record.body()) {
            let _ = batch.entries().take_while(Result::is_ok).count();
        }
        Ok(())
    });
    note_result("replay", &replayed.as_ref().map_err(ToString::to_string));
    note_size("records", records);
    if let Ok(replayed) = replayed {
        note_size("segments", replayed.segments.len());
        note(if replayed.torn.is_some() { "torn" } else { "whole" });
        note(if replayed.closing.is_some() { "closed" } else { "open" });
        assert!(replayed.durable <= replayed.end, "nothing durable is missing");
        assert!(records == 0 || replayed.end == end || replayed.closing.is_some());
        assert!(replayed.segments.windows(2).all(|pair| pair[0].end == pair[1].base));
        let is_listed =
            |file: &SegmentFile| replayed.segments.iter().any(|known| known.file.id == file.id);
        assert!(!replayed.stale.iter().any(is_listed), "a segment is in the chain or stale");
    }
}

fn sample_header(counter: u64, predecessor: Option<u64>, base: u64) -> SegmentHeader {
    let identity = IDENTITY + u128::from(counter);
    let predecessor = predecessor.map(id);
    SegmentHeader {
        identity,
        file_id: id(counter),
        predecessor,
        base: LogPosition(base),
        database: DATABASE,
        segment_bytes: 4096,
        durable: LogPosition(0),
    }
}

/// A record of a batch with one entry of each kind, over one memtable or two.
fn batch_record(identity: u128, offset: u64, first: u64, durable: u64, memtables: u64) -> Vec<u8> {
    let ids: Vec<MemtableId> =
        (1..=memtables).map(|counter| MemtableId { epoch: Epoch(3), counter }).collect();
    let mut body = Vec::new();
    let places: &[u8] = if memtables > 1 { &[0, 1, 0, 0, 1] } else { &[] };
    put_memtables(&mut body, &ids, places);
    let expiry = Some(Expiry::at(WallTime(99)));
    put_entry(&mut body, EntryKind::Value, false, expiry, b"key", b"value");
    put_entry(&mut body, EntryKind::Value, false, None, b"", &[7; 30]);
    put_entry(&mut body, EntryKind::Tombstone, false, None, b"gone", b"");
    put_entry(&mut body, EntryKind::RangeTombstone, false, None, b"a", b"m");
    put_entry(&mut body, EntryKind::RangeTombstone, true, None, b"m", b"z");
    let header = RecordHeader {
        bytes: (RECORD_HEADER_BYTES + body.len()) as u32,
        first_seqno: SeqNo(first),
        durable: LogPosition(durable),
        seqno_count: 4,
        entry_count: 5,
        kind: RecordKind::Batch,
    };
    let mut record = header.encode(identity, offset, &[&body]).to_vec();
    record.extend_from_slice(&body);
    record.resize(record.len().next_multiple_of(8), 0);
    record
}

fn closing_record(identity: u128, offset: u64, durable: u64) -> Vec<u8> {
    let body = ClosingBody { manifest: id(9), manifest_bytes: 500 }.encode();
    let header = RecordHeader {
        bytes: (RECORD_HEADER_BYTES + body.len()) as u32,
        first_seqno: SeqNo(9),
        durable: LogPosition(durable),
        seqno_count: 0,
        entry_count: 0,
        kind: RecordKind::Closing,
    };
    let mut record = header.encode(identity, offset, &[&body]).to_vec();
    record.extend_from_slice(&body);
    record
}

fn record_seeds() -> Vec<Vec<u8>> {
    let one = batch_record(IDENTITY, RECORD_OFFSET, 70, 4000, 1);
    let two = batch_record(IDENTITY, RECORD_OFFSET, 1 << 40, 4000, 2);
    let closing = closing_record(IDENTITY, RECORD_OFFSET, 1);
    vec![
        [&[0], &one[..]].concat(),
        [&[1], &one[..]].concat(),
        [&[1], &two[..]].concat(),
        [&[1], &closing[..]].concat(),
    ]
}

/// A segment of `records` batches; returns it and the position of its end.
fn sample_segment(header: &SegmentHeader, records: u64, is_closed: bool) -> (Vec<u8>, u64) {
    let mut file = vec![0; SEGMENT_HEADER_BYTES as usize];
    for number in 0..records {
        let offset = file.len() as u64;
        let durable = header.base.0;
        let record = batch_record(header.identity, offset, 1 + 4 * number, durable, 1 + number % 2);
        file.extend_from_slice(&record);
    }
    if is_closed {
        let offset = file.len() as u64;
        file.extend_from_slice(&closing_record(header.identity, offset, header.base.0));
    }
    let end = header.base.0 + file.len() as u64 - SEGMENT_HEADER_BYTES;
    // What a preallocated file has behind its records.
    file.resize(file.len() + 72, 0);
    let segment_bytes = file.len() as u64 + SEGMENT_HEADER_BYTES;
    let header = SegmentHeader { segment_bytes, ..*header };
    file[..SEGMENT_HEADER_BYTES as usize].copy_from_slice(&header.encode(0));
    let second = SegmentHeader::second_offset(segment_bytes);
    file.extend_from_slice(&header.encode(second));
    (file, end)
}

fn directory_seeds() -> Vec<Vec<u8>> {
    let (first, first_end) = sample_segment(&sample_header(1, None, 0), 2, false);
    let (second, second_end) = sample_segment(&sample_header(2, Some(1), first_end), 3, false);
    let (third, _) = sample_segment(&sample_header(4, Some(2), second_end), 1, true);
    let (spare, _) = sample_segment(&sample_header(9, Some(8), 5), 1, false);
    let several: [&[(u64, &[u8])]; 3] = [
        &[(1, &first)],
        &[(1, &first), (2, &second), (4, &third), (5, &spare)],
        &[(1, &first), (2, &second[..400])],
    ];
    let mut seeds = Vec::new();
    for (index, files) in several.iter().enumerate() {
        let mut seed = vec![u8::from(index > 0)];
        put_varint(&mut seed, 1);
        put_varint(&mut seed, 0);
        for (counter, file) in *files {
            put_varint(&mut seed, *counter);
            put_bytes(&mut seed, file);
        }
        seeds.push(seed);
    }
    seeds
}
