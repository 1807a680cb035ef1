//! Tests of whole tables: built, read in every way, damaged.

mod damage;
mod golden;
mod local;
mod model;
mod modes;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_base::{
    Entry, EntryKind, EntryRef, Epoch, Expiry, FileId, LevelNo, SeqNo, TableUid, WallTime,
};
use terrace_env::SeededRng;

use super::*;
use crate::cache::BlockCache;
use crate::iter::Cursor;
use crate::range_tombstone::{Fragments, RangeTombstone};

/// Lengths of the values in specimens, in the order of their keys: drawn once, and part of the
/// specimens since.
#[rustfmt::skip]
pub(crate) const SPECIMEN_VALUE_BYTES: [usize; 60] = [
    15, 19, 40, 35, 11, 48, 45, 33, 20, 0, 37, 20, 34, 22, 16,
    39, 5, 41, 14, 42, 46, 44, 35, 26, 43, 9, 9, 11, 31, 4,
    36, 22, 43, 6, 25, 30, 3, 31, 38, 14, 32, 29, 5, 18, 21,
    22, 38, 18, 19, 18, 22, 37, 18, 48, 41, 29, 23, 42, 48, 46,
];

/// A range tombstone, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deleted {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
    pub(crate) seqno: SeqNo,
}

impl Deleted {
    pub(crate) fn as_ref(&self) -> RangeTombstone<'_> {
        RangeTombstone { start: &self.start, end: &self.end, seqno: self.seqno }
    }

    pub(crate) fn all_of(fragments: &Fragments) -> Vec<Deleted> {
        let owned = fragments.iter().map(|RangeTombstone { start, end, seqno }| Deleted {
            start: start.to_vec(),
            end: end.to_vec(),
            seqno,
        });
        owned.collect()
    }
}

/// What a table should hold: entries in internal order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) entries: BTreeMap<(Vec<u8>, Reverse<SeqNo>), Entry>,
    pub(crate) range_tombstones: Vec<Deleted>,
}

impl Model {
    pub(crate) fn insert(&mut self, entry: Entry) {
        self.entries.insert((entry.key.clone(), Reverse(entry.seqno)), entry);
    }

    pub(crate) fn put(&mut self, key: &[u8], seqno: u64, value: &[u8]) {
        self.insert(Entry {
            key: key.to_vec(),
            seqno: SeqNo(seqno),
            kind: EntryKind::Value,
            expiry: None,
            value: value.to_vec(),
        });
    }

    pub(crate) fn all(&self) -> Vec<&Entry> {
        self.entries.values().collect()
    }

    /// The newest entry of a key below or at a read point.
    pub(crate) fn get(&self, key: &[u8], read_point: SeqNo) -> Option<&Entry> {
        let from = (key.to_vec(), Reverse(read_point));
        let found = self.entries.range(from..).next().map(|(_, entry)| entry);
        found.filter(|entry| entry.key == key)
    }

    /// The newest entry at or below the read point of each key that has one.
    pub(crate) fn visible(&self, read_point: SeqNo) -> Vec<&Entry> {
        let mut visible: Vec<&Entry> = Vec::new();
        for entry in self.entries.values().filter(|entry| entry.seqno <= read_point) {
            if visible.last().is_none_or(|last| last.key != entry.key) {
                visible.push(entry);
            }
        }
        visible
    }

    pub(crate) fn greatest_seqno(&self) -> u64 {
        self.entries.keys().map(|(_, seqno)| seqno.0.0).max().unwrap_or(0)
    }
}

pub(crate) const UID: TableUid = TableUid(0x0123_4567_89ab_cdef_0011_2233_4455_6677);

pub(crate) fn options(block_bytes: usize, compression: Compression) -> TableOptions {
    TableOptions { block_bytes, compression, ..TableOptions::default() }
}

