//! Goal: fragments and the growing set answer as a list that is searched from end to end. Method:
//! random tombstones over few keys, so that they nest, touch and repeat; the seed is in every
//! message.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use terrace_base::{KeyRange, SeqNo};
use terrace_env::SeededRng;

use super::{Fragments, RangeTombstone, RangeTombstoneSet};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    start: Vec<u8>,
    end: Vec<u8>,
    seqno: u64,
}

impl Owned {
    fn borrow(&self) -> RangeTombstone<'_> {
        RangeTombstone { start: &self.start, end: &self.end, seqno: SeqNo(self.seqno) }
    }
}

fn owned(tombstone: RangeTombstone<'_>) -> Owned {
    Owned { start: tombstone.start.to_vec(), end: tombstone.end.to_vec(), seqno: tombstone.seqno.0 }
}

/// Keys of up to three letters (two under Miri) out of three: every bound, and keys just beside it.
fn all_keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = vec![vec![]];
    for length in 0..if cfg!(miri) { 2 } else { 3 } {
        let longest: Vec<_> = keys.iter().filter(|key| key.len() == length).cloned().collect();
        keys.extend(
            longest.iter().flat_map(|key| b"\x00b\xff".map(|byte| [&key[..], &[byte]].concat())),
        );
    }
    keys.sort();
    keys
}

fn some(count: usize, random: &mut SeededRng) -> Vec<Owned> {
    let keys = all_keys();
    let key = |random: &mut SeededRng| keys[random.index(keys.len())].clone();
    let mut tombstones: Vec<Owned> = (0..count)
        .map(|_| {
            let (mut start, mut end) = (key(random), key(random));
            if start > end && random.index(8) > 0 {
                std::mem::swap(&mut start, &mut end);
            }
            Owned { start, end, seqno: random.index(2 * count) as u64 + 1 }
        })
        .collect();
    if count > 2 {
        tombstones[0] = tombstones[count - 1].clone();
    }
    tombstones
}

fn newest_covering(tombstones: &[Owned], key: &[u8], read_point: u64) -> Option<SeqNo> {
    tombstones
        .iter()
        .filter(|one| one.start[..] <= *key && *key < one.end[..] && one.seqno <= read_point)
        .map(|one| SeqNo(one.seqno))
        .max()
}

fn check(name: &str, fragments: &Fragments, tombstones: &[Owned]) {
    let keys = all_keys();
    let read_points = [0, 1, tombstones.len() as u64, 2 * tombstones.len() as u64, u64::MAX];
    for read_point in read_points {
        for key in &keys {
            let expected = newest_covering(tombstones, key, read_point);
            let found = fragments.newest_covering(key, SeqNo(read_point));
            assert_eq!(found, expected, "{name}: {key:?} at {read_point}");
            let around = fragments.around(key, SeqNo(read_point));
            assert!(around.start.is_none_or(|start| start <= &key[..]), "{name}");
            assert!(around.end.is_none_or(|end| &key[..] < end), "{name}");
            for other in keys.iter().filter(|other| {
                around.start.is_none_or(|start| start <= &other[..])
                    && around.end.is_none_or(|end| &other[..] < end)
            }) {
                assert_eq!(newest_covering(tombstones, other, read_point), expected, "{name}");
            }
        }
    }
    let listed: Vec<Owned> = fragments.iter().map(owned).collect();
    assert!(
        listed.is_sorted_by(|a, b| (&a.start, b.seqno) <= (&b.start, a.seqno)),
        "{name}: {listed:?}"
    );
    let live = tombstones.iter().filter(|one| one.start < one.end);
    assert!(live.clone().all(|one| listed.contains(one)), "{name}");
    assert!(listed.iter().all(|one| live.clone().any(|other| other == one)), "{name}");
    assert_eq!(fragments.is_empty(), listed.is_empty(), "{name}");
    assert_eq!(fragments.len(), listed.len(), "{name}");
    check_fragments(name, fragments, tombstones);
}

fn check_fragments(name: &str, fragments: &Fragments, tombstones: &[Owned]) {
    let listed = fragments.to_fragments();
    assert!(listed.is_sorted_by(|(a, _), (b, _)| a.is_before(b.start())), "{name}: {listed:?}");
    for key in all_keys() {
        let mut expected: Vec<SeqNo> = tombstones
            .iter()
            .filter(|one| one.start <= key && key < one.end)
            .map(|one| SeqNo(one.seqno))
            .collect();
        expected.sort_by(|a, b| b.cmp(a));
        expected.dedup();
        let found = listed.iter().find(|(range, _)| range.contains(&key));
        assert_eq!(found.map_or(&[][..], |(_, seqnos)| seqnos), expected, "{name}: {key:?}");
    }
}

#[test]
fn fragments_match_the_list() {
    for seed in 0..if cfg!(miri) { 2 } else { 150 } {
        let mut random = SeededRng::new(seed);
        let count = [0, 1, 2, 3, 5, 9, 30][random.index(if cfg!(miri) { 5 } else { 7 })];
        let tombstones = some(count, &mut random);
        let fragments = Fragments::new(tombstones.iter().map(Owned::borrow));
        check(&format!("seed {seed}"), &fragments, &tombstones);
    }
}

