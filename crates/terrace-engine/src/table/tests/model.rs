//! Tables of many shapes against a sorted map: everything that a reader can be asked.

use std::sync::Arc;

use terrace_base::limits::{STORED_KEY_BYTES_MAX, VALUE_BYTES_MAX};
use terrace_base::{EntryRef, KeyRange, LevelNo, SeqNo, TableUid};

use super::*;
use crate::iter::{Cursor, Stream};
use crate::vlog::{ValueName, ValuePointer};

#[test]
fn random_tables_answer_as_the_model_does() {
    for seed in 0..250 {
        check_seed(seed);
    }
}

fn check_seed(seed: u64) {
    let mut rng = SeededRng::new(seed);
    let model = random_model(&mut rng);
    let options = TableOptions {
        block_bytes: rng.pick(&[64, 100, 300, 1000, 4096, 65536]),
        filter_bits_per_key: rng.pick(&[0, 1, 10, 20]),
        compression: rng.pick(&[Compression::None, Compression::Lz4, Compression::Zstd]),
        trie: rng.one_in(2),
    };
    let (built, bytes) = build(&model, UID, &options);
    let cache_bytes = rng.pick(&[0, 20_000, 10_000_000]);
    let reader = open(bytes, cache_bytes).unwrap();
    let context = format!("seed {seed}, {options:?}");

    let report = reader.verify(Some(built.hash)).unwrap();
    assert_eq!(report.entry_count, model.entries.len() as u64, "{context}");
    assert_eq!(report.bytes, built.bytes, "{context}");
    assert_eq!(*reader.properties(), built.properties, "{context}");
    check_properties(&model, &built.properties, &context);
    check_stream(&mut rng, &model, &reader, &context);
    for _ in 0..6 {
        let greatest = model.greatest_seqno();
        let read_point = match rng.index(4) {
            0 => SeqNo::MAX,
            1 => SeqNo(greatest),
            _ => SeqNo(rng.next_u64() % (greatest + 2)),
        };
        check_gets(&mut rng, &model, &reader, read_point, &context);
        let mut cursor = reader.cursor(read_point, ReadMode::BLOCK);
        check_cursor(&mut rng, &model, &mut cursor, read_point, &context);
    }
}

fn check_properties(model: &Model, properties: &TableProperties, context: &str) {
    let all = model.all();
    let mut keys: Vec<&Vec<u8>> = all.iter().map(|entry| &entry.key).collect();
    keys.dedup();
    assert_eq!(properties.entry_count, all.len() as u64, "{context}");
    assert_eq!(properties.key_count, keys.len() as u64, "{context}");
    let count = |kind| all.iter().filter(|entry| entry.kind == kind).count() as u64;
    assert_eq!(properties.tombstone_count, count(EntryKind::Tombstone), "{context}");
    assert_eq!(properties.merge_operand_count, count(EntryKind::MergeOperand), "{context}");
    assert_eq!(properties.expiries.map(|e| e.0), all.iter().filter_map(|e| e.expiry).min());
    assert_eq!(properties.expiries.map(|e| e.1), all.iter().filter_map(|e| e.expiry).max());
    assert!(keys.iter().all(|key| properties.spans(key)), "{context}");
    for range_tombstone in &model.range_tombstones {
        assert!(properties.spans(&range_tombstone.start), "{context}");
        assert!(range_tombstone.end <= properties.largest, "{context}");
    }
    let seqnos = all.iter().map(|entry| entry.seqno);
    let seqnos = seqnos.chain(model.range_tombstones.iter().map(|entry| entry.seqno));
    assert_eq!(Some(properties.least_seqno), seqnos.clone().min(), "{context}");
    assert_eq!(Some(properties.greatest_seqno), seqnos.max(), "{context}");
}

fn check_gets(
    rng: &mut SeededRng,
    model: &Model,
    reader: &TableReader,
    read_point: SeqNo,
    context: &str,
) {
    for _ in 0..40 {
        let key = target(rng, model);
        let expected = model.get(&key, read_point).map(|entry| entry.as_ref());
        let found = reader.get(&key, read_point, ReadMode::BLOCK).unwrap();
        let found = found.as_ref().map(|found| found.entry(&key));
        assert_eq!(found, expected, "{context}, {read_point:?}, {:?}", key.escape_ascii());
        if model.get(&key, SeqNo::MAX).is_some() {
            assert!(reader.may_contain(filter_hash(&key)), "{context}");
        }
    }
}

