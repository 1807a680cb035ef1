//! Tests of the bytes of edits and manifests.

mod edits;
mod golden;

use terrace_base::{
    Epoch, FileId, KeyRange, LevelNo, LogPosition, MemtableId, RangeId, RowId, SeqNo, TableUid,
    WallTime,
};

use super::{LogEdit, RangeEdit, Repaired, RowMeta, TableMeta, TreeEdit, ValuesEdit, VersionEdit};
use crate::l0::CutInterval;
use crate::placement::{ContainerPlace, Media};
use crate::table::TableLocation;
use crate::vlog::{HeldSegment, NamedBytes, NamedSegments, ValueFileMeta, ValueHome};
use crate::wal::LogStart;

fn id(counter: u64) -> FileId {
    FileId { epoch: Epoch(7), counter }
}

fn table(counter: u64) -> TableMeta {
    TableMeta {
        id: id(counter),
        location: TableLocation::new("here"),
        uid: TableUid(99),
        bytes: 4096,
        hash: 1 << 100,
        least_seqno: SeqNo(5),
        greatest_seqno: SeqNo(u64::MAX),
        bounds: KeyRange::new("a", Some(b"m".to_vec())),
        clip: KeyRange::new("b", None),
        shared: true,
        entry_count: 10,
        tombstone_count: 2,
        range_tombstone_count: 1,
        raw_bytes: 3000,
        tombstone_run: 2,
        expired_from: Some(WallTime(77)),
        named: NamedSegments::default(),
    }
}

/// A table that names values in two segments.
fn naming_table(counter: u64) -> TableMeta {
    let named = NamedSegments::new(vec![named(4), named(6)]).expect("they ascend");
    TableMeta { named, ..table(counter) }
}

fn named(counter: u64) -> NamedBytes {
    NamedBytes { segment: id(counter), count: 3, bytes: 3000 }
}

fn value_file(counter: u64) -> ValueFileMeta {
    let held = |counter| HeldSegment { id: id(counter), count: 9, bytes: 9000 };
    ValueFileMeta {
        id: id(counter),
        location: TableLocation::new("there"),
        uid: TableUid(77),
        bytes: 20_000,
        hash: 1 << 99,
        segments: vec![held(4), held(6)],
        home: ValueHome::File,
    }
}

/// An edit of the value log, and of a table that names what is in it.
fn values_edit() -> VersionEdit {
    VersionEdit {
        values: ValuesEdit { removed: vec![id(20), id(21)], added: vec![value_file(22)] },
        tree: TreeEdit { tables_added: vec![(LevelNo(2), naming_table(3))], ..TreeEdit::default() },
        ..VersionEdit::default()
    }
}

/// An edit that makes a segment of the log a value file.
fn retired_edit() -> VersionEdit {
    let own = HeldSegment { id: id(6), count: 0, bytes: 9000 };
    let (segments, home) = (vec![own], ValueHome::Log);
    let retired = ValueFileMeta { hash: 0, segments, home, ..value_file(6) };
    VersionEdit {
        values: ValuesEdit { removed: vec![id(22)], added: vec![retired, value_file(23)] },
        ..VersionEdit::default()
    }
}

/// An edit with every field of a range without a value log.
fn full_edit() -> VersionEdit {
    VersionEdit {
        is_snapshot: true,
        range: RangeEdit {
            database: Some(3),
            identity: Some((RangeId(1), KeyRange::all())),
            epoch: Some(Epoch(7)),
            merge_operator: Some("add-i64".to_string()),
            repaired: Some(Repaired { at_ms: 9, source_database: 1 << 77, is_incomplete: true }),
            drange_boundaries: Some(vec![b"d".into(), b"m".into()]),
            cloud: None,
            log_behind: None,
            edit_count: None,
        },
        tree: TreeEdit {
            rows_removed: vec![RowId(1), RowId(2)],
            rows_added: vec![RowMeta { id: RowId(3), tables: vec![table(1), table(2)] }],
            cuts: vec![cut("b", Some("d"), 2), cut("d", Some("f"), 3), cut("g", None, 1)],
            next_row: Some(RowId(4)),
            tables_removed: vec![(LevelNo(1), id(9))],
            tables_added: vec![(LevelNo(2), table(3))],
            greatest_seqno: Some(SeqNo(1000)),
        },
        log: LogEdit {
            memtables_flushed: vec![(
                MemtableId { epoch: Epoch(6), counter: 5 },
                LogPosition(1 << 40),
            )],
            start: Some(LogStart { segment: Some(id(8)), position: LogPosition(77) }),
            settled: None,
            closed: Some(LogPosition(88)),
        },
        values: ValuesEdit::default(),
        media: Some(Media {
            container: Some(ContainerPlace {
                path: "/pmem/rows".into(),
                bytes: 1 << 33,
                page_bytes: 4096,
            }),
            row_directory: Some("/pmem/tables".into()),
            log_directories: vec!["/pmem/log".into(), "/other".into()],
        }),
    }
}

fn cut(start: &str, end: Option<&str>, through: u64) -> CutInterval {
    let slice = KeyRange::new(start, end.map(|end| end.as_bytes().to_vec()));
    CutInterval { slice, through: RowId(through) }
}
