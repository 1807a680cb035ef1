//! Goal: tables below the waterline are objects, and nobody who reads or writes notices. Method: a
//! range that fills several levels, a look at where each table lies, and the same answers before
//! and after an open, in a copy, and when the line has moved.

use terrace_base::{KeyRange, LevelNo};

use super::{CloudOptions, fill, in_store, value};
use crate::Error;
use crate::options::ValueLogOptions;
use crate::store::IterOptions;
use crate::store::tests::*;
use crate::version::Table;

fn expect(store: &Store, round: u32) -> Result<()> {
    for key in 0..400 {
        assert_eq!(get(store, &format!("{key:04}"))?, Some(value(round)), "{key}");
    }
    let mut iter = store.iter(IterOptions::default())?;
    iter.seek_to_first()?;
    let mut count = 0;
    while iter.is_on_entry() {
        count += 1;
        iter.next()?;
    }
    assert_eq!(count, 400);
    assert!(store.check(&mut |_, _| ())?.is_clean());
    Ok(())
}

/// The tables of each level that lie in the store, and those that do not.
fn places(store: &Store) -> Vec<(LevelNo, usize, usize)> {
    let version = store.inner.versions.current();
    let is_far = |table: &&std::sync::Arc<Table>| table.meta().location.is_far();
    let levels = version.runs().map(|(level, run)| {
        let far = run.tables().iter().filter(is_far).count();
        (level, far, run.tables().len() - far)
    });
    levels.filter(|(_, far, near)| far + near > 0).collect()
}

#[test]
fn levels_below_the_line_are_objects() -> Result<()> {
    simulate(71, |env| {
        let options = in_store(small(), 3);
        for round in 0..3 {
            let store = open(env, &options)?;
            fill(&store, 3 * round..3 * round + 3)?;
            store.flush()?;
            store.settle();
            expect(&store, 3 * round + 2)?;
            store.close()?;
        }
        let store = open(env, &options)?;
        store.compact(&KeyRange::all())?;
        store.settle();
        let places = places(&store);
        assert!(places.iter().any(|(level, far, _)| level.0 >= 3 && *far > 0), "{places:?}");
        for (level, far, near) in places {
            assert_eq!(if level.0 >= 3 { near } else { far }, 0, "{level:?}");
        }
        expect(&store, 8)
    })
}

#[test]
fn values_are_in_the_tables_below_the_line() -> Result<()> {
    simulate(72, |env| {
        let values = ValueLogOptions { large_bytes: 64, ..ValueLogOptions::default() };
        let options = in_store(Options { value_log: Some(values), ..small() }, 3);
        let store = open(env, &options)?;
        fill(&store, 0..3)?;
        store.flush()?;
        assert!(!store.inner.versions.current().values().is_empty(), "values stand apart above it");
        store.compact(&KeyRange::all())?;
        store.settle();
        let version = store.inner.versions.current();
        let far = version.tables().filter(|table| table.meta().location.is_far());
        let mut count = 0;
        for table in far {
            assert!(table.meta().named.is_empty(), "{:?}", table.meta());
            count += 1;
        }
        assert!(count > 0);
        drop(version);
        expect(&store, 2)
    })
}

#[test]
fn the_line_moves_both_ways() -> Result<()> {
    simulate(73, |env| {
        let store = open(env, &in_store(small(), 6))?;
        fill(&store, 0..2)?;
        store.flush()?;
        store.compact(&KeyRange::all())?;
        store.settle();
        let mut seen = Vec::new();
        for first_far in [1, 7, 2, 6] {
            store.inner.context.opener.far.line().put_at(first_far);
            store.settle();
            for (level, far, near) in places(&store) {
                assert_eq!(if level.0 >= first_far { near } else { far }, 0, "{level:?}");
                seen.push((first_far, far > 0));
            }
            expect(&store, 1)?;
        }
        assert!(seen.contains(&(1, true)) && seen.contains(&(7, false)), "{seen:?}");
        Ok(())
    })
}

#[test]
fn a_line_that_follows_the_bytes_moves() -> Result<()> {
    simulate(74, |env| {
        let mut options = in_store(small(), 1);
        options.cloud = options.cloud.map(|cloud| CloudOptions { first_level: None, ..cloud });
        let store = open(env, &options)?;
        fill(&store, 0..2)?;
        store.compact(&KeyRange::all())?;
        store.settle();
        assert!(places(&store).iter().all(|(_, far, _)| *far == 0), "64 MiB hold all of it");
        expect(&store, 1)
    })
}

#[test]
fn what_lies_in_a_store_opens_only_with_it() -> Result<()> {
    simulate(75, |env| {
        let store = open(env, &in_store(small(), 1))?;
        fill(&store, 0..1)?;
        store.compact(&KeyRange::all())?;
        store.close()?;
        let refused = open(env, &small()).unwrap_err();
        assert!(matches!(&refused, Error::Invalid(_)), "{refused}");
        assert!(refused.to_string().contains("object store"), "{refused}");
        let read_only = Options { read_only: true, ..in_store(small(), 1) };
        let store = open(env, &read_only)?;
        expect(&store, 0)
    })
}

#[test]
fn a_checkpoint_has_what_lies_in_the_store() -> Result<()> {
    simulate(76, |env| {
        let store = open(env, &in_store(small(), 2))?;
        fill(&store, 0..2)?;
        store.compact(&KeyRange::all())?;
        store.checkpoint(Path::new("/copy"), &mut |_, _| true)?;
        let copy = Store::open(&process(env)?, Path::new("/copy"), small())?;
        expect(&copy, 1)?;
        assert!(places(&copy).iter().all(|(_, far, _)| *far == 0));
        Ok(())
    })
}
