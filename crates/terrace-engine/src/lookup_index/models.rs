//! Models of the lookup index: what is published is not excluded, whoever takes whose slot.

use std::sync::Arc;

use loom::thread;
use terrace_base::SeqNo;
use terrace_env::atomic::{AtomicU64, Ordering};
use terrace_env::model::explore;

use super::LookupIndex;

/// Hashes of one bucket whose tags differ.
fn hash(key: u64) -> u64 {
    key + 1
}

/// One bucket whose seven slots are taken by keys 0 to 6, in generation 0.
fn full() -> LookupIndex {
    let index = LookupIndex::new(1, SeqNo::ZERO);
    (0..7).for_each(|key| index.note(hash(key)));
    index.end_generation(SeqNo(8));
    index
}

/// A key gives its slot to another one while it is looked for.
#[test]
fn a_key_that_loses_its_slot_is_not_excluded() {
    explore("lookup index: a full bucket", 3, || {
        let index = Arc::new(full());
        let other = Arc::clone(&index);
        let writer = thread::spawn(move || other.note(hash(7)));
        assert!(index.limit_of(hash(0)) >= SeqNo(8));
        writer.join().unwrap();
        assert!(index.limit_of(hash(0)) >= SeqNo(8));
        assert_eq!(index.limit_of(hash(7)), SeqNo::MAX);
    });
}

/// Two writers of one key and one of another want the same slot.
#[test]
fn writers_beside_each_other_lose_no_note() {
    explore("lookup index: three writers", 2, || {
        let index = Arc::new(full());
        let threads: Vec<_> = [7, 7, 8]
            .map(|key| {
                let index = Arc::clone(&index);
                thread::spawn(move || index.note(hash(key)))
            })
            .into_iter()
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(index.limit_of(hash(7)), SeqNo::MAX);
        assert_eq!(index.limit_of(hash(8)), SeqNo::MAX);
        (0..7).for_each(|key| assert!(index.limit_of(hash(key)) >= SeqNo(8)));
    });
}

/// The memtable of generation 0 goes, a writer takes a slot of it, a reader that finds the slot taken pins
/// its view after.
#[test]
fn a_slot_that_was_given_up_stands_for_nothing_in_later_views() {
    explore("lookup index: a settled generation", 3, || {
        let index = Arc::new(full());
        // The oldest generation in the view.
        let view = Arc::new(AtomicU64::new(0));
        let (flushing, flushed) = (Arc::clone(&index), Arc::clone(&view));
        let flush = thread::spawn(move || {
            flushed.store(1, Ordering::Release);
            flushing.settle(1, SeqNo(8));
        });
        let writing = Arc::clone(&index);
        let writer = thread::spawn(move || writing.note(hash(7)));
        let limit = index.limit_of(hash(0));
        let oldest = view.load(Ordering::Acquire);
        assert!(limit >= SeqNo(8) || oldest == 1, "key 0 is in the view, and was excluded");
        flush.join().unwrap();
        writer.join().unwrap();
    });
}
