//! Models of a set that grows while it is read.

use std::sync::Arc;

use loom::thread;
use terrace_base::SeqNo;
use terrace_env::atomic::{AtomicU64, Ordering};
use terrace_env::model::{Weakened, explore, must_fail};

use super::RangeTombstoneSet;

/// Two tombstones come, each published after its insert; readers bring the view forward.
fn readers_beside_a_writer(readers: usize) {
    let shared = Arc::new((RangeTombstoneSet::new(), AtomicU64::new(0)));
    let threads: Vec<_> = (0..readers)
        .map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || check(&shared))
        })
        .collect();
    for seqno in 1..=2 {
        shared.0.insert(b"a", b"c", SeqNo(seqno));
        shared.1.store(seqno, Ordering::Release);
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(check(&shared), 2);
}

fn check(shared: &(RangeTombstoneSet, AtomicU64)) -> u64 {
    let read_point = shared.1.load(Ordering::Acquire);
    let found = shared.0.newest_covering(b"b", SeqNo(read_point));
    assert_eq!(found, (read_point > 0).then_some(SeqNo(read_point)), "at {read_point}");
    read_point
}

#[test]
fn a_reader_finds_every_published_range_tombstone() {
    let name = "range tombstones: a reader beside the writer";
    explore(name, 4, || readers_beside_a_writer(1));
    must_fail(name, Weakened::Releases, 4, || readers_beside_a_writer(1));
    explore("range tombstones: two readers bring the view on", 2, || readers_beside_a_writer(2));
}
