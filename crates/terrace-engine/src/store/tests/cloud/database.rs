//! Goal: whoever has only the store lists its databases, makes and removes checkpoints, copies a
//! moment into a directory of its own, and learns who needs an object. Method: an owner with a
//! mirror, and a `CloudDatabase` beside it.

use std::collections::BTreeSet;

use terrace_base::KeyRange;

use super::collect::stored;
use super::mirror::{content, needed, open, pass};
use super::{fill, in_store};
use crate::Error;
use crate::cloud::CheckpointName;
use crate::options::ValueLogOptions;
use crate::store::Follower;
use crate::store::cloud::{CloudDatabase, LiveReason, StoreMoment, databases_in};
use crate::store::tests::*;

const URL: &str = "file:///store";

fn named(name: &str) -> CheckpointName {
    CheckpointName::new(name).expect("a plain name")
}

fn at(name: &str) -> StoreMoment {
    StoreMoment::Checkpoint(named(name))
}

#[test]
fn a_checkpoint_in_the_store_stays_as_it_is_until_it_is_removed() -> Result<()> {
    simulate(301, |env| {
        let owner = open(env)?;
        let process = process(env)?;
        let other = CloudDatabase::open(&process, URL, Some(7))?;
        let missing = other.make_checkpoint(named("monday")).unwrap_err();
        assert!(matches!(missing, Error::Invalid(_)), "{missing}");
        fill(&owner, 0..2)?;
        pass(env, &owner);
        let before = content(&owner)?;
        let database = CloudDatabase::open(&process, URL, None)?;
        assert_eq!(databases_in(&process, URL)?, [database.id()]);
        let made = database.make_checkpoint(named("monday"))?;
        assert_eq!(made.seqno, owner.inner.versions.current().greatest_seqno());
        assert_eq!(database.checkpoints()?, std::slice::from_ref(&made));
        assert!(made.file_count > 1 && made.file_bytes > 1000, "{made:?}");
        let again = database.make_checkpoint(named("monday")).unwrap_err();
        assert!(matches!(again, Error::Invalid(_)), "{again}");
        let held: BTreeSet<_> = needed(&owner);
        for round in 2..5 {
            fill(&owner, round..round + 1)?;
            owner.compact(&KeyRange::all())?;
            pass(env, &owner);
        }
        assert!(held.is_subset(&stored(&owner)?));
        let reader = database.follow(at("monday"), small())?;
        assert_eq!(content(reader.store())?, before);
        drop(reader);
        assert!(database.remove_checkpoint(&named("monday"))?);
        assert!(!database.remove_checkpoint(&named("monday"))?);
        assert_eq!(database.checkpoints()?, []);
        let gone = database.follow(at("monday"), small()).unwrap_err();
        assert!(matches!(gone, Error::Invalid(_)), "{gone}");
        put(&owner, "key", "value")?;
        pass(env, &owner);
        owner.settle();
        assert_eq!(stored(&owner)?, needed(&owner));
        Ok(())
    })
}

#[test]
fn a_clone_is_a_database_of_its_own() -> Result<()> {
    simulate(302, |env| {
        let values = ValueLogOptions { large_bytes: 60, ..ValueLogOptions::default() };
        let options = super::mirror::mirrored(Options { value_log: Some(values), ..small() });
        let owner = Store::open(&process(env)?, Path::new(DIR), options)?;
        fill(&owner, 0..2)?;
        pass(env, &owner);
        let process = process(env)?;
        let database = CloudDatabase::open(&process, URL, None)?;
        database.make_checkpoint(named("monday"))?;
        let monday = content(&owner)?;
        fill(&owner, 2..3)?;
        owner.compact(&KeyRange::all())?;
        pass(env, &owner);
        let newest = content(&owner)?;
        let mut told = Vec::new();
        let clone = Path::new("/clone");
        let report =
            database.clone_to(StoreMoment::Newest, clone, small(), &mut |done, total| {
                told.push((done, total));
                true
            })?;
        assert_eq!(report.linked_count, 0);
        assert_eq!(told.last(), Some(&(report.table_bytes, report.table_bytes)));
        database.clone_to(at("monday"), Path::new("/monday"), small(), &mut |_, _| true)?;
        let ended =
            database.clone_to(at("monday"), Path::new("/ended"), small(), &mut |_, _| false);
        assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
        let full = database.clone_to(at("monday"), clone, small(), &mut |_, _| true).unwrap_err();
        assert!(matches!(full, Error::Invalid(_)), "{full}");
        owner.close()?;
        // They open without any store, and are written to.
        for (dir, expected) in [(clone, &newest), (Path::new("/monday"), &monday)] {
            let cloned = Store::open(&process, dir, small())?;
            assert_eq!(content(&cloned)?, *expected);
            fill(&cloned, 3..4)?;
            cloned.close()?;
        }
        Store::open(&process, Path::new("/ended"), Options { read_only: true, ..small() })
            .unwrap_err();
        Ok(())
    })
}

