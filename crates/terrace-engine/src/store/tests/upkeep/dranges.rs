//! A range is divided by itself, and its memtables share one allowance.

use terrace_env::SeededRng;

use crate::options::Options;
use crate::store::tests::{get, open, put, simulate, small};
use crate::store::{Store, WriteOptions};
use crate::{Result, WriteBatch};

fn divided(count: usize) -> Options {
    // The log is not what bounds the memtables here.
    Options { dranges: count, memtable_bytes: 256 << 10, log_bytes_max: 4 << 20, ..small() }
}

fn drange_count(store: &Store) -> usize {
    store.inner.dranges.load().list().len()
}

/// Writes random keys until the range is divided; how many.
fn write_until_divided(store: &Store, seed: u64) -> Result<u64> {
    let mut random = SeededRng::new(seed);
    for count in 0..100_000 {
        if drange_count(store) > 1 {
            return Ok(count);
        }
        put(store, &format!("user{:016x}", random.next_u64()), &"v".repeat(50))?;
    }
    panic!("seed {seed}: the range was never divided");
}

#[test]
fn the_first_full_memtable_divides_the_range_evenly() -> Result<()> {
    let seed = 11;
    simulate(seed, |env| {
        let store = open(env, &divided(8))?;
        let count = write_until_divided(&store, seed)?;
        assert!(count > 1000, "seed {seed}: only {count} keys");
        assert_eq!(drange_count(&store), 8);
        let map = store.inner.dranges.load_full();
        let mut random = SeededRng::new(seed + 1);
        let mut hits = [0u32; 8];
        for _ in 0..8000 {
            hits[map.interval_of(format!("user{:016x}", random.next_u64()).as_bytes())] += 1;
        }
        assert!(hits.iter().all(|hits| (600..=1500).contains(hits)), "seed {seed}: {hits:?}");
        Ok(())
    })
}

#[test]
fn a_divided_range_stays_divided_and_keeps_its_boundaries() -> Result<()> {
    simulate(12, |env| {
        let store = open(env, &divided(4))?;
        write_until_divided(&store, 12)?;
        let boundaries = store.inner.dranges.load().boundaries().keys().to_vec();
        store.flush()?;
        store.close()?;
        drop(store);
        // Nothing is left in the log: the range is divided at once, whatever the options say.
        let store = open(env, &divided(9))?;
        assert_eq!(store.inner.dranges.load().boundaries().keys(), boundaries);
        put(&store, "user5", "late")?;
        store.close()?;
        drop(store);
        // What was replayed goes on in one memtable, and nothing is flushed for it.
        let store = open(env, &divided(4))?;
        assert_eq!(drange_count(&store), 1);
        assert_eq!(store.stats().flush_count, 0);
        write_until_divided(&store, 13)?;
        assert_eq!(store.inner.dranges.load().boundaries().keys(), boundaries);
        assert_eq!(get(&store, "user5")?.as_deref(), Some("late"));
        Ok(())
    })
}

#[test]
fn one_hot_drange_gets_what_the_others_leave() -> Result<()> {
    simulate(14, |env| {
        let options = divided(4);
        let store = open(env, &options)?;
        write_until_divided(&store, 14)?;
        store.flush()?;
        let last = store.inner.dranges.load().list()[3].keys.start().to_vec();
        let last = String::from_utf8(last).expect("keys are text");
        let flushes = store.stats().flush_count;
        let mut bytes = 0;
        while store.inner.view.load().frozen_bytes == 0 && store.stats().flush_count == flushes {
            put(&store, &format!("{last}-{bytes:08}"), &"v".repeat(50))?;
            let view = store.inner.view.load();
            let limits: usize = view.dranges.iter().map(|drange| drange.active.limit_bytes()).sum();
            assert!(limits <= options.memtable_bytes, "{limits}");
            bytes = bytes.max(view.dranges[3].active.used_bytes());
        }
        assert!(bytes > options.memtable_bytes / 2, "{bytes} of {}", options.memtable_bytes);
        Ok(())
    })
}

