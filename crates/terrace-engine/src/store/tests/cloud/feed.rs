//! Goal: the feed in the store has what the local manifest has, one owner at a time, and nobody
//! goes on from an older copy. Method: ranges in several directories that share a store, as they
//! are when a directory is copied, or a machine comes back.

use std::time::Duration;

use terrace_base::{FileId, KeyRange};

use super::{copy, in_store, open_at};
use crate::Error;
use crate::cloud::format::Extent;
use crate::cloud::{CloudFeed, CloudNames, FeedTaker};
use crate::store::tests::*;
use crate::table::TableMeta;
use crate::version::format::decode_edit;
use crate::version::{TreeEdit, Version, VersionEdit};

/// The version that the feed in the store comes to, as a snapshot.
fn fed(store: &Store) -> Result<VersionEdit> {
    let inner = &store.inner;
    let cloud = inner.cloud.as_ref().expect("the range has a store");
    let names = CloudNames::new(inner.versions.current().database());
    let state = CloudFeed::read(cloud.store()?, names)?.expect("it was fed");
    let mut version = Version::empty(inner.l0.as_ref());
    for edit in &state.edits {
        let edit = decode_edit(edit).expect("an edit");
        version = version.apply(&edit, &inner.context).expect("it fits");
    }
    Ok(version.to_snapshot())
}

fn write_some(store: &Store, round: u32) -> Result<()> {
    for key in 0..200 {
        put(store, &format!("{key:04}"), &format!("{round:04}").repeat(20))?;
    }
    store.flush()
}

/// A copy names tables that its owner has compacted away since, and deletes: what the compaction
/// wrote has lower ids than the files of a flush that ended before it.
#[test]
fn a_copy_from_before_a_compaction_with_low_ids_is_an_older_one() -> Result<()> {
    simulate(94, |env| {
        let options = || in_store(small(), 1);
        let owner = open(env, &options())?;
        put(&owner, "key", "value")?;
        owner.flush()?;
        owner.compact(&KeyRange::all())?;
        let version = owner.inner.versions.current();
        let (level, table) = version
            .runs()
            .find_map(|(level, run)| Some((level, run.tables().first()?.meta().clone())))
            .expect("it was compacted");
        // A job has its ids before a flush that ends first.
        let rewritten = FileId { counter: table.id.counter - 1, ..table.id };
        put(&owner, "other", "value")?;
        owner.flush()?;
        owner.settle();
        copy(env, DIR, "/copy")?;
        let tree = TreeEdit {
            tables_removed: vec![(level, table.id)],
            tables_added: vec![(level, TableMeta { id: rewritten, ..table.clone() })],
            ..TreeEdit::default()
        };
        owner.inner.versions.install(VersionEdit::from(tree), None, |_| ())?;
        owner.settle();
        assert_eq!(fed(&owner)?, owner.inner.versions.current().to_snapshot());
        let older = Store::open(&process(env)?, Path::new("/copy"), options());
        let is_told =
            matches!(&older, Err(Error::Fenced(text)) if text.contains("is an older copy"));
        assert!(is_told, "{:?}", older.err());
        Ok(())
    })
}

#[test]
fn the_store_has_what_the_manifest_has() -> Result<()> {
    simulate(81, |env| {
        for round in 0..3 {
            let store = open_at(env, DIR)?;
            for step in 0..4 {
                write_some(&store, 10 * round + step)?;
            }
            store.settle();
            assert_eq!(fed(&store)?, store.inner.versions.current().to_snapshot());
            store.close()?;
        }
        Ok(())
    })
}

#[test]
fn many_edits_are_followed_by_a_snapshot() -> Result<()> {
    simulate(82, |env| {
        let store = open_at(env, DIR)?;
        store.inner.behind().expect("it feeds a store").feed_snapshots_seldom();
        for round in 0..150 {
            put(&store, "key", &format!("{round}"))?;
            store.flush()?;
            store.settle();
        }
        assert_eq!(fed(&store)?, store.inner.versions.current().to_snapshot());
        let cloud = store.inner.cloud.as_ref().expect("the range has a store").store()?;
        let names = CloudNames::new(store.inner.versions.current().database());
        let count = cloud.list(&names.feed_prefix())?.len();
        assert!(
            count < 100,
            "{count} objects: what is older than the newest snapshot was collected"
        );
        Ok(())
    })
}

#[test]
fn an_older_copy_is_refused() -> Result<()> {
    let refuse = |env: &SharedEnv, dir: &str| {
        let refused = open_at(env, dir).unwrap_err();
        assert!(
            matches!(&refused, Error::Fenced(text) if text.contains("older copy")),
            "{refused}"
        );
    };
    simulate(83, |env| {
        let store = open_at(env, DIR)?;
        write_some(&store, 1)?;
        store.close()?;
        copy(env, DIR, "/closed")?;
        let store = open_at(env, DIR)?;
        refuse(env, "/closed");
        copy(env, DIR, "/behind")?;
        write_some(&store, 2)?;
        store.close()?;
        // It has the same author as the store, and lacks what that one wrote later.
        refuse(env, "/behind");
        copy(env, DIR, "/newest")?;
        let store = open_at(env, "/newest")?;
        assert_eq!(get(&store, "0000")?, Some("0002".repeat(20)));
        store.close()?;
        refuse(env, DIR);
        open_at(env, "/newest")?.close()
    })
}