/// Builds the table of a model, and returns its bytes too.
pub(crate) fn build(model: &Model, uid: TableUid, options: &TableOptions) -> (BuiltTable, Vec<u8>) {
    let store = MemoryTableStore::new();
    let id = FileId { epoch: Epoch(1), counter: 1 };
    let writer = store.create(id, LevelNo(1), 0).unwrap();
    let mut builder = TableBuilder::new(writer, uid, options, WallTime(1_700_000_000_000));
    for entry in model.entries.values() {
        builder.add(entry.as_ref()).unwrap();
    }
    for range_tombstone in &model.range_tombstones {
        builder.add_range_tombstone(range_tombstone.as_ref());
    }
    let built = builder.finish().unwrap();
    let file = store.open(&built.location).unwrap();
    let interval = ByteInterval { offset: 0, bytes: file.bytes() as usize };
    let bytes = file.read(&[interval]).wait().unwrap().remove(0);
    assert_eq!(built.bytes, bytes.len() as u64);
    (built, bytes)
}

pub(crate) fn open(bytes: Vec<u8>, cache_bytes: u64) -> crate::Result<Arc<TableReader>> {
    let file = Arc::new(MemoryTableFile::new("specimen.table", bytes));
    TableReader::open(file, Arc::new(BlockCache::new(cache_bytes)), None)
}

/// A model of one of many shapes.
pub(crate) fn random_model(rng: &mut SeededRng) -> Model {
    let mut model = Model::default();
    let shape = rng.index(7);
    let key_count = rng.pick(&[1, 3, 40, 150]);
    let versions_max = rng.pick(&[1, 1, 4, 40]);
    let value_bytes_max = rng.pick(&[1, 20, 300, 3000]);
    let mut seqno = rng.index(1000) as u64 + 1;
    for number in 0..key_count {
        let key = random_key(rng, shape, number);
        let versions = if rng.one_in(60) { 300 } else { rng.index(versions_max) + 1 };
        for _ in 0..versions {
            // Numbers ascend over the table as a whole or are strewn over it.
            seqno =
                if shape.is_multiple_of(2) { seqno + 1 } else { rng.next_u64() % 1_000_000 + 1 };
            let kind = rng.pick(&[
                EntryKind::Value,
                EntryKind::Value,
                EntryKind::Tombstone,
                EntryKind::MergeOperand,
                EntryKind::ValuePointer,
            ]);
            let value_bytes =
                if kind == EntryKind::Tombstone { 0 } else { rng.index(value_bytes_max + 1) };
            let step = if rng.one_in(2) { 0 } else { 37 };
            let first = rng.next_u64() as u8;
            let value = (0..value_bytes).map(|at| first.wrapping_add((at * step) as u8)).collect();
            let expiry = if rng.one_in(4) {
                Expiry::from_stored(rng.next_u64() >> rng.index(64))
            } else {
                None
            };
            model.insert(Entry { key: key.clone(), seqno: SeqNo(seqno), kind, expiry, value });
        }
    }
    if rng.one_in(3) {
        for _ in 0..rng.index(5) + 1 {
            let (a, b) = (random_key(rng, shape, 3), random_key(rng, shape, 90));
            if a != b {
                let seqno = SeqNo(rng.next_u64() % 1000);
                let (start, end) = (a.clone().min(b.clone()), a.max(b));
                model.range_tombstones.push(Deleted { start, end, seqno });
            }
        }
    }
    model
}

/// A key of a shape: one that exists often, or lies near one that does.
pub(crate) fn random_key(rng: &mut SeededRng, shape: usize, number: usize) -> Vec<u8> {
    match shape {
        // Short keys that are prefixes of each other, the empty one among them.
        0 | 1 => (0..rng.index(7)).map(|_| rng.pick(&[0, 0, 1, b'a', 0xff])).collect(),
        2 => (0..16).map(|_| rng.next_u64() as u8).collect(),
        3 => format!("user{:08}", number * 3 + rng.index(2)).into_bytes(),
        // A long common prefix, and tails around the widths of hints.
        4 => {
            let mut key = vec![b'p'; 120];
            key.extend((0..rng.index(12)).map(|_| rng.pick(b"\0ab")));
            key
        }
        5 => ((number / 4) as u64).to_be_bytes()[..rng.pick(&[7, 8])].to_vec(),
        // Few keys, so that each has many versions.
        _ => vec![rng.pick(b"xyz"); rng.index(3) + 1],
    }
}

