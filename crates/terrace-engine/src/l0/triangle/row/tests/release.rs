//! Goal: pages go as keys are consumed, no live key is ever missed, and what others write into the
//! pages meanwhile shows nowhere. Method: random cuts out of random rows, beside the model.

use super::*;
use crate::iter::PartsCursor;
use crate::l0::triangle::row::fences::joined;

/// What is not consumed.
fn live_parts(consumed: &[KeyRange]) -> Vec<KeyRange> {
    let mut parts = Vec::new();
    let mut start = Some(Vec::new());
    for interval in joined(consumed) {
        let Some(from) = start else { break };
        parts.push(KeyRange::new(from, Some(interval.start().to_vec())));
        start = interval.end().map(<[u8]>::to_vec);
    }
    parts.extend(start.map(|from| KeyRange::new(from, None)));
    parts.retain(|part| !part.is_empty());
    parts
}

fn random_cut(rng: &mut SeededRng, model: &Model) -> KeyRange {
    let (a, b) = (target(rng, model), target(rng, model));
    let start = if rng.one_in(5) { Vec::new() } else { a.clone().min(b.clone()) };
    let end = if rng.one_in(5) { None } else { Some(a.max(b)) };
    KeyRange::new(start, end)
}

/// Reads what is live in every way.
fn check_live(
    rng: &mut SeededRng,
    model: &Model,
    row: &Arc<RowReader>,
    consumed: &[KeyRange],
    context: &str,
) {
    let parts = live_parts(consumed);
    let is_live = |key: &[u8]| parts.iter().any(|part| part.contains(key));
    let read_point = rng.pick(&[SeqNo::MAX, SeqNo(model.greatest_seqno() / 2)]);
    for _ in 0..40 {
        let key = target(rng, model);
        if !is_live(&key) {
            // It must not be asked for; if it is, nothing worse comes than nothing.
            row.get(&key, read_point).unwrap();
            continue;
        }
        let expected = model.get(&key, read_point).map(|entry| entry.as_ref());
        let found = row.get(&key, read_point).unwrap();
        let found = found.as_ref().map(|found| found.entry(&key));
        assert_eq!(found, expected, "{context}, {:?}", key.escape_ascii().to_string());
        let low = model.entries.keys().filter(|(other, _)| *other < key).count();
        assert_eq!(row.lower_bound(&key).unwrap(), low, "{context}");
        let found = row.get_at(low, &key, read_point).unwrap();
        let found = found.as_ref().map(|found| found.entry(&key));
        assert_eq!(found, expected, "{context}");
    }
    let mut visible = model.visible(read_point);
    visible.retain(|entry| is_live(&entry.key));
    if !parts.is_empty() {
        let cursor = Box::new(row.cursor(read_point, None));
        let mut cursor = PartsCursor::new(cursor, parts.clone().into());
        cursor.seek(b"").unwrap();
        for entry in &visible {
            assert_eq!(cursor.entry(), Some(entry.as_ref()), "{context}, {read_point:?}");
            cursor.next().unwrap();
        }
        assert!(cursor.entry().is_none(), "{context}: {:?}", cursor.entry());
        cursor.seek_back(None).unwrap();
        for entry in visible.iter().rev() {
            assert_eq!(cursor.entry(), Some(entry.as_ref()), "{context}, {read_point:?}");
            cursor.prev().unwrap();
        }
        assert!(cursor.entry().is_none(), "{context}: {:?}", cursor.entry());
    }
    for part in &parts {
        let within = model.entries.values().filter(|entry| part.contains(&entry.key));
        let expected: Vec<_> = within.cloned().collect();
        assert_eq!(streamed(row, part), expected, "{context}, {part:?}");
    }
    // Whoever reads past the parts sees nothing wrong either.
    let known: Vec<_> = model.entries.values().collect();
    for entry in streamed(row, &KeyRange::all()) {
        assert!(known.contains(&&entry), "{context}: {entry:?}");
    }
    row.verify(None).unwrap();
}

