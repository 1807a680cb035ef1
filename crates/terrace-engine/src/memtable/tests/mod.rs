//! The memtable against a model, under threads, and drawn.

mod concurrent;
mod model;
mod shape;

use std::sync::Arc;

use terrace_base::{EntryKind, EntryRef, Epoch, MemtableId, SeqNo};

use super::Memtable;

fn memtable(arena_bytes: usize) -> Arc<Memtable> {
    Arc::new(Memtable::new(MemtableId { epoch: Epoch(1), counter: 1 }, arena_bytes))
}

fn value<'a>(key: &'a [u8], seqno: u64, value: &'a [u8]) -> EntryRef<'a> {
    EntryRef { key, seqno: SeqNo(seqno), kind: EntryKind::Value, expiry: None, value }
}

fn put(memtable: &Memtable, entry: EntryRef<'_>) {
    let bytes = Memtable::space_for(entry.key.len(), entry.value.len());
    let mut reservation = memtable.reserve(bytes).expect("the test's arena is large enough");
    memtable.insert(&mut reservation, entry);
}

#[test]
fn a_memtable_and_what_comes_of_it_go_between_threads() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Memtable>();
    check::<super::Reservation<'_>>();
    check::<super::MemtableCursor>();
    check::<super::MemtableStream>();
}