#[test]
fn a_batch_over_all_dranges_finds_room_however_large_it_is() -> Result<()> {
    simulate(15, |env| {
        let options = divided(4);
        let store = open(env, &options)?;
        write_until_divided(&store, 15)?;
        for round in 0..6 {
            let mut batch = WriteBatch::new();
            for first in 0..16 {
                let key = format!("user{first:x}-{round}");
                batch.put(key.as_bytes(), &vec![b'v'; options.memtable_bytes / 8])?;
            }
            store.write(&batch, &WriteOptions::default())?;
        }
        for first in 0..16 {
            assert!(get(&store, &format!("user{first:x}-5"))?.is_some());
        }
        Ok(())
    })
}

/// A key of `user0000` … `user9999`: nine of ten writes go to the first hundred.
fn skewed(random: &mut SeededRng) -> String {
    let bound = if random.one_in(10) { 10_000 } else { 100 };
    format!("user{:04}", random.below(bound))
}

/// Goal: writes that are not spread evenly make the range divide itself so that they are. Method:
/// divided by evenly spread keys first, then written to with a skew; what each drange's memtable
/// takes in is counted.
#[test]
fn a_range_divides_itself_anew_when_its_writes_are_not_spread_evenly() -> Result<()> {
    let seed = 16;
    simulate(seed, |env| {
        let store = open(env, &divided(8))?;
        let mut random = SeededRng::new(seed);
        while drange_count(&store) == 1 {
            put(&store, &format!("user{:04}", random.below(10_000)), &"v".repeat(50))?;
        }
        let even = store.inner.dranges.load().boundaries().keys().to_vec();
        for _ in 0..20_000 {
            put(&store, &skewed(&mut random), &"v".repeat(50))?;
        }
        store.settle();
        let map = store.inner.dranges.load_full();
        assert_ne!(map.boundaries().keys(), even, "seed {seed}");
        let mut hits = [0u32; 8];
        for _ in 0..8000 {
            hits[map.interval_of(skewed(&mut random).as_bytes())] += 1;
        }
        assert!(hits.iter().all(|hits| (700..=1300).contains(hits)), "seed {seed}: {hits:?}");
        let (_, major_count) = store.inner.balance.counts();
        assert!(major_count >= 1, "seed {seed}");
        // What is even stays as it is.
        let before = store.inner.balance.counts();
        for _ in 0..20_000 {
            put(&store, &skewed(&mut random), &"v".repeat(50))?;
        }
        let after = store.inner.balance.counts();
        assert!(after.0 + after.1 <= before.0 + before.1 + 2, "seed {seed}: {before:?} {after:?}");
        Ok(())
    })
}

/// Goal: a key that is written very often gets duplicates by itself, shares their writes out
/// evenly, and gives them back when it has cooled down. Method: two of five writes go to one key,
/// and later none more than to any other.
#[test]
fn a_hot_key_gets_duplicates_and_gives_them_back() -> Result<()> {
    let seed = 19;
    simulate(seed, |env| {
        let store = open(env, &divided(8))?;
        let mut random = SeededRng::new(seed);
        let duplicates = || -> Vec<(Vec<u8>, u64)> {
            let hot = store.dranges().dranges.into_iter().filter(|drange| drange.duplicates > 1);
            hot.map(|drange| (drange.start, drange.duplicates)).collect()
        };
        let mut last = 0;
        for round in 0..20_000 {
            match random.below(5) {
                0 | 1 => {
                    last = round;
                    put(&store, "user5000", &format!("{round:050}"))?;
                }
                _ => put(&store, &format!("user{:04}", random.below(10_000)), &"v".repeat(50))?,
            }
            if round % 500 == 0 {
                let newest = get(&store, "user5000")?.map(|value| value.parse().ok());
                assert!(newest.is_none_or(|newest| newest == Some(last)), "{newest:?}, not {last}");
            }
        }
        store.settle();
        let hot = duplicates();
        assert_eq!(hot.len(), 3, "seed {seed}: {hot:?}");
        assert!(
            hot.iter().all(|(start, count)| start.as_slice() <= &b"user5000"[..] && *count == 3)
        );
        // What was written since then is spread evenly.
        for round in 0..4000 {
            let key = if round % 5 < 2 { 5000 } else { random.below(10_000) };
            put(&store, &format!("user{key:04}"), &"v".repeat(50))?;
        }
        let report = store.dranges();
        assert!(report.imbalance < 0.025, "seed {seed}: {report}");
        for _ in 0..30_000 {
            put(&store, &format!("user{:04}", random.below(10_000)), &"v".repeat(50))?;
        }
        store.settle();
        assert_eq!(duplicates(), [], "seed {seed}");
        assert_eq!(drange_count(&store), 8);
        Ok(())
    })
}

