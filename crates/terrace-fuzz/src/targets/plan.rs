//! Compaction plans, which one machine makes and another carries out.

use terrace_base::{Epoch, FileId, KeyRange, LevelNo, SeqNo, WallTime};
use terrace_engine::compaction::filter::PlanFilter;
use terrace_engine::compaction::{CompactionPlan, PlanInput};
use terrace_engine::table::Compression;

use super::Target;
use super::manifest::{sample_table, sample_values};
use crate::notes::{note_result, note_size};

/// Plans.
pub const PLAN: Target = Target {
    name: "plan",
    about: "compaction plans",
    run: plan,
    seeds: plan_seeds,
    executions: 1_500_000,
    ..Target::DEFAULT
};

fn plan(data: &[u8]) {
    let decoded = CompactionPlan::decode(data);
    note_result("plan", &decoded);
    if let Ok(decoded) = decoded {
        note_size("inputs", decoded.inputs.len());
        note_size("snapshots", decoded.snapshots.len());
        // Fields that are new to this version are left out, so the bytes may differ once.
        let encoded = decoded.encode();
        assert_eq!(CompactionPlan::decode(&encoded).as_ref(), Ok(&decoded));
        assert_eq!(CompactionPlan::decode(&encoded).map(|again| again.encode()), Ok(encoded));
        let _ = decoded.input_bytes();
    }
}

fn plan_seeds() -> Vec<Vec<u8>> {
    let id = |counter| FileId { epoch: Epoch(7), counter };
    let empty = CompactionPlan {
        epoch: Epoch(7),
        now: WallTime(1),
        snapshots: vec![],
        slice: KeyRange::all(),
        inputs: vec![],
        output_level: LevelNo(1),
        droppable: vec![],
        first_output: id(40),
        output_count_max: 1,
        table_bytes: 1 << 20,
        block_bytes: 4096,
        filter_bits_per_key: 10,
        compression: Compression::None,
        trie: false,
        merge_operator: None,
        large_bytes: None,
        pointers_from: None,
        value_files: vec![],
        filter: None,
    };
    let (naming, values) = sample_values(13);
    let full = CompactionPlan {
        snapshots: vec![SeqNo(5), SeqNo(1 << 40), SeqNo::MAX],
        slice: KeyRange::new("b", Some(b"x".to_vec())),
        inputs: vec![
            PlanInput { level: LevelNo(0), table: sample_table(11) },
            PlanInput { level: LevelNo(1), table: sample_table(12) },
            PlanInput { level: LevelNo(2), table: naming },
        ],
        droppable: vec![KeyRange::new("c", Some(b"d".to_vec())), KeyRange::new("e", None)],
        compression: Compression::Zstd,
        merge_operator: Some("add-i64".to_string()),
        large_bytes: Some(1000),
        pointers_from: Some(500),
        value_files: vec![values],
        filter: Some(PlanFilter { name: "expired".to_string(), above: SeqNo(9) }),
        ..empty.clone()
    };
    vec![empty.encode(), full.encode()]
}
