//! Goal: every edit is read as it was written, and nothing absurd or damaged is. Method: edits with
//! every field, forged ones, and every bit of a record flipped.

use std::path::Path;

use terrace_base::put_field;
use terrace_env::{RealEnv, SharedEnv};

use super::*;
use crate::tests::specimens;
use crate::version::edit::SIZE_END;
use crate::version::fold;
use crate::version::format::{
    HEADER_BYTES, NUMBER_END, decode_current, decode_edit, decode_manifest_header, decode_record,
    encode_current, encode_edit, encode_manifest_header, encode_record,
};
use crate::version::{LogBehind, StoreLog, VolumeLog};

#[test]
fn absurd_cuts_are_refused() {
    let some = |cuts: &[CutInterval]| {
        let edit = TreeEdit { cuts: cuts.to_vec(), ..TreeEdit::default() };
        decode_edit(&encode_edit(&edit.into())).map(|edit| edit.tree.cuts)
    };
    assert!(some(&[cut("a", Some("b"), 1), cut("b", None, 1)]).is_ok());
    for absurd in [
        &[cut("b", Some("b"), 1)][..],
        &[cut("b", Some("a"), 1)],
        &[cut("a", Some("b"), 0)],
        &[cut("a", Some("b"), NUMBER_END)],
        &[cut("a", Some("c"), 1), cut("b", Some("d"), 2)],
        &[cut("c", Some("d"), 1), cut("a", Some("b"), 2)],
        &[cut("c", None, 1), cut("d", Some("e"), 2)],
    ] {
        assert!(some(absurd).is_err(), "{absurd:?}");
    }
}

#[test]
fn boundaries_that_do_not_ascend_are_refused() {
    for keys in [&["b", "a"][..], &["a", "a"], &[""]] {
        let boundaries = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        let edit = RangeEdit { drange_boundaries: Some(boundaries), ..RangeEdit::default() };
        assert!(decode_edit(&encode_edit(&edit.into())).is_err(), "{keys:?}");
    }
}

#[test]
fn edits_round_trip() {
    for edit in [full_edit(), values_edit(), retired_edit(), VersionEdit::default()] {
        assert_eq!(decode_edit(&encode_edit(&edit)), Ok(edit));
    }
    let start = Some(LogStart { segment: None, position: LogPosition(0) });
    let edit = VersionEdit::from(LogEdit { start, ..LogEdit::default() });
    assert_eq!(decode_edit(&encode_edit(&edit)), Ok(edit));
}

/// As of a range whose log outlives the machine: the specimen holds for its bytes.
fn outliving_edits() -> Vec<VersionEdit> {
    let (position, seqno) = (LogPosition(4096), SeqNo(70));
    let in_store = StoreLog { epoch: Epoch(7), chain: 2, number: 12, position };
    let on_volume = VolumeLog { epoch: Epoch(8), position, seqno };
    let logs = [LogBehind::InStore(in_store), LogBehind::OnVolume(on_volume), LogBehind::None];
    let of_log = |log| RangeEdit { log_behind: Some(log), ..RangeEdit::default() }.into();
    let settled = LogEdit { settled: Some(LogPosition(5000)), ..LogEdit::default() };
    logs.map(of_log).into_iter().chain([settled.into()]).collect()
}

#[test]
fn edits_of_a_log_that_outlives_the_machine_are_as_ever() {
    let edits = outliving_edits();
    let encoded: Vec<Vec<u8>> = edits.iter().map(encode_edit).collect();
    for (edit, encoded) in edits.iter().zip(&encoded) {
        assert_eq!(decode_edit(encoded).as_ref(), Ok(edit));
    }
    specimens::assert_as_ever("version/testdata/v2-outliving.edits", &encoded.concat());
}

/// Each of these numbers, in an edit with a valid checksum, once made an open panic where the
/// next one is counted from it or sizes are summed up.
#[test]
fn numbers_beyond_their_bounds_are_refused() {
    let greatest = u64::MAX;
    let row = |id, bytes| RowMeta { id: RowId(id), tables: vec![TableMeta { bytes, ..table(1) }] };
    let start = LogStart { segment: None, position: LogPosition(greatest) };
    let of_tree = |tree: TreeEdit| VersionEdit::from(tree);
    let of_range = |range: RangeEdit| VersionEdit::from(range);
    let (tree, range) = (TreeEdit::default, RangeEdit::default);
    for (index, edit) in [
        of_range(RangeEdit { epoch: Some(Epoch(greatest)), ..range() }),
        of_tree(TreeEdit { rows_added: vec![row(greatest, 1)], ..tree() }),
        of_tree(TreeEdit { rows_added: vec![row(1, greatest)], ..tree() }),
        of_tree(TreeEdit { next_row: Some(RowId(greatest)), ..tree() }),
        LogEdit { start: Some(start), ..LogEdit::default() }.into(),
        of_tree(TreeEdit { greatest_seqno: Some(SeqNo::MAX), ..tree() }),
        of_range(RangeEdit { merge_operator: Some("two words".to_string()), ..range() }),
        of_range(RangeEdit { merge_operator: Some(String::new()), ..range() }),
    ]
    .iter()
    .enumerate()
    {
        assert!(decode_edit(&encode_edit(edit)).is_err(), "edit {index}");
    }
    let rows_added = vec![row(NUMBER_END - 1, SIZE_END - 1)];
    let fine = of_tree(TreeEdit { rows_added, ..tree() });
    assert_eq!(decode_edit(&encode_edit(&fine)), Ok(fine));
}

