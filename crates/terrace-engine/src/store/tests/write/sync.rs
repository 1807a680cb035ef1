//! Goal: what a caller has synced by hand survives a power cut. Method: machines that lose all that
//! was not synced.

use std::sync::Arc;

use terrace_env::{CrashPolicy, SharedEnv, SimEnv, SimOptions};

use crate::options::Durability;
use crate::store::tests::support::{after_crash, get, open, put, small};
use crate::store::{Store, WriteOptions};
use crate::{Error, Result, WriteBatch};

fn empty_batch(store: &Store, wait: bool) -> Result<()> {
    let durability = Some(Durability::Sync);
    store.write(&WriteBatch::new(), &WriteOptions { durability, wait })
}

/// What a power cut leaves of two puts, the first of which was followed by `sync`.
fn survives(sync: fn(&Store) -> Result<()>) -> Result<[bool; 2]> {
    let disk = SimEnv::run(SimOptions::new(1), |sim| -> Result<_> {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let store = open(&env, &small())?;
        put(&store, "first", "1")?;
        sync(&store)?;
        put(&store, "second", "2")?;
        Ok(sim.disk().crash(CrashPolicy::SyncedOnly, 0))
    })?;
    after_crash(disk, |env| {
        let store = open(env, &small())?;
        Ok([get(&store, "first")?.is_some(), get(&store, "second")?.is_some()])
    })
}

#[test]
fn a_sync_makes_durable_what_was_acknowledged_before_it() -> Result<()> {
    assert_eq!(survives(Store::sync)?, [true, false]);
    assert_eq!(survives(|store| empty_batch(store, true))?, [true, false]);
    assert_eq!(survives(|_| Ok(()))?, [false, false], "without one");
    Ok(())
}

#[test]
fn an_empty_batch_that_must_not_wait_is_refused_if_it_would() -> Result<()> {
    SimEnv::run(SimOptions::new(2), |env| {
        let env: SharedEnv = env;
        let store = open(&env, &small())?;
        assert!(empty_batch(&store, false).is_ok(), "nothing was written");
        put(&store, "a", "1")?;
        assert!(matches!(empty_batch(&store, false), Err(Error::WouldBlock)));
        store.sync()?;
        assert!(empty_batch(&store, false).is_ok());
        store.close()?;
        assert!(matches!(store.sync(), Err(Error::Closed)));
        Ok(())
    })
}
