//! Goal: the data cache gives what was put there or nothing, whatever happens to its files, and
//! keeps within its bounds. Method: small caches on the simulated disk, beside a map of what each
//! place of each table holds.

use std::path::Path;
use std::sync::Arc;

use terrace_env::{
    CrashPolicy, Fault, FaultEffect, FaultEnv, FaultErrno, FaultPlan, JobClass, SharedEnv, SimEnv,
    SimOptions,
};

use super::super::{CACHE_DIRECTORY, MetaCache, PersistentCache};
use super::slots::{self, BlockName, Slots};
use super::{DataCache, DataCacheOptions, DataCacheStats};
use crate::options::NearDesign;
use crate::process::MemoryPool;
use crate::table::ByteInterval;

const DATABASE: u128 = 77;

const OPTIONS: DataCacheOptions = DataCacheOptions {
    bytes_max: Some(60_000),
    bucket_bytes: 30_000,
    slot_bytes: 1000,
    design: NearDesign::Buckets,
    takes_neighbours: true,
};

fn open(env: &SharedEnv, database: u128, options: DataCacheOptions) -> PersistentCache {
    PersistentCache::open(env, Path::new("/range"), database, options, &MemoryPool::default())
}

fn with_cache(check: impl FnOnce(SharedEnv, PersistentCache) + Send) {
    SimEnv::run(SimOptions::new(1), |env| {
        let env: SharedEnv = env;
        env.fs().create_dir_all(Path::new("/range")).unwrap();
        let cache = open(&env, DATABASE, OPTIONS);
        check(env, cache);
    });
}

fn bytes_of(table: u128, offset: u64, bytes: usize) -> Vec<u8> {
    let seed = (table as u64) << 32 ^ offset;
    (0..bytes as u64).map(|at| (seed.wrapping_mul(31).wrapping_add(at * 7) >> 3) as u8).collect()
}

fn put(cache: &DataCache, table: u128, offset: u64, bytes: usize) {
    cache.admit(table, offset, &bytes_of(table, offset, bytes));
}

/// Whether the cache has it, and then rightly.
fn has(cache: &DataCache, table: u128, offset: u64, bytes: usize) -> bool {
    let found = cache.get(table, ByteInterval { offset, bytes }, true);
    if let Some(found) = &found {
        assert_eq!(*found, bytes_of(table, offset, bytes), "{table} {offset} {bytes}");
    }
    found.is_some()
}

#[test]
fn what_was_put_is_found_in_one_piece_or_several() {
    with_cache(|_, cache| {
        let cache = &cache.data;
        assert!(!has(cache, 1, 0, 900));
        assert_eq!(cache.bytes(), 0, "nothing is made by looking");
        for (offset, bytes) in [(0, 900), (900, 1000), (1900, 1001), (4000, 3456)] {
            put(cache, 1, offset, bytes);
            assert!(has(cache, 1, offset, bytes), "{bytes}");
        }
        assert!(!has(cache, 2, 0, 900), "another table");
        assert!(!has(cache, 1, 0, 901), "another size");
        assert!(!has(cache, 1, 1, 900), "another place");
        assert!(cache.get(1, ByteInterval { offset: 0, bytes: 0 }, true).is_none());
        let mut offsets = vec![900, 1900, 2900, 4000, 5000, 6000, 7000];
        assert_eq!(cache.offsets_of(1), offsets, "the first was of another size, and went");
        offsets.clear();
        cache.forget(1);
        assert_eq!(cache.offsets_of(1), offsets);
        let stats = cache.stats();
        assert_eq!((stats.admitted, stats.invalidated, stats.evicted), (4, 7, 0));
    });
}

