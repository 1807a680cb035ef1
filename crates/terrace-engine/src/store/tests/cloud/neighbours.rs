//! Goal: a read of the object store brings what lies around its block near while there is room, and
//! nothing goes for it. Method: the requests and counts of single reads, with a cache that holds
//! all, one that is full, and a table of which a block is damaged in the store.

use super::near::{LARGE, filled, gets_asked, near, opened_again, with_cache};
use super::value;
use crate::cache::persistent::DataCacheStats;
use crate::cloud::CloudNames;
use crate::options::Research;
use crate::placement::FarName;
use crate::store::IterOptions;
use crate::store::tests::*;

/// The requests that one key costs, which has the value of the last round, and what the cache says
/// afterwards.
fn read(store: &Store, key: usize) -> Result<(u64, DataCacheStats)> {
    let before = gets_asked(store)?;
    assert_eq!(get(store, &format!("{key:04}"))?, Some(value(1)), "{key}");
    Ok((gets_asked(store)? - before, near(store).data))
}

/// The same range behind an empty cache.
fn with_empty_cache(env: &SharedEnv, options: &Options) -> Result<Store> {
    filled(env, &with_cache(0))?.close()?;
    opened_again(env, options)
}

#[test]
fn what_lies_around_a_block_is_near_after_one_request() -> Result<()> {
    simulate(111, |env| {
        let store = with_empty_cache(env, &with_cache(LARGE))?;
        let (cost, first) = read(&store, 0)?;
        assert_eq!((cost, first.admitted), (1, 1), "{first:?}");
        assert!(first.neighbours > 5, "{first:?}");
        // The next table begins somewhere behind these.
        for key in 1..30 {
            assert_eq!(read(&store, key)?.0, 0, "{key}");
        }
        let then = near(&store).data;
        assert!(then.hits > first.hits + 5 && then.misses == first.misses, "{then:?}");
        assert_eq!((then.admitted, then.evicted, then.damaged), (1, 0, 0), "{then:?}");
        store.close()?;
        let store = opened_again(env, &with_cache(LARGE))?;
        assert_eq!(read(&store, 20)?.0, 0, "also in the next open");
        store.close()
    })
}

#[test]
fn a_block_comes_alone_to_the_baseline() -> Result<()> {
    simulate(112, |env| {
        let research = Research { near_alone: true, ..Research::default() };
        let store = with_empty_cache(env, &Options { research, ..with_cache(LARGE) })?;
        let (cost, stats) = read(&store, 0)?;
        assert_eq!((cost, stats.admitted, stats.neighbours), (1, 1, 0), "{stats:?}");
        store.close()
    })
}

/// Goal: gets whose blocks lie one behind the other are no scan: each asks for its block and no
/// more. Method: nothing is kept near, and the bytes that the store was asked for are counted.
#[test]
fn gets_in_the_order_of_their_keys_are_no_scan() -> Result<()> {
    simulate(115, |env| {
        let store = with_empty_cache(env, &with_cache(0))?;
        let counts = || -> Result<_> {
            Ok(store.inner.cloud.as_ref().expect("it has one").store()?.counts().get)
        };
        read(&store, 0)?;
        let before = counts()?;
        let mut gets = 0;
        for key in (0..400).step_by(4) {
            gets += read(&store, key)?.0;
        }
        let bytes = counts()?.bytes - before.bytes;
        assert!(gets > 50 && bytes < gets * 1000, "{bytes} bytes by {gets} requests");
        let before = counts()?;
        let mut iter = store.iter(IterOptions::default())?;
        iter.seek_to_first()?;
        while iter.is_on_entry() {
            iter.next()?;
        }
        let scanned = counts()?.requests - before.requests;
        assert!(scanned < gets / 2, "a scan asks for more at once: {scanned} requests");
        store.close()
    })
}

#[test]
fn nothing_goes_for_a_neighbour() -> Result<()> {
    simulate(113, |env| {
        // One bucket, which has room for half of the blocks.
        let bytes = 64 << 10;
        let research = Research { near_bucket_bytes: Some(bytes), ..Research::default() };
        let store = with_empty_cache(env, &Options { research, ..with_cache(bytes) })?;
        let mut full = None;
        for key in (0..400).cycle().step_by(7).take(800) {
            let (_, stats) = read(&store, key)?;
            if stats.evicted == 0 {
                assert!(full.is_none());
                continue;
            }
            // Once something had to go, the bucket is full and stays so.
            let neighbours = *full.get_or_insert(stats.neighbours);
            assert_eq!(stats.neighbours, neighbours, "{stats:?}");
        }
        let stats = near(&store).data;
        assert!(stats.neighbours > 10 && stats.evicted > 50, "{stats:?}");
        assert!(stats.evicted <= stats.admitted && stats.bytes <= bytes, "{stats:?}");
        store.close()
    })
}

#[test]
fn a_damaged_block_is_kept_neither_beside_another_one_nor_when_it_is_read() -> Result<()> {
    simulate(114, |env| {
        let whole = with_empty_cache(env, &with_cache(LARGE))?;
        let (_, all) = read(&whole, 0)?;
        let version = whole.inner.versions.current();
        let names = CloudNames::new(version.database());
        let first = version.tables().min_by_key(|table| table.span().start().to_vec());
        let first = first.expect("there are some").meta();
        let object = names.of(&FarName::of(&first.location).expect("it is far").object());
        whole.close()?;
        let store_bytes = |flips: bool| {
            // A block in the middle of the table, which has more than ten of them.
            let store = opened_again(env, &with_cache(0))?;
            let cloud = store.inner.cloud.as_ref().expect("it has one").store()?;
            let mut bytes = cloud.get(&object, None)?;
            bytes[3000] ^= u8::from(flips) << 3;
            cloud.put_whole(&object, &bytes)?;
            store.close()
        };
        store_bytes(true)?;
        let store = opened_again(env, &with_cache(LARGE))?;
        let (cost, stats) = read(&store, 0)?;
        assert_eq!((cost, stats.neighbours), (1, all.neighbours - 1), "{stats:?}");
        let is_corrupt = |key: &usize| match get(&store, &format!("{key:04}")) {
            Err(error) => error.is_corruption(),
            Ok(found) => {
                assert_eq!(found, Some(value(1)));
                false
            }
        };
        let damaged: Vec<usize> = (0..30).filter(is_corrupt).collect();
        assert!(!damaged.is_empty(), "its own readers are told");
        store.close()?;
        // The store has the right bytes again, which a block that had been kept would hide.
        store_bytes(true)?;
        let store = opened_again(env, &with_cache(LARGE))?;
        for key in damaged {
            read(&store, key)?;
        }
        store.close()
    })
}