/// Goal: what was written stays where it is found, wherever the range is divided meanwhile, also
/// while it lies in memtables of other dranges. Method: nothing is flushed between the divisions.
#[test]
fn a_division_hides_nothing_that_waits_to_be_flushed() -> Result<()> {
    simulate(17, |env| {
        let options = Options { frozen_memtables_max: 8, ..divided(1) };
        let store = open(env, &options)?;
        let _turn = store.inner.turns.flush.lock();
        let divisions: [&[&str]; 5] = [&["k3", "k6"], &["k1", "k5", "k51"], &[], &["k6"], &["k2"]];
        for (round, division) in divisions.into_iter().enumerate() {
            for key in 0..10 {
                put(&store, &format!("k{key}"), &format!("{round}"))?;
                put(&store, &format!("k{key}-{round}"), "only once")?;
            }
            let mut batch = WriteBatch::new();
            batch.delete_range(format!("k4-{round}").as_bytes(), b"k5")?;
            batch.put(format!("k{round}").as_bytes(), b"last")?;
            store.write(&batch, &WriteOptions::default())?;
            let keys = division.iter().map(|key| key.as_bytes().to_vec()).collect();
            store.divide_at(keys)?;
            assert_eq!(drange_count(&store), division.len() + 1);
            for key in 0..10 {
                let expected = if key == round { "last".into() } else { format!("{round}") };
                assert_eq!(get(&store, &format!("k{key}"))?, Some(expected), "round {round}");
                for old in 0..=round {
                    let found = get(&store, &format!("k{key}-{old}"))?;
                    assert_eq!(found.is_none(), key == 4, "k{key}-{old} in round {round}");
                }
            }
            let shown = crate::store::tests::workload::content(&store)?.len();
            assert_eq!(shown, 10 + 9 * (round + 1), "round {round}");
        }
        Ok(())
    })
}

#[test]
fn a_range_is_divided_at_ascending_keys_only() -> Result<()> {
    simulate(18, |env| {
        let store = open(env, &divided(1))?;
        let wrong: [Vec<Vec<u8>>; 3] =
            [vec![b"b".into(), b"a".into()], vec![b"".into()], vec![b"a".into(), b"a".into()]];
        for keys in wrong {
            assert!(matches!(store.divide_at(keys), Err(crate::Error::Invalid(_))));
        }
        store.divide_at(vec![b"a".into(), b"b".into()])?;
        assert_eq!(drange_count(&store), 3);
        for wrong in [&[][..], &[1], &[1, 1, 1], &[1, 0], &[200, 56], &[usize::MAX, 2]] {
            let refused = store.divide_among(vec![b"a".into()], wrong);
            assert!(matches!(refused, Err(crate::Error::Invalid(_))), "{wrong:?}");
        }
        store.divide_among(vec![b"a".into()], &[200, 55])?;
        assert_eq!(drange_count(&store), 255);
        Ok(())
    })
}
