//! Rows of many shapes against a sorted map: everything that a reader can be asked.

use terrace_base::EntryKind;

use super::*;
use crate::l0::triangle::row::hints::Hinting;
use crate::table::filter_hash;

#[test]
fn random_rows_answer_as_the_model_does() {
    for seed in 0..200 {
        let mut rng = SeededRng::new(seed);
        let model = random_row(&mut rng);
        let page_bytes = rng.pick(&[4096, 4096, 65536]);
        let (_recorder, pages) = container((3 << 20) / page_bytes, page_bytes);
        let filter_bits_per_key = rng.pick(&[0, 1, 10, 10, 48]);
        let built = build_with(filter_bits_per_key, &pages, &model, UID, Vec::new());
        let context = format!("seed {seed}, {filter_bits_per_key} bits of filter");
        let has_filter = filter_bits_per_key > 0 && !model.entries.is_empty();
        assert_eq!(built.reader.filter().is_some(), has_filter, "{context}");
        check_row(&mut rng, &model, &built.reader, &context);
        assert_eq!(built.meta.properties.entry_count, model.entries.len() as u64, "{context}");
        let report = built.reader.verify(Some(built.meta.hash)).unwrap();
        assert_eq!(report.entry_count, model.entries.len() as u64, "{context}");
        assert!(built.reader.verify(Some(built.meta.hash ^ 1)).unwrap_err().is_corruption());

        // As a later process finds it.
        let expected = Some((UID, built.meta.bytes));
        let location = RowLocation::decode(&built.meta.location).unwrap();
        let free = pages.free_pages();
        drop(built);
        assert_eq!(pages.free_pages(), pages.total_pages(), "{context}");
        let row = RowReader::open(&pages, location, expected, &[]).unwrap();
        assert_eq!(pages.free_pages(), free, "{context}");
        check_row(&mut rng, &model, &row, &context);
        for wrong in [(TableUid(1), row.file_bytes()), (UID, row.file_bytes() + 1)] {
            let refused = RowReader::open(&pages, location, Some(wrong), &[]);
            assert!(refused.unwrap_err().is_corruption(), "{context}");
        }
    }
}

fn check_row(rng: &mut SeededRng, model: &Model, row: &Arc<RowReader>, context: &str) {
    check_elements(model, row, context);
    check_streams(rng, model, row, context);
    let expected = Deleted::all_of(&tombstones(model));
    assert_eq!(Deleted::all_of(row.range_tombstones()), expected, "{context}");
    for _ in 0..4 {
        let greatest = model.greatest_seqno();
        let read_point = match rng.index(4) {
            0 => SeqNo::MAX,
            1 => SeqNo(greatest),
            _ => SeqNo(rng.next_u64() % (greatest + 2)),
        };
        check_gets(rng, model, row, read_point, context);
        let mut cursor = row.cursor(read_point, None);
        check_cursor(rng, model, &mut cursor, read_point, context);
    }
}

fn check_elements(model: &Model, row: &RowReader, context: &str) {
    assert_eq!(row.len(), model.entries.len(), "{context}");
    for (index, (key, _)) in model.entries.keys().enumerate() {
        assert_eq!(row.key(index).unwrap().as_ref(), Some(key), "{context}");
        assert_eq!(row.hint(index).get(), None, "{context}: there are no predecessors");
    }
    let bounds = model.entries.keys().next().zip(model.entries.keys().next_back());
    let bounds = bounds.map(|(first, last)| (&first.0[..], &last.0[..]));
    assert_eq!(row.key_bounds(), bounds, "{context}");
    let samples: Vec<(&[u8], u64)> = row.samples(5).collect();
    assert!(samples.len() <= 5 && samples.is_sorted_by(|a, b| a.0 <= b.0), "{context}");
    let sampled: u64 = samples.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(sampled, row.properties().data_bytes, "{context}");
    assert_eq!(row.bytes_within(&KeyRange::all()), sampled, "{context}");
}