fn check_stream(rng: &mut SeededRng, model: &Model, reader: &Arc<TableReader>, context: &str) {
    let mut ranges = vec![None, Some(KeyRange::all())];
    for _ in 0..8 {
        let end = if rng.one_in(4) { None } else { Some(target(rng, model)) };
        ranges.push(Some(KeyRange::new(target(rng, model), end)));
    }
    for range in ranges {
        let mut stream = reader.stream(range.as_ref()).unwrap();
        let inside = |entry: &&Entry| range.as_ref().is_none_or(|range| range.contains(&entry.key));
        for entry in model.entries.values().filter(inside) {
            assert_eq!(stream.entry(), Some(entry.as_ref()), "{context}, {range:?}");
            stream.advance().unwrap();
        }
        assert_eq!(stream.entry(), None, "{context}, {range:?}");
    }
}

#[test]
fn range_tombstones_come_back_in_order_and_bound_the_table() {
    let range_tombstone = |start: &str, end: &str, seqno| Deleted {
        start: start.into(),
        end: end.into(),
        seqno: SeqNo(seqno),
    };
    let range_tombstones = vec![
        range_tombstone("m", "z", 5),
        range_tombstone("b", "d", 7),
        range_tombstone("b", "c", 9),
    ];
    let mut model = Model { range_tombstones, ..Model::default() };
    for with_entries in [false, true] {
        if with_entries {
            model.put(b"c", 20, b"value");
        }
        let (built, bytes) = build(&model, UID, &TableOptions::default());
        let reader = open(bytes, 0).unwrap();
        reader.verify(Some(built.hash)).unwrap();
        let stored = Deleted::all_of(reader.range_tombstones());
        assert_eq!(stored[0], range_tombstone("b", "c", 9));
        assert_eq!(stored[1], range_tombstone("b", "d", 7));
        assert_eq!(stored[2], range_tombstone("m", "z", 5));
        let properties = reader.properties();
        assert_eq!((&properties.smallest[..], &properties.largest[..]), (&b"b"[..], &b"z"[..]));
        assert!(properties.largest_is_exclusive);
        assert_eq!(properties.range_tombstone_count, 3);
        assert_eq!(properties.least_seqno, SeqNo(5));
        let found = reader.get(b"c", SeqNo::MAX, ReadMode::BLOCK).unwrap();
        assert_eq!(found.is_some(), with_entries, "range tombstones are the caller's to apply");
        let mut cursor = reader.cursor(SeqNo::MAX, ReadMode::BLOCK);
        cursor.seek_back(None).unwrap();
        assert_eq!(cursor.entry().is_some(), with_entries);
        assert_eq!(reader.stream(None).unwrap().entry().is_some(), with_entries);
    }
    model.put(b"z", 21, b"");
    let (built, _) = build(&model, UID, &TableOptions::default());
    assert!(!built.properties.largest_is_exclusive, "an entry at the exclusive end includes it");
    assert!(built.properties.spans(b"z"));
}

#[test]
fn what_a_table_names_of_segments_is_counted() {
    let store = MemoryTableStore::new();
    let id = |counter| FileId { epoch: Epoch(1), counter };
    let writer = store.create(id(1), LevelNo(1), 0).unwrap();
    let mut builder = TableBuilder::new(writer, UID, &TableOptions::default(), WallTime(5));
    let mut model = Model::default();
    for (at, (segment, bytes)) in [(9, 1000), (2, 50), (9, 100)].into_iter().enumerate() {
        let name = ValueName { segment: id(segment), offset: 64 + at as u64 * 2000 };
        let mut value = Vec::new();
        ValuePointer { name, bytes, checksum: None }.encode(&mut value);
        let (key, kind) = (format!("key {at}").into_bytes(), EntryKind::ValuePointer);
        model.insert(Entry { key, seqno: SeqNo(1), kind, expiry: None, value });
    }
    let (key, value) = (b"not a pointer".to_vec(), b"though it is said to be".to_vec());
    let (seqno, kind, expiry) = (SeqNo(2), EntryKind::ValuePointer, None);
    model.insert(Entry { key, seqno, kind, expiry, value });
    model.all().iter().for_each(|entry| builder.add(entry.as_ref()).unwrap());
    let built = builder.finish().unwrap();
    let cache = Arc::new(BlockCache::new(0));
    let file = store.open(&built.location).unwrap();
    let reader = TableReader::open(file, cache, Some((UID, built.bytes))).unwrap();
    let named = reader.properties().named.iter().map(|one| (one.segment, one.count, one.bytes));
    assert!(named.eq([(id(2), 1, 50 + 37), (id(9), 2, 1100 + 2 * 37)]));
    assert_eq!(reader.properties().created, WallTime(5));
    reader.verify(Some(built.hash)).unwrap();
}

