//! Goal: a flush does not pay for a sync of the log below it, and the range survives that the log
//! loses it. Method: crashes right after flushes, under many seeds.

use std::sync::Arc;

use terrace_env::{CrashPolicy, DiskImage, SharedEnv, SimEnv, SimOptions};

use crate::Result;
use crate::options::Options;
use crate::store::tests::{get, open, put, small};

const FLUSHED: usize = 100;
const LATER: usize = 30;

fn options() -> Options {
    Options { memtable_bytes: 128 << 10, ..small() }
}

fn key(index: usize) -> String {
    format!("{index:04}")
}

/// What a killed machine may leave, and how often the log was synced: some entries that were
/// flushed, and later ones in the log.
fn run() -> Result<(DiskImage, u64)> {
    SimEnv::run(SimOptions::new(1), |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let store = open(&env, &options())?;
        for index in 0..FLUSHED + LATER {
            if index == FLUSHED {
                store.flush()?;
            }
            put(&store, &key(index), &"x".repeat(200))?;
        }
        let synced = store.stats().log_sync_count;
        let disk = sim.disk().crash(CrashPolicy::ProcessKill, 0);
        Ok((disk, synced))
    })
}

/// How many entries there are when the range is opened on this disk: those before a point.
fn entries_on(disk: DiskImage, seed: u64) -> Result<usize> {
    SimEnv::run(SimOptions { disk, ..SimOptions::new(seed) }, |env| {
        let env: SharedEnv = env;
        let store = open(&env, &options())?;
        let mut found = 0;
        for index in 0..FLUSHED + LATER {
            if get(&store, &key(index))?.is_some() {
                assert_eq!(found, index, "seed {seed}: there is a gap below");
                found += 1;
            }
        }
        put(&store, "new", "value")?;
        store.flush()?;
        Ok(found)
    })
}

#[test]
fn a_flush_of_everything_needs_no_sync_of_the_log() -> Result<()> {
    let (disk, synced) = run()?;
    assert_eq!(synced, 0);
    assert_eq!(entries_on(disk.crash(CrashPolicy::SyncedOnly, 0), 0)?, FLUSHED);
    let mut counts = Vec::new();
    for seed in 0..200 {
        for policy in [CrashPolicy::Sectors, CrashPolicy::Pages] {
            counts.push(entries_on(disk.crash(policy, seed), seed)?);
        }
    }
    assert!(counts.iter().all(|count| *count >= FLUSHED), "{counts:?}");
    assert!(
        counts.iter().any(|count| (FLUSHED + 1..FLUSHED + LATER).contains(count)),
        "a torn log"
    );
    Ok(())
}

#[test]
fn a_log_with_little_in_it_is_synced_and_goes_on() -> Result<()> {
    SimEnv::run(SimOptions::new(2), |env| {
        let env: SharedEnv = env;
        let store = open(&env, &options())?;
        for round in 0..20 {
            put(&store, &key(round), "little")?;
            store.flush()?;
        }
        assert_eq!(store.stats().log_sync_count, 20);
        assert!(store.inner.log()?.held_bytes() <= 2 * options().log_segment_bytes);
        Ok(())
    })
}
