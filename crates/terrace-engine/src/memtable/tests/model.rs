//! Goal: the memtable shows exactly what an ordered map of (key, number descending) shows, at
//! every read point and in both directions. Method: random operations over keys of many shapes;
//! the seed is in every message.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_base::{Entry, EntryKind, Expiry, SeqNo, WallTime};
use terrace_env::SeededRng;

use super::super::Memtable;
use super::{memtable, put};
use crate::iter::{Cursor, Stream};

type Model = BTreeMap<(Vec<u8>, Reverse<u64>), Entry>;
type KeyShape = fn(&mut SeededRng, usize) -> Vec<u8>;

const SHAPES: &[(&str, KeyShape)] = &[
    ("ascending", |_, turn| format!("{turn:016}").into_bytes()),
    ("descending", |_, turn| format!("{:016}", 1_000_000 - turn).into_bytes()),
    ("random digits", |random, _| format!("user{:012}", random.index(1 << 40)).into_bytes()),
    ("random bytes", |random, _| random.next_u64().to_be_bytes().to_vec()),
    ("hot", |random, _| format!("hot{}", random.index(5)).into_bytes()),
    ("prefixes of each other, runs of 0x00 and 0xff", |random, _| {
        (0..random.index(11)).map(|_| [0, 1, 0xff][random.index(3)]).collect()
    }),
    ("one letter", |random, _| vec![b'a'; random.index(60)]),
    ("0xff runs", |random, _| {
        let mut key = vec![0xff; random.index(30)];
        key.extend((0..random.index(3)).map(|_| [0, 0xfe][random.index(2)]));
        key
    }),
    ("clusters", |random, _| {
        let (tenant, item) = (random.index(8), random.index(40));
        format!("tenant-{tenant:06}:item-{item:04}").into_bytes()
    }),
    ("keyspaces", |random, _| {
        let keyspace = [b'\x01', b'\x02', b'z'][random.index(3)];
        [&[keyspace][..], format!("usertable:user{:010}", random.index(400)).as_bytes()].concat()
    }),
    ("ascending streams among others", |random, turn| {
        let stream = random.index(3);
        format!("stream-of-events-{stream}-{turn:09}").into_bytes()
    }),
    ("a stranger now and then", |random, turn| {
        if random.index(40) == 0 {
            vec![random.next_u64() as u8; random.index(4)]
        } else {
            format!("a-long-common-prefix-{turn:09}").into_bytes()
        }
    }),
];

#[test]
fn every_shape_matches_the_model() {
    let (seeds, turns) = if cfg!(miri) { (1, 40) } else { (12, 700) };
    for (name, shape) in SHAPES {
        for seed in 0..seeds {
            let mut random = SeededRng::new(seed);
            run(&format!("{name}, seed {seed}"), *shape, turns, &mut random);
        }
    }
}

#[test]
fn keys_of_the_greatest_length_match_the_model() {
    let shape: KeyShape = |random, _| {
        let mut key = vec![b'k'; 65_600 - random.index(3)];
        for _ in 0..random.index(3) {
            let at = [0, 9, 40_000, 65_530, key.len() - 1][random.index(5)];
            key[at] = b'a' + random.index(20) as u8;
        }
        key
    };
    if !cfg!(miri) {
        run("64 KiB keys, seed 1", shape, 120, &mut SeededRng::new(1));
    }
}

fn run(name: &str, shape: KeyShape, turns: usize, random: &mut SeededRng) {
    let memtable = memtable(if cfg!(miri) { 1 << 18 } else { 64 << 20 });
    let mut model = Model::new();
    // Numbers come in order but for neighbours that change places, as between writers.
    let mut seqnos: Vec<u64> = (1..=turns as u64).map(|number| 3 * number).collect();
    for index in 0..turns {
        let other = (index + random.index(6)).min(turns - 1);
        seqnos.swap(index, other);
    }
    let mut batch = Vec::new();
    for (turn, &seqno) in seqnos.iter().enumerate() {
        let key = shape(random, turn);
        let entry = entry(key, seqno, random);
        batch.push(entry.clone());
        if random.index(20) == 0 {
            // A replay may bring an entry twice.
            batch.push(entry.clone());
        }
        model.insert((entry.key.clone(), Reverse(seqno)), entry);
        if random.index(3) == 0 || turn + 1 == turns {
            insert_batch(&memtable, &batch);
            batch.clear();
        }
        if random.index(turns / 4) == 0 && batch.is_empty() {
            check_walks(name, &memtable, &model, SeqNo(seqno));
        }
    }
    check_counts(name, &memtable, &model);
    check_gets(name, &memtable, &model, random);
    check_seeks(name, &memtable, &model, random);
    for read_point in [0, 3 * turns as u64 / 2, u64::MAX] {
        check_walks(name, &memtable, &model, SeqNo(read_point));
    }
    check_stream(name, &memtable, &model);
}

