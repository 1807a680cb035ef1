//! Forged bytes that an open meets: whole by their checksums, and wrong in what they say.

use terrace_base::{
    EntryKind, Epoch, FileId, KeyRange, LevelNo, LogPosition, MemtableId, RowId, SeqNo,
};
use terrace_env::DiskImage;

use crate::Error;
use crate::store::tests::*;
use crate::table::TableLocation;
use crate::version::format::{decode_manifest_header, encode_record};
use crate::version::{LogEdit, RangeEdit, RowMeta, TableMeta, TreeEdit, VersionEdit};
use crate::wal::LogStart;
use crate::wal::format::{
    RecordHeader, RecordKind, SEGMENT_HEADER_BYTES, SegmentHeader, put_entry, put_memtables,
};

/// A segment of a killed range to which a record with this body was added, right but for what it
/// says.
fn with_record(body: &[u8], entry_count: u16) -> DiskImage {
    let options = Options { log_segment_bytes: 1 << 20, log_bytes_max: 4 << 20, ..small() };
    let mut disk = killed(17, |env| {
        let store = open(env, &options)?;
        put(&store, "a", "1")?;
        Ok(store)
    });
    let (path, header) = segments_of(&disk).pop().expect("one");
    let bytes = disk.read(&path).expect("listed");
    let mut offset = SEGMENT_HEADER_BYTES;
    while let Ok((record, _)) =
        RecordHeader::decode(&bytes[offset as usize..], header.identity, offset)
    {
        offset += record.padded_bytes();
    }
    let record = RecordHeader {
        bytes: (crate::wal::format::RECORD_HEADER_BYTES + body.len()) as u32,
        first_seqno: SeqNo(100),
        durable: LogPosition(0),
        seqno_count: 1,
        entry_count,
        kind: RecordKind::Batch,
    };
    let encoded = record.encode(header.identity, offset, &[body]);
    disk.write(&path, offset, &[&encoded, body].concat()).expect("inside the file");
    disk
}

#[test]
fn forged_records_are_refused_and_not_believed() {
    let memtable = MemtableId { epoch: Epoch(1), counter: 1 };
    let entries: [(EntryKind, &[u8], &[u8]); 2] = [
        (EntryKind::Value, &[b'k'; 100_000], b""),
        (EntryKind::RangeTombstone, b"a", &[b'k'; 100_000]),
    ];
    for (kind, key, value) in entries {
        let mut body = Vec::new();
        put_memtables(&mut body, &[memtable], &[]);
        put_entry(&mut body, kind, false, None, key, value);
        let outcome = after_crash(with_record(&body, 1), |env| open(env, &small()).map(|_| ()));
        assert!(matches!(outcome, Err(Error::Corruption(_))), "{outcome:?}");
    }
}

#[test]
fn a_forged_position_of_a_segment_is_refused_and_not_believed() {
    let mut disk = killed(18, |env| {
        let store = open(env, &small())?;
        put(&store, "a", "1")?;
        Ok(store)
    });
    let (path, header) = segments_of(&disk).pop().expect("one");
    let forged = SegmentHeader { base: LogPosition(u64::MAX - 40), ..header };
    for offset in [0, SegmentHeader::second_offset(header.segment_bytes)] {
        disk.write(&path, offset, &forged.encode(offset)).expect("inside the file");
    }
    let outcome = after_crash(disk, |env| open(env, &small()).map(|_| ()));
    assert!(matches!(outcome, Err(Error::Corruption(_))), "{outcome:?}");
}

/// A table that says that it is huge.
fn table(number: u64) -> TableMeta {
    TableMeta {
        location: TableLocation::new("000001-00000001.table"),
        bytes: number,
        greatest_seqno: SeqNo(2),
        bounds: KeyRange::new("a", Some(b"b".to_vec())),
        ..TableMeta::sample(1)
    }
}

#[test]
fn forged_numbers_of_a_manifest_are_refused_and_not_believed() {
    let disk = killed(19, |env| {
        let store = open(env, &lazy())?;
        for _ in 0..2 {
            put(&store, "a", "1")?;
            store.flush()?;
        }
        Ok(store)
    });
    let manifest = disk.files().into_iter().map(|(path, _)| path);
    let mut manifest = manifest.filter(|path| path.extension().is_some_and(|e| e == "manifest"));
    let manifest = manifest.next_back().expect("one");
    let bytes = disk.read(&manifest).expect("listed");
    let (identity, id) = decode_manifest_header(&bytes).expect("just written");
    let record = bytes.len() as u64;
    let huge = [u64::MAX, 1 << 63, (1 << 62) + 7];
    for number in huge {
        let file = FileId { epoch: Epoch(number), counter: 1 };
        let memtable = MemtableId { epoch: Epoch(1), counter: number };
        let position = LogPosition(number);
        let of_log = |log: LogEdit| VersionEdit::from(log);
        let of_tree = |tree: TreeEdit| VersionEdit::from(tree);
        let (log, tree) = (LogEdit::default, TreeEdit::default);
        let edits = [
            RangeEdit { epoch: Some(Epoch(number)), ..RangeEdit::default() }.into(),
            of_tree(TreeEdit { next_row: Some(RowId(number)), ..tree() }),
            of_tree(TreeEdit { greatest_seqno: Some(SeqNo(u64::MAX - 1)), ..tree() }),
            of_log(LogEdit { closed: Some(position), ..log() }),
            of_log(LogEdit { memtables_flushed: vec![(memtable, position)], ..log() }),
            of_log(LogEdit {
                start: Some(LogStart { segment: Some(file), position: LogPosition(0) }),
                ..log()
            }),
            of_log(LogEdit { start: Some(LogStart { segment: None, position }), ..log() }),
            of_tree(TreeEdit { tables_added: vec![(LevelNo(1), table(number))], ..tree() }),
            of_tree(TreeEdit {
                rows_added: vec![RowMeta { id: RowId(number), tables: Vec::new() }],
                ..tree()
            }),
        ];
        for edit in edits {
            let mut forged = disk.clone();
            forged.write(&manifest, record, &encode_record(identity, record, &edit)).expect("room");
            let outcome = after_crash(forged, |env| open(env, &small()).map(|_| ()));
            assert!(matches!(outcome, Err(Error::Corruption(_))), "{id} {edit:?}: {outcome:?}");
        }
    }
}
