//! Goal: the baselines of the data cache keep what they say that they keep, within their bytes, and
//! give what was put there or nothing. Method: small caches on the simulated disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_env::{
    Fault, FaultEffect, FaultEnv, FaultErrno, FaultPlan, JobClass, SharedEnv, SimEnv, SimOptions,
};

use super::super::super::{CACHE_DIRECTORY, PersistentCache};
use super::super::{DataCache, DataCacheOptions, DataCacheStats};
use crate::options::NearDesign;
use crate::process::MemoryPool;
use crate::table::ByteInterval;

/// Of a table, and of as many bytes as an LRU of files gives a file.
const TABLE_BYTES: u64 = 10_000;

fn open(env: &SharedEnv, design: NearDesign, bytes_max: u64) -> PersistentCache {
    env.fs().create_dir_all(Path::new("/range")).unwrap();
    let options = DataCacheOptions {
        bytes_max: Some(bytes_max),
        bucket_bytes: 30_000,
        slot_bytes: 1000,
        design,
        takes_neighbours: true,
    };
    PersistentCache::open(env, Path::new("/range"), 77, options, &MemoryPool::default())
}

fn with_cache(
    design: NearDesign,
    bytes_max: u64,
    check: impl FnOnce(SharedEnv, &DataCache) + Send,
) {
    SimEnv::run(SimOptions::new(1), |env| {
        let env: SharedEnv = env;
        let cache = open(&env, design, bytes_max);
        check(env, &cache.data);
    });
}

