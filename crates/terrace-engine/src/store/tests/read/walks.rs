//! Goal: a scan that walks through the blocks of one source shows what a merge of all shows.
//! Method: random rows, levels and memtables, in stretches of keys that lie in one place only and
//! in others that lie in several; iterators that step, turn round, seek, and see the tree change
//! under them, beside an ordered map of their moment.

use std::collections::BTreeMap;
use std::ops::Bound;

use terrace_base::KeyRange;
use terrace_env::{SeededRng, SharedEnv, SimOptions};

use crate::options::Options;
#[cfg(feature = "planted-bugs")]
use crate::store::tests::by_seed::hunt;
use crate::store::tests::by_seed::{Tally, each_seed, one_simulation};
use crate::store::tests::{open, small};
use crate::store::{Iter, IterOptions, Store, WriteOptions};
use crate::{Result, WriteBatch};

const KEYS: u64 = 3_000;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys of a few lengths, longer than what is kept beside a source, or shorter; some end with
/// zeros.
fn key(number: u64, long: bool) -> Vec<u8> {
    let long = if long { "which is rather long, and " } else { "" };
    let mut key = format!("a key {long}{:06}", number / 3).into_bytes();
    key.extend(std::iter::repeat_n(0, (number % 3) as usize));
    key
}

/// Writes neighbours, or keys far from each other, most of them values.
fn write(store: &Store, model: &mut Model, random: &mut SeededRng, long: bool) -> Result<()> {
    let first = random.below(KEYS);
    let step = [1, 1, 3, 40][random.index(4)];
    let rare = [2, 20, 200][random.index(3)];
    for number in (0..random.below(400)).map(|count| first + count * step) {
        let mut batch = WriteBatch::new();
        let key = key(number % KEYS, long);
        if !random.one_in(rare) {
            let value = vec![b'v'; random.index(30)];
            batch.put(&key, &value)?;
            model.insert(key, value);
        } else if random.one_in(2) {
            batch.delete(&key)?;
            model.remove(&key);
        } else {
            batch.merge(&key, b"+")?;
            model.entry(key).or_default().push(b'+');
        }
        store.write(&batch, &WriteOptions::default())?;
    }
    Ok(())
}

fn change(store: &Store, model: &mut Model, random: &mut SeededRng, long: bool) -> Result<()> {
    match random.below(8) {
        0 => store.compact(&KeyRange::all())?,
        1..=3 => store.flush()?,
        _ => write(store, model, random, long)?,
    }
    Ok(())
}

/// Compares the iterator with what it is to show.
fn check(iter: &Iter, shown: Option<(&Vec<u8>, &Vec<u8>)>, context: &str) {
    let entry = iter.entry().map(|entry| (entry.key, entry.value));
    assert_eq!(entry, shown.map(|(key, value)| (key.as_slice(), value.as_slice())), "{context}");
}

fn scans(env: &SharedEnv, random: &mut SeededRng, tally: &mut Tally, context: &str) -> Result<()> {
    let rows = [2, 100][random.index(2)];
    let table_bytes = [4 << 10, 24 << 10][random.index(2)];
    let options = Options {
        l0_rows_per_cut: rows,
        l0_rows_slow: 2 * rows,
        l0_rows_stop: 4 * rows,
        table_bytes,
        ..small()
    };
    let store = open(env, &options)?;
    let (mut model, long) = (Model::new(), random.one_in(3));
    for _ in 0..random.below(30) {
        change(&store, &mut model, random, long)?;
    }
    for _ in 0..4 {
        let end = random.one_in(3).then(|| key(random.below(KEYS), long));
        let range = KeyRange::new(Vec::new(), end.clone());
        let below = end.map_or(Bound::Unbounded, Bound::Excluded);
        let moment: Model = model.range((Bound::Unbounded, below)).map(clone).collect();
        let mut iter = store.iter(IterOptions { range, ..IterOptions::default() })?;
        let mut at: Option<Vec<u8>> = None;
        for move_number in 0..600 {
            let shown = match (&at, random.below(60)) {
                (None, _) | (_, 0) => {
                    let sought = key(random.below(KEYS), long);
                    iter.seek(&sought)?;
                    moment.range(sought..).next()
                }
                (Some(own), 1 | 2) => {
                    iter.prev()?;
                    moment.range(..own.clone()).next_back()
                }
                (Some(own), _) => {
                    iter.next()?;
                    moment.range((Bound::Excluded(own.clone()), Bound::Unbounded)).next()
                }
            };
            *tally.entry("walked").or_default() += u64::from(iter.is_walking());
            *tally.entry("moved").or_default() += 1;
            check(&iter, shown, &format!("{context}, move {move_number}"));
            at = shown.map(|(key, _)| key.clone());
            if random.one_in(100) {
                change(&store, &mut model, random, long)?;
            }
        }
    }
    Ok(())
}

fn clone((key, value): (&Vec<u8>, &Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    (key.clone(), value.clone())
}

fn run(seed: u64, sim: SimOptions) -> Tally {
    one_simulation(seed, sim, scans)
}

#[test]
fn scans_that_walk_show_what_a_merge_shows() {
    let total =
        each_seed("databases that were scanned", 40, |seed| run(seed, SimOptions::new(seed)));
    total.assert_done(&["walked"], 10_000, 40);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_of_walks_are_found() {
    use terrace_env::PlantedBug::{WalkForgetsEnd, WalkForgetsOthers, WalkShowsTooNew};

    let bugs = [WalkForgetsOthers, WalkForgetsEnd, WalkShowsTooNew];
    hunt("databases that were scanned", 40, &bugs, |seed, bug| {
        run(seed, SimOptions { planted: vec![bug], ..SimOptions::new(seed) })
    });
}
