//! Models of readers beside the writer of a memtable. Nodes are small in a model (3 keys in a
//! leaf, 4 separators in an inner node), so that a few inserts split them.

use std::sync::Arc;

use loom::thread;
use terrace_base::{EntryKind, EntryRef, Epoch, MemtableId, SeqNo};
use terrace_env::atomic::{AtomicU64, Ordering};
use terrace_env::model::{Weakened, explore, must_fail};

use super::Memtable;
use crate::iter::Cursor;

/// A memtable and which of its numbers are inserted: bit n - 1 for number n. Every key is one byte,
/// and the value is the number.
struct Table {
    memtable: Arc<Memtable>,
    done: AtomicU64,
    /// The key of each number, from 1.
    keys: Vec<u8>,
}

impl Table {
    /// Nothing is inserted yet but the first `filled` numbers.
    fn new(keys: &[u8], filled: u64) -> Arc<Table> {
        let bytes = Memtable::arena_bytes_for(keys.len() * Memtable::space_for(1, 8));
        let id = MemtableId { epoch: Epoch(1), counter: 1 };
        let memtable = Arc::new(Memtable::new(id, bytes));
        let table = Table { memtable, done: AtomicU64::new(0), keys: keys.to_vec() };
        (1..=filled).for_each(|seqno| table.insert(seqno));
        Arc::new(table)
    }

    fn insert(&self, seqno: u64) {
        let key = &self.keys[seqno as usize - 1..][..1];
        let mut reservation = self.memtable.reserve(Memtable::space_for(1, 8)).expect("it fits");
        let value = seqno.to_be_bytes();
        let kind = EntryKind::Value;
        let entry = EntryRef { key, seqno: SeqNo(seqno), kind, expiry: None, value: &value };
        self.memtable.insert(&mut reservation, entry);
        // Publication: what releases the insert to readers.
        self.done.fetch_add(1 << (seqno - 1), Ordering::AcqRel);
    }

    /// The number up to which everything is inserted.
    fn read_point(&self) -> u64 {
        self.done.load(Ordering::Acquire).trailing_ones().into()
    }

    /// The number that a read of `key` must find.
    fn expected(&self, key: u8, read_point: u64) -> Option<u64> {
        (1..=read_point).rev().find(|seqno| self.keys[*seqno as usize - 1] == key)
    }

    fn check_get(&self, key: u8, read_point: u64) {
        let found = self.memtable.get(&[key], SeqNo(read_point)).entry.map(seen);
        let expected = self.expected(key, read_point);
        assert_eq!(found, expected.map(|seqno| (key, seqno)), "at {read_point}");
    }

    fn check_all(&self) {
        let read_point = self.read_point();
        self.keys.iter().for_each(|key| self.check_get(*key, read_point));
    }

    fn visible(&self, read_point: u64) -> Vec<(u8, u64)> {
        let mut keys = self.keys.clone();
        keys.sort_unstable();
        keys.dedup();
        let seqno = |key: u8| self.expected(key, read_point).map(|seqno| (key, seqno));
        keys.into_iter().filter_map(seqno).collect()
    }

    fn check_walk(&self, is_forward: bool) {
        let read_point = self.read_point();
        let mut cursor = self.memtable.cursor(SeqNo(read_point));
        let mut found = Vec::new();
        if is_forward {
            cursor.seek(b"").unwrap();
        } else {
            cursor.seek_back(None).unwrap();
        }
        while let Some(entry) = cursor.entry() {
            found.push(seen(entry));
            let moved = if is_forward { cursor.next() } else { cursor.prev() };
            moved.unwrap();
        }
        if !is_forward {
            found.reverse();
        }
        assert_eq!(found, self.visible(read_point), "at {read_point}");
    }
}

fn seen(entry: EntryRef<'_>) -> (u8, u64) {
    assert_eq!(entry.value, entry.seqno.0.to_be_bytes(), "an entry is complete");
    (entry.key[0], entry.seqno.0)
}

