//! Specimens of the released format: what was written must stay readable for ever. Those with
//! compression are never written anew.

use super::*;
use crate::iter::Stream;
use crate::tests::specimens;

/// What the specimens hold.
fn model() -> Model {
    let mut model = Model::default();
    let mut lengths = SPECIMEN_VALUE_BYTES.into_iter();
    for number in 0..60u64 {
        let key = match number % 3 {
            0 => format!("user:{number:06}:name"),
            1 => format!("user:{number:06}"),
            _ => format!("z{number}"),
        };
        let kind = [
            EntryKind::Value,
            EntryKind::Tombstone,
            EntryKind::MergeOperand,
            EntryKind::ValuePointer,
        ][(number % 4) as usize];
        let is_empty = kind == EntryKind::Tombstone;
        let bytes = if is_empty { 0 } else { lengths.next().expect("a length for each value") };
        model.insert(Entry {
            key: key.into_bytes(),
            seqno: SeqNo(1000 + number * 7),
            kind,
            expiry: (number % 5 == 0).then(|| Expiry::at(WallTime(1_800_000_000_000 + number))),
            value: (0..bytes).map(|at| b'a' + (at / 7) as u8).collect(),
        });
    }
    model.put(b"", 3, b"the empty key");
    for seqno in 1..30 {
        model.put(b"versions", seqno * 100, b"the same key again and again");
    }
    for (start, end, seqno) in [("user:", "user;", 900), ("zz", "zzz", 2)] {
        let (start, end) = (start.into(), end.into());
        model.range_tombstones.push(Deleted { start, end, seqno: SeqNo(seqno) });
    }
    model
}

#[test]
fn specimens_of_format_1_are_read_and_written_as_ever() {
    for (name, compression) in [
        ("v1-plain.table", Compression::None),
        ("v1-lz4.table", Compression::Lz4),
        ("v1-zstd.table", Compression::Zstd),
    ] {
        let (built, bytes) = build(&model(), UID, &options(400, compression));
        let file = format!("table/testdata/{name}");
        let specimen = match compression {
            Compression::None => specimens::assert_as_ever(&file, &bytes),
            // What a compressor makes of a block may change; what we make of it may not.
            _ => specimens::read(&file),
        };
        let reader = open(specimen, 0).unwrap();
        reader.verify(None).unwrap();
        assert_eq!(reader.uid(), UID);
        let found = TableProperties { data_bytes: 0, ..reader.properties().clone() };
        assert_eq!(found, TableProperties { data_bytes: 0, ..built.properties });
        let mut stream = reader.stream(None).unwrap();
        for entry in model().entries.values() {
            assert_eq!(stream.entry(), Some(entry.as_ref()), "{name}");
            stream.advance().unwrap();
        }
        assert!(stream.entry().is_none());
        for entry in model().visible(SeqNo::MAX) {
            let found = reader.get(&entry.key, SeqNo::MAX, ReadMode::BLOCK).unwrap().unwrap();
            assert_eq!(found.entry(&entry.key), entry.as_ref(), "{name}");
            assert!(reader.may_contain(filter_hash(&entry.key)), "{name}");
        }
        assert_eq!(Deleted::all_of(reader.range_tombstones()), model().range_tombstones, "{name}");
    }
}
