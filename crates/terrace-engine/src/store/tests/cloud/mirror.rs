//! Goal: whoever has only the store finds the range there as it was at one moment, and goes on
//! finding it for as long as it looks; what nobody looks at goes. Method: an owner with a mirror
//! and readers of the store beside it, who compare, and a look at all names of tables in the store.

use std::collections::BTreeSet;
use std::time::Duration;

use terrace_base::KeyRange;

use super::collect::{named, stored};
use super::{copy, fill, in_store, value};
use crate::cloud::format::Extent;
use crate::cloud::{CloudFeed, CloudNames};
use crate::options::{CloudOptions, ValueLogOptions};
use crate::placement::FarName;
use crate::store::cloud::StoreMoment;
use crate::store::tests::*;
use crate::store::{Follower, IterOptions, WriteOptions};
use crate::{Error, WriteBatch};

const PERIOD: Duration = Duration::from_secs(5);

pub fn mirrored(options: Options) -> Options {
    let options = in_store(options, 2);
    let cloud = options.cloud.map(|cloud| CloudOptions { mirror: Some(PERIOD), ..cloud });
    Options { cloud, ..options }
}

pub fn open(env: &SharedEnv) -> Result<Store> {
    Store::open(&process(env)?, Path::new(DIR), mirrored(small()))
}

fn reader(env: &SharedEnv) -> Result<Follower> {
    Follower::open_store(&process(env)?, "file:///store", None, StoreMoment::Newest, small())
}

/// Lets the owner feed its next moment.
pub fn pass(env: &SharedEnv, owner: &Store) {
    env.sleep(2 * PERIOD);
    owner.settle();
}

/// All that is in a range.
pub fn content(store: &Store) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut iter = store.iter(IterOptions::default())?;
    let mut all = Vec::new();
    iter.seek_to_first()?;
    while let Some(entry) = iter.entry() {
        all.push((entry.key.to_vec(), entry.value.to_vec()));
        iter.next()?;
    }
    Ok(all)
}

/// The objects of tables that the owner's newest version needs.
pub fn needed(store: &Store) -> BTreeSet<terrace_env::ObjectName> {
    let version = store.inner.versions.current();
    let names = CloudNames::new(version.database());
    let tables = version.tables().map(|table| {
        let meta = table.meta();
        let mirrored = FarName { id: meta.id, nonce: meta.uid.0, bytes: meta.bytes };
        FarName::of(&meta.location).unwrap_or(mirrored)
    });
    let values = version.values().iter().map(|file| {
        let meta = file.meta();
        FarName { id: meta.id, nonce: meta.uid.0, bytes: meta.bytes }
    });
    tables.chain(values).map(|name| names.of(&name.object())).collect()
}

#[test]
fn a_reader_of_the_store_follows_its_owner() -> Result<()> {
    simulate(201, |env| {
        let owner = open(env)?;
        fill(&owner, 0..1)?;
        pass(env, &owner);
        let mut reader = reader(env)?;
        assert_eq!(content(reader.store())?, content(&owner)?);
        assert!(!reader.catch_up()?);
        for round in 1..6 {
            fill(&owner, round..round + 1)?;
            put(&owner, "round", &round.to_string())?;
            pass(env, &owner);
            assert!(reader.catch_up()?);
            assert_eq!(content(reader.store())?, content(&owner)?, "{round}");
        }
        assert!(needed(&owner).is_subset(&stored(&owner)?));
        drop(reader);
        owner.compact(&KeyRange::all())?;
        fill(&owner, 6..7)?;
        pass(env, &owner);
        owner.settle();
        assert_eq!(stored(&owner)?, needed(&owner));
        Ok(())
    })
}

#[test]
fn what_a_reader_shows_stays_until_it_has_gone_on() -> Result<()> {
    simulate(202, |env| {
        let owner = open(env)?;
        fill(&owner, 0..2)?;
        pass(env, &owner);
        let mut reader = reader(env)?;
        let before = content(reader.store())?;
        let mut iter = reader.store().iter(IterOptions::default())?;
        for round in 2..5 {
            fill(&owner, round..round + 1)?;
            owner.compact(&KeyRange::all())?;
            pass(env, &owner);
        }
        assert!(stored(&owner)?.len() > needed(&owner).len());
        assert_eq!(content(reader.store())?, before);
        assert!(reader.catch_up()?);
        assert_eq!(get(reader.store(), "0007")?, Some(value(4)));
        // The iterator still stands on the moment before.
        fill(&owner, 5..6)?;
        owner.compact(&KeyRange::all())?;
        pass(env, &owner);
        iter.seek_to_first()?;
        assert_eq!(iter.entry().expect("an entry").value, value(1).as_bytes());
        drop(iter);
        reader.catch_up()?;
        fill(&owner, 6..7)?;
        owner.compact(&KeyRange::all())?;
        pass(env, &owner);
        reader.catch_up()?;
        // Nothing is held any more that was dropped up to where the reader is.
        put(&owner, "key", "value")?;
        pass(env, &owner);
        let (there, needed) = (stored(&owner)?, needed(&owner));
        assert!(needed.is_subset(&there) && there.len() <= needed.len() + 2, "{there:?}");
        Ok(())
    })
}

