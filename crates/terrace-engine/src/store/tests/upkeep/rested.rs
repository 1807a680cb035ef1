//! Goal: rows go down when nobody writes, and only then, and only where that rewrites little; what
//! the range shows does not change. Method: rows that no cut is due for, and time that passes.

use std::time::Duration;

use terrace_base::KeyRange;

use crate::l0::CutEnd;
use crate::store::IterOptions;
use crate::store::tests::*;

/// Few rows make no cut due, and the range rests as it does by default.
fn options() -> Options {
    let mut options = Options { memtable_bytes: 256 << 10, cut_bytes: 64 << 10, ..lazy() };
    options.research.rest = None;
    options
}

fn write(store: &Store, keys: std::ops::Range<u32>, text: &str) -> Result<()> {
    for number in keys {
        put(store, &format!("{number:04}"), &format!("{text}{}", "x".repeat(100)))?;
    }
    store.flush()
}

fn row_count(store: &Store) -> usize {
    store.inner.versions.current().l0().rows().len()
}

fn all(store: &Store) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut iter = store.iter(IterOptions { range: KeyRange::all(), ..IterOptions::default() })?;
    iter.seek_to_first()?;
    let mut shown = Vec::new();
    while let Some(entry) = iter.entry() {
        shown.push((entry.key.to_vec(), entry.value.to_vec()));
        iter.next()?;
    }
    Ok(shown)
}

#[test]
fn rows_go_down_when_nobody_writes() -> Result<()> {
    simulate(71, |env| {
        let store = open(env, &options())?;
        for row in ["a", "b", "c"] {
            write(&store, 0..300, row)?;
        }
        store.settle();
        assert_eq!(row_count(&store), 3, "nothing is due");
        let before = all(&store)?;
        env.sleep(Duration::from_secs(5));
        store.settle();
        assert_eq!(row_count(&store), 0);
        assert_eq!(all(&store)?, before);
        let cuts = store.compactions();
        assert!(!cuts.is_empty());
        assert!(cuts.iter().all(|cut| cut.cut_end == Some(CutEnd::Rested)), "{cuts:?}");
        // A range that rested before rests again.
        write(&store, 0..300, "d")?;
        store.settle();
        assert_eq!(row_count(&store), 1);
        env.sleep(Duration::from_secs(5));
        store.settle();
        assert_eq!(row_count(&store), 0);
        store.close()
    })
}

#[test]
fn rows_stay_while_somebody_writes_and_go_down_after_that() -> Result<()> {
    simulate(72, |env| {
        let store = open(env, &options())?;
        write(&store, 0..300, "a")?;
        write(&store, 0..300, "b")?;
        for second in 0..20 {
            put(&store, "0007", &second.to_string())?;
            env.sleep(Duration::from_secs(1));
        }
        store.settle();
        assert_eq!(row_count(&store), 2);
        env.sleep(Duration::from_secs(5));
        store.settle();
        assert_eq!(row_count(&store), 0, "a look is put off again while somebody writes");
        store.close()
    })
}

#[test]
fn a_row_that_meets_much_more_stays() -> Result<()> {
    // The level below takes what comes, or there is to be another one between: an empty one.
    for level_bytes_base in [1 << 20, 8 << 10] {
        simulate_one_row_above_many(Options { level_bytes_base, ..options() })?;
    }
    Ok(())
}

fn simulate_one_row_above_many(options: Options) -> Result<()> {
    simulate(73, |env| {
        let store = open(env, &options)?;
        for row in ["a", "b"] {
            write(&store, 0..900, row)?;
        }
        store.compact(&KeyRange::all())?;
        let count = store.compactions().len();
        for number in (0..900).step_by(10) {
            put(&store, &format!("{number:04}"), &"y".repeat(100))?;
        }
        store.flush()?;
        env.sleep(Duration::from_secs(60));
        store.settle();
        let cuts = store.compactions();
        assert_eq!((row_count(&store), cuts.len()), (1, count), "{cuts:?}");
        store.close()
    })
}

/// Whoever opens a database meets what the last one left.
#[test]
fn rows_that_an_open_finds_go_down_too() -> Result<()> {
    simulate(74, |env| {
        let mut stays = options();
        stays.research.rest = Some(Duration::MAX);
        let store = open(env, &stays)?;
        for row in ["a", "b", "c"] {
            write(&store, 0..300, row)?;
        }
        env.sleep(Duration::from_secs(60));
        store.settle();
        assert_eq!(row_count(&store), 3, "they stay however long nobody writes");
        store.close()?;
        let store = open(env, &options())?;
        env.sleep(Duration::from_secs(5));
        store.settle();
        assert_eq!(row_count(&store), 0);
        store.close()
    })
}