fn bytes_of(table: u128, offset: u64, bytes: usize) -> Vec<u8> {
    let of_place = |at: u64| (table as u64).wrapping_mul(31).wrapping_add(at * 7 + at / 251) as u8;
    (offset..offset + bytes as u64).map(of_place).collect()
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

/// Reads a block of a table, and brings the table if it is wanted; whether the read found it.
fn read(cache: &DataCache, table: u128, offset: u64) -> bool {
    let found = has(cache, table, offset, 900);
    if !found && cache.wants_whole(table, TABLE_BYTES) {
        cache.put_whole(table, Some(&bytes_of(table, 0, TABLE_BYTES as usize)));
    }
    found
}

fn files(env: &SharedEnv) -> Vec<(PathBuf, u64)> {
    let dir = Path::new("/range").join(CACHE_DIRECTORY);
    let found = env.fs().list(&dir).unwrap_or_default().into_iter();
    found.map(|file| (dir.join(&file.name), file.bytes)).collect()
}

fn disk_bytes(env: &SharedEnv) -> u64 {
    files(env).iter().map(|(_, bytes)| bytes).sum()
}

#[test]
fn a_file_goes_whole_when_it_was_used_longest_ago() {
    // Of sixteen files, each has room for ten blocks.
    with_cache(NearDesign::FileLru, 160_000, |env, cache| {
        (0..160).for_each(|offset| put(cache, 1, offset * 1000, 1000));
        assert_eq!((files(&env).len(), disk_bytes(&env)), (16, 160_000));
        // A read of one block of the first file keeps its nine neighbours as well.
        assert!(has(cache, 1, 5000, 1000));
        put(cache, 1, 160_000, 1000);
        let lost = |file: u64| !(0..10).any(|at| cache.has(1, (file * 10 + at) * 1000));
        assert!((0..10).all(|at| cache.has(1, at * 1000)));
        assert!(lost(1) && !lost(2), "all of the second one went for it");
        assert_eq!((cache.stats().evicted, files(&env).len()), (10, 16));
    });
}

#[test]
fn a_compaction_does_nothing_for_an_lru_of_files() {
    with_cache(NearDesign::FileLru, 160_000, |_, cache| {
        put(cache, 1, 0, 900);
        cache.forget(1);
        assert!(has(cache, 1, 0, 900), "it stays until its file goes");
        cache.inherit(2, 0, &bytes_of(2, 0, 900));
        assert!(!has(cache, 2, 0, 900) && cache.offsets_of(1).is_empty());
        let stats = cache.stats();
        assert_eq!((stats.invalidated, stats.admitted, stats.inherited), (0, 1, 0));
    });
}

#[test]
fn the_tables_that_are_read_most_often_are_kept_whole() {
    with_cache(NearDesign::WholeTables, 2 * TABLE_BYTES, |env, cache| {
        // Two of four tables have room; the higher their number, the more often they are read.
        for round in 0..2000_u64 {
            for table in 1..=4_u64 {
                if round % (5 - table) == 0 {
                    read(cache, u128::from(table), round % 11 * 900);
                }
            }
        }
        let kept = (1..=4).filter(|table| cache.has(*table, 0)).collect::<Vec<_>>();
        assert_eq!(kept, [3, 4]);
        assert!(has(cache, 4, 9100, 900) && has(cache, 3, 1, 9999) && has(cache, 3, 4095, 2));
        assert!(!has(cache, 4, 9101, 900), "that is beyond its end");
        assert!(disk_bytes(&env) <= 2 * TABLE_BYTES && files(&env).len() == 2);
        // What was hot long ago makes room.
        for round in 0..20_000 {
            read(cache, 1 + round % 2, 0);
        }
        let kept = (1..=4).filter(|table| cache.has(*table, 0)).collect::<Vec<_>>();
        assert_eq!((kept, files(&env).len()), (vec![1, 2], 2));
        cache.forget(1);
        assert!(!read(cache, 1, 0) && files(&env).len() == 1);
        cache.set_bytes_max(0);
        assert_eq!(disk_bytes(&env), 0);
    });
}

#[test]
fn the_output_of_a_compaction_has_the_heat_of_its_inputs() {
    with_cache(NearDesign::WholeTables, TABLE_BYTES, |_, cache| {
        for offset in [900, 0, 1800] {
            read(cache, 1, offset);
        }
        assert_eq!(cache.offsets_of(1), [0, 900, 1800]);
        cache.inherit(2, 900, &bytes_of(2, 900, 900));
        assert!(!cache.wants_whole(2, TABLE_BYTES), "the other one is hotter");
        cache.forget(1);
        cache.inherit(4, 900, &bytes_of(4, 900, 900));
        assert!(!cache.wants_whole(4, TABLE_BYTES) && cache.wants_whole(2, TABLE_BYTES));
        cache.put_whole(2, Some(&bytes_of(2, 0, TABLE_BYTES as usize)));
        assert!(has(cache, 2, 0, 900));
        assert!(!cache.wants_whole(3, TABLE_BYTES), "nobody has read it");
    });
}

#[test]
fn nothing_is_kept_by_the_one_that_keeps_nothing() {
    with_cache(NearDesign::None, 100_000, |env, cache| {
        put(cache, 1, 0, 900);
        assert!(!has(cache, 1, 0, 900) && !read(cache, 1, 0));
        let stats = cache.stats();
        assert_eq!((stats.misses, stats.admitted, files(&env).len()), (2, 0, 0));
    });
}

#[test]
fn metadata_are_not_kept_by_the_one_that_keeps_none() {
    SimEnv::run(SimOptions::new(1), |env| {
        let env: SharedEnv = env;
        let before = open(&env, NearDesign::Buckets, 100_000);
        before.meta.keep(7, 10, b"tail");
        assert!(before.meta.get(7).is_some());
        drop(before);
        let cache = open(&env, NearDesign::Buckets, 100_000).without_metadata();
        cache.meta.keep(8, 10, b"tail");
        assert!(cache.meta.get(7).is_none() && cache.meta.get(8).is_none());
        assert_eq!((cache.meta.stats().misses, files(&env).len()), (2, 0));
    });
}

#[test]
fn what_one_design_has_left_goes_with_another() {
    SimEnv::run(SimOptions::new(1), |env| {
        let env: SharedEnv = env;
        for design in [NearDesign::Buckets, NearDesign::FileLru, NearDesign::WholeTables] {
            for next in [NearDesign::None, NearDesign::FileLru, NearDesign::WholeTables] {
                let cache = open(&env, design, 100_000);
                put(&cache.data, 1, 0, 900);
                read(&cache.data, 1, 0);
                assert_eq!(files(&env).len(), 1, "{design:?}");
                drop(cache);
                drop(open(&env, next, 100_000));
                assert_eq!(files(&env).len(), 0, "{design:?} {next:?}");
            }
        }
        put(&open(&env, NearDesign::FileLru, 100_000).data, 1, 0, 900);
        drop(open(&env, NearDesign::Buckets, 100_000));
        assert_eq!(files(&env).len(), 0);
    });
}

#[test]
fn damage_is_a_miss() {
    for (design, bytes_max) in
        [(NearDesign::FileLru, 160_000), (NearDesign::WholeTables, TABLE_BYTES)]
    {
        with_cache(design, bytes_max, |env, cache| {
            let bring = || {
                (0..10).for_each(|at| put(cache, 3, at * 900, 900));
                (0..10).for_each(|at| {
                    read(cache, 3, at * 900);
                });
                files(&env)[0].0.clone()
            };
            let found = || (0..10).filter(|at| has(cache, 3, at * 900, 900)).count();
            let path = bring();
            assert_eq!(found(), 10, "{design:?}");
            let file = env.fs().open_cache(&path).unwrap();
            let mut byte = [0];
            file.read_at(1000, &mut byte).unwrap();
            file.write_at(1000, &[byte[0] ^ 1]).unwrap();
            // The first piece of a table has this byte, and the table goes with it.
            let left = if design == NearDesign::FileLru { 9 } else { 0 };
            assert_eq!((found(), cache.stats().damaged), (left, 1), "{design:?}");
            let path = bring();
            env.fs().cut(&path, 500).unwrap();
            assert!(found() < 10, "{design:?}");
        });
    }
}

/// Three threads read and fill the cache, of which two forget tables and change the bound.
fn thrash(env: &SharedEnv, cache: &Arc<PersistentCache>) {
    let thread = |number: u64| {
        let (inner, cache) = (Arc::clone(env), Arc::clone(cache));
        let work = move || {
            for _ in 0..80 {
                let drawn = inner.random_u64();
                let (table, place) = (u128::from(drawn % 3), drawn / 3 % 4);
                let (offset, bytes) = (place * 2000, 300 + place as usize * 400);
                match drawn / 12 % 50 {
                    0 if number > 0 => cache.data.forget(table),
                    1 if number > 0 => cache.data.set_bytes_max(drawn / 600 % 40_000),
                    _ if has(&cache.data, table, offset, bytes) => {}
                    _ if cache.data.wants_whole(table, TABLE_BYTES) => {
                        let whole = bytes_of(table, 0, TABLE_BYTES as usize);
                        cache.data.put_whole(table, (drawn / 600 % 5 > 0).then_some(&whole));
                    }
                    _ => put(&cache.data, table, offset, bytes),
                }
            }
        };
        env.spawn(JobClass::Maintenance, "reader", Box::new(work)).unwrap()
    };
    let jobs: Vec<_> = (0..3).map(thread).collect();
    assert!(jobs.into_iter().all(terrace_env::JobHandle::join));
}

fn thrash_with_seed(design: NearDesign, seed: u64) -> DataCacheStats {
    let options = SimOptions { switch_one_in: 2, switch_at_latches: true, ..SimOptions::new(seed) };
    SimEnv::run(options, |env| {
        let env: SharedEnv = env;
        let cache = Arc::new(open(&env, design, 30_000));
        thrash(&env, &cache);
        let stats = cache.data.stats();
        assert_eq!(stats.bytes, disk_bytes(&env), "every file is known");
        cache.data.set_bytes_max(0);
        assert_eq!(disk_bytes(&env), 0, "nothing stays");
        stats
    })
}

#[test]
fn threads_thrash_them_and_never_read_a_wrong_block() {
    for design in [NearDesign::FileLru, NearDesign::WholeTables] {
        let (mut hits, mut squeezed) = (0, 0);
        for seed in 0..40 {
            println!("{design:?}, seed {seed}");
            let stats = thrash_with_seed(design, seed);
            hits += stats.hits;
            squeezed += stats.squeezed;
        }
        assert!(hits > 500 && squeezed > 20, "{design:?}: {hits} {squeezed}");
    }
}

#[test]
fn a_disk_that_fails_is_a_miss_and_no_error() {
    for design in [NearDesign::FileLru, NearDesign::WholeTables] {
        for nth in 0..40 {
            SimEnv::run(SimOptions::new(nth), |env| {
                let plan = FaultPlan::one(Fault::any(nth + 2, FaultEffect::Error(FaultErrno::Io)));
                let env: SharedEnv = env;
                env.fs().create_dir_all(Path::new("/range")).unwrap();
                let env: SharedEnv = FaultEnv::new(env, plan);
                let cache = open(&env, design, 30_000);
                for at in 0..8 {
                    put(&cache.data, 1, at * 900, 900);
                    read(&cache.data, 1, at * 900);
                }
                cache.forget(1);
                cache.data.set_bytes_max(1_000);
            });
        }
    }
}