/// A key to ask for: one of the model's, or one near it.
pub(crate) fn target(rng: &mut SeededRng, model: &Model) -> Vec<u8> {
    let keys: Vec<&Vec<u8>> = model.entries.keys().map(|(key, _)| key).collect();
    let Some(key) = (!keys.is_empty()).then(|| keys[rng.index(keys.len())]) else {
        return vec![rng.next_u64() as u8];
    };
    let mut key = key.clone();
    match rng.index(6) {
        0 => key.push(0),
        1 => key.truncate(rng.index(key.len() + 1)),
        2 => key.push(rng.next_u64() as u8),
        3 if !key.is_empty() => {
            let at = rng.index(key.len());
            key[at] = key[at].wrapping_add(rng.pick(&[1, 0xff]));
        }
        _ => {}
    }
    key
}

/// Walks a cursor that stands nowhere at random, and from end to end.
pub(crate) fn check_cursor(
    rng: &mut SeededRng,
    model: &Model,
    cursor: &mut impl Cursor,
    read_point: SeqNo,
    context: &str,
) {
    let visible = model.visible(read_point);
    assert!(cursor.entry().is_none(), "a new cursor stands nowhere");
    let mut expected: Option<usize> = None;
    for step in 0..120 {
        let action = rng.index(10);
        match expected {
            Some(at) if action < 4 => {
                cursor.next().unwrap();
                expected = Some(at + 1).filter(|at| *at < visible.len());
            }
            Some(at) if action < 8 => {
                cursor.prev().unwrap();
                expected = at.checked_sub(1);
            }
            _ if action.is_multiple_of(2) => {
                let key = target(rng, model);
                cursor.seek(&key).unwrap();
                let at = visible.partition_point(|entry| entry.key < key);
                expected = Some(at).filter(|at| *at < visible.len());
            }
            _ if rng.one_in(3) => {
                cursor.seek_back(None).unwrap();
                expected = visible.len().checked_sub(1);
            }
            _ => {
                let bound = target(rng, model);
                cursor.seek_back(Some(&bound)).unwrap();
                expected = visible.partition_point(|entry| entry.key < bound).checked_sub(1);
            }
        }
        let entry = expected.map(|at| visible[at].as_ref());
        assert_eq!(cursor.entry(), entry, "{context}, {read_point:?}, step {step}");
        if let Some(entry) = entry
            && rng.one_in(3)
        {
            check_older(rng, model, cursor, entry, context);
            assert_eq!(cursor.entry(), Some(entry), "{context}: older must not move the cursor");
        }
    }
    // From end to end, both ways.
    cursor.seek(b"").unwrap();
    for entry in &visible {
        assert_eq!(cursor.entry(), Some(entry.as_ref()), "{context}, {read_point:?}");
        cursor.next().unwrap();
    }
    assert!(cursor.entry().is_none());
    cursor.seek_back(None).unwrap();
    for entry in visible.iter().rev() {
        assert_eq!(cursor.entry(), Some(entry.as_ref()), "{context}, {read_point:?}");
        cursor.prev().unwrap();
    }
    assert!(cursor.entry().is_none());
}

fn check_older(
    rng: &mut SeededRng,
    model: &Model,
    cursor: &mut impl Cursor,
    entry: EntryRef<'_>,
    context: &str,
) {
    let expected_below = |seqno: SeqNo| {
        let below = SeqNo(seqno.0.checked_sub(1)?);
        model.get(entry.key, below).map(|entry| entry.as_ref())
    };
    // A chain, as merge operands are read, or any number at all.
    let mut seqno = entry.seqno;
    for _ in 0..rng.pick(&[1, 3, 400]) {
        let expected = expected_below(seqno);
        assert_eq!(cursor.older(seqno).unwrap(), expected, "{context}, below {seqno:?}");
        match expected {
            Some(older) => seqno = older.seqno,
            None => break,
        }
    }
    for _ in 0..3 {
        let seqno = SeqNo(rng.next_u64() % (model.greatest_seqno() + 2));
        assert_eq!(cursor.older(seqno).unwrap(), expected_below(seqno), "{context}, {seqno:?}");
    }
}