fn entry(key: Vec<u8>, seqno: u64, random: &mut SeededRng) -> Entry {
    let kinds = [
        EntryKind::Value,
        EntryKind::Value,
        EntryKind::Tombstone,
        EntryKind::MergeOperand,
        EntryKind::ValuePointer,
    ];
    let kind = kinds[random.index(kinds.len())];
    let expires = random.index(4) == 0;
    let expiry = expires.then(|| Expiry::at(WallTime(random.next_u64())));
    let value_bytes = if kind == EntryKind::Tombstone { 0 } else { random.index(40) };
    let value = (0..value_bytes).map(|_| random.next_u64() as u8).collect();
    Entry { key, seqno: SeqNo(seqno), kind, expiry, value }
}

fn insert_batch(memtable: &Memtable, batch: &[Entry]) {
    if let [entry] = batch {
        return put(memtable, entry.as_ref());
    }
    let bytes =
        batch.iter().map(|entry| Memtable::space_for(entry.key.len(), entry.value.len())).sum();
    let mut reservation = memtable.reserve(bytes).expect("the test's arena is large enough");
    memtable.insert_all(&mut reservation, batch.iter().map(Entry::as_ref));
}

/// The newest version of each key at or below the read point, in key order.
fn visible(model: &Model, read_point: SeqNo) -> Vec<&Entry> {
    let mut visible: Vec<&Entry> = Vec::new();
    for entry in model.values().filter(|entry| entry.seqno <= read_point) {
        if visible.last().is_none_or(|last| last.key != entry.key) {
            visible.push(entry);
        }
    }
    visible
}

fn check_counts(name: &str, memtable: &Memtable, model: &Model) {
    assert_eq!(memtable.entry_count(), model.len() as u64, "{name}");
    let keys = visible(model, SeqNo::MAX).len();
    assert_eq!(memtable.key_count(), keys as u64, "{name}");
    let key_bytes: usize = model.values().map(|entry| entry.key.len()).sum();
    let value_bytes: usize = model.values().map(|entry| entry.value.len()).sum();
    assert_eq!(memtable.key_bytes(), key_bytes as u64, "{name}");
    assert_eq!(memtable.value_bytes(), value_bytes as u64, "{name}");
    assert_eq!(memtable.least_seqno(), model.values().map(|entry| entry.seqno).min(), "{name}");
    assert_eq!(memtable.greatest_seqno(), model.values().map(|entry| entry.seqno).max(), "{name}");
    assert!(memtable.tree().arena().filled_bytes() <= memtable.used_bytes(), "{name}");
}

fn check_gets(name: &str, memtable: &Memtable, model: &Model, random: &mut SeededRng) {
    let mut keys: Vec<Vec<u8>> = model.keys().map(|(key, _)| key.clone()).collect();
    keys.dedup();
    if cfg!(miri) {
        keys.truncate(12);
    }
    let present = keys.len();
    for index in 0..present {
        let key = &keys[index];
        let longer = [key, &[0x00][..]].concat();
        let shorter = key[..key.len().saturating_sub(1)].to_vec();
        keys.extend([longer, shorter]);
    }
    for key in &keys {
        let versions = || model.range((key.clone(), Reverse(u64::MAX))..=(key.clone(), Reverse(0)));
        let newest = versions().next().map(|(_, entry)| entry.as_ref());
        assert_eq!(memtable.newest(key), newest, "{name}");
        let mut read_points: Vec<u64> = versions().map(|((_, seqno), _)| seqno.0).collect();
        read_points.truncate(if cfg!(miri) { 2 } else { 200 });
        read_points.extend([0, random.next_u64() % (3 * model.len() as u64 + 1), u64::MAX]);
        for read_point in read_points.iter().flat_map(|&at| [at, at.saturating_sub(1)]) {
            let found = memtable.get(key, SeqNo(read_point));
            let expected = versions().find(|((_, seqno), _)| seqno.0 <= read_point);
            let expected = expected.map(|(_, entry)| entry.as_ref());
            assert_eq!(found.entry, expected, "{name} at {read_point}");
            let saw_newer = newest.is_some_and(|newest| newest.seqno.0 > read_point);
            assert_eq!(found.saw_newer, saw_newer, "{name} at {read_point}");
        }
    }
}

