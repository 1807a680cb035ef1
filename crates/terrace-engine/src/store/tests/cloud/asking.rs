//! Goal: a scan waits for the object store once for all levels, and asks for about as much as scans
//! read. Method: the simulated time and the requests of single scans through several levels in an
//! emulated store, with nothing kept near or in memory.

use std::time::Duration;

use terrace_base::KeyRange;
use terrace_env::{ObjectsEnv, ObjectsProfile};

use super::near::{gets_asked, opened_again, with_cache};
use crate::iter::Direction;
use crate::options::Research;
use crate::store::tests::*;
use crate::store::{GetOptions, IterOptions};
use crate::table::ReadMode;

/// What the first byte of a read takes.
const READ: Duration = Duration::from_millis(15);

const KEYS: usize = 3000;

/// What is read stays in no memory.
const UNCACHED: ReadMode = ReadMode { fills_cache: false, ..ReadMode::BLOCK };

/// The value of a key: those of every sixteenth lie above the others.
fn value(key: usize) -> String {
    let level = if key.is_multiple_of(16) { "1" } else { "2" };
    level.repeat(1000)
}

/// A range of a few levels in the store: one has all keys, and what lies above has every sixteenth.
fn few_levels(sim: &SharedEnv, research: Research) -> Result<Store> {
    let profile: ObjectsProfile = "read=15ms,write=30ms".parse().expect("a profile");
    let env: SharedEnv = ObjectsEnv::new(Arc::clone(sim), profile);
    let options = Options {
        research,
        l0_rows_per_cut: 1,
        level_bytes_base: 64 << 10,
        table_bytes: 64 << 10,
        ..with_cache(0)
    };
    let store = open(&env, &options)?;
    (0..KEYS).try_for_each(|key| put(&store, &format!("{key:04}"), &value(1)))?;
    store.compact(&KeyRange::all())?;
    store.settle();
    (0..KEYS).step_by(16).try_for_each(|key| put(&store, &format!("{key:04}"), &value(key)))?;
    store.flush()?;
    store.close()?;
    let store = opened_again(&env, &options)?;
    let view = store.inner.view.load_full();
    assert!(view.version.l0().content().rows().is_empty());
    let runs = view.version.runs().filter(|(_, run)| !run.is_empty());
    assert!(runs.count() > 1);
    // All tables are opened, and nothing of their blocks stays in memory.
    let options = GetOptions { fill_cache: false, ..GetOptions::default() };
    (0..KEYS)
        .try_for_each(|key| store.get(format!("{key:04}").as_bytes(), &options).map(|_| ()))?;
    Ok(store)
}

/// What a scan cost.
#[derive(Debug)]
struct Cost {
    gets: u64,
    took: Duration,
}

/// Shows at most so many keys on the way from one that is there: how many there were, and what they
/// cost.
fn scan(store: &Store, from: usize, count: usize, way: Direction) -> Result<(usize, Cost)> {
    let env = store.process().env();
    let (gets, began) = (gets_asked(store)?, env.now());
    let mut iter = store.iter(IterOptions { mode: UNCACHED, ..IterOptions::default() })?;
    match way {
        Direction::Forward => iter.seek(&key_bytes(from))?,
        Direction::Backward => iter.seek_back(Some(&key_bytes(from + 1)))?,
    }
    let mut shown = 0;
    while let Some(entry) = iter.entry() {
        let key = match way {
            Direction::Forward => from + shown,
            Direction::Backward => from - shown,
        };
        assert_eq!((entry.key, entry.value), (&*key_bytes(key), value(key).as_bytes()));
        shown += 1;
        if shown == count {
            break;
        }
        match way {
            Direction::Forward => iter.next()?,
            Direction::Backward => iter.prev()?,
        }
    }
    let cost = Cost { gets: gets_asked(store)? - gets, took: env.now() - began };
    Ok((shown, cost))
}

fn key_bytes(key: usize) -> Vec<u8> {
    format!("{key:04}").into_bytes()
}

/// What scans of so many keys cost, one after the other.
fn costs(
    seed: u64,
    research: Research,
    froms: impl Iterator<Item = usize> + Send,
    count: usize,
    way: Direction,
) -> Result<Vec<Cost>> {
    simulate(seed, |env| {
        let store = few_levels(env, research)?;
        let costs = froms.map(|from| {
            let (shown, cost) = scan(&store, from, count, way)?;
            assert_eq!(shown, count);
            Ok(cost)
        });
        let costs = costs.collect::<Result<Vec<Cost>>>()?;
        store.close().map(|()| costs)
    })
}

