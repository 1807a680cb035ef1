//! Goal: what was read of far tables is near afterwards, in later opens and behind compactions, and
//! nothing but requests comes of it. Method: a range whose levels all lie in the store, and the
//! number of requests that the same reads cost, with a cache that holds all, little, or nothing.

use terrace_base::KeyRange;

use super::{CloudOptions, fill, in_store, value};
use crate::Error;
use crate::cache::persistent::PersistentCacheStats;
use crate::options::{NearDesign, Research};
use crate::store::GetOptions;
use crate::store::tests::*;

/// A range in the store with a cache of so many bytes.
pub(super) fn with_cache(cache_bytes: u64) -> Options {
    let options = in_store(small(), 1);
    let cached =
        |cloud| CloudOptions { local_bytes: None, cache_bytes: Some(cache_bytes), ..cloud };
    Options { cloud: options.cloud.map(cached), ..options }
}

/// A cache that holds all of it.
pub(super) const LARGE: u64 = 4 << 20;

/// One that has room for a few blocks.
const TINY: u64 = 80_000;

pub(super) fn gets_asked(store: &Store) -> Result<u64> {
    Ok(store.inner.cloud.as_ref().expect("it has one").store()?.counts().get.requests)
}

pub(super) fn near(store: &Store) -> PersistentCacheStats {
    store.inner.context.opener.far.near().expect("it has a cache").stats()
}

/// The same range again, once it has nothing to do in the store.
pub(super) fn opened_again(env: &SharedEnv, options: &Options) -> Result<Store> {
    let store = open(env, options)?;
    store.settle();
    Ok(store)
}

/// Reads every n-th key, of which all have the value of a round; how many requests that costs.
fn cost_of_reads(store: &Store, step: usize, round: u32) -> Result<u64> {
    // What is cached in memory costs nothing in any case.
    let before = gets_asked(store)?;
    for key in (0..400).step_by(step) {
        assert_eq!(get(store, &format!("{key:04}"))?, Some(value(round)), "{key}");
    }
    Ok(gets_asked(store)? - before)
}

pub(super) fn filled(env: &SharedEnv, options: &Options) -> Result<Store> {
    let store = open(env, options)?;
    fill(&store, 0..2)?;
    store.flush()?;
    store.compact(&KeyRange::all())?;
    store.settle();
    Ok(store)
}

#[test]
fn what_was_read_is_near_in_the_next_open() -> Result<()> {
    simulate(91, |env| {
        let options = with_cache(LARGE);
        let store = filled(env, &options)?;
        // A table so small comes with one request.
        assert!(cost_of_reads(&store, 1, 1)? > 3);
        store.close()?;
        let store = opened_again(env, &options)?;
        assert_eq!(cost_of_reads(&store, 1, 1)?, 0);
        let stats = near(&store);
        assert!(stats.data.hits > 50 && stats.data.misses == 0, "{stats:?}");
        assert!(stats.meta.hits > 3 && stats.meta.misses == 0, "{stats:?}");
        let explained = store.explain_get(b"0123")?.to_string();
        assert!(!explained.contains("request"), "{explained}");
        store.close()?;
        let without = with_cache(0);
        let store = opened_again(env, &without)?;
        assert!(cost_of_reads(&store, 1, 1)? > 3, "nothing is kept any more");
        assert_eq!(near(&store).meta.misses, 0, "but for metadata");
        store.close()
    })
}

#[test]
fn what_a_compaction_moves_stays_near() -> Result<()> {
    simulate(92, |env| {
        let options = with_cache(LARGE);
        let store = filled(env, &options)?;
        cost_of_reads(&store, 1, 1)?;
        fill(&store, 2..3)?;
        store.flush()?;
        store.compact(&KeyRange::all())?;
        store.settle();
        store.close()?;
        let store = opened_again(env, &options)?;
        // Blocks at the ends of tables may lie between those that were read.
        let cost = cost_of_reads(&store, 1, 2)?;
        assert!(cost < 5, "{cost} requests, {:?}", near(&store));
        store.close()?;
        let research = Research { near_drops: true, ..Research::default() };
        let store = opened_again(env, &Options { research, ..options.clone() })?;
        fill(&store, 3..4)?;
        store.compact(&KeyRange::all())?;
        store.close()?;
        let store = opened_again(env, &options)?;
        assert!(cost_of_reads(&store, 1, 3)? > 5, "the baseline hands nothing on");
        store.close()
    })
}

