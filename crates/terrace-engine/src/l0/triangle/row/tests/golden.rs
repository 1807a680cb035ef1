//! Specimens of the released format: what was written must stay readable for ever.
//!
//! `TERRACE_WRITE_SPECIMENS=1` writes those of the present format anew; a difference in the file is a
//! change of the format and needs a new version.

use std::path::PathBuf;

use terrace_base::{Entry, EntryKind, Expiry};

use super::*;
use crate::l0::triangle::row::hints::Hinting;

/// What the older and the newer row hold.
fn models() -> [Model; 2] {
    let mut models = [Model::default(), Model::default()];
    let mut rng = Rng(1);
    for number in 0..80u64 {
        let kind = [
            EntryKind::Value,
            EntryKind::Tombstone,
            EntryKind::MergeOperand,
            EntryKind::ValuePointer,
        ][(number % 4) as usize];
        let bytes = if kind == EntryKind::Tombstone { 0 } else { rng.below(50) };
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

#[test]
fn specimens_of_format_1_are_read_and_written_as_ever() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/l0/triangle/testdata/v1.rows");
    let (recorder, pages) = container(9, 4096);
    let [older, newer] = models();
    let first = build(&pages, &older, UID, Vec::new());
    let predecessor = Predecessor { row: Arc::clone(&first.reader), parts: None };
    let second = build(&pages, &newer, TableUid(UID.0 + 1), vec![predecessor]);
    let rows = [first, second].map(|built| (built.reader.location(), built.meta));
    drop(pages);
    let bytes = content(&recorder.pmem());
    if std::env::var_os("TERRACE_WRITE_SPECIMENS").is_some() {
        std::fs::write(&path, &bytes).unwrap();
    }
    let specimen = std::fs::read(&path).unwrap();
    assert!(specimen == bytes, "the format has changed");
    let pages = mount(&specimen).unwrap();
    for (model, (location, meta)) in [older, newer].iter().zip(rows) {
        let row = RowReader::open(&pages, location, Some((meta.uid, meta.bytes)), &[]).unwrap();
        row.verify(Some(meta.hash)).unwrap();
        let all: Vec<_> = model.entries.values().cloned().collect();
        assert_eq!(streamed(&row, &KeyRange::all()), all);
        for entry in model.visible(SeqNo::MAX) {
            let found = row.get(&entry.key, SeqNo::MAX).unwrap().unwrap();
            assert_eq!(found.entry(&entry.key), entry.as_ref());
        }
        assert_eq!(Deleted::all_of(row.range_tombstones()), model.range_tombstones);
        assert_eq!(*row.properties(), meta.properties);
        let hints = (0..row.len()).filter(|index| row.hint(*index).get().is_some()).count();
        assert_eq!(hints, if row.predecessors().is_empty() { 0 } else { 39 });
    }
}