#[test]
fn it_keeps_within_its_bytes_and_gives_them_back() {
    with_cache(|env, cache| {
        let cache = &cache.data;
        let on_disk = || -> u64 {
            let files = env.fs().list(&Path::new("/range").join(CACHE_DIRECTORY)).unwrap();
            files.iter().map(|file| file.bytes).sum()
        };
        for offset in 0..500 {
            put(cache, offset % 5, (1 << 20 << (offset % 7)) | (offset as u64 * 1000), 1000);
            assert!(cache.bytes() <= 60_000);
        }
        let stats = cache.stats();
        assert!(stats.evicted > 400, "{stats:?}");
        assert!(on_disk() <= 60_000 && on_disk() == cache.bytes());
        cache.set_bytes_max(30_000);
        assert!(on_disk() <= 30_000 && on_disk() == cache.bytes());
        assert!(cache.stats().squeezed > 0);
        (0..100).for_each(|offset| put(cache, 9, offset << 20, 1000));
        assert!(cache.bytes() <= 30_000);
        cache.set_bytes_max(0);
        assert!(on_disk() == 0, "nothing stays");
        put(cache, 1, 0, 10);
        assert!(!has(cache, 1, 0, 10));
        cache.set_bytes_max(1 << 40);
        put(cache, 1, 0, 10);
        assert!(has(cache, 1, 0, 10));
    });
}

#[test]
fn it_survives_restarts() {
    with_cache(|env, cache| {
        for offset in 0..10 {
            put(&cache.data, 3, offset * 1000, 990);
        }
        drop(cache);
        let again = open(&env, DATABASE, OPTIONS);
        assert!((0..10).all(|offset| has(&again.data, 3, offset * 1000, 990)));
        let stats = again.data.stats();
        assert_eq!((stats.hits, stats.damaged), (10, 0));
        drop(again);
        let as_it_is = open(&env, DATABASE, DataCacheOptions { bytes_max: None, ..OPTIONS });
        assert!((0..10).all(|offset| has(&as_it_is.data, 3, offset * 1000, 990)), "as it was left");
        drop(as_it_is);
        let others = open(&env, DATABASE + 1, OPTIONS);
        assert!(!has(&others.data, 3, 0, 990), "another database's");
        put(&others.data, 3, 0, 990);
        drop(others);
        let other_slots = DataCacheOptions { slot_bytes: 500, ..OPTIONS };
        let other = open(&env, DATABASE + 1, other_slots);
        assert!(!has(&other.data, 3, 0, 990), "another shape");
        drop(other);
        let others = open(&env, DATABASE + 1, OPTIONS);
        (0..20).for_each(|offset| put(&others.data, 3, offset << 20, 990));
        let smaller = DataCacheOptions { bytes_max: Some(30_000), ..OPTIONS };
        let _one = open(&env, DATABASE + 1, smaller);
        let files = env.fs().list(&Path::new("/range").join(CACHE_DIRECTORY)).unwrap();
        assert_eq!(files.len(), 1, "buckets that are too many go");
    });
}

#[test]
fn damage_is_a_miss() {
    with_cache(|env, cache| {
        for offset in 0..10 {
            put(&cache.data, 3, offset * 1000, 990);
        }
        let dir = Path::new("/range").join(CACHE_DIRECTORY);
        let files: Vec<_> = env.fs().list(&dir).unwrap();
        let largest = files.iter().max_by_key(|file| file.bytes).unwrap();
        let path = dir.join(&largest.name);
        let flip = |offset: u64| {
            let file = env.fs().open_cache(&path).unwrap();
            let mut byte = [0];
            file.read_at(offset, &mut byte).unwrap();
            file.write_at(offset, &[byte[0] ^ 1]).unwrap();
        };
        let found = |cache: &DataCache| (0..10).filter(|o| has(cache, 3, o * 1000, 990)).count();
        assert_eq!(found(&cache.data), 10);
        flip(largest.bytes - 1);
        assert_eq!(found(&cache.data), 9);
        assert_eq!(cache.data.stats().damaged, 1);
        assert_eq!(found(&cache.data), 9);
        assert_eq!(cache.data.stats().damaged, 1, "it was dropped");
        drop(cache);
        for (at, left) in [(64 + 3, 8), (64 + 32 + 17, 7), (64 + 64 + 24, 6), (64 + 96 + 31, 5)] {
            flip(at);
            assert_eq!(found(&open(&env, DATABASE, OPTIONS).data), left, "byte {at}");
        }
        env.fs().cut(&path, largest.bytes - 2000).unwrap();
        assert!(found(&open(&env, DATABASE, OPTIONS).data) <= 4);
        flip(0);
        assert_eq!(found(&open(&env, DATABASE, OPTIONS).data), 0, "no bucket at all");
        env.fs().remove(&path).unwrap();
        assert_eq!(found(&open(&env, DATABASE, OPTIONS).data), 0);
    });
}