#[test]
fn a_reader_that_never_catches_up_holds_the_store_for_a_while() -> Result<()> {
    simulate(203, |env| {
        let owner = open(env)?;
        fill(&owner, 0..2)?;
        pass(env, &owner);
        let mut reader = reader(env)?;
        for round in 2..5 {
            fill(&owner, round..round + 1)?;
            owner.compact(&KeyRange::all())?;
            pass(env, &owner);
        }
        assert!(stored(&owner)?.len() > needed(&owner).len());
        env.sleep(2 * crate::cloud::PIN_STILL_MAX);
        for round in 5..8 {
            fill(&owner, round..round + 1)?;
            owner.compact(&KeyRange::all())?;
            pass(env, &owner);
        }
        assert_eq!(stored(&owner)?, needed(&owner));
        let lost = content(reader.store()).unwrap_err();
        assert!(matches!(lost, Error::Outdated(_)), "{lost}");
        assert!(reader.catch_up()?);
        assert_eq!(content(reader.store())?, content(&owner)?);
        Ok(())
    })
}

#[test]
fn a_moment_has_batches_as_a_whole_and_nothing_without_what_was_before() -> Result<()> {
    simulate(204, |env| {
        let boundaries = vec![b"h".to_vec(), b"p".to_vec()];
        let options = Options { drange_boundaries: boundaries, ..mirrored(small()) };
        let owner = Store::open(&process(env)?, Path::new(DIR), options)?;
        put(&owner, "x", "begun")?;
        pass(env, &owner);
        let mut reader = reader(env)?;
        for round in 0..400_u32 {
            // The first drange is full often, and the last one never is.
            let number = format!("{round:06}");
            let mut batch = WriteBatch::new();
            batch.put(b"a", number.repeat(100).as_bytes())?;
            batch.put(b"z", number.as_bytes())?;
            owner.write(&batch, &WriteOptions::default())?;
            if round % 40 == 39 {
                env.sleep(PERIOD / 2);
                reader.catch_up()?;
                let (first, last) = (get(reader.store(), "a")?, get(reader.store(), "z")?);
                assert_eq!(first.map(|first| first[..6].to_string()), last);
            }
        }
        pass(env, &owner);
        assert!(reader.catch_up()?);
        assert_eq!(get(reader.store(), "z")?, Some("000399".to_string()));
        Ok(())
    })
}

#[test]
fn values_in_files_are_in_the_store_as_well() -> Result<()> {
    simulate(205, |env| {
        let values = ValueLogOptions { large_bytes: 60, ..ValueLogOptions::default() };
        let options = mirrored(Options { value_log: Some(values), ..small() });
        let owner = Store::open(&process(env)?, Path::new(DIR), options)?;
        for round in 0..3 {
            fill(&owner, round..round + 1)?;
            pass(env, &owner);
        }
        assert!(!owner.inner.versions.current().values().is_empty());
        let reader = reader(env)?;
        assert_eq!(content(reader.store())?, content(&owner)?);
        drop(reader);
        for round in 3..6 {
            fill(&owner, round..round + 1)?;
            owner.compact(&KeyRange::all())?;
            pass(env, &owner);
        }
        assert_eq!(stored(&owner)?, needed(&owner));
        Ok(())
    })
}

#[test]
fn an_open_goes_on_with_what_the_one_before_has_stored() -> Result<()> {
    simulate(206, |env| {
        let mut puts = Vec::new();
        for round in 0..3 {
            let owner = open(env)?;
            pass(env, &owner);
            puts.push(owner.stats().cloud.expect("it has a store").requests);
            assert_eq!(stored(&owner)?, needed(&owner));
            assert_eq!(content(reader(env)?.store())?, content(&owner)?);
            fill(&owner, round..round + 1)?;
            owner.close()?;
        }
        let names = {
            let owner = open(env)?;
            CloudNames::new(owner.inner.versions.current().database())
        };
        let process = process(env)?;
        let objects = process.env().objects().open("file:///store")?;
        let store = Arc::new(crate::cloud::CloudStore::new(process.env(), objects));
        let state = CloudFeed::read(&store, names)?.expect("it was fed");
        assert_eq!(state.mark.extent(), Extent::Closed);
        Ok(())
    })
}

#[test]
fn without_a_mirror_a_reader_is_told_what_is_missing() -> Result<()> {
    simulate(207, |env| {
        let owner = Store::open(&process(env)?, Path::new(DIR), in_store(small(), 2))?;
        fill(&owner, 0..2)?;
        owner.settle();
        let refused = reader(env).unwrap_err();
        assert!(matches!(refused, Error::Unsupported(_)), "{refused}");
        assert!(refused.to_string().contains("cloud-mirror"), "{refused}");
        owner.close()?;
        // With one it goes, and without one again it does not, and what was mirrored is deleted.
        let owner = open(env)?;
        pass(env, &owner);
        assert_eq!(content(reader(env)?.store())?, content(&owner)?);
        owner.close()?;
        let owner = Store::open(&process(env)?, Path::new(DIR), in_store(small(), 2))?;
        owner.settle();
        reader(env).unwrap_err();
        assert_eq!(stored(&owner)?, named(&owner)?);
        Ok(())
    })
}

#[test]
fn a_reader_goes_on_behind_a_new_owner() -> Result<()> {
    for seed in 2080..2090 {
        simulate(seed, |env| -> Result<()> {
            let first = open(env)?;
            fill(&first, 0..2)?;
            pass(env, &first);
            let mut reader = reader(env)?;
            copy(env, DIR, "/second")?;
            let second = Store::open(&process(env)?, Path::new("/second"), mirrored(small()))?;
            fill(&second, 2..3)?;
            drop(fill(&first, 3..4));
            pass(env, &second);
            drop(first.flush());
            first.settle();
            reader.catch_up()?;
            assert_eq!(content(reader.store())?, content(&second)?);
            drop(first.close());
            Ok(())
        })?;
    }
    Ok(())
}
