//! Iterators and cursors against `BTreeMap`, in both directions, interleaved.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::BTreeMap;
use std::ops::Bound;

use terrace::{Db, Key, KeyspaceOptions, Prefix, Result, View};
use terrace_env::SeededRng;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Short keys over few letters, so that prefixes and neighbours are common.
fn key(rng: &mut SeededRng) -> Vec<u8> {
    let len = rng.below(4);
    (0..len).map(|_| b"ab\xff"[rng.below(3) as usize]).collect()
}

fn filled(rng: &mut SeededRng) -> (tempfile::TempDir, Db, Model) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::options().memtable_bytes(16 << 10).open(dir.path()).unwrap();
    // Neighbours on both sides, which must never be seen.
    for name in ["1", "3"] {
        db.keyspace(name).unwrap().put("", "wrong").unwrap();
        db.keyspace(name).unwrap().put([0xff; 3], "wrong").unwrap();
    }
    let keyspace = db.keyspace("2").unwrap();
    let mut model = Model::new();
    for step in 0..60 {
        let key = key(rng);
        match rng.below(4) {
            0 => {
                keyspace.delete(&key).unwrap();
                model.remove(&key);
            }
            _ => {
                let value = vec![step; rng.below(60) as usize];
                keyspace.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        }
        if rng.below(20) == 0 {
            db.admin().flush().unwrap();
        }
    }
    (dir, db, model)
}

fn bound(rng: &mut SeededRng) -> Bound<Vec<u8>> {
    match rng.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key(rng)),
        _ => Bound::Excluded(key(rng)),
    }
}