#[test]
fn clipped_fragments_cover_what_lies_inside() {
    for seed in 0..if cfg!(miri) { 1 } else { 200 } {
        let mut random = SeededRng::new(seed);
        let tombstones = some(8, &mut random);
        let keys = all_keys();
        let start = keys[random.index(keys.len())].clone();
        let end = (random.index(3) > 0).then(|| keys[random.index(keys.len())].clone());
        let range = KeyRange::new(start.clone(), end.clone());
        let clipped: Vec<Owned> = tombstones
            .iter()
            .map(|one| Owned {
                start: one.start.clone().max(start.clone()),
                end: end.clone().map_or(one.end.clone(), |end| end.min(one.end.clone())),
                seqno: one.seqno,
            })
            .collect();
        let fragments = Fragments::new(tombstones.iter().map(Owned::borrow)).clip(&range);
        check(&format!("seed {seed}, {range:?}"), &fragments, &clipped);
    }
}

#[test]
fn merged_fragments_cover_what_any_did() {
    for seed in 0..if cfg!(miri) { 1 } else { 100 } {
        let mut random = SeededRng::new(seed);
        let parts: Vec<Vec<Owned>> = (0..random.index(5)).map(|_| some(6, &mut random)).collect();
        let several: Vec<Fragments> =
            parts.iter().map(|part| Fragments::new(part.iter().map(Owned::borrow))).collect();
        check(&format!("seed {seed}"), &Fragments::merge(&several), &parts.concat());
    }
}

#[test]
fn a_growing_set_matches_the_list_whenever_it_is_read() {
    for seed in 0..if cfg!(miri) { 1 } else { 40 } {
        let mut random = SeededRng::new(seed);
        let tombstones = some(if cfg!(miri) { 12 } else { 60 }, &mut random);
        let set = RangeTombstoneSet::new();
        assert!(set.is_empty() && set.snapshot().is_empty());
        assert_eq!(set.newest_covering(b"b", SeqNo::MAX), None);
        for (index, one) in tombstones.iter().enumerate() {
            let before = set.snapshot();
            set.insert(&one.start, &one.end, SeqNo(one.seqno));
            if random.index(3) == 0 {
                let so_far = &tombstones[..=index];
                let name = format!("seed {seed}, {index}");
                let key = &all_keys()[random.index(13)];
                let expected = newest_covering(so_far, key, u64::MAX);
                assert_eq!(set.newest_covering(key, SeqNo::MAX), expected, "{name}");
                if random.index(4) == 0 {
                    let distinct = set.snapshot();
                    check_fragments(&name, &distinct, so_far);
                    check_fragments(&name, &before, &tombstones[..index]);
                }
            }
        }
        check_fragments(&format!("seed {seed}"), &set.snapshot(), &tombstones);
    }
}

/// Goal: thousands of nested deletes, each followed by a read, neither take memory nor time that
/// grows with their square. Method: count what is kept.
#[test]
fn nested_deletes_stay_small() {
    let count: usize = if cfg!(miri) { 40 } else { 4096 };
    let set = RangeTombstoneSet::new();
    let key = |number: usize| format!("{number:08}").into_bytes();
    for number in 1..=count {
        set.insert(&key(0), &key(number), SeqNo(number as u64));
        assert_eq!(set.newest_covering(&key(0), SeqNo::MAX), Some(SeqNo(number as u64)));
        assert!(set.snapshot().part_count() <= 2 + number.ilog2() as usize);
    }
    let snapshot = set.snapshot();
    assert_eq!(snapshot.len(), count);
    let kept = Fragments::merge([&*snapshot]).kept_seqno_count();
    assert!(kept <= 2 * count * (count.ilog2() as usize + 2), "{kept}");
    for number in [0, 1, count / 2, count - 1] {
        assert_eq!(
            snapshot.newest_covering(&key(number), SeqNo(count as u64 - 1)),
            (number < count - 1).then_some(SeqNo(count as u64 - 1)),
        );
    }
    assert_eq!(snapshot.newest_covering(&key(count), SeqNo::MAX), None);
}

/// Goal: a read finds every tombstone up to a number that was published before it began. Method:
/// the tombstone of a number is a function of it; writers publish in order.
#[test]
fn readers_find_what_was_published() {
    let count: u64 = if cfg!(miri) { 30 } else { 5000 };
    let bounds = |seqno: u64| {
        let start = (seqno * 7919) % 97;
        (start.to_be_bytes(), (start + 1 + seqno % 5).to_be_bytes())
    };
    let covered = |key: u64, read_point: u64| {
        (1..=read_point).rev().find(|&seqno| {
            let (start, end) = bounds(seqno);
            (start..end).contains(&key.to_be_bytes())
        })
    };
    let set = RangeTombstoneSet::new();
    let (taken, published) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seqno = taken.fetch_add(1, Ordering::Relaxed) + 1;
                    if seqno > count {
                        break;
                    }
                    let (start, end) = bounds(seqno);
                    set.insert(&start, &end, SeqNo(seqno));
                    while published.load(Ordering::Acquire) != seqno - 1 {
                        thread::yield_now();
                    }
                    published.store(seqno, Ordering::Release);
                }
            });
        }
        for reader in 0..2 {
            let (set, published) = (&set, &published);
            scope.spawn(move || {
                let mut random = SeededRng::new(reader);
                loop {
                    let read_point = published.load(Ordering::Acquire);
                    let key = random.index(105) as u64;
                    let expected = covered(key, read_point).map(SeqNo);
                    let (key, at) = (key.to_be_bytes(), SeqNo(read_point));
                    assert_eq!(set.newest_covering(&key, at), expected);
                    assert_eq!(set.snapshot().newest_covering(&key, at), expected);
                    if read_point == count {
                        break;
                    }
                }
            });
        }
    });
}