#[test]
fn random_cuts_free_pages_and_never_hide_a_live_key() {
    let (mut gone, mut reopened) = (0, 0);
    for seed in 0..120 {
        let mut rng = SeededRng::new(seed);
        let model = random_row(&mut rng);
        let (_recorder, pages) = container(2500, 4096);
        let built = build(&pages, &model, UID, Vec::new());
        let (location, bytes) = (built.reader.location(), built.meta.bytes);
        let mut row = built.reader;
        let mut consumed: Vec<KeyRange> = Vec::new();
        let mut others = Vec::new();
        for round in 0..5 {
            let context = format!("seed {seed}, round {round}");
            consumed.push(random_cut(&mut rng, &model));
            let (free, held) = (pages.free_pages(), row.held_bytes());
            let released = row.release_newly(&consumed, &consumed[round as usize..]);
            assert_eq!(pages.free_pages(), free + released, "{context}");
            assert_eq!(row.held_bytes(), held - released as u64 * 4096, "{context}");
            assert_eq!(row.release(&consumed), 0, "{context}: twice");
            gone += released;
            check_live(&mut rng, &model, &row, &consumed, &context);
            if rng.one_in(2) {
                // Another row takes the pages that are free now.
                let other = random_row(&mut rng);
                let uid = TableUid(1000 + round);
                others.push((other.clone(), build(&pages, &other, uid, Vec::new())));
                check_live(&mut rng, &model, &row, &consumed, &context);
            }
            if rng.one_in(2) {
                // A restart, which may know of more cuts than the pages that were given back tell.
                consumed.push(random_cut(&mut rng, &model));
                let held = row.held_bytes();
                drop(row);
                row = RowReader::open(&pages, location, Some((UID, bytes)), &consumed).unwrap();
                assert!(row.held_bytes() <= held, "{context}");
                assert_eq!(row.release(&consumed), 0, "{context}: what is dead is not claimed");
                check_live(&mut rng, &model, &row, &consumed, &context);
                reopened += 1;
            }
        }
        for (other, built) in &others {
            built.reader.verify(Some(built.meta.hash)).unwrap();
            check_live(&mut rng, other, &built.reader, &[], &format!("seed {seed}, another"));
        }
        row.release(&[KeyRange::all()]);
        assert!(streamed(&row, &KeyRange::all()).is_empty(), "seed {seed}");
        assert!(!row.cursor(SeqNo::MAX, None).seek(b"").unwrap(), "seed {seed}");
        drop((row, others));
        assert_eq!(pages.free_pages(), pages.total_pages(), "seed {seed}");
    }
    assert!(gone > 1000 && reopened > 100, "{gone} pages, {reopened} times");
}

/// A row of `count` keys with values of a hundred bytes.
fn uniform(count: u64) -> Model {
    let mut model = Model::default();
    for number in 0..count {
        model.put(&key(number), number + 1, &[number as u8; 100]);
    }
    model
}

fn key(number: u64) -> Vec<u8> {
    format!("a prefix that all keys have, and some more: {number:06}").into_bytes()
}

#[test]
fn a_cut_of_a_third_frees_a_third_and_the_next_what_lies_between() {
    let (_recorder, pages) = container(400, 4096);
    let row = build(&pages, &uniform(4000), UID, Vec::new()).reader;
    let data_pages = row.properties().block_count as usize;
    let cut = |from, to| KeyRange::new(key(from), Some(key(to)));
    let first = row.release(&[cut(1000, 2300)]);
    assert!(first.abs_diff(data_pages * 13 / 40) <= 2, "{first} of {data_pages}");
    // The border page goes with the second cut, though each is consumed by two.
    let second = row.release(&[cut(2300, 3600), cut(1000, 2300)]);
    assert!((first + second).abs_diff(data_pages * 26 / 40) <= 2, "{first} and {second}");
}

#[test]
fn readers_keep_the_pages_that_they_stand_on() {
    let (_recorder, pages) = container(200, 4096);
    let model = uniform(500);
    let row = build(&pages, &model, UID, Vec::new()).reader;
    let pinned = row.get(&key(17), SeqNo::MAX).unwrap().unwrap();
    let mut cursor = row.cursor(SeqNo::MAX, None);
    assert!(cursor.seek(&key(250)).unwrap());
    let mut stream = row.stream(&KeyRange::new(key(400), None)).unwrap();
    let data_pages = row.properties().block_count as usize;
    let free = pages.free_pages();
    assert_eq!(row.release(&[KeyRange::all()]), data_pages);
    assert_eq!(pages.free_pages(), free + data_pages - 3, "three are stood on");

    // Another row takes all there is.
    let mut other = Model::default();
    other.put(b"other", 1, &vec![0xee; pages.free_pages().saturating_sub(3) * 4096]);
    let other = build(&pages, &other, TableUid(2), Vec::new()).reader;
    assert!(pages.free_pages() <= 2);
    let expected = |number| model.get(&key(number), SeqNo::MAX).unwrap().as_ref();
    assert_eq!(pinned.entry(&key(17)), expected(17));
    assert_eq!(cursor.entry(), Some(expected(250)));
    assert_eq!(stream.entry(), Some(expected(400)));
    // They go on, and find no more than the page has.
    while stream.entry().is_some() {
        stream.advance().unwrap();
    }
    while cursor.next().unwrap() {}
    let free = pages.free_pages();
    drop(pinned);
    assert_eq!(pages.free_pages(), free + 1);
    drop((cursor, stream));
    assert_eq!(pages.free_pages(), free + 3);
    drop((row, other));
    assert_eq!(pages.free_pages(), pages.total_pages());
}
