//! Goal: the ledger says what writers were delayed by, to the microsecond, and the pace keeps its
//! bound. Method: virtual time, in which work takes none: a call's time is its delay. Tables and
//! syncs take time by faults that delay them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace_base::KeyRange;
use terrace_env::{Fault, FaultEffect, FaultEnv, FaultPlan, JobClass, Operation, SharedEnv};
use terrace_env::{SimEnv, SimOptions};

use crate::options::{Durability, Options};
use crate::store::tests::{open, put, small, with_faults};
use crate::store::{Store, StoreStats, Update, WriteOptions};
use crate::{Error, Result, WriteBatch};

/// Runs `test` on a machine whose tables are slow to write and whose log is slow to sync.
fn on_a_slow_disk<T: Send>(seed: u64, test: impl FnOnce(&SharedEnv) -> Result<T> + Send) -> T {
    println!("seed {seed}");
    let outcome = SimEnv::run(SimOptions::new(seed), |sim| {
        let delay = |operation, part, micros| {
            Fault::from_nth(operation, 1, FaultEffect::Delay(Duration::from_micros(micros)))
                .on(part)
        };
        let faults = vec![
            delay(Operation::Write, ".table", 1_500),
            delay(Operation::Sync, ".table", 4_000),
            delay(Operation::Sync, ".log", 700),
        ];
        let env: SharedEnv = FaultEnv::new(sim, FaultPlan { faults });
        test(&env)
    });
    outcome.expect("the disk is slow, and works")
}

/// Lets `clients` write `count` values of a KiB each; the sum of the times that their calls took.
fn overload(env: &SharedEnv, store: &Store, clients: usize, count: usize) -> Result<Duration> {
    let nanos = Arc::new(AtomicU64::new(0));
    let value = "v".repeat(1000);
    let threads: Vec<_> = (0..clients)
        .map(|client| {
            let (env_of_client, store) = (Arc::clone(env), store.clone());
            let (nanos, value) = (Arc::clone(&nanos), value.clone());
            let job = Box::new(move || {
                for index in 0..count {
                    let key = format!("{:03}/{client}", index * 37 % 100);
                    let from = env_of_client.now();
                    write(&store, index, &key, &value).expect("the disk works");
                    let took = env_of_client.now() - from;
                    nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
                }
            });
            env.spawn(JobClass::Client, &client.to_string(), job)
        })
        .collect();
    for thread in threads {
        assert!(thread?.join());
    }
    Ok(Duration::from_nanos(nanos.load(Ordering::Relaxed)))
}

/// Most writes are plain, some are conditional.
fn write(store: &Store, index: usize, key: &str, value: &str) -> Result<()> {
    if index % 7 != 3 {
        return put(store, key, value);
    }
    store.update(&[key.as_bytes()], &WriteOptions::default(), |_| {
        let mut batch = WriteBatch::new();
        batch.put(key.as_bytes(), value.as_bytes())?;
        Ok(Update::Write(batch))
    })
}

fn delayed(stats: &StoreStats, cause: &str) -> Duration {
    Duration::from_micros(stats.stalls.causes[cause].delayed_us)
}

#[test]
fn the_ledger_is_the_delay_that_clients_saw() {
    let classes = [Durability::Buffered, Durability::Sync];
    for (seed, durability) in (0..8).zip(classes.into_iter().cycle()) {
        let boundaries = if seed % 4 < 2 { Vec::new() } else { vec![b"050".to_vec()] };
        let options = Options { durability, drange_boundaries: boundaries, ..small() };
        on_a_slow_disk(seed, |env| {
            let store = open(env, &options)?;
            let seen = overload(env, &store, 4, 150)?;
            let stats = store.stats();
            let ledger = Duration::from_micros(stats.stalls.delayed_us);
            println!("seen {seen:?}\n{}", stats.stalls);
            assert!(seen > Duration::from_millis(100), "that is no overload: {seen:?}");
            assert!(ledger.abs_diff(seen) <= Duration::from_micros(1), "{ledger:?} of {seen:?}");
            let gate = delayed(&stats, "memtables") + delayed(&stats, "l0");
            assert!(gate > Duration::from_millis(10), "{}", stats.stalls);
            let synced = delayed(&stats, "sync") > Duration::ZERO;
            assert_eq!(synced, durability == Durability::Sync);
            Ok(())
        });
    }
}

#[test]
fn the_pace_keeps_its_bound_and_keeps_writers_off_the_stop() {
    let delay_max = Duration::from_millis(3);
    let options = Options {
        frozen_memtables_max: 1000,
        l0_rows_slow: 4,
        l0_rows_stop: 40,
        log_bytes_max: 64 << 20,
        level_bytes_base: 1 << 30,
        write_delay_max: delay_max,
        ..small()
    };
    on_a_slow_disk(21, |env| {
        let store = open(env, &options)?;
        overload(env, &store, 2, 2000)?;
        let stats = store.stats();
        println!("{}", stats.stalls);
        let paced = stats.stalls.causes["l0"];
        assert!(paced.count > 100, "a slow L0 is felt");
        assert!(paced.longest_us <= delay_max.as_micros() as u64, "and never for long");
        assert!(stats.l0_row_count < 40, "the stop was never reached");
        Ok(())
    });
}

#[test]
fn a_range_that_keeps_up_asks_for_nothing() {
    on_a_slow_disk(31, |env| {
        let store = open(env, &small())?;
        for index in 0..200 {
            put(&store, &format!("{index:03}"), &"v".repeat(500))?;
            env.sleep(Duration::from_millis(5));
        }
        let stats = store.stats();
        assert_eq!(delayed(&stats, "memtables") + delayed(&stats, "l0"), Duration::ZERO);
        store.settle();
        assert!(!store.inner.gate.is_under_pressure());
        Ok(())
    });
}

#[test]
fn writers_that_wait_for_l0_are_let_in_after_a_compaction_by_hand() -> Result<()> {
    for seed in 0..6 {
        with_faults(seed, |_, faults, env| {
            let store = open(env, &small())?;
            for index in 0..300 {
                put(&store, &format!("{index:04}"), &"o".repeat(200))?;
            }
            store.settle();
            let slow = FaultEffect::Delay(Duration::from_millis(3));
            let slow = Fault::from_nth(Operation::Read, 1, slow).on(".table");
            faults.set_plan(FaultPlan::one(slow));
            let writer = {
                let store = store.clone();
                let job = Box::new(move || {
                    for index in 0..3000 {
                        put(&store, &format!("{index:04}"), &"n".repeat(300)).expect("room");
                    }
                });
                env.spawn(JobClass::Client, "writer", job)?
            };
            store.compact(&KeyRange::all())?;
            assert!(writer.join());
            assert!(env.now() < Duration::from_secs(120), "{:?}", env.now());
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}
