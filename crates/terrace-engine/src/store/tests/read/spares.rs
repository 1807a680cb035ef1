//! Goal: a scan that goes on with the cursors of an earlier one shows what one with cursors of its
//! own would; what was left keeps nothing alive that the range has let go of. Method: scans one
//! after the other beside writes, flushes, compactions and a model; weak references.

use std::collections::BTreeMap;
use std::sync::Weak;

use terrace_base::KeyRange;
use terrace_env::{SeededRng, SharedEnv, SimOptions};

use crate::options::Options;
#[cfg(feature = "planted-bugs")]
use crate::store::tests::by_seed::hunt;
use crate::store::tests::by_seed::{Tally, each_seed, one_simulation};
use crate::store::tests::*;
use crate::store::{IterOptions, Store};

type Shown = Vec<(Vec<u8>, Vec<u8>)>;

fn scan(store: &Store, range: &KeyRange, count: usize, forward: bool) -> Result<Shown> {
    let mut iter = store.iter(IterOptions { range: range.clone(), ..IterOptions::default() })?;
    if forward {
        iter.seek_to_first()?
    } else {
        iter.seek_back(None)?
    }
    let mut shown = Vec::new();
    while let Some(entry) = iter.entry().filter(|_| shown.len() < count) {
        shown.push((entry.key.to_vec(), entry.value.to_vec()));
        if forward { iter.next()? } else { iter.prev()? }
    }
    Ok(shown)
}

fn key(number: u64) -> String {
    format!("{number:03}")
}

/// Scans one after the other, between changes of every kind, beside a model.
fn scans(env: &SharedEnv, random: &mut SeededRng, tally: &mut Tally, context: &str) -> Result<()> {
    let store = open(env, &options(random))?;
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut snapshots = Vec::new();
    for step in 0..600 {
        let context = format!("{context}, step {step}");
        let number = random.below(300);
        match random.below(40) {
            0 => store.flush()?,
            1 => store.compact(&KeyRange::all())?,
            2 => {
                let range = KeyRange::new(key(number), Some(key(number + 20).into_bytes()));
                delete_range(&store, &key(number), &key(number + 20))?;
                model.retain(|key, _| !range.contains(key));
            }
            3 => snapshots.push((store.snapshot(), model.clone())),
            4 => snapshots.clear(),
            5..20 => {
                let value = format!("{step}{}", "x".repeat(random.below(100) as usize));
                put(&store, &key(number), &value)?;
                model.insert(key(number).into_bytes(), value.into_bytes());
            }
            _ => {
                let end = random.one_in(2).then(|| key(number + random.below(60)).into_bytes());
                let range = KeyRange::new(key(number), end);
                let (count, forward) = (random.index(30), random.one_in(3));
                let within = model.iter().filter(|(key, _)| range.contains(key));
                let within = within.map(|(key, value)| (key.clone(), value.clone()));
                let expected: Shown = match forward {
                    true => within.take(count).collect(),
                    false => within.rev().take(count).collect(),
                };
                let spare = store.inner.spare_scans.count();
                *tally.entry("found a spare").or_default() += spare as u64;
                let shown = scan(&store, &range, count, forward)?;
                assert_eq!(shown, expected, "{context}, {range:?}");
                if let Some((snapshot, model)) = snapshots.last() {
                    let mut iter = snapshot.iter(IterOptions::default())?;
                    iter.seek_to_first()?;
                    let shown = iter.entry().map(|entry| entry.key.to_vec());
                    assert_eq!(shown, model.keys().next().cloned(), "{context}, at a snapshot");
                }
            }
        }
    }
    drop(snapshots);
    store.close()
}

fn run(seed: u64, sim: SimOptions) -> Tally {
    one_simulation(seed, sim, scans)
}

fn options(random: &mut SeededRng) -> Options {
    let mut options = if random.one_in(2) { small() } else { lazy() };
    if random.one_in(3) {
        options.drange_boundaries = vec![b"100".to_vec(), b"200".to_vec()];
    }
    options
}

#[test]
fn a_scan_with_the_cursors_of_another_shows_what_is_there() {
    let total =
        each_seed("databases that were scanned", 40, |seed| run(seed, SimOptions::new(seed)));
    total.assert_done(&["found a spare"], 5_000, 40);
}

/// Nothing that was left lives on when its view has been replaced, or the range is closed.
#[test]
fn what_a_scan_leaves_goes_with_its_view() -> Result<()> {
    simulate(941, |env| {
        let store = open(env, &lazy())?;
        put(&store, "a", "1")?;
        let view = |store: &Store| Arc::downgrade(&store.inner.view.load_full());
        let is_gone = |view: &Weak<_>| view.strong_count() == 0;
        let first = view(&store);
        scan(&store, &KeyRange::all(), 10, true)?;
        assert_eq!(store.inner.spare_scans.count(), 1);
        store.flush()?;
        assert!(is_gone(&first));
        assert_eq!(store.inner.spare_scans.count(), 0);
        scan(&store, &KeyRange::all(), 10, true)?;
        assert_eq!(store.inner.spare_scans.count(), 1);
        // One that began before the view was replaced leaves nothing.
        let mut iter = store.iter(IterOptions::default())?;
        iter.seek_to_first()?;
        put(&store, "b", "2")?;
        store.flush()?;
        drop(iter);
        assert_eq!(store.inner.spare_scans.count(), 0);
        scan(&store, &KeyRange::all(), 10, true)?;
        store.close()?;
        assert_eq!(store.inner.spare_scans.count(), 0);
        Ok(())
    })
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_of_spare_scans_are_found() {
    use terrace_env::PlantedBug::{SpareKeepsItsNumber, SpareOfOldView};

    let bugs = [SpareOfOldView, SpareKeepsItsNumber];
    hunt("databases that were scanned", 40, &bugs, |seed, bug| {
        run(seed, SimOptions { planted: vec![bug], ..SimOptions::new(seed) })
    });
}