/// A server asks without waiting first, and once more where that finds nothing.
#[test]
fn a_read_that_may_not_wait_at_first_is_counted_once() -> Result<()> {
    simulate(97, |env| {
        // Otherwise most blocks would come as neighbours of others.
        let research = Research { near_alone: true, ..Research::default() };
        let options = Options { research, ..with_cache(LARGE) };
        filled(env, &options)?.close()?;
        let at_hand = GetOptions { wait: false, ..GetOptions::default() };
        for is_near in [false, true] {
            let store = opened_again(env, &options)?;
            // This opens the tables, which takes waiting in any case.
            cost_of_reads(&store, 16, 1)?;
            let opened = near(&store).data;
            for key in (8..400).step_by(16) {
                let before = near(&store).data;
                let key = format!("{key:04}");
                let found = match store.get(key.as_bytes(), &at_hand) {
                    Err(Error::NeedsIo) => store.get(key.as_bytes(), &GetOptions::default())?,
                    found => found?,
                };
                assert!(found.is_some());
                let after = near(&store).data;
                let counted = after.hits + after.misses - before.hits - before.misses;
                assert!(counted <= 1, "{key}: {counted}");
            }
            let after = near(&store).data;
            let (hits, misses) = (after.hits - opened.hits, after.misses - opened.misses);
            assert!(if is_near { hits > 10 } else { misses > 10 }, "{after:?}");
            store.close()?;
        }
        Ok(())
    })
}

/// Reads with a tiny cache, and again in a later open; how many tables' metadata were fetched.
fn metadata_missed(options: SimOptions) -> u64 {
    SimEnv::run(options, |env| {
        let env: SharedEnv = env;
        let options = with_cache(TINY);
        let store = filled(&env, &options)?;
        for step in [1, 3, 7] {
            cost_of_reads(&store, step, 1)?;
        }
        store.close()?;
        let store = opened_again(&env, &options)?;
        assert!(cost_of_reads(&store, 1, 1)? > 3, "it is tiny");
        let stats = near(&store);
        assert!(stats.data.bytes <= TINY, "{stats:?}");
        store.close()?;
        Ok::<u64, Error>(stats.meta.misses)
    })
    .unwrap()
}

#[test]
fn blocks_do_not_displace_metadata() {
    assert_eq!(metadata_missed(SimOptions::new(93)), 0);
}

/// Opens in turn, of which each writes a part of the keys and reads all: the tables of several
/// epochs lie beside each other.
fn go_through_epochs(options: SimOptions) -> Result<()> {
    SimEnv::run(options, |env| {
        let env: SharedEnv = env;
        let mut written = [None; 4];
        for round in 0..12 {
            let store = open(&env, &with_cache(LARGE))?;
            let part = round as usize % 4;
            for key in 0..100 {
                put(&store, &format!("{part}{key:03}"), &value(round))?;
            }
            written[part] = Some(round);
            store.flush()?;
            store.compact(&KeyRange::all())?;
            for (part, round) in written.iter().enumerate() {
                for key in 0..100 {
                    let found = get(&store, &format!("{part}{key:03}"))?;
                    assert_eq!(found, round.map(value), "{part}{key:03}");
                }
            }
            store.close()?;
        }
        Ok(())
    })
}

#[test]
fn a_table_of_another_epoch_is_another_one() {
    go_through_epochs(SimOptions::new(94)).unwrap();
}