#[test]
fn the_largest_entry_goes_through() {
    let value = vec![7; VALUE_BYTES_MAX];
    let key = vec![b'b'; STORED_KEY_BYTES_MAX];
    for compression in [Compression::None, Compression::Lz4] {
        let mut model = Model::default();
        model.put(b"a", 1, b"before");
        model.put(&key, 2, &value);
        model.put(b"c", 3, b"after");
        let (_, bytes) = build(&model, UID, &options(4096, compression));
        let reader = open(bytes, 0).unwrap();
        for (key, expected) in [(&b"a"[..], &b"before"[..]), (&key, &value), (b"c", b"after")] {
            let found = reader.get(key, SeqNo::MAX, ReadMode::BLOCK).unwrap().unwrap();
            assert!(found.value() == expected);
        }
        let mut stream = reader.stream(None).unwrap();
        stream.advance().unwrap();
        assert!(stream.entry().unwrap().value == value);
        stream.advance().unwrap();
        assert_eq!(stream.entry().unwrap().value, b"after");
    }
}

#[test]
fn a_filter_spares_nearly_all_reads_of_absent_keys() {
    let mut model = Model::default();
    for number in 0..5000u64 {
        model.put(&(number * 2).to_be_bytes(), number + 1, b"value");
    }
    let (_, bytes) = build(&model, UID, &TableOptions::default());
    let reader = open(bytes, 0).unwrap();
    let admits = |number: u64| reader.may_contain(filter_hash(&number.to_be_bytes()));
    assert!((0..5000).all(|number| admits(number * 2)));
    let admitted = (0..5000).filter(|number| admits(number * 2 + 1)).count();
    assert!(admitted < 75, "{admitted} of 5000: at most 1.5 % were expected");
}

#[test]
fn the_estimate_follows_the_size_of_the_file() {
    for compression in [Compression::None, Compression::Zstd] {
        let store = MemoryTableStore::new();
        let id = FileId { epoch: Epoch(1), counter: 1 };
        let writer = store.create(id, LevelNo(1), 0).unwrap();
        let mut builder = TableBuilder::new(writer, UID, &options(4096, compression), WallTime(0));
        assert!(builder.is_empty());
        let mut rng = SeededRng::new(3);
        let mut before = 0;
        for number in 0..20_000u64 {
            let key = number.to_be_bytes();
            let value: Vec<u8> = (0..64).map(|at| (rng.next_u64() >> (at % 8 * 8)) as u8).collect();
            let entry = EntryRef {
                key: &key,
                seqno: SeqNo(number + 1),
                kind: EntryKind::Value,
                expiry: None,
                value: &value,
            };
            builder.add(entry).unwrap();
            let estimate = builder.estimated_bytes();
            assert!(estimate + 4096 > before, "it hardly ever shrinks");
            before = estimate;
        }
        let estimate = builder.estimated_bytes();
        let built = builder.finish().unwrap();
        let off = estimate.abs_diff(built.bytes);
        assert!(off < built.bytes / 100 + 8192, "{estimate} for {}", built.bytes);
    }
}

#[test]
#[should_panic(expected = "entries come in internal order")]
fn entries_out_of_order_are_the_callers_mistake() {
    let store = MemoryTableStore::new();
    let writer = store.create(FileId { epoch: Epoch(1), counter: 1 }, LevelNo(1), 0).unwrap();
    let mut builder = TableBuilder::new(writer, TableUid(1), &TableOptions::default(), WallTime(0));
    let mut model = Model::default();
    model.put(b"a", 1, b"");
    model.put(b"a", 2, b"");
    for entry in model.all().into_iter().rev() {
        builder.add(entry.as_ref()).unwrap();
    }
}
