//! Specimens of the released formats: what was written must stay readable for ever.

use terrace_base::{Entry, EntryKind, Expiry};

use super::*;
use crate::l0::triangle::row::hints::Hinting;
use crate::table::tests::SPECIMEN_VALUE_BYTES;
use crate::table::{BuiltTable, filter_hash};
use crate::tests::specimens;

/// What the older and the newer row hold.
fn models() -> [Model; 2] {
    let mut models = [Model::default(), Model::default()];
    let mut lengths = SPECIMEN_VALUE_BYTES.into_iter();
    for number in 0..80u64 {
        let kind = [
            EntryKind::Value,
            EntryKind::Tombstone,
            EntryKind::MergeOperand,
            EntryKind::ValuePointer,
        ][(number % 4) as usize];
        let is_empty = kind == EntryKind::Tombstone;
        let bytes = if is_empty { 0 } else { lengths.next().expect("a length for each value") };
        models[(number % 2) as usize].insert(Entry {
            key: format!("user:{number:06}").into_bytes(),
            seqno: SeqNo(1000 - number * 7),
            kind,
            expiry: (number % 5 == 0).then(|| Expiry::at(WallTime(1_800_000_000_000 + number))),
            value: (0..bytes).map(|at| b'a' + (at / 7) as u8).collect(),
        });
    }
    models[0].put(b"user:", 3, b"no more than the prefix");
    models[1].put(b"", 4000, b"the empty key");
    models[1].put(b"user:long", 4001, &[b'l'; 5000]);
    for seqno in 1..30 {
        models[1].put(b"versions", seqno * 100, b"the same key again and again");
    }
    for (start, end, seqno) in [("user:", "user;", 900), ("zz", "zzz", 2)] {
        let (start, end) = (start.into(), end.into());
        models[1].range_tombstones.push(Deleted { start, end, seqno: SeqNo(seqno) });
    }
    models
}

/// Both rows as they are written now, with a number of bits of filter for each key: the container,
/// and what is known of each.
fn written(filter_bits_per_key: u32) -> (Vec<u8>, [(RowLocation, BuiltTable); 2]) {
    let (recorder, pages) = container(9, 4096);
    let [older, newer] = models();
    let first = build_with(filter_bits_per_key, &pages, &older, UID, Vec::new());
    let predecessor = Predecessor { row: Arc::clone(&first.reader), parts: None };
    let newer_uid = TableUid(UID.0 + 1);
    let second = build_with(filter_bits_per_key, &pages, &newer, newer_uid, vec![predecessor]);
    let rows = [first, second].map(|built| (built.reader.location(), built.meta));
    drop(pages);
    (content(&recorder.pmem()), rows)
}

/// Reads a row in every way.
fn check(row: &Arc<RowReader>, model: &Model, has_filter: bool) {
    let all: Vec<_> = model.entries.values().cloned().collect();
    assert_eq!(streamed(row, &KeyRange::all()), all);
    for entry in model.visible(SeqNo::MAX) {
        let found = row.get(&entry.key, SeqNo::MAX).unwrap().unwrap();
        assert_eq!(found.entry(&entry.key), entry.as_ref());
        assert!(row.may_contain(filter_hash(&entry.key)));
    }
    assert_eq!(row.filter().is_some(), has_filter);
    let denied = (0..1000u32).filter(|key| !row.may_contain(filter_hash(&key.to_be_bytes())));
    assert_eq!(denied.count() > 900, has_filter);
    assert_eq!(Deleted::all_of(row.range_tombstones()), model.range_tombstones);
    let hints = (0..row.len()).filter(|index| row.hint(*index).get().is_some()).count();
    assert_eq!(hints, if row.predecessors().is_empty() { 0 } else { 39 });
}

#[test]
fn specimens_are_read_and_written_as_ever() {
    let (bytes, rows) = written(FILTER_BITS);
    let specimen = specimens::assert_as_ever("l0/triangle/testdata/v2.rows", &bytes);
    let pages = mount(&specimen).unwrap();
    for (model, (location, meta)) in models().iter().zip(rows) {
        let row = RowReader::open(&pages, location, Some((meta.uid, meta.bytes)), &[]).unwrap();
        row.verify(Some(meta.hash)).unwrap();
        assert_eq!(*row.properties(), meta.properties);
        check(&row, model, true);
    }
}

#[test]
fn specimens_of_format_1_which_has_no_filters_are_read() {
    // Each row takes the pages that it takes without a filter now.
    let (_, rows) = written(0);
    let pages = mount(&specimens::read("l0/triangle/testdata/v1.rows")).unwrap();
    for (model, (location, meta)) in models().iter().zip(rows) {
        let row = RowReader::open(&pages, location, Some((meta.uid, meta.bytes)), &[]).unwrap();
        row.verify(None).unwrap();
        assert_eq!(*row.properties(), meta.properties);
        check(&row, model, false);
    }
}