#[test]
fn unknown_fields_are_refused_if_required_and_skipped_if_not() {
    let mut bytes = encode_edit(&full_edit());
    put_field(&mut bytes, 500, false, b"later");
    assert_eq!(decode_edit(&bytes), Ok(full_edit()));
    put_field(&mut bytes, 501, true, b"later");
    assert!(decode_edit(&bytes).is_err());
}

#[test]
fn every_flipped_bit_of_a_record_and_a_header_is_noticed() {
    let record = encode_record(42, 64, &full_edit());
    assert_eq!(decode_record(&record, 42, 64).map(|(_, taken)| taken), Ok(record.len()));
    for bit in 0..record.len() * 8 {
        let mut damaged = record.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_record(&damaged, 42, 64).is_err(), "bit {bit}");
    }
    let header = encode_manifest_header(42, id(1));
    let current = encode_current(id(1));
    assert_eq!(decode_manifest_header(&header), Ok((42, id(1))));
    assert_eq!(decode_current(&current), Ok(id(1)));
    for bit in 0..HEADER_BYTES * 8 {
        let (mut a, mut b) = (header, current);
        a[bit / 8] ^= 1 << (bit % 8);
        b[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_manifest_header(&a).is_err(), "bit {bit}");
        assert!(decode_current(&b).is_err(), "bit {bit}");
    }
}

#[test]
fn a_cut_off_edit_never_decodes_to_another_table() {
    let bytes = encode_edit(&full_edit());
    for length in 0..bytes.len() {
        if let Ok(edit) = decode_edit(&bytes[..length]) {
            assert_ne!(edit, full_edit());
        }
    }
}

/// Such an edit, with a valid checksum, was folded into a version, and an open went on with it.
#[test]
fn edits_that_come_to_a_contradiction_do_not_fit() {
    let env: SharedEnv = RealEnv::new();
    let context = crate::check::tables_of_dir(&env, Path::new("/db"));
    let l0 = crate::check::l0_of(&env, &context);
    let folded = |least, greatest, of_version| {
        let numbers = (SeqNo(least), SeqNo(greatest));
        let table = TableMeta { least_seqno: numbers.0, greatest_seqno: numbers.1, ..table(1) };
        let tables_added = vec![(LevelNo(1), table)];
        let greatest_seqno = Some(SeqNo(of_version));
        let tree = TreeEdit { tables_added, greatest_seqno, ..TreeEdit::default() };
        let edit = VersionEdit { is_snapshot: true, tree, ..VersionEdit::default() };
        fold([&VersionEdit::default(), &edit], l0.as_ref(), &context)
    };
    assert!(folded(5, 9, 9).is_ok());
    for (least, greatest, of_version) in [(9, 5, 9), (5, 9, 8)] {
        let (index, misfit) = folded(least, greatest, of_version).expect_err("it contradicts");
        assert_eq!(index, 1);
        assert!(misfit.contains("out of order, or above"), "{misfit}");
    }
}

/// A value that nobody holds, a segment that two files hold, and a file that goes and was not
/// there.
#[test]
fn edits_of_the_value_log_that_contradict_each_other_do_not_fit() {
    let env: SharedEnv = RealEnv::new();
    let context = crate::check::tables_of_dir(&env, Path::new("/db"));
    let l0 = crate::check::l0_of(&env, &context);
    let folded = |tables: Vec<TableMeta>, removed: Vec<FileId>, added: Vec<ValueFileMeta>| {
        let tree = TreeEdit {
            tables_added: tables.into_iter().map(|table| (LevelNo(1), table)).collect(),
            greatest_seqno: Some(SeqNo::MAX),
            ..TreeEdit::default()
        };
        let values = ValuesEdit { removed, added };
        let edit = VersionEdit { is_snapshot: true, tree, values, ..VersionEdit::default() };
        fold([&edit], l0.as_ref(), &context).map(|_| ()).map_err(|(_, misfit)| misfit)
    };
    let only = |segment| ValueFileMeta {
        segments: vec![HeldSegment { id: id(segment), count: 1, bytes: 99 }],
        ..value_file(segment)
    };
    assert_eq!(folded(vec![naming_table(1)], vec![], vec![value_file(30)]), Ok(()));
    assert_eq!(folded(vec![naming_table(1)], vec![], vec![only(4), only(6)]), Ok(()));
    let contradictions = [
        (folded(vec![naming_table(1)], vec![], vec![]), "which no file holds"),
        (folded(vec![naming_table(1)], vec![], vec![only(4)]), "which no file holds"),
        (folded(vec![], vec![], vec![value_file(30), only(6)]), "lies in two value files"),
        (folded(vec![], vec![id(30)], vec![]), "is not there"),
    ];
    for (outcome, says) in contradictions {
        let misfit = outcome.expect_err(says);
        assert!(misfit.contains(says), "{misfit}");
    }
}