#[test]
fn a_seek_waits_once_for_all_levels() -> Result<()> {
    for (seed, way) in [(121, Direction::Forward), (122, Direction::Backward)] {
        let froms = || (5..KEYS).step_by(131);
        let costs = |research| costs(seed, research, froms(), 1, way);
        for cost in costs(Research::default())? {
            assert!(cost.gets <= 3 && cost.took < READ * 2, "{way:?}: {cost:?}");
        }
        let costs = costs(Research { far_one_by_one: true, ..Research::default() })?;
        assert!(costs.iter().all(|cost| cost.took >= READ * cost.gets as u32), "{costs:?}");
        assert!(costs.iter().any(|cost| cost.gets > 1), "{costs:?}");
    }
    Ok(())
}

/// Scans of forty keys: the first one, and those that know of it.
#[test]
fn as_much_is_asked_for_as_scans_show() -> Result<()> {
    for (seed, way) in [(123, Direction::Forward), (124, Direction::Backward)] {
        let froms = (50..KEYS - 50).step_by(47);
        let costs = costs(seed, Research::default(), froms, 40, way)?;
        let (first, later) = (&costs[0], &costs[1..]);
        assert!(first.gets > 2, "{way:?}: {first:?}");
        for cost in later {
            // Two levels, and a table that ends on the way.
            assert!(cost.gets <= 5 && cost.took < READ * 3, "{way:?}: {cost:?}");
        }
        let waited: Duration = later.iter().map(|cost| cost.took).sum();
        assert!(waited < READ * 4 / 3 * later.len() as u32, "{way:?}: {waited:?} in {costs:?}");
    }
    Ok(())
}

#[test]
fn several_keys_are_waited_for_together() -> Result<()> {
    let read = |seed, research: Research| -> Result<Cost> {
        simulate(seed, |env| {
            let store = few_levels(env, research)?;
            let keys: Vec<String> = (0..16).map(|at| format!("{:04}", at * 181 + 3)).collect();
            let absent: Vec<String> = keys.iter().map(|key| format!("{key}x")).collect();
            let keys: Vec<&[u8]> = keys.iter().chain(&absent).map(|key| key.as_bytes()).collect();
            let env = store.process().env();
            let (gets, began) = (gets_asked(&store)?, env.now());
            let before = store.stats().get_count;
            let options = GetOptions { fill_cache: false, ..GetOptions::default() };
            let items = store.multi_get(&keys, &options)?;
            assert_eq!(store.stats().get_count - before, 32);
            for (at, item) in items.iter().enumerate() {
                let key = at * 181 + 3;
                let expected = (at < 16).then(|| value(key));
                assert_eq!(
                    item.as_ref().map(|item| item.to_vec()),
                    expected.map(String::into_bytes)
                );
            }
            let cost = Cost { gets: gets_asked(&store)? - gets, took: env.now() - began };
            store.close().map(|()| cost)
        })
    };
    let together = read(125, Research::default())?;
    assert!(together.gets == 16 && together.took < READ * 2, "{together:?}");
    let alone = read(126, Research { far_one_by_one: true, ..Research::default() })?;
    assert!(alone.gets == 16 && alone.took >= READ * 16, "{alone:?}");
    Ok(())
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_skipped_key_is_found() {
    use terrace_env::PlantedBug;
    let scanned = |planted: Vec<PlantedBug>| {
        let options = SimOptions { planted, ..SimOptions::new(127) };
        SimEnv::run(options, |env| {
            let env: SharedEnv = env;
            let store = few_levels(&env, Research::default()).expect("nothing fails");
            (5..KEYS).step_by(131).try_for_each(|from| {
                scan(&store, from, 20, Direction::Forward).map(|(shown, _)| assert_eq!(shown, 20))
            })
        })
    };
    scanned(Vec::new()).expect("nothing fails");
    let with_bug = || scanned(vec![PlantedBug::FarKeySkipped]);
    assert!(std::panic::catch_unwind(with_bug).is_err());
}
