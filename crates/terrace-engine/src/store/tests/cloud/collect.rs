//! Goal: what nobody needs goes from the store, and nothing else does. Method: a look at all names
//! of tables there, after work, crashes of jobs that are made up, views, and a second owner.

use std::collections::BTreeSet;

use terrace_base::{Epoch, FileId, KeyRange};
use terrace_env::ObjectName;

use super::{copy, fill, open_at, value};
use crate::Error;
use crate::cloud::{CloudNames, CloudStore};
use crate::placement::FarName;
use crate::store::IterOptions;
use crate::store::tests::*;

fn cloud(store: &Store) -> Result<(&CloudStore, CloudNames)> {
    let inner = &store.inner;
    let tier = inner.cloud.as_ref().expect("the range has a store");
    Ok((tier.store()?, CloudNames::new(inner.versions.current().database())))
}

/// The tables that are in the store.
pub(super) fn stored(store: &Store) -> Result<BTreeSet<ObjectName>> {
    let (cloud, names) = cloud(store)?;
    Ok(cloud.list(&names.table_prefix())?.into_iter().map(|object| object.name).collect())
}

/// The tables in the store that the newest version names.
pub(super) fn named(store: &Store) -> Result<BTreeSet<ObjectName>> {
    let (_, names) = cloud(store)?;
    let version = store.inner.versions.current();
    let far = version.tables().filter_map(|table| FarName::of(&table.meta().location));
    Ok(far.map(|name| names.of(&name.object())).collect())
}

/// An object that is called as a table of this epoch.
fn made_up(store: &Store, epoch: Epoch) -> Result<ObjectName> {
    let id = FileId { epoch, counter: 999 };
    let (cloud, names) = cloud(store)?;
    let name = names.of(&FarName { id, nonce: 7, bytes: 3 }.object());
    cloud.put(&name, b"abc")?;
    Ok(name)
}

#[test]
fn what_compactions_replace_goes() -> Result<()> {
    simulate(91, |env| {
        for round in 0..3 {
            let store = open_at(env, DIR)?;
            for step in 0..4 {
                fill(&store, 4 * round + step..4 * round + step + 1)?;
                store.flush()?;
                store.settle();
                assert_eq!(stored(&store)?, named(&store)?);
            }
            store.compact(&KeyRange::all())?;
            store.settle();
            assert_eq!(stored(&store)?, named(&store)?);
            assert!(!named(&store)?.is_empty());
            // Some of what the last compaction replaced may be there when it closes.
            fill(&store, 0..1)?;
            store.close()?;
        }
        let store = open_at(env, DIR)?;
        store.settle();
        assert_eq!(stored(&store)?, named(&store)?);
        assert_eq!(get(&store, "0007")?, Some(value(0)));
        Ok(())
    })
}

#[test]
fn what_a_reader_sees_stays() -> Result<()> {
    simulate(92, |env| {
        let store = open_at(env, DIR)?;
        fill(&store, 0..2)?;
        store.compact(&KeyRange::all())?;
        store.settle();
        let before = named(&store)?;
        let mut iter = store.iter(IterOptions::default())?;
        fill(&store, 2..3)?;
        store.compact(&KeyRange::all())?;
        store.settle();
        assert!(named(&store)?.is_disjoint(&before));
        assert!(stored(&store)?.is_superset(&before));
        iter.seek_to_first()?;
        assert_eq!(iter.entry().expect("an entry").value, value(1).as_bytes());
        drop(iter);
        // What nothing names any more is noticed at the end of the next job.
        store.compact(&KeyRange::all())?;
        store.settle();
        assert_eq!(stored(&store)?, named(&store)?);
        Ok(())
    })
}

#[test]
fn what_a_crash_left_behind_goes() -> Result<()> {
    simulate(93, |env| {
        let store = open_at(env, DIR)?;
        fill(&store, 0..2)?;
        store.compact(&KeyRange::all())?;
        let first = store.inner.ids.epoch();
        let orphan = made_up(&store, first)?;
        let later = made_up(&store, Epoch(first.0 + 9))?;
        store.settle();
        assert!(stored(&store)?.contains(&orphan), "a job of this epoch may be about to name it");
        store.close()?;
        let store = open_at(env, DIR)?;
        store.settle();
        let (stored, mut expected) = (stored(&store)?, named(&store)?);
        assert!(!stored.contains(&orphan));
        expected.insert(later);
        assert_eq!(stored, expected);
        Ok(())
    })
}

#[test]
fn a_fenced_owner_deletes_nothing() -> Result<()> {
    for seed in 940..960 {
        simulate(seed, two_owners)?;
    }
    Ok(())
}

fn two_owners(env: &SharedEnv) -> Result<()> {
    let first = open_at(env, DIR)?;
    fill(&first, 0..2)?;
    first.compact(&KeyRange::all())?;
    first.settle();
    copy(env, DIR, "/second")?;
    let second = open_at(env, "/second")?;
    second.settle();
    let before = stored(&second)?;
    // The first one does not know yet, and goes on until it does.
    drop(first.compact(&KeyRange::all()));
    drop(fill(&first, 2..4));
    drop(first.compact(&KeyRange::all()));
    first.settle();
    let refused = put(&first, "key", "value").unwrap_err();
    assert!(matches!(refused, Error::Fenced(_)), "{refused}");
    assert!(stored(&second)?.is_superset(&before));
    assert!(second.check(&mut |_, _| ())?.is_clean());
    assert_eq!(get(&second, "0007")?, Some(value(1)));
    drop(first.close());
    // What the first one stored after it had lost the database is nobody's.
    second.close()?;
    let second = open_at(env, "/second")?;
    second.settle();
    assert_eq!(stored(&second)?, named(&second)?);
    Ok(())
}
