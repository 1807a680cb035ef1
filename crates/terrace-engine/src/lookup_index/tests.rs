use std::collections::BTreeMap;

use terrace_env::SeededRng;

use super::*;

fn hash(key: u64) -> u64 {
    terrace_base::hash_bytes(0, &key.to_be_bytes())
}

const BUCKET_BYTES: usize = size_of::<Bucket>();

#[test]
fn a_key_that_was_not_written_is_excluded_everywhere() {
    let index = LookupIndex::new(64 * BUCKET_BYTES, SeqNo::ZERO);
    assert_eq!(index.limit_of(hash(1)), SeqNo(1));
    index.index_key(hash(1));
    assert_eq!(index.limit_of(hash(1)), SeqNo::MAX, "it may be written on");
    assert_eq!(index.limit_of(hash(2)), SeqNo(1));
    index.end_generation(SeqNo(10));
    assert_eq!(index.limit_of(hash(1)), SeqNo(10));
    index.end_generation(SeqNo(20));
    assert_eq!(index.limit_of(hash(1)), SeqNo(10));
    index.index_key(hash(1));
    index.end_generation(SeqNo(30));
    assert_eq!(index.limit_of(hash(1)), SeqNo(30));
}

#[test]
fn nothing_below_the_floor_is_excluded_until_it_was_noted() {
    let index = LookupIndex::new(64 * BUCKET_BYTES, SeqNo(10));
    index.end_generation(SeqNo(10));
    assert!(index.stats().is_incomplete);
    assert_eq!(index.limit_of(hash(1)), SeqNo(10));
    index.index_key_in(hash(1), 0);
    index.raise_floor(SeqNo(15));
    index.remove_floor(SeqNo(10));
    assert_eq!(index.limit_of(hash(2)), SeqNo(15), "another floor is not what was asked to go");
    index.remove_floor(SeqNo(15));
    assert!(!index.stats().is_incomplete);
    assert_eq!((index.limit_of(hash(1)), index.limit_of(hash(2))), (SeqNo(10), SeqNo(1)));
}

#[test]
fn a_bucket_that_runs_over_keeps_the_latest_keys_and_bounds_the_others() {
    let index = LookupIndex::new(1, SeqNo::ZERO);
    for generation in 0..10 {
        index.index_key(hash(generation));
        index.end_generation(SeqNo(10 * (generation + 1)));
    }
    let limits: Vec<u64> = (0..10).map(|key| index.limit_of(hash(key)).0).collect();
    // Keys 0 to 2 had to make room; what is known of all of them is that none is later than key 2.
    assert_eq!(limits, [30, 30, 30, 40, 50, 60, 70, 80, 90, 100]);
    assert_eq!(index.limit_of(hash(99)), SeqNo(30), "nor is a key that was never written");
    let stats = index.stats();
    assert_eq!((stats.live_slots, stats.full_buckets), (7, 1));
    // A settled generation gives its slots up.
    index.settle(index.generation(), SeqNo(75));
    assert_eq!(index.stats().live_slots, 3);
    index.index_key(hash(99));
    assert_eq!(index.limit_of(hash(8)), SeqNo(90));
    assert_eq!(index.stats().live_slots, 4);
}

#[test]
fn generations_whose_end_was_forgotten_are_bounded_by_a_later_one() {
    let index = LookupIndex::new(64 * BUCKET_BYTES, SeqNo::ZERO);
    index.index_key(hash(1));
    for generation in 0..2 * ENDS as u64 {
        index.end_generation(SeqNo(generation + 5));
    }
    let limit = index.limit_of(hash(1));
    assert!(limit >= SeqNo(5) && limit < SeqNo(2 * ENDS as u64), "{limit:?}");
}

/// Goal: what may still be found is never excluded, and an index that is large enough excludes all
/// else. Method: sources as memtables and rows are, by generation; keys are written, generations
/// end, the oldest sources go; every key's limit against the number of its newest version in a
/// source.
#[test]
fn no_version_in_a_source_lies_at_or_above_its_keys_limit() {
    for seed in 0..40 {
        let mut random = SeededRng::new(seed);
        let buckets = [1, 4, 4096][seed as usize % 3];
        let index = LookupIndex::new(buckets * BUCKET_BYTES, SeqNo::ZERO);
        let mut next = 1;
        // Key → newest number, for each generation; the last one is current.
        let mut sources: Vec<BTreeMap<u64, u64>> = vec![BTreeMap::new()];
        for _ in 0..4_000 {
            match random.below(100) {
                0..90 => {
                    let key = random.below(200);
                    index.index_key(hash(key));
                    sources.last_mut().unwrap().insert(key, next);
                    next += 1;
                }
                90..95 => {
                    index.end_generation(SeqNo(next));
                    sources.push(BTreeMap::new());
                }
                _ => {
                    if sources.len() > 1 {
                        sources.remove(0);
                    }
                    let least = sources.iter().flat_map(BTreeMap::values).min();
                    let least = least.map_or(SeqNo::MAX, |least| SeqNo(*least));
                    index.settle(index.generation(), least);
                }
            }
            let key = random.below(220);
            let newest = sources.iter().filter_map(|source| source.get(&key)).max().copied();
            let limit = index.limit_of(hash(key)).0;
            assert!(newest.is_none_or(|newest| newest < limit), "seed {seed}, key {key}");
            if buckets == 4096 {
                let holders = sources.iter().filter(|source| source.contains_key(&key));
                let reached = sources
                    .iter()
                    .filter(|source| source.values().min().is_some_and(|least| *least < limit));
                let newest_holder = sources.iter().rposition(|source| source.contains_key(&key));
                let first_reached = sources
                    .iter()
                    .rposition(|source| source.values().min().is_some_and(|least| *least < limit));
                assert!(reached.count() >= holders.count());
                if newest_holder.is_some() {
                    assert_eq!(first_reached, newest_holder, "seed {seed}, key {key}");
                }
            }
        }
    }
}