#[test]
fn a_table_that_is_gone_leaves_nothing_behind() -> Result<()> {
    simulate(95, |env| {
        let store = filled(env, &with_cache(LARGE))?;
        cost_of_reads(&store, 1, 1)?;
        let before = near(&store);
        assert!(before.meta.table_count > 3 && before.data.bytes > 40_000, "{before:?}");
        delete_range(&store, "", "9")?;
        store.flush()?;
        store.compact(&KeyRange::all())?;
        store.settle();
        let after = near(&store);
        assert_eq!((after.meta.table_count, after.meta.bytes), (0, 0), "{after:?}");
        assert!(after.data.bytes < 200 && after.data.invalidated > 50, "{after:?}");
        store.close()
    })
}

/// The same range with a baseline in the place of the data cache.
fn with_design(near: NearDesign) -> Options {
    Options { research: Research { near, ..Research::default() }, ..with_cache(LARGE) }
}

#[test]
fn each_baseline_answers_the_same_and_keeps_what_it_says() -> Result<()> {
    simulate(98, |env| {
        filled(env, &with_cache(LARGE))?.close()?;
        let cost_with = |design| {
            let store = opened_again(env, &with_design(design))?;
            let first = cost_of_reads(&store, 1, 1)?;
            let again = cost_of_reads(&store, 1, 1)?;
            let stats = near(&store).data;
            store.close()?;
            Ok::<_, Error>((first, again, stats))
        };
        // Requests that go through a table bring more than they are asked for, so they are few.
        let (_, again, stats) = cost_with(NearDesign::None)?;
        assert!(again > 3 && stats.bytes == 0 && stats.hits == 0, "{again} {stats:?}");
        let (first, again, stats) = cost_with(NearDesign::FileLru)?;
        assert!(first > 3 && again == 0 && stats.admitted > 50, "{first} {again} {stats:?}");
        // There is room for all tables, each of which is fetched when it is read first.
        let (first, again, stats) = cost_with(NearDesign::WholeTables)?;
        assert!(first > 3 && again == 0 && stats.admitted == 0, "{first} {again} {stats:?}");
        assert!(stats.bytes > 50_000, "{stats:?}");
        Ok(())
    })
}

#[test]
fn without_a_metadata_cache_each_look_into_a_table_fetches_them() -> Result<()> {
    simulate(99, |env| {
        let options = with_cache(LARGE);
        filled(env, &options)?.close()?;
        let research = Research { near_meta_none: true, ..Research::default() };
        let store = opened_again(env, &Options { research, ..options.clone() })?;
        cost_of_reads(&store, 1, 1)?;
        let cost = cost_of_reads(&store, 1, 1)?;
        assert!(cost >= 400, "{cost} requests for 400 keys whose blocks are near");
        let before = gets_asked(&store)?;
        for key in (0..400).step_by(10) {
            assert_eq!(get(&store, &format!("{key:04}x"))?, None);
        }
        let cost = gets_asked(&store)? - before;
        assert!(cost > 20, "{cost} requests for 40 keys that are not there");
        let stats = near(&store).meta;
        assert!((stats.table_count, stats.bytes) == (0, 0) && stats.misses > 400, "{stats:?}");
        store.close()?;
        let store = opened_again(env, &options)?;
        cost_of_reads(&store, 1, 1)?;
        assert_eq!(cost_of_reads(&store, 1, 1)?, 0, "no more of it without the baseline");
        store.close()
    })
}

/// One for each planted bug of the cache that shows only with a range around it.
#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_of_the_cache_are_found() {
    use terrace_env::PlantedBug;
    let planted = |bug| SimOptions { planted: vec![bug], ..SimOptions::new(96) };
    assert!(metadata_missed(planted(PlantedBug::DataDisplacesMeta)) > 0);
    let gone = std::panic::catch_unwind(|| {
        go_through_epochs(planted(PlantedBug::StaleCachedTable)).unwrap();
    });
    assert!(gone.is_err());
}