/// Three threads read and fill the cache, of which two forget tables and change the bound.
fn thrash(env: &SharedEnv, cache: &Arc<PersistentCache>) {
    let thread = |number: u64| {
        let (inner, cache) = (Arc::clone(env), Arc::clone(cache));
        let work = move || {
            for _ in 0..60 {
                let drawn = inner.random_u64();
                let (table, place) = (u128::from(drawn % 2), drawn / 2 % 4);
                let (offset, bytes) = (place * 3000, 500 + place as usize * 600);
                match drawn / 8 % 50 {
                    0 if number > 0 => cache.data.forget(table),
                    1 if number > 0 => cache.data.set_bytes_max(drawn / 512 % 9_000),
                    _ if has(&cache.data, table, offset, bytes) => {}
                    _ => put(&cache.data, table, offset, bytes),
                }
            }
        };
        env.spawn(JobClass::Maintenance, "reader", Box::new(work)).unwrap()
    };
    let jobs: Vec<_> = (0..3).map(thread).collect();
    assert!(jobs.into_iter().all(terrace_env::JobHandle::join));
}

fn thrash_with_seed(options: SimOptions) -> DataCacheStats {
    SimEnv::run(SimOptions { switch_one_in: 2, switch_at_latches: true, ..options }, |env| {
        let env: SharedEnv = env;
        env.fs().create_dir_all(Path::new("/range")).unwrap();
        let tiny = DataCacheOptions { bytes_max: Some(9_500), bucket_bytes: 9_500, ..OPTIONS };
        let cache = Arc::new(open(&env, DATABASE, tiny));
        thrash(&env, &cache);
        cache.data.stats()
    })
}

