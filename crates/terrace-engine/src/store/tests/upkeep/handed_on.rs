//! Goal: what is written anew of blocks that were read is in the block cache, as a reader would
//! have put it there, and nothing else is. Method: misses of the cache beside reads of all keys.

use std::path::Path;

use terrace_base::KeyRange;
use terrace_env::SharedEnv;

use crate::options::ProcessOptions;
use crate::process::Process;
use crate::store::IterOptions;
use crate::store::tests::*;
use crate::table::Compression;

const KEYS: u32 = 400;

fn key(number: u32) -> String {
    format!("{number:04}")
}

fn write(store: &Store, keys: impl Iterator<Item = u32>, text: &str) -> Result<()> {
    for number in keys {
        put(store, &key(number), &format!("{text}{}", "x".repeat(100)))?;
    }
    store.flush()
}

/// Reads everything, or every key of an interval, and says how many blocks were not in the cache.
fn misses_of_scan(store: &Store, range: &KeyRange, text: &str) -> Result<u64> {
    let cache = store.inner.process.cache();
    let before = cache.misses();
    let mut iter = store.iter(IterOptions { range: range.clone(), ..IterOptions::default() })?;
    iter.seek_to_first()?;
    while let Some(entry) = iter.entry() {
        assert!(entry.value.starts_with(text.as_bytes()), "{:?}", entry.key);
        iter.next()?;
    }
    Ok(cache.misses() - before)
}

/// With a cache that holds everything.
fn open(env: &SharedEnv, options: &Options) -> Result<Store> {
    let process = ProcessOptions { cache_bytes: 8 << 20, ..ProcessOptions::default() };
    Store::open(&Process::start(Arc::clone(env), &process)?, Path::new(DIR), options.clone())
}

fn options(compression: Compression) -> Options {
    let mut options = Options { memtable_bytes: 256 << 10, ..lazy() };
    options.table.compression = compression;
    options
}

#[test]
fn what_was_read_is_handed_on_by_flushes_and_compactions() -> Result<()> {
    for compression in [Compression::None, Compression::Lz4] {
        simulate(81, |env| {
            let store = open(env, &options(compression))?;
            let all = KeyRange::all();
            write(&store, 0..KEYS, "a")?;
            store.compact(&all)?;
            assert_eq!(store.inner.process.cache().used_bytes(), 0, "nobody has read anything");
            assert!(misses_of_scan(&store, &all, "a")? > 10);
            assert_eq!(misses_of_scan(&store, &all, "a")?, 0);
            write(&store, 0..KEYS, "b")?;
            assert_eq!(misses_of_scan(&store, &all, "b")?, 0, "a flush hands on");
            store.compact(&all)?;
            assert_eq!(misses_of_scan(&store, &all, "b")?, 0, "a compaction hands on");
            // What was handed on and not read is not handed on again.
            for text in ["c", "d"] {
                write(&store, 0..KEYS, text)?;
                store.compact(&all)?;
            }
            assert!(misses_of_scan(&store, &all, "d")? > 10, "nobody has read c");
            store.close()
        })?;
    }
    Ok(())
}

#[test]
fn what_nobody_reads_is_not_cached() -> Result<()> {
    simulate(82, |env| {
        let store = open(env, &options(Compression::None))?;
        write(&store, 0..KEYS, "a")?;
        store.compact(&KeyRange::all())?;
        let read = KeyRange::new(key(100), Some(key(150).into_bytes()));
        misses_of_scan(&store, &read, "a")?;
        let before = store.inner.process.cache().used_bytes();
        write(&store, 0..KEYS, "b")?;
        store.compact(&KeyRange::all())?;
        // A flush has handed some on, and the compaction again.
        let after = store.inner.process.cache().used_bytes();
        assert!(after < 4 * before, "{before} bytes, and then {after}");
        assert_eq!(misses_of_scan(&store, &read, "b")?, 0);
        let rest = KeyRange::new(key(200), None);
        assert!(misses_of_scan(&store, &rest, "b")? > 5);
        store.close()
    })
}

/// The baseline.
#[test]
fn nothing_is_handed_on_if_the_cache_drops() -> Result<()> {
    simulate(83, |env| {
        let mut options = options(Compression::None);
        options.research.cache_drops = true;
        let store = open(env, &options)?;
        write(&store, 0..KEYS, "a")?;
        misses_of_scan(&store, &KeyRange::all(), "a")?;
        write(&store, 0..KEYS, "b")?;
        assert!(misses_of_scan(&store, &KeyRange::all(), "b")? > 10);
        store.compact(&KeyRange::all())?;
        assert!(misses_of_scan(&store, &KeyRange::all(), "b")? > 10);
        store.close()
    })
}
