//! Goal: a read that begins after a number was published finds every entry up to that number, no
//! more and no less, while writers insert and nodes split. Method: what is written is a function
//! of the number, so a reader knows what it must see at any read point.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use terrace_base::{EntryRef, SeqNo};
use terrace_env::SeededRng;

use super::super::Memtable;
use super::{memtable, put, value};
use crate::iter::{Cursor, Stream};

/// Who writes what: the write with number n goes to `keys[n - 1]`.
struct Plan {
    keys: Vec<Vec<u8>>,
    /// The numbers of each key, ascending.
    versions: Vec<(Vec<u8>, Vec<u64>)>,
}

impl Plan {
    fn new(writes: usize, mut key: impl FnMut(usize) -> Vec<u8>) -> Plan {
        let keys: Vec<Vec<u8>> = (0..writes).map(&mut key).collect();
        let mut versions = std::collections::BTreeMap::<Vec<u8>, Vec<u64>>::new();
        for (index, key) in keys.iter().enumerate() {
            versions.entry(key.clone()).or_default().push(index as u64 + 1);
        }
        Plan { keys, versions: versions.into_iter().collect() }
    }

    fn write(&self, memtable: &Memtable, seqno: u64) {
        let key = &self.keys[seqno as usize - 1];
        put(memtable, value(key, seqno, &seqno.to_be_bytes()));
    }

    /// What a reader must see, in key order.
    fn visible(&self, read_point: u64) -> impl DoubleEndedIterator<Item = (&[u8], u64)> {
        self.versions.iter().filter_map(move |(key, seqnos)| {
            let visible = seqnos.partition_point(|&seqno| seqno <= read_point);
            Some((&key[..], seqnos[visible.checked_sub(1)?]))
        })
    }

    fn check_get(&self, memtable: &Memtable, read_point: u64, index: usize) {
        let (key, seqnos) = &self.versions[index];
        let visible = seqnos.partition_point(|&seqno| seqno <= read_point);
        let expected = visible.checked_sub(1).map(|at| seqnos[at]);
        let found = memtable.get(key, SeqNo(read_point));
        assert_eq!(found.entry.map(seen), expected.map(|seqno| (&key[..], seqno)));
        if expected == seqnos.last().copied() {
            assert!(!found.saw_newer);
        }
    }

    fn check_walks(&self, memtable: &Arc<Memtable>, read_point: u64) {
        let mut cursor = memtable.cursor(SeqNo(read_point));
        cursor.seek(b"").unwrap();
        for expected in self.visible(read_point) {
            assert_eq!(cursor.entry().map(seen), Some(expected), "forward at {read_point}");
            cursor.next().unwrap();
        }
        assert_eq!(cursor.entry(), None, "forward at {read_point}");
        cursor.seek_back(None).unwrap();
        for expected in self.visible(read_point).rev() {
            assert_eq!(cursor.entry().map(seen), Some(expected), "backward at {read_point}");
            cursor.prev().unwrap();
        }
        assert_eq!(cursor.entry(), None, "backward at {read_point}");
    }

    /// The stream of a memtable that grows shows all that was published, in order.
    fn check_stream(&self, memtable: &Arc<Memtable>, read_point: u64) {
        let mut stream = memtable.stream();
        let mut last: Option<(Vec<u8>, u64)> = None;
        let mut published = 0;
        while let Some(entry) = stream.entry() {
            let (key, seqno) = seen(entry);
            if let Some((last_key, last_seqno)) = &last {
                assert!(&last_key[..] < key || last_key == key && *last_seqno > seqno);
            }
            last = Some((key.to_vec(), seqno));
            published += u64::from(seqno <= read_point);
            stream.advance().unwrap();
        }
        assert_eq!(published, read_point);
    }
}

fn seen<'a>(entry: EntryRef<'a>) -> (&'a [u8], u64) {
    assert_eq!(entry.value, entry.seqno.0.to_be_bytes(), "an entry is complete");
    (entry.key, entry.seqno.0)
}

/// Publishes numbers in order, whoever finishes first.
#[derive(Default)]
struct Publisher {
    taken: AtomicU64,
    published: AtomicU64,
    unpublished: Mutex<BTreeSet<u64>>,
}

impl Publisher {
    fn take(&self, writes: u64) -> Option<u64> {
        let seqno = self.taken.fetch_add(1, Ordering::Relaxed) + 1;
        (seqno <= writes).then_some(seqno)
    }

    fn finish(&self, seqno: u64) {
        let mut unpublished = self.unpublished.lock().unwrap();
        unpublished.insert(seqno);
        let mut published = self.published.load(Ordering::Relaxed);
        while unpublished.remove(&(published + 1)) {
            published += 1;
        }
        self.published.store(published, Ordering::Release);
    }
}