#[test]
fn threads_thrash_it_and_never_read_a_wrong_block() {
    let (mut hits, mut evicted, mut squeezed) = (0, 0, 0);
    for seed in 0..40 {
        println!("seed {seed}");
        let stats = thrash_with_seed(SimOptions::new(seed));
        hits += stats.hits;
        evicted += stats.evicted;
        squeezed += stats.squeezed;
    }
    assert!(hits > 100 && evicted > 1000 && squeezed > 20, "{hits} {evicted} {squeezed}");
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_block_that_is_not_checked_is_a_wrong_one_sooner_or_later() {
    use terrace_env::PlantedBug;
    for bug in [PlantedBug::UncheckedCache, PlantedBug::ValidBeforeBytes] {
        let is_found = (0..200).any(|seed| {
            let options = SimOptions { planted: vec![bug], ..SimOptions::new(seed) };
            let thrashed = std::panic::AssertUnwindSafe(|| thrash_with_seed(options));
            std::panic::catch_unwind(thrashed).is_err()
        });
        assert!(is_found, "{bug:?}");
    }
}

#[test]
fn whatever_a_crash_leaves_is_right_or_a_miss() {
    let (mut blocks, mut tails) = (0, 0);
    for seed in 0..40 {
        println!("seed {seed}");
        let policy = CrashPolicy::ALL[seed as usize % CrashPolicy::ALL.len()];
        let written = SimEnv::run(SimOptions::new(seed), |sim| {
            let env: SharedEnv = Arc::clone(&sim) as SharedEnv;
            env.fs().create_dir_all(Path::new("/range")).unwrap();
            let cache = open(&env, DATABASE, OPTIONS);
            for offset in 0..80 {
                put(&cache.data, u128::from(offset % 3), offset / 3 * 1000, 700);
                let table = u128::from(offset);
                cache.meta.keep(table, 5, &bytes_of(table, 5, 300));
            }
            sim.disk()
        });
        let options = SimOptions { disk: written.crash(policy, seed), ..SimOptions::new(seed) };
        SimEnv::run(options, |env| {
            let env: SharedEnv = env;
            let cache = open(&env, DATABASE, OPTIONS);
            for offset in 0..80 {
                let found = has(&cache.data, u128::from(offset % 3), offset / 3 * 1000, 700);
                blocks += u64::from(found);
                let table = u128::from(offset);
                let Some(tail) = cache.meta.get(table) else { continue };
                assert_eq!((tail.offset, tail.bytes), (5, bytes_of(table, 5, 300)));
                tails += 1;
            }
        });
    }
    assert!(blocks > 300 && tails > 300, "{blocks} {tails}");
}

#[test]
fn metadata_stay_until_they_are_forgotten() {
    with_cache(|env, cache| {
        let meta = &cache.meta;
        assert_eq!(meta.get(1), None);
        for table in 0..20_u128 {
            meta.keep(table, 10, &bytes_of(table, 10, 2000));
            put(&cache.data, table, 0, 1000);
        }
        (0..300).for_each(|offset| put(&cache.data, 1, offset << 20, 1000));
        let is_there = |meta: &MetaCache, table: u128| {
            meta.get(table).is_some_and(|tail| tail.bytes == bytes_of(table, 10, 2000))
        };
        assert!((0..20).all(|table| is_there(meta, table)));
        cache.forget(3);
        meta.retain(|table| table != 4);
        assert!(!is_there(meta, 3) && !is_there(meta, 4));
        let dir = Path::new("/range").join(CACHE_DIRECTORY);
        let damage = |table: u128, byte: u64| {
            let path = dir.join(format!("{table:032x}.meta"));
            env.fs().open_cache(&path).unwrap().write_at(byte, b"!").unwrap();
        };
        damage(5, 100);
        env.fs().remove(&dir.join(format!("{:032x}.meta", 6))).unwrap();
        drop(cache);
        let again = open(&env, DATABASE, OPTIONS);
        let meta = &again.meta;
        let there: Vec<u128> = (0..20).filter(|table| is_there(meta, *table)).collect();
        assert_eq!(there.len(), 16, "{there:?}");
        let stats = meta.stats();
        assert_eq!((stats.damaged, stats.table_count), (1, 16));
        meta.keep(5, 10, &bytes_of(5, 10, 2000));
        assert!(is_there(meta, 5), "what was damaged is kept anew");
        assert_eq!(meta.bytes(), 17 * 2044);
    });
}

/// Two readers that open one table at the same time have both fetched its metadata, and a file has
/// one writer.
#[test]
fn metadata_that_two_bring_at_once_are_kept() {
    for seed in 0..100 {
        println!("seed {seed}");
        SimEnv::run(SimOptions::new(seed), |env| {
            let env: SharedEnv = env;
            env.fs().create_dir_all(Path::new("/range")).unwrap();
            let cache = Arc::new(open(&env, DATABASE, OPTIONS));
            let bring = |forgets: bool| {
                let cache = Arc::clone(&cache);
                let run = move || {
                    cache.meta.keep(7, 10, &bytes_of(7, 10, 2000));
                    cache.meta.keep(8, 10, &bytes_of(8, 10, 2000));
                    if forgets {
                        cache.forget(8);
                    }
                };
                env.spawn(JobClass::Client, "brings", Box::new(run)).unwrap()
            };
            let threads = [bring(false), bring(false), bring(true)];
            assert!(threads.into_iter().all(|thread| thread.join()));
            let tail = cache.meta.get(7).expect("it was kept");
            assert_eq!(tail.bytes, bytes_of(7, 10, 2000));
            // Whoever forgets comes before or after the others, and leaves no file that nobody
            // knows.
            let known = u64::from(cache.meta.get(8).is_some()) + 1;
            let dir = Path::new("/range").join(CACHE_DIRECTORY);
            assert_eq!(env.fs().list(&dir).unwrap().len() as u64, known);
            let stats = cache.meta.stats();
            assert_eq!((stats.table_count, stats.damaged), (known, 0));
        });
    }
}

#[test]
fn a_disk_that_fails_is_a_miss_and_no_error() {
    for nth in 0..60 {
        SimEnv::run(SimOptions::new(nth), |env| {
            let env: SharedEnv = env;
            env.fs().create_dir_all(Path::new("/range")).unwrap();
            let plan = FaultPlan::one(Fault::any(nth + 1, FaultEffect::Error(FaultErrno::Io)));
            let env: SharedEnv = FaultEnv::new(env, plan);
            let cache = open(&env, DATABASE, OPTIONS);
            for offset in 0..5 {
                put(&cache.data, 1, offset * 1000, 900);
                let _ = has(&cache.data, 1, offset * 1000, 900);
                cache.meta.keep(u128::from(offset), 10, &bytes_of(0, 10, 200));
                let _ = cache.meta.get(u128::from(offset));
                cache.data.set_bytes_max(40_000 - offset * 5_000);
            }
            cache.forget(1);
        });
    }
}

/// Against two lists of names in the order of their last use.
#[test]
fn the_slots_are_a_map_that_forgets_what_was_tried_longest_ago() {
    let seed = 20_261_127_u64;
    println!("seed {seed}");
    let mut state = seed;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        (state >> 33) % bound
    };
    let (mut slots, mut capacity) = (Slots::new(8), 8_usize);
    // The newest use last, with its slot; those that were found apart.
    let (mut tried, mut proven) = (Vec::<(BlockName, u32)>::new(), Vec::new());
    // Those of them that nobody has asked for.
    let mut spare = Vec::new();
    for _ in 0..50_000 {
        let wanted = BlockName { table: below(4), offset: below(6) };
        let before = tried.len() + proven.len();
        match below(20) {
            0 => {
                let table = below(4);
                for all in [&mut tried, &mut proven] {
                    all.retain(|(name, _)| name.table != table);
                }
                let left = tried.len() + proven.len();
                assert_eq!(slots.drop_table(table), (before - left) as u64);
            }
            1 => {
                capacity = below(12) as usize;
                for all in [&mut tried, &mut proven] {
                    all.retain(|(_, slot)| (*slot as usize) < capacity);
                }
                let left = tried.len() + proven.len();
                assert_eq!(slots.set_capacity(capacity as u32), (before - left) as u64);
            }
            2..=11 => {
                let lists = [&mut tried, &mut proven].into_iter();
                let take = |all: &mut Vec<(BlockName, u32)>| {
                    let at = all.iter().position(|(name, _)| *name == wanted);
                    at.map(|at| all.remove(at))
                };
                let found = lists.filter_map(take).next();
                assert_eq!(slots.find(wanted).map(|kept| kept.slot), found.map(|one| one.1));
                spare.retain(|name| found.is_none() || *name != wanted);
                proven.extend(found);
            }
            12..=14 => {
                let has = tried.iter().chain(&proven).any(|(name, _)| *name == wanted);
                assert_eq!(slots.empty_count() as usize, capacity - before);
                let put = slots::tests::put_spare(&mut slots, wanted);
                assert_eq!(put.is_none(), has || before == capacity, "nothing goes for it");
                let Some(slot) = put else { continue };
                tried.insert(0, (wanted, slot));
                spare.push(wanted);
            }
            _ => {
                let has = tried.iter().chain(&proven).any(|(name, _)| *name == wanted);
                let put = slots::tests::put(&mut slots, wanted);
                assert_eq!(put.is_none(), has || capacity == 0);
                let Some(slot) = put else { continue };
                if before == capacity {
                    let list = if tried.is_empty() { &mut proven } else { &mut tried };
                    assert_eq!(list.remove(0).1, slot, "the oldest goes");
                }
                tried.push((wanted, slot));
                spare.retain(|name| *name != wanted);
            }
        }
        while proven.len() > (capacity * 4).div_ceil(5) {
            tried.push(proven.remove(0));
        }
        let model: Vec<_> = tried.iter().chain(&proven).collect();
        assert_eq!(slots.count(), model.len());
        let extent = model.iter().map(|(_, slot)| slot + 1).max().unwrap_or(0);
        assert_eq!(slots.extent(), extent);
        let mut offsets: Vec<u64> = slots.offsets_of(1).collect();
        offsets.sort_unstable();
        let is_asked = |name: &BlockName| name.table == 1 && !spare.contains(name);
        let of_one = model.iter().filter(|(name, _)| is_asked(name));
        let mut expected: Vec<u64> = of_one.map(|(name, _)| name.offset).collect();
        expected.sort_unstable();
        assert_eq!(offsets, expected);
    }
}