/// One thread inserts the numbers after `filled`, and this one reads.
fn read_beside_a_writer(keys: &'static [u8], filled: u64, read: impl Fn(&Table)) {
    let table = Table::new(keys, filled);
    let writer = {
        let table = Arc::clone(&table);
        thread::spawn(move || (filled + 1..=keys.len() as u64).for_each(|n| table.insert(n)))
    };
    read(&table);
    writer.join().unwrap();
    table.check_all();
}

#[test]
fn a_reader_finds_what_was_published() {
    let name = "memtable: insert and get";
    let model = || read_beside_a_writer(b"bab", 0, Table::check_all);
    explore(name, 3, model);
    must_fail(name, Weakened::Releases, 3, model);
    must_fail(name, Weakened::Acquires, 3, model);
}

#[test]
fn a_reader_beside_the_split_of_a_leaf_misses_nothing() {
    explore("memtable: gets while a leaf splits", 5, || {
        read_beside_a_writer(b"bdfc", 3, Table::check_all);
    });
    explore("memtable: gets while a leaf is added", 5, || {
        read_beside_a_writer(b"bdfh", 3, Table::check_all);
    });
}

#[test]
fn a_reader_beside_the_split_of_an_inner_node_misses_nothing() {
    // Each number descends, so that every leaf is split in the middle and the root fills up.
    const KEYS: &[u8] = b"zxywvutsrqponmlkjihgfedc";
    // The leaf of h, j and p is split below a root: whoever chose the old leaf must not come to its
    // left part with a key of the right one.
    let name = "memtable: gets while a leaf below the root splits";
    explore(name, 4, || read_beside_a_writer(b"bhpdjln", 5, Table::check_all));
    // The read point is taken before the writer begins: what counts is the way down.
    explore("memtable: gets while inner nodes split", 5, || {
        read_beside_a_writer(KEYS, KEYS.len() as u64 - 2, |table| {
            let read_point = table.read_point();
            [b'c', b'e', b'p', b'z'].iter().for_each(|key| table.check_get(*key, read_point));
        });
    });
}

#[test]
fn a_walk_beside_a_split_shows_each_key_once() {
    for (name, is_forward) in
        [("memtable: walk right while a leaf splits", true), ("memtable: walk left", false)]
    {
        explore(name, 4, move || {
            read_beside_a_writer(b"bdfca", 3, |table| table.check_walk(is_forward));
        });
    }
}

#[test]
fn versions_that_come_in_any_order_form_one_chain() {
    explore("memtable: versions of a key by two writers", 3, || {
        let table = Table::new(b"kkkk", 0);
        table.insert(3);
        let writers = [2, 1].map(|seqno| {
            let table = Arc::clone(&table);
            thread::spawn(move || table.insert(seqno))
        });
        table.check_all();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(table.read_point(), 3);
        (1..=3).for_each(|read_point| table.check_get(b'k', read_point));
    });
}

#[test]
fn two_writers_and_a_reader_of_other_keys() {
    explore("memtable: two writers and a reader", 3, || {
        let table = Table::new(b"ba", 0);
        let writers = [1, 2].map(|seqno| {
            let table = Arc::clone(&table);
            thread::spawn(move || table.insert(seqno))
        });
        table.check_all();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        table.check_all();
        assert_eq!(table.memtable.entry_count(), 2);
    });
}

#[test]
fn reservations_never_exceed_the_arena() {
    explore("memtable: reservations", 3, || {
        let bytes = Memtable::space_for(1, 1);
        let arena_bytes = Memtable::arena_bytes_for(2 * bytes);
        let id = MemtableId { epoch: Epoch(1), counter: 1 };
        let memtable = Arc::new(Memtable::new(id, arena_bytes));
        let threads = [(); 2].map(|()| {
            let memtable = Arc::clone(&memtable);
            thread::spawn(move || memtable.reserve(2 * bytes).is_some())
        });
        let own = memtable.reserve(bytes);
        assert!(memtable.used_bytes() <= memtable.arena_bytes());
        let others = threads.map(|thread| thread.join().unwrap());
        assert!(own.is_some() || others.contains(&true), "somebody gets the space");
        drop(own);
        assert_eq!(memtable.used_bytes(), Memtable::FIXED_BYTES, "what is left goes back");
    });
}
