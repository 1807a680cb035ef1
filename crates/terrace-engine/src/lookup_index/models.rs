//! Models of the lookup index: what is published is not excluded, whoever takes whose slot. (What
//! it promises about views is modelled in `store/models.rs`.)

use std::sync::Arc;

use loom::thread;
use terrace_base::SeqNo;
use terrace_env::model::{Weakened, explore, must_fail};

use super::LookupIndex;

/// Hashes of one bucket whose tags differ.
fn hash(key: u64) -> u64 {
    key + 1
}

/// One bucket whose seven slots are taken by keys 0 to 6, in generation 0.
fn full() -> LookupIndex {
    let index = LookupIndex::new(1, SeqNo::ZERO);
    (0..7).for_each(|key| index.index_key(hash(key)));
    index.end_generation(SeqNo(8));
    index
}

/// A key gives its slot to another one while it is looked for.
#[test]
fn a_key_that_loses_its_slot_is_not_excluded() {
    explore("lookup index: a full bucket", 3, || {
        let index = Arc::new(full());
        let other = Arc::clone(&index);
        let writer = thread::spawn(move || other.index_key(hash(7)));
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
                thread::spawn(move || index.index_key(hash(key)))
            })
            .into_iter()
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(index.limit_of(hash(7)), SeqNo::MAX);
        assert_eq!(index.limit_of(hash(8)), SeqNo::MAX);
        (0..7).for_each(|key| assert!(index.limit_of(hash(key)) >= SeqNo(8)));
    });
}

/// How a reader asks for a key.
type Ask = fn(&LookupIndex, u64) -> SeqNo;

/// The bucket first and the floor after: the order that was wrong.
fn ask_for_the_floor_last(index: &LookupIndex, hash: u64) -> SeqNo {
    let newest = index.newest(hash);
    let end = newest.checked_sub(1).map_or(0, |generation| index.end_of(generation));
    SeqNo(end.max(index.floor().0).max(1))
}

/// Key 0 was written below number 8, in an earlier open; it is noted, and then the floor goes.
fn a_floor_goes(ask: Ask) {
    let index = LookupIndex::new(1, SeqNo(8));
    index.end_generation(SeqNo(8));
    let index = Arc::new(index);
    let filling = Arc::clone(&index);
    let indexer = thread::spawn(move || {
        filling.index_key_in(hash(0), filling.generation_through(SeqNo(8)));
        filling.remove_floor(SeqNo(8));
    });
    assert!(ask(&index, hash(0)) >= SeqNo(8), "a key that is there was excluded");
    indexer.join().unwrap();
    assert_eq!(index.floor(), SeqNo::ZERO);
    assert!(ask(&index, hash(0)) >= SeqNo(8));
    assert_eq!(ask(&index, hash(1)), SeqNo(1), "a key that is not there is excluded again");
}

#[test]
fn a_key_below_the_floor_is_not_excluded_while_the_floor_goes() {
    let name = "lookup index: a floor that goes";
    explore(name, 3, || a_floor_goes(LookupIndex::limit_of));
    must_fail("lookup index: the floor after the bucket", Weakened::Nothing, 3, || {
        a_floor_goes(ask_for_the_floor_last);
    });
    must_fail(name, Weakened::Acquires, 3, || a_floor_goes(LookupIndex::limit_of));
}
