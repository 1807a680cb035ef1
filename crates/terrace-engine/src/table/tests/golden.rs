//! Specimens of the released format: what was written must stay readable for ever. Those with
//! compression are never written anew.

use std::collections::BTreeSet;

use super::*;
use crate::iter::Stream;
use crate::tests::specimens;
use crate::vlog::{ValueName, ValuePointer};

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

/// Names values of three segments, one of them written in another order than that of the keys.
pub(super) fn naming_model() -> Model {
    let mut model = Model::default();
    for number in 0..40u64 {
        let (counter, offset) = match number % 5 {
            0 => (12, 64 + number * 1100),
            1 | 3 => (7, 50_000 - number * 1024),
            2 => (300, (1 << 30) + number),
            _ => {
                model.put(format!("key{number:03}").as_bytes(), 500 + number, b"in place");
                continue;
            }
        };
        let segment = FileId { epoch: Epoch(2), counter };
        let checksum = (counter == 7).then_some(number as u32);
        let name = ValueName { segment, offset };
        let mut value = Vec::new();
        ValuePointer { name, bytes: 1000, checksum }.encode(&mut value);
        let (key, kind) = (format!("key{number:03}").into_bytes(), EntryKind::ValuePointer);
        model.insert(Entry { key, seqno: SeqNo(500 + number), kind, expiry: None, value });
    }
    model
}

/// The names in a model of these segments, by segment.
pub(super) fn names_of(model: &Model, segments: &BTreeSet<FileId>) -> NamesBySegment {
    let mut names = NamesBySegment::new();
    for entry in model.entries.values().filter(|entry| entry.kind == EntryKind::ValuePointer) {
        let name = ValuePointer::decode(&entry.value).unwrap().name;
        if segments.contains(&name.segment) {
            names.entry(name.segment).or_default().push(name.offset);
        }
    }
    names.values_mut().for_each(|offsets| offsets.sort_unstable());
    names
}

#[test]
fn a_specimen_with_names_is_read_and_written_as_ever() {
    let model = naming_model();
    let (built, bytes) = build(&model, UID, &options(400, Compression::None));
    let specimen = specimens::assert_as_ever("table/testdata/v1-names.table", &bytes);
    let reader = open(specimen, 0).unwrap();
    reader.verify(None).unwrap();
    assert_eq!(reader.properties(), &built.properties);
    assert_eq!(reader.properties().lists.len(), 1, "short lists share a frame");
    let id = |counter| FileId { epoch: Epoch(2), counter };
    for asked in [vec![7], vec![12, 300], vec![7, 12, 300, 301], vec![1], vec![]] {
        let asked = asked.into_iter().map(id).collect();
        assert_eq!(reader.named_values(&asked).unwrap(), Some(names_of(&model, &asked)));
    }
}

#[test]
fn a_specimen_with_a_trie_is_read_and_written_as_ever() {
    let mut model = model();
    for number in 1000..1500u64 {
        model.put(format!("user:{number:06}").as_bytes(), 5000 + number, b"a value of a row");
    }
    let options = TableOptions { trie: true, ..options(400, Compression::None) };
    let (_, bytes) = build(&model, UID, &options);
    let specimen = specimens::assert_as_ever("table/testdata/v1-trie.table", &bytes);
    let reader = open(specimen, 0).unwrap();
    reader.verify(None).unwrap();
    assert!(reader.has_trie() && reader.filter().is_none());
    for entry in model.visible(SeqNo::MAX) {
        let found = reader.get(&entry.key, SeqNo::MAX, ReadMode::BLOCK).unwrap().unwrap();
        assert_eq!(found.entry(&entry.key), entry.as_ref());
        let absent = [&entry.key[..], b"?"].concat();
        assert_eq!(reader.block_of(&absent, SeqNo::MAX), None, "no false positive");
    }
}

#[test]
fn tables_from_before_there_were_lists_have_none() {
    let reader = open(specimens::read("table/testdata/v1-plain.table"), 0).unwrap();
    assert!(!reader.has_lists());
    let asked = BTreeSet::from([FileId { epoch: Epoch(2), counter: 7 }]);
    assert_eq!(reader.named_values(&asked).unwrap(), None);
}