#[test]
fn each_object_says_who_needs_it() -> Result<()> {
    simulate(303, |env| {
        let owner = open(env)?;
        fill(&owner, 0..2)?;
        pass(env, &owner);
        let process = process(env)?;
        let database = CloudDatabase::open(&process, URL, None)?;
        database.make_checkpoint(named("monday"))?;
        let reader = Follower::open_store(&process, URL, None, StoreMoment::Newest, small())?;
        let first = needed(&owner);
        for object in &first {
            let why = database.why_live(object.as_str())?;
            assert!(why.bytes.is_some());
            assert!(matches!(why.reasons[0], LiveReason::Level(_)), "{why:?}");
            assert!(why.reasons.contains(&LiveReason::Checkpoint(named("monday"))), "{why:?}");
        }
        for round in 2..5 {
            fill(&owner, round..round + 1)?;
            owner.compact(&KeyRange::all())?;
            pass(env, &owner);
        }
        let reasons =
            |object: &str| -> Result<Vec<LiveReason>> { Ok(database.why_live(object)?.reasons) };
        let dropped = first.difference(&needed(&owner)).next().expect("all was compacted").clone();
        let of_checkpoint = LiveReason::Checkpoint(named("monday"));
        let why = reasons(dropped.as_str())?;
        assert!(why.contains(&of_checkpoint), "{why:?}");
        assert!(why.iter().any(|why| matches!(why, LiveReason::Reader { .. })), "{why:?}");
        drop(reader);
        let of_owner = |why: &LiveReason| *why == LiveReason::OfTheOwner;
        let others =
            |why: Vec<LiveReason>| Vec::from_iter(why.into_iter().filter(|why| !of_owner(why)));
        assert_eq!(others(reasons(dropped.as_str())?), [of_checkpoint]);
        database.remove_checkpoint(&named("monday"))?;
        assert_eq!(others(reasons(dropped.as_str())?), []);
        put(&owner, "key", "value")?;
        pass(env, &owner);
        owner.settle();
        let gone = database.why_live(dropped.as_str())?;
        assert_eq!((gone.bytes, others(gone.reasons)), (None, vec![]));
        assert_eq!(reasons("proof")?, [LiveReason::Proof]);
        assert_eq!(reasons("feed/00000000000000000001")?, []);
        let unknown = database.why_live("table/12").unwrap_err();
        assert!(matches!(unknown, Error::Invalid(_)), "{unknown}");
        Ok(())
    })
}

#[test]
fn without_a_mirror_there_is_no_checkpoint_in_the_store() -> Result<()> {
    simulate(304, |env| {
        let owner = Store::open(&process(env)?, Path::new(DIR), in_store(small(), 2))?;
        fill(&owner, 0..2)?;
        owner.settle();
        let process = process(env)?;
        let database = CloudDatabase::open(&process, URL, None)?;
        let refused = database.make_checkpoint(named("monday")).unwrap_err();
        assert!(matches!(refused, Error::Unsupported(_)), "{refused}");
        assert_eq!(database.checkpoints()?, []);
        // What it had pinned is let go of: what is dropped now goes.
        fill(&owner, 2..4)?;
        owner.compact(&KeyRange::all())?;
        owner.settle();
        assert_eq!(stored(&owner)?, super::collect::named(&owner)?);
        Ok(())
    })
}