#[test]
fn a_copy_from_before_a_compaction_is_refused() -> Result<()> {
    simulate(87, |env| {
        let store = open_at(env, DIR)?;
        write_some(&store, 1)?;
        store.compact(&KeyRange::all())?;
        write_some(&store, 2)?;
        store.settle();
        copy(env, DIR, "/behind")?;
        // Nothing is written, but tables that the copy names go.
        store.compact(&KeyRange::all())?;
        store.settle();
        let refused = open_at(env, "/behind").unwrap_err();
        assert!(
            matches!(&refused, Error::Fenced(text) if text.contains("older copy")),
            "{refused}"
        );
        put(&store, "the owner", "goes on")?;
        store.flush()?;
        store.close()?;
        assert!(get(&open_at(env, DIR)?, "the owner")?.is_some());
        Ok(())
    })
}

#[test]
fn a_fenced_owner_takes_no_more_writes() -> Result<()> {
    simulate(84, |env| {
        let store = open_at(env, DIR)?;
        write_some(&store, 1)?;
        store.settle();
        let cloud = Arc::clone(store.inner.cloud.as_ref().expect("it has one").store()?);
        let version = store.inner.versions.current();
        let names = CloudNames::new(version.database());
        let (mut other, state) =
            CloudFeed::open(&cloud, names, FeedTaker::new(99, version.epoch()), None, |_| Ok(()))
                .expect("it is free");
        other.begin(&state.edits[0], Extent::Some)?;
        put(&store, "between", "is acknowledged")?;
        store.flush()?;
        store.settle();
        let refused = put(&store, "after", "is not").unwrap_err();
        assert!(
            matches!(&refused, Error::Fenced(text) if text.contains("somebody else")),
            "{refused}"
        );
        assert_eq!(get(&store, "between")?.as_deref(), Some("is acknowledged"));
        assert!(matches!(store.close(), Err(Error::Fenced(_))));
        drop(store);
        let refused = open_at(env, DIR).unwrap_err();
        assert!(
            matches!(&refused, Error::Fenced(text) if text.contains("older copy")),
            "{refused}"
        );
        Ok(())
    })
}

/// Goal: an owner that writes nothing learns that somebody else has taken the database, and what
/// that costs is known. Method: an owner is left alone for an hour before and for two minutes after
/// its feed was fenced, and its requests are counted.
#[test]
fn an_idle_owner_notices_its_fence() -> Result<()> {
    simulate(87, |env| {
        let store = open_at(env, DIR)?;
        write_some(&store, 1)?;
        store.settle();
        let cloud = Arc::clone(store.inner.cloud.as_ref().expect("it has one").store()?);
        let before = cloud.counts().requests();
        env.sleep(Duration::from_secs(3600));
        let asked = cloud.counts().requests() - before;
        assert!((58..=60).contains(&asked), "{asked} requests in an hour");
        let version = store.inner.versions.current();
        let names = CloudNames::new(version.database());
        let taker = FeedTaker::new(99, version.epoch());
        CloudFeed::open(&cloud, names, taker, None, |_| Ok(())).expect("it is free");
        put(&store, "soon", "is acknowledged")?;
        env.sleep(Duration::from_secs(120));
        let refused = put(&store, "later", "is not").unwrap_err();
        assert!(
            matches!(&refused, Error::Fenced(text) if text.contains("somebody else")),
            "{refused}"
        );
        assert_eq!(get(&store, "soon")?.as_deref(), Some("is acknowledged"));
        let before = cloud.counts().requests();
        env.sleep(Duration::from_secs(600));
        assert_eq!(cloud.counts().requests(), before, "who is fenced looks no more");
        assert!(matches!(store.close(), Err(Error::Fenced(_))));
        Ok(())
    })
}

#[test]
fn another_store_is_refused() -> Result<()> {
    simulate(85, |env| {
        for _ in 0..2 {
            let store = open_at(env, DIR)?;
            write_some(&store, 1)?;
            store.close()?;
        }
        let mut options = in_store(small(), 2);
        if let Some(cloud) = &mut options.cloud {
            cloud.url = "file:///elsewhere".to_string();
        }
        let refused = open(env, &options).unwrap_err();
        assert!(refused.to_string().contains("check the URL"), "{refused}");
        open_at(env, DIR)?.close()
    })
}

#[test]
fn a_range_gets_a_store_later() -> Result<()> {
    simulate(86, |env| {
        let store = open(env, &small())?;
        write_some(&store, 1)?;
        store.close()?;
        for _ in 0..2 {
            let store = open_at(env, DIR)?;
            store.settle();
            assert_eq!(fed(&store)?, store.inner.versions.current().to_snapshot());
            assert!(get(&store, "0000")?.is_some());
            store.close()?;
        }
        Ok(())
    })
}