fn check_gets(
    rng: &mut SeededRng,
    model: &Model,
    row: &RowReader,
    read_point: SeqNo,
    context: &str,
) {
    for _ in 0..40 {
        let key = target(rng, model);
        let context = format!("{context}, {read_point:?}, {:?}", key.escape_ascii().to_string());
        let expected = model.get(&key, read_point).map(|entry| entry.as_ref());
        let found = row.get(&key, read_point).unwrap();
        assert_eq!(found.as_ref().map(|found| found.entry(&key)), expected, "{context}");
        let is_there = model.entries.keys().any(|(other, _)| *other == key);
        assert!(!is_there || row.may_contain(filter_hash(&key)), "{context}");
        let low = model.entries.keys().filter(|(other, _)| *other < key).count();
        assert_eq!(row.lower_bound(&key).unwrap(), low, "{context}");
        let within = rng.index(low + 1)..low + rng.index(row.len() - low + 1);
        assert_eq!(row.lower_bound_within(&key, within.clone()).unwrap(), low, "{context}");
        let from = within.start;
        assert_eq!(row.lower_bound_from(&key, from).unwrap(), low, "{context}, from {from}");
        let found = row.get_at(low, &key, read_point).unwrap();
        assert_eq!(found.as_ref().map(|found| found.entry(&key)), expected, "{context}");
    }
}

fn check_streams(rng: &mut SeededRng, model: &Model, row: &Arc<RowReader>, context: &str) {
    let mut ranges = vec![KeyRange::all()];
    for _ in 0..8 {
        let end = if rng.one_in(4) { None } else { Some(target(rng, model)) };
        ranges.push(KeyRange::new(target(rng, model), end));
    }
    for range in ranges {
        let within = model.entries.values().filter(|entry| range.contains(&entry.key));
        let expected: Vec<_> = within.cloned().collect();
        assert_eq!(streamed(row, &range), expected, "{context}, {range:?}");
        if let Some(end) = range.end().filter(|end| *end >= range.start()) {
            // An estimate, but one that adds up.
            let later = row.bytes_within(&KeyRange::new(end, None));
            let both = row.bytes_within(&KeyRange::new(range.start(), None));
            assert_eq!(row.bytes_within(&range) + later, both, "{context}, {range:?}");
        }
    }
}

#[test]
fn bytes_within_are_right_to_a_page_where_first_bytes_tell_keys_apart_and_where_not() {
    for prefix in ["", "the same sixteen"] {
        let (_recorder, pages) = container(200, 4096);
        let mut model = Model::default();
        model.put(b"", 1, b"so that the row has no prefix");
        for number in 0..2000 {
            model.put(format!("{prefix}{number:04}").as_bytes(), number + 2, &[7; 80]);
        }
        let row = build(&pages, &model, UID, Vec::new()).reader;
        let entry_bytes = row.properties().data_bytes / 2001;
        for (first, end) in [(0, 1), (100, 1100), (1999, 2000), (0, 2000), (700, 750)] {
            let key = |number: u64| format!("{prefix}{number:04}").into_bytes();
            let guess = row.bytes_within(&KeyRange::new(key(first), Some(key(end))));
            let bytes = (end - first) * entry_bytes;
            assert!(guess.abs_diff(bytes) <= 2 * 4096, "{prefix}: {guess} for {bytes}");
        }
    }
}

#[test]
fn keys_within_divide_what_can_be_divided() {
    for prefix in ["", "the same sixteen"] {
        let (_recorder, pages) = container(200, 4096);
        let mut model = Model::default();
        model.put(b"", 1, b"so that the row has no prefix");
        for number in 0..2000 {
            model.put(format!("{prefix}{number:04}").as_bytes(), number + 2, &[7; 80]);
        }
        let row = build(&pages, &model, UID, Vec::new()).reader;
        let key = |number: u64| format!("{prefix}{number:04}").into_bytes();
        for (first, end) in [(0, 2000), (100, 1100), (700, 900), (5, 7), (5, 6)] {
            let range = KeyRange::new(key(first), Some(key(end)));
            let keys = row.keys_within(&range, 10);
            assert!(keys.len() <= 21, "{keys:?}");
            let is_in = |key: &Vec<u8>| key.as_slice() > range.start() && range.contains(key);
            assert!(keys.iter().all(is_in), "{range:?}: {keys:?}");
            // Fences tell pages apart, and bytes, where they differ, every key.
            let is_divided = end - first > 100 || prefix.is_empty() && end - first > 1;
            assert!(!is_divided || !keys.is_empty(), "{range:?}");
        }
        assert!(row.keys_within(&KeyRange::all(), 10).len() > 5, "{prefix}");
        assert!(row.keys_within(&KeyRange::new(key(7), Some(key(5))), 10).is_empty());
    }
}

