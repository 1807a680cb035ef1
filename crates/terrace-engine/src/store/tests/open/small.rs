//! Goal: a database that is hardly used takes hardly any space and memory, whatever its options
//! allow, and loses nothing for it. Method: ranges with the log of a large machine, written to a
//! little, left alone, closed, opened again, and crashed.

use std::sync::Arc;
use std::time::Duration;

use terrace_env::{CrashPolicy, SharedEnv, SimEnv, SimOptions};

use crate::Result;
use crate::options::Options;
use crate::store::tests::support::{
    after_crash, files_with, get, killed, lazy, open, put, put_synced, simulate,
};

const KIB: u64 = 1 << 10;

/// A log whose segments may become large.
fn large() -> Options {
    Options {
        memtable_bytes: 16 << 20,
        log_segment_bytes: 4 << 20,
        log_bytes_max: 64 << 20,
        ..lazy()
    }
}

fn log_bytes(env: &SharedEnv) -> u64 {
    files_with(env, ".log").iter().map(|(_, bytes)| bytes).sum()
}

fn key(index: usize) -> String {
    format!("{index:05}")
}

#[test]
fn a_dozen_keys_put_one_open_each_take_a_few_kilobytes() -> Result<()> {
    simulate(1, |env| {
        for index in 0..12 {
            let store = open(env, &large())?;
            put(&store, &key(index), "value")?;
            assert!(log_bytes(env) <= 64 * KIB + 8 * KIB, "while it is open");
            store.close()?;
            assert!(log_bytes(env) <= 8 * KIB, "{:?}", files_with(env, ".log"));
        }
        let store = open(env, &large())?;
        for index in 0..12 {
            assert_eq!(get(&store, &key(index))?.as_deref(), Some("value"));
        }
        Ok(())
    })
}

#[test]
fn hundreds_of_opens_leave_few_files() -> Result<()> {
    simulate(2, |env| {
        for index in 0..200 {
            let store = open(env, &large())?;
            put(&store, &key(index), "value")?;
        }
        assert!(files_with(env, ".log").len() <= 12, "{:?}", files_with(env, ".log"));
        let store = open(env, &large())?;
        for index in 0..200 {
            assert_eq!(get(&store, &key(index))?.as_deref(), Some("value"), "{index}");
        }
        Ok(())
    })
}

#[test]
fn what_is_kept_for_writes_is_given_back_when_none_come() -> Result<()> {
    simulate(3, |env| {
        let store = open(env, &large())?;
        let value = "x".repeat(1000);
        let mut index = 0;
        for round in 0..3 {
            for _ in 0..3000 {
                put(&store, &key(index), &value)?;
                index += 1;
            }
            assert!(log_bytes(env) > store.inner.log()?.live_bytes() + 512 * KIB, "round {round}");
            env.sleep(Duration::from_secs(40));
            let (held, live) = (log_bytes(env), store.inner.log()?.live_bytes());
            assert!(held <= live + 80 * KIB, "round {round}: {held} bytes for {live}");
        }
        store.close()?;
        drop(store);
        let store = open(env, &large())?;
        for index in 0..index {
            assert!(get(&store, &key(index))?.is_some(), "{index}");
        }
        Ok(())
    })
}

#[test]
fn a_log_that_was_cut_short_while_idle_survives_any_crash() -> Result<()> {
    let (disks, count) = SimEnv::run(SimOptions::new(4), |sim| -> Result<_> {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let store = open(&env, &large())?;
        let value = "x".repeat(1000);
        for index in 0..1000 {
            put(&store, &key(index), &value)?;
        }
        put_synced(&store, &key(1000), &value)?;
        let mut disks = vec![sim.disk()];
        env.sleep(Duration::from_secs(40));
        disks.push(sim.disk());
        put_synced(&store, &key(1001), &value)?;
        disks.push(sim.disk());
        Ok((disks, 1001))
    })?;
    for disk in disks {
        for seed in 0..20 {
            for policy in CrashPolicy::ALL {
                after_crash(disk.crash(policy, seed), |env| -> Result<()> {
                    let store = open(env, &large())?;
                    for index in 0..count {
                        let found = get(&store, &key(index))?;
                        assert!(found.is_some(), "{policy:?}, seed {seed}: {index}");
                    }
                    Ok(())
                })?;
            }
        }
    }
    Ok(())
}

#[test]
fn segments_grow_while_much_is_written() -> Result<()> {
    simulate(5, |env| {
        let store = open(env, &large())?;
        let value = "x".repeat(10_000);
        for index in 0..2000 {
            put(&store, &key(index), &value)?;
        }
        store.settle();
        let largest = files_with(env, ".log").into_iter().map(|(_, bytes)| bytes).max();
        assert_eq!(largest, Some(large().log_segment_bytes));
        Ok(())
    })
}

#[test]
fn a_killed_process_leaves_no_more_than_it_wrote() -> Result<()> {
    let disk = killed(6, |env| {
        let store = open(env, &large())?;
        put(&store, "a", "1")?;
        Ok(store)
    });
    after_crash(disk, |env| {
        assert!(log_bytes(env) <= 64 * KIB);
        let store = open(env, &large())?;
        assert_eq!(get(&store, "a")?.as_deref(), Some("1"));
        store.close()?;
        // The segment that the manifest names stays until the next flush.
        assert!(log_bytes(env) <= 72 * KIB, "{:?}", files_with(env, ".log"));
        Ok(())
    })
}
