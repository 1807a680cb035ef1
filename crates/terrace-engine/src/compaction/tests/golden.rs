//! A specimen of a compaction plan: a worker of another version must understand it.

use terrace_base::{Epoch, FileId, KeyRange, LevelNo, SeqNo, TableUid, WallTime};

use crate::compaction::{CompactionPlan, PlanInput};
use crate::placement::TableLocation;
use crate::table::Compression;
use crate::tests::specimens;
use crate::version::TableMeta;
use crate::vlog::{HeldSegment, ValueFileMeta, ValueHome};

fn plan() -> CompactionPlan {
    let table = TableMeta {
        clip: KeyRange::new("b", Some(b"k".to_vec())),
        expired_from: Some(WallTime(1_800_000_000_000)),
        tombstone_run: 7,
        ..TableMeta::sample(5)
    };
    CompactionPlan {
        epoch: Epoch(3),
        now: WallTime(1_700_000_000_000),
        snapshots: vec![SeqNo(7), SeqNo(1 << 40)],
        slice: KeyRange::new("b", None),
        inputs: vec![
            PlanInput { level: LevelNo(0), table },
            PlanInput { level: LevelNo(2), table: TableMeta::sample(6) },
        ],
        output_level: LevelNo(2),
        droppable: vec![KeyRange::new("c", Some(b"d".to_vec())), KeyRange::new("x", None)],
        first_output: FileId { epoch: Epoch(3), counter: 40 },
        output_count_max: 9,
        table_bytes: 2 << 20,
        block_bytes: 4096,
        filter_bits_per_key: 10,
        compression: Compression::Lz4,
        trie: false,
        large_bytes: None,
        pointers_from: None,
        value_files: Vec::new(),
        filter: None,
        merge_operator: Some("add-i64".to_string()),
    }
}

/// What plans say since values may stand apart: a golden of its own, so that the first one stays.
fn plan_with_values() -> CompactionPlan {
    let id = |counter| FileId { epoch: Epoch(3), counter };
    let file = |counter, home| ValueFileMeta {
        id: id(counter),
        location: TableLocation::new("x.values"),
        uid: TableUid(77),
        bytes: 5000,
        hash: 99,
        segments: vec![HeldSegment { id: id(counter), count: 3, bytes: 4000 }],
        home,
    };
    CompactionPlan {
        output_level: LevelNo(6),
        large_bytes: Some(1000),
        pointers_from: Some(1000),
        value_files: vec![file(8, ValueHome::File), file(9, ValueHome::Log)],
        ..plan()
    }
}

#[test]
fn a_plan_that_brings_values_in_place_is_read_and_written_as_ever() {
    let encoded = plan_with_values().encode();
    let bytes = specimens::assert_as_ever("compaction/testdata/values.plan", &encoded);
    assert_eq!(CompactionPlan::decode(&bytes), Ok(plan_with_values()));
}

#[test]
fn a_plan_of_version_1_is_read_and_written_as_ever() {
    let bytes = specimens::assert_as_ever("compaction/testdata/v1.plan", &plan().encode());
    assert_eq!(CompactionPlan::decode(&bytes), Ok(plan()));
}
