//! A specimen of a log segment: what was written must stay readable for ever.

use terrace_base::{EntryKind, Expiry, FileId, MemtableId, WallTime};

use super::*;
use crate::tests::specimens;
use crate::wal::format::{
    BatchBody, ClosingBody, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader,
    put_entry, put_memtables,
};

const SEGMENT_BYTES: u64 = 1024;

fn id(counter: u64) -> FileId {
    FileId { epoch: Epoch(3), counter }
}

fn memtable(counter: u64) -> MemtableId {
    MemtableId { epoch: Epoch(3), counter }
}

fn header() -> SegmentHeader {
    SegmentHeader {
        identity: 0x1234_5678_9abc_def0_1122_3344_5566_7788,
        file_id: id(17),
        predecessor: Some(id(9)),
        base: LogPosition(4096),
        database: 1 << 99,
        segment_bytes: SEGMENT_BYTES,
        durable: LogPosition(0),
    }
}

/// A batch over two memtables, one for a single memtable, and the closing record.
fn bodies() -> [(RecordKind, u32, u16, Vec<u8>); 3] {
    let mut spread = Vec::new();
    put_memtables(&mut spread, &[memtable(1), memtable(2)], &[0, 1, 0, 1]);
    let expiry = Some(Expiry::at(WallTime(1_800_000_000_000)));
    put_entry(&mut spread, EntryKind::Value, false, expiry, b"key", b"value");
    put_entry(&mut spread, EntryKind::Tombstone, false, None, b"", b"");
    put_entry(&mut spread, EntryKind::RangeTombstone, false, None, b"a", b"m");
    put_entry(&mut spread, EntryKind::RangeTombstone, true, None, b"m", b"z");
    let mut single = Vec::new();
    put_memtables(&mut single, &[memtable(2)], &[]);
    put_entry(&mut single, EntryKind::MergeOperand, false, None, b"count", b"+1");
    put_entry(&mut single, EntryKind::ValuePointer, false, None, b"large", b"where it is");
    let closing = ClosingBody { manifest: id(4), manifest_bytes: 6789 };
    [
        (RecordKind::Batch, 3, 4, spread),
        (RecordKind::Batch, 2, 2, single),
        (RecordKind::Closing, 0, 0, closing.encode().to_vec()),
    ]
}

/// The header of a segment that begins with copies, and was cut behind its last record.
fn header_2() -> SegmentHeader {
    SegmentHeader { durable: LogPosition(4200), ..header() }
}

/// The segment as it is written: a header, records, and zeros up to the header of the file's end,
/// if it was not cut.
fn written(first: &SegmentHeader, is_cut: bool) -> Vec<u8> {
    let mut bytes = first.encode(0).to_vec();
    let mut first_seqno = SeqNo(70);
    for (kind, seqno_count, entry_count, body) in bodies() {
        let record = RecordHeader {
            bytes: (RECORD_HEADER_BYTES + body.len()) as u32,
            first_seqno,
            durable: LogPosition(4000),
            seqno_count,
            entry_count,
            kind,
        };
        let offset = bytes.len();
        bytes.extend(record.encode(header().identity, offset as u64, &[&body]));
        bytes.extend(body);
        bytes.resize(offset + record.padded_bytes() as usize, 0);
        first_seqno = SeqNo(first_seqno.0 + u64::from(seqno_count));
    }
    let whole = SegmentHeader::second_offset(SEGMENT_BYTES);
    let second = if is_cut { bytes.len() as u64 } else { whole };
    bytes.resize(second as usize, 0);
    let segment_bytes = second + SEGMENT_HEADER_BYTES;
    bytes.extend(SegmentHeader { segment_bytes, ..*first }.encode(second));
    bytes
}

/// The entries that the segment holds, as text.
const ENTRIES: [&str; 6] = [
    "m3.1 \"key\"#70 Value \"value\" until 1800000000000",
    "m3.2 \"\"#71 Tombstone \"\"",
    "m3.1 \"a\"#72 RangeTombstone \"m\"",
    "m3.2 \"m\"#72 RangeTombstone \"z\"",
    "m3.2 \"count\"#73 MergeOperand \"+1\"",
    "m3.2 \"large\"#74 ValuePointer \"where it is\"",
];

#[test]
fn a_segment_of_version_1_is_read_and_written_as_ever() {
    let segment = specimens::assert_as_ever("wal/testdata/v1.log", &written(&header(), false));
    let second = SegmentHeader::second_offset(SEGMENT_BYTES);
    assert_eq!(SegmentHeader::decode(&segment[..SEGMENT_HEADER_BYTES as usize], 0), Ok(header()));
    assert_eq!(SegmentHeader::decode(&segment[second as usize..], second), Ok(header()));
    assert_is_replayed(&segment);
}

#[test]
fn a_segment_of_version_2_that_was_cut_is_read_and_written_as_ever() {
    let segment = specimens::assert_as_ever("wal/testdata/v2.log", &written(&header_2(), true));
    let first = SegmentHeader::decode(&segment[..SEGMENT_HEADER_BYTES as usize], 0);
    assert_eq!(first, Ok(header_2()));
    let at = SegmentHeader::second_offset(segment.len() as u64);
    let second = SegmentHeader::decode(&segment[at as usize..], at).expect("it is whole");
    assert!(second.is_cut_of(&header_2(), segment.len() as u64));
    assert_is_replayed(&segment);
}

/// A replay finds all entries in the segment, no torn tail, and the closing record.
fn assert_is_replayed(segment: &[u8]) {
    let (entries, closing) = SimEnv::run(SimOptions::new(1), |env| {
        let env: SharedEnv = env;
        env.fs().create_dir_all(Path::new(DIR)).expect("the disk is whole");
        let mut file = env.fs().create(&segment_path(Path::new(DIR), id(17)), 0).expect("a file");
        file.append(segment).expect("the disk is whole");
        drop(file);
        let log = LocalLogStore {
            env: Arc::clone(&env),
            dir: DIR.into(),
            segment_bytes: SEGMENT_BYTES,
            medium: None,
        };
        let facts = LogFacts {
            database: header().database,
            start: LogStart { segment: Some(id(17)), position: header().base },
            ..LogFacts::default()
        };
        let mut entries = Vec::new();
        let replayed = log.replay(facts, &mut |record| {
            if record.header.kind == RecordKind::Batch {
                let body = BatchBody::decode(record.header, record.body()).expect("it is whole");
                for entry in body.entries() {
                    let (memtable, entry) = entry.expect("it is whole");
                    entries.push(format!("{memtable:?} {entry:?}"));
                }
            }
            Ok(())
        });
        let replayed = replayed.expect("nothing is damaged");
        assert_eq!(replayed.torn, None);
        (entries, replayed.closing)
    });
    assert_eq!(entries, ENTRIES);
    assert_eq!(closing, Some(ClosingBody { manifest: id(4), manifest_bytes: 6789 }));
}