#[test]
fn all_kinds_and_extremes_round_trip() {
    let (_recorder, pages) = container(2000, 4096);
    let mut model = Model::default();
    let mut seqno = 100;
    for kind in
        [EntryKind::Value, EntryKind::Tombstone, EntryKind::MergeOperand, EntryKind::ValuePointer]
    {
        for expiry in [None, terrace_base::Expiry::from_stored(u64::MAX)] {
            for value in [&b""[..], b"v"] {
                seqno += 1;
                let entry = terrace_base::Entry {
                    key: b"kinds".to_vec(),
                    seqno: SeqNo(seqno),
                    kind,
                    expiry,
                    value: value.to_vec(),
                };
                model.insert(entry);
            }
        }
    }
    // Any distance between numbers, keys that are prefixes of each other, and the longest of all.
    for (at, seqno) in [0, 1, u64::MAX - 3, u64::MAX / 2, u64::MAX / 2 + 1].into_iter().enumerate()
    {
        model.put(&b"\0\0\0\0\0\0\0\0\0\0"[..at * 2], seqno, b"zeros");
    }
    let longest = terrace_base::limits::STORED_KEY_BYTES_MAX;
    model.put(&vec![b'k'; longest], 7, &vec![1; 100_000]);
    model.put(&[&vec![b'k'; longest - 1][..], b"l"].concat(), 8, b"");
    model.put(b"", 9, &vec![2; 3_000_000]);
    let built = build(&pages, &model, UID, Vec::new());
    let mut rng = SeededRng::new(5);
    check_row(&mut rng, &model, &built.reader, "extremes");
    built.reader.verify(Some(built.meta.hash)).unwrap();
    let found = built.reader.get(b"", SeqNo::MAX).unwrap().unwrap();
    assert_eq!((found.seqno(), found.value().len()), (SeqNo(9), 3_000_000));
}

#[test]
fn a_row_may_hold_range_tombstones_only_and_an_empty_one_is_none() {
    let (_recorder, pages) = container(8, 4096);
    let mut model = Model::default();
    let builder = RowBuilder::new(&pages, UID, CREATED, Vec::new());
    assert!(builder.finish(&Fragments::default()).unwrap().is_none());
    assert_eq!(pages.free_pages(), pages.total_pages());

    let deleted = |start: &str, end: &str, seqno| Deleted {
        start: start.into(),
        end: end.into(),
        seqno: SeqNo(seqno),
    };
    model.range_tombstones = vec![deleted("a", "c", 4), deleted("b", "x", 9)];
    let built = build(&pages, &model, UID, Vec::new());
    let row = &built.reader;
    row.verify(Some(built.meta.hash)).unwrap();
    assert_eq!(Deleted::all_of(row.range_tombstones()), model.range_tombstones);
    assert_eq!(built.meta.properties.bounds(), KeyRange::new("a", Some("x".into())));
    assert!(row.is_empty() && row.key_bounds().is_none());
    assert!(row.get(b"b", SeqNo::MAX).unwrap().is_none());
    let mut cursor = row.cursor(SeqNo::MAX, None);
    assert!(!cursor.seek(b"").unwrap() && !cursor.seek_back(None).unwrap());
    assert!(streamed(row, &KeyRange::all()).is_empty());
    assert_eq!(row.bytes_within(&KeyRange::all()), 0);
    assert_eq!(row.release(&[KeyRange::all()]), 0);
}