/// `writers` write the plan; readers look all the while, and once more at the end.
fn run(plan: &Plan, writers: usize, readers: usize) {
    let memtable = memtable(Memtable::FIXED_BYTES + plan.keys.len() * 800);
    let publisher = Publisher::default();
    let writes = plan.keys.len() as u64;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..writers)
            .map(|_| {
                scope.spawn(|| {
                    while let Some(seqno) = publisher.take(writes) {
                        plan.write(&memtable, seqno);
                        publisher.finish(seqno);
                    }
                })
            })
            .collect();
        for reader in 0..readers {
            let (memtable, publisher, done) = (&memtable, &publisher, &done);
            scope.spawn(move || {
                let mut random = SeededRng::new(reader as u64);
                loop {
                    let is_last = done.load(Ordering::Relaxed);
                    let read_point = publisher.published.load(Ordering::Acquire);
                    for _ in 0..if cfg!(miri) { 8 } else { 200 } {
                        let index = random.index(plan.versions.len());
                        plan.check_get(memtable, read_point, index);
                    }
                    match random.index(3) {
                        0 => plan.check_stream(memtable, read_point),
                        _ => plan.check_walks(memtable, read_point),
                    }
                    if is_last {
                        break;
                    }
                }
            });
        }
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    plan.check_walks(&memtable, writes);
    plan.check_stream(&memtable, writes);
}

fn size(native: usize, miri: usize) -> usize {
    if cfg!(miri) { miri } else { native }
}

#[test]
fn one_writer_of_random_keys_and_readers() {
    let mut random = SeededRng::new(1);
    let writes = size(60_000, 150);
    let plan = Plan::new(writes, |_| random.next_u64().to_be_bytes()[..3].to_vec());
    run(&plan, 1, 2);
}

#[test]
fn one_writer_of_ascending_keys_and_readers() {
    let plan = Plan::new(size(30_000, 200), |turn| format!("prefix-{turn:09}").into_bytes());
    run(&plan, 1, 2);
}

#[test]
fn several_writers_of_few_keys_and_readers() {
    let mut random = SeededRng::new(2);
    let keys = size(300, 40);
    let plan = Plan::new(size(60_000, 150), |_| {
        format!("tenant-{:03}:user", random.index(keys)).into_bytes()
    });
    run(&plan, 3, 2);
}

#[test]
fn several_writers_of_ascending_streams_and_readers() {
    let mut random = SeededRng::new(3);
    let plan =
        Plan::new(size(40_000, 150), |turn| format!("{}-{turn:08}", random.index(3)).into_bytes());
    run(&plan, 2, 2);
}

/// Goal: a cursor that was made before keeps its answers while all around it splits. Method: walk
/// back and forth with single steps, with inserts in between.
#[test]
fn a_cursor_is_stable_while_the_tree_grows() {
    let memtable = memtable(size(8 << 20, 1 << 18));
    let key = |index: u64| format!("key-{index:06}").into_bytes();
    let count = size(300, 40) as u64;
    for index in 0..count {
        put(&memtable, value(&key(index * 100), index + 1, b"old"));
    }
    let mut cursor = memtable.cursor(SeqNo(count));
    let mut random = SeededRng::new(7);
    let mut seqno = count;
    let mut at = 0;
    cursor.seek(&key(0)).unwrap();
    for _ in 0..size(4000, 150) {
        for _ in 0..random.index(6) {
            seqno += 1;
            // Mostly near the cursor, so that its own leaf splits.
            let near = (at * 100 + random.index(300) as u64).saturating_sub(150);
            put(&memtable, value(&key(near), seqno, b"new"));
        }
        let shown = cursor.entry().unwrap();
        assert_eq!((shown.key, shown.value), (&key(at * 100)[..], &b"old"[..]));
        if (random.index(2) == 0 && at + 1 < count) || at == 0 {
            cursor.next().unwrap();
            at += 1;
        } else {
            cursor.prev().unwrap();
            at -= 1;
        }
    }
}

#[test]
fn reservations_from_many_threads_never_exceed_the_arena() {
    let memtable = memtable(Memtable::FIXED_BYTES + size(400_000, 12_000));
    let inserted = AtomicU64::new(0);
    thread::scope(|scope| {
        for writer in 0..3 {
            let (memtable, inserted) = (&memtable, &inserted);
            scope.spawn(move || {
                let mut random = SeededRng::new(writer);
                let needed_bytes = Memtable::space_for(8, 20);
                while let Some(mut reservation) = memtable.reserve(needed_bytes) {
                    let key = random.next_u64().to_be_bytes();
                    let seqno = inserted.fetch_add(1, Ordering::Relaxed) + 1;
                    memtable.insert(&mut reservation, value(&key, seqno, &[b'v'; 20]));
                }
            });
        }
    });
    assert_eq!(memtable.entry_count(), inserted.load(Ordering::Relaxed));
    assert!(memtable.used_bytes() <= memtable.arena_bytes());
    let left_bytes = memtable.arena_bytes() - memtable.used_bytes();
    assert!(left_bytes < Memtable::space_for(8, 20));
}
