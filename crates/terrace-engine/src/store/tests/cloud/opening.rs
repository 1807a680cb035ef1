//! Goal: an open asks the object store for what the feed holds, whatever number of tables that
//! names. Method: tables that are made up, and a store whose answers take virtual time.

use std::time::Duration;

use terrace_base::{Epoch, FileId, KeyRange, LevelNo, SeqNo, TableUid};
use terrace_env::{ObjectsEnv, ObjectsProfile, SharedEnv};

use super::mirror::mirrored;
use super::{copy, in_store};
use crate::placement::FarName;
use crate::store::tests::*;
use crate::table::TableMeta;
use crate::version::{TreeEdit, VersionEdit};

/// Together more than 100 GB, by their names.
const TABLES: u64 = 10_000;
const TABLE_BYTES: u64 = 11 << 20;
const READ: Duration = Duration::from_millis(15);
const WRITE: Duration = Duration::from_millis(30);

/// A table of one key that lies in the store, or would.
fn made_up(number: u64) -> TableMeta {
    let id = FileId { epoch: Epoch(1), counter: 1_000_000 + number };
    let name = FarName { id, nonce: u128::from(number) << 64 | 7, bytes: TABLE_BYTES };
    let key = format!("{number:08}").into_bytes();
    TableMeta {
        id,
        location: name.location(),
        uid: TableUid(name.nonce),
        bytes: name.bytes,
        bounds: KeyRange::new(key.clone(), Some([key, vec![0]].concat())),
        ..TableMeta::sample(0)
    }
}

fn far_away(sim: &SharedEnv) -> SharedEnv {
    let profile = ObjectsProfile {
        name: "a bucket".into(),
        read_latency: READ,
        write_latency: WRITE,
        bytes_per_s: Some(100_000_000),
        requests_per_s: None,
    };
    ObjectsEnv::new(Arc::clone(sim), profile)
}

#[test]
fn an_open_does_not_wait_for_one_object_of_the_feed_after_the_other() -> Result<()> {
    simulate(92, |sim| {
        let options = in_store(small(), 2);
        let store = open(sim, &options)?;
        store.inner.behind().unwrap().feed_snapshots_seldom();
        for round in 0..25 {
            put(&store, "key", &format!("{round}"))?;
            store.flush()?;
            store.settle();
        }
        let requests = |store: &Store| store.stats().cloud.unwrap().requests;
        // As it would be found after a crash.
        copy(sim, DIR, "/copy")?;
        let env = far_away(sim);
        let began = env.now();
        let copied = Store::open(&process(&env)?, Path::new("/copy"), options)?;
        let (took, asked) = (env.now() - began, requests(&copied));
        let gets = u32::try_from(asked.get.requests).unwrap();
        assert!((25..50).contains(&gets), "of many objects, each is read once: {asked:?}");
        // One after the other, the gets alone would take longer than this, of virtual time.
        let puts = u32::try_from(asked.put.requests).unwrap();
        assert!(took < READ * gets / 2 + WRITE * puts, "{took:?} for {asked:?}");
        copied.close()
    })
}

#[test]
fn the_rows_of_a_lost_machine_are_asked_for_at_once() -> Result<()> {
    simulate(93, |sim| {
        // Nothing is compacted.
        let many = Options { l0_rows_per_cut: 20, l0_rows_slow: 30, l0_rows_stop: 40, ..small() };
        let options = || mirrored(many.clone());
        let owner = open(sim, &options())?;
        for round in 0..6 {
            put(&owner, "key of all rows", &format!("{round}"))?;
            put(&owner, &format!("key of row {round}"), "and of no other")?;
            owner.flush()?;
        }
        owner.close()?;
        let env = far_away(sim);
        let taker = Store::open(&process(&env)?, Path::new("/empty"), options())?;
        let rows = taker.inner.versions.current().l0().rows().len() as u64;
        assert!(rows >= 6, "{rows}");
        let before = taker.stats().cloud.unwrap().requests.get.requests;
        let began = env.now();
        assert_eq!(get(&taker, "key of row 0")?.as_deref(), Some("and of no other"));
        let took = env.now() - began;
        let asked = taker.stats().cloud.unwrap().requests.get.requests - before;
        assert!(asked <= 1 && took <= READ * 2, "{took:?} of virtual time, {asked} gets");
        taker.close()
    })
}

#[test]
fn an_open_asks_for_the_feed_and_for_no_table() -> Result<()> {
    simulate(91, |sim| {
        let options = in_store(small(), 2);
        let store = open(sim, &options)?;
        let tables_added = (0..TABLES).map(|number| (LevelNo(6), made_up(number))).collect();
        let greatest_seqno = Some(SeqNo(1));
        let tree = TreeEdit { tables_added, greatest_seqno, ..TreeEdit::default() };
        store.inner.versions.install(VersionEdit::from(tree), None, |_| ())?;
        store.close()?;
        let env = far_away(sim);
        for _ in 0..2 {
            let began = env.now();
            let store = open(&env, &options)?;
            let (took, cloud) = (env.now() - began, store.stats().cloud.unwrap());
            assert_eq!(cloud.table_count, TABLES);
            assert!(cloud.table_bytes > 100_000_000_000);
            let asked = cloud.requests;
            // Neither grows with the tables; the time is virtual. One list is of the feed, and one
            // of the walk behind the open that looks for orphans.
            assert!(asked.requests() < 30 && asked.list.requests <= 2, "{asked:?}");
            assert!(took < Duration::from_secs(2), "{took:?} for {asked:?}");
            store.close()?;
        }
        Ok(())
    })
}