/// `BTreeMap` panics where an interval is upside down; here it is empty.
fn expected(model: &Model, range: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Vec<(Vec<u8>, Vec<u8>)> {
    let is_inside = |key: &Vec<u8>| {
        (match &range.0 {
            Bound::Included(start) => key >= start,
            Bound::Excluded(start) => key > start,
            Bound::Unbounded => true,
        }) && match &range.1 {
            Bound::Included(end) => key <= end,
            Bound::Excluded(end) => key < end,
            Bound::Unbounded => true,
        }
    };
    let rows = model.iter().filter(|(key, _)| is_inside(key));
    rows.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn plain(row: Option<Result<(Key, terrace::Value)>>) -> Option<(Vec<u8>, Vec<u8>)> {
    row.map(|row| row.unwrap()).map(|(key, value)| (key.into_vec(), value.into_vec()))
}

#[test]
fn iterators_give_what_a_map_gives_from_both_ends() {
    for seed in 0..30 {
        println!("seed {seed}");
        let rng = &mut SeededRng::new(seed);
        let (_dir, db, model) = filled(rng);
        let keyspace = db.keyspace("2").unwrap();
        let snapshot = db.snapshot();
        keyspace.clear().unwrap();
        let view: &View = &keyspace.at(&snapshot);
        assert!(keyspace.iter().next().is_none());
        for _ in 0..20 {
            let range = (bound(rng), bound(rng));
            let rows = expected(&model, &range);
            let mut iter = view.range(range.clone());
            let mut left = &rows[..];
            for _ in 0..rows.len() + 3 {
                let (given, wanted) = match rng.below(2) {
                    0 => (iter.next(), left.split_first()),
                    _ => (iter.next_back(), left.split_last()),
                };
                assert_eq!(plain(given).as_ref(), wanted.map(|(row, _)| row), "{range:?}");
                left = wanted.map_or(&[], |(_, rest)| rest);
            }
            let keys: Vec<_> = view.range(range.clone()).keys().rev().map(Result::unwrap).collect();
            assert!(keys.iter().eq(rows.iter().rev().map(|(key, _)| key)), "{range:?}");
            let prefix = key(rng);
            let count = model.keys().filter(|key| key.starts_with(&prefix)).count();
            assert_eq!(view.prefix(&prefix).count(), count, "{prefix:?}");
            assert_eq!(view.range(Prefix(&prefix)).rev().count(), count, "{prefix:?}");
        }
        assert_eq!(plain(view.first().transpose()), model.clone().into_iter().next());
        assert_eq!(plain(view.last().transpose()), model.clone().into_iter().next_back());
    }
}

#[test]
fn a_cursor_stands_between_the_keys_of_a_map() {
    for seed in 0..30 {
        println!("seed {seed}");
        let rng = &mut SeededRng::new(seed);
        let (_dir, db, model) = filled(rng);
        let keyspace = db.keyspace("2").unwrap();
        for _ in 0..10 {
            let range = (bound(rng), bound(rng));
            let rows = expected(&model, &range);
            let mut cursor = keyspace.cursor(range.clone());
            // How many rows lie before the cursor.
            let mut place = 0;
            for _ in 0..40 {
                match rng.below(8) {
                    0 => {
                        let key = key(rng);
                        cursor.seek(&key).unwrap();
                        place = rows.partition_point(|row| row.0 < key);
                    }
                    1 => {
                        cursor.seek_to_start();
                        place = 0;
                    }
                    2 => {
                        cursor.seek_to_end();
                        place = rows.len();
                    }
                    3..=5 => {
                        let row = cursor
                            .next()
                            .unwrap()
                            .map(|row| (row.key.to_vec(), row.value.to_vec()));
                        assert_eq!(row.as_ref(), rows.get(place), "{range:?}");
                        place = (place + 1).min(rows.len());
                    }
                    _ => {
                        let row = cursor
                            .prev()
                            .unwrap()
                            .map(|row| (row.key.to_vec(), row.value.to_vec()));
                        let before = place.checked_sub(1);
                        assert_eq!(row.as_ref(), before.map(|before| &rows[before]), "{range:?}");
                        place = before.unwrap_or(0);
                    }
                }
            }
        }
    }
}

#[test]
fn a_key_that_cannot_be_shown_is_an_item_and_the_walk_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    let options = KeyspaceOptions::new().merge_operator(terrace::merge::ADD_I64);
    let counts = db.keyspace_with("counts", options).unwrap();
    for key in ["a", "b", "c"] {
        counts.put(key, "1").unwrap();
    }
    counts.put("b", "no number").unwrap();
    counts.merge("b", "1").unwrap();
    let shown = |row: Option<Result<(Key, terrace::Value)>>| match row? {
        Ok((key, _)) => Some(Ok(key.into_vec())),
        Err(error) => Some(Err(error.key().unwrap().to_vec())),
    };
    let (a, b, c) = (Ok(b"a".to_vec()), Err(b"b".to_vec()), Ok(b"c".to_vec()));
    let mut iter = counts.iter();
    let forward: Vec<_> = std::iter::from_fn(|| shown(iter.next())).collect();
    assert_eq!(forward, [a.clone(), b.clone(), c.clone()]);
    let mut iter = counts.iter();
    let backward: Vec<_> = std::iter::from_fn(|| shown(iter.next_back())).collect();
    assert_eq!(backward, [c.clone(), b.clone(), a.clone()]);
    // From both ends it ends there: nothing is given twice.
    let mut iter = counts.iter();
    assert_eq!(shown(iter.next_back()), Some(c));
    assert_eq!(shown(iter.next()), Some(a));
    assert_eq!(shown(iter.next()), Some(b));
    assert_eq!((shown(iter.next()), shown(iter.next_back())), (None, None));
    let mut cursor = counts.cursor(..);
    assert_eq!(cursor.next().unwrap().unwrap().key, b"a");
    assert_eq!(cursor.next().unwrap_err().kind(), terrace::ErrorKind::Merge);
    assert_eq!(cursor.next().unwrap().unwrap().key, b"c");
    assert_eq!(cursor.prev().unwrap().unwrap().key, b"c");
    assert_eq!(cursor.prev().unwrap_err().kind(), terrace::ErrorKind::Merge);
    assert_eq!(cursor.prev().unwrap().unwrap().key, b"a");
}

#[test]
fn a_walk_of_a_closed_database_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    db.put("a", "1").unwrap();
    let (mut cursor, mut iter) = (db.cursor(..), db.iter());
    assert!(cursor.next().unwrap().is_some());
    db.close().unwrap();
    assert_eq!(cursor.next().unwrap_err().kind(), terrace::ErrorKind::Closed);
    assert_eq!(cursor.next().unwrap_err().kind(), terrace::ErrorKind::Invalid);
    assert_eq!(iter.next().unwrap().unwrap_err().kind(), terrace::ErrorKind::Closed);
    assert!(iter.next().is_none());
    assert_eq!(db.iter().next().unwrap().unwrap_err().kind(), terrace::ErrorKind::Closed);
}