fn check_walks(name: &str, memtable: &Arc<Memtable>, model: &Model, read_point: SeqNo) {
    let expected = visible(model, read_point);
    let mut cursor = memtable.cursor(read_point);
    assert!(cursor.entry().is_none(), "{name}: a new cursor stands nowhere");
    cursor.seek(b"").unwrap();
    for entry in &expected {
        assert_eq!(cursor.entry(), Some(entry.as_ref()), "{name} at {read_point}");
        check_older(name, &mut cursor, model, entry);
        cursor.next().unwrap();
    }
    assert!(cursor.entry().is_none(), "{name} at {read_point}");
    cursor.seek_back(None).unwrap();
    for entry in expected.iter().rev() {
        assert_eq!(cursor.entry(), Some(entry.as_ref()), "{name} at {read_point}");
        cursor.prev().unwrap();
    }
    assert!(cursor.entry().is_none(), "{name} at {read_point}");
}

fn check_older(name: &str, cursor: &mut impl Cursor, model: &Model, entry: &Entry) {
    let Some(below) = entry.seqno.0.checked_sub(1) else { return };
    let key = &entry.key;
    let expected = model
        .range((key.clone(), Reverse(below))..=(key.clone(), Reverse(0)))
        .next()
        .map(|(_, entry)| entry.as_ref());
    assert_eq!(cursor.older(entry.seqno).unwrap(), expected, "{name}");
    assert_eq!(cursor.older(SeqNo::ZERO).unwrap(), None, "{name}");
    assert_eq!(cursor.entry(), Some(entry.as_ref()), "{name}: the cursor stays");
}

fn check_seeks(name: &str, memtable: &Arc<Memtable>, model: &Model, random: &mut SeededRng) {
    let keys: Vec<&Vec<u8>> = model.keys().map(|(key, _)| key).collect();
    let tries = if cfg!(miri) { 6 } else { 300 };
    for _ in 0..tries {
        let read_point = SeqNo(random.next_u64() % (3 * model.len() as u64 + 1));
        let visible = visible(model, read_point);
        let mut bound = keys[random.index(keys.len())].clone();
        match random.index(4) {
            0 => bound.push(random.next_u64() as u8),
            1 => drop(bound.pop()),
            _ => {}
        }
        let at = visible.partition_point(|entry| entry.key < bound);
        let mut cursor = memtable.cursor(read_point);
        cursor.seek(&bound).unwrap();
        let shown = |index: Option<usize>| index.and_then(|index| visible.get(index));
        let key_at = |index| shown(index).map(|entry| entry.as_ref());
        assert_eq!(cursor.entry(), key_at(Some(at)), "{name} seek {bound:?}");
        if cursor.entry().is_some() {
            cursor.prev().unwrap();
            assert_eq!(cursor.entry(), key_at(at.checked_sub(1)), "{name} prev of {bound:?}");
        }
        cursor.seek_back(Some(&bound)).unwrap();
        assert_eq!(cursor.entry(), key_at(at.checked_sub(1)), "{name} seek_back {bound:?}");
        if cursor.entry().is_some() {
            cursor.next().unwrap();
            assert_eq!(cursor.entry(), key_at(Some(at)), "{name} next of {bound:?}");
        }
    }
}

fn check_stream(name: &str, memtable: &Arc<Memtable>, model: &Model) {
    let mut stream = memtable.stream();
    for entry in model.values() {
        assert_eq!(stream.entry(), Some(entry.as_ref()), "{name}");
        stream.advance().unwrap();
    }
    assert!(stream.entry().is_none(), "{name}");
}

/// Goal: an old snapshot finds its version of a key that was overwritten ever so often, also when
/// versions came late. Method: one key, the numbers shuffled more and more.
#[test]
fn long_chains_of_versions_are_searched_right() {
    let versions = if cfg!(miri) { 140 } else { 5000 };
    for disorder in [1, 2, 10, 100, versions] {
        let memtable = memtable(if cfg!(miri) { 1 << 18 } else { 16 << 20 });
        let mut random = SeededRng::new(disorder as u64);
        let mut seqnos: Vec<u64> = (1..=versions as u64).map(|number| 2 * number).collect();
        for index in 0..versions {
            seqnos.swap(index, (index + random.index(disorder)).min(versions - 1));
        }
        for &seqno in &seqnos {
            put(&memtable, super::value(b"key", seqno, b""));
        }
        let step = if cfg!(miri) { 13 } else { 1 };
        for read_point in (0..2 * versions as u64 + 2).step_by(step) {
            let found = memtable.get(b"key", SeqNo(read_point)).entry;
            let expected = read_point / 2 * 2;
            let expected = (expected > 0).then(|| SeqNo(expected.min(2 * versions as u64)));
            assert_eq!(found.map(|entry| entry.seqno), expected, "disorder {disorder}");
        }
        assert_eq!((memtable.key_count(), memtable.entry_count()), (1, versions as u64));
    }
}
