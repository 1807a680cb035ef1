//! Goal: the pools add up to what is there, a full one slows writers down and blocks none for ever,
//! and background work that fails is known by its kind. Method: small ranges on a slow disk.

use std::path::Path;
use std::time::Duration;

use terrace_base::Corruption;
use terrace_env::{Fault, FaultEffect, FaultEnv, FaultErrno, FaultPlan, Operation, SharedEnv};
use terrace_env::{SimEnv, SimOptions};

use crate::Result;
use crate::options::{Options, ProcessOptions};
use crate::process::Process;
use crate::store::health::Work;
use crate::store::tests::{get, open, process, put, simulate, small, with_faults};
use crate::store::{IterOptions, Store};
use crate::{Error, store::StoreStats};

fn pool(stats: &StoreStats, name: &str) -> u64 {
    stats.memory.pools[name].used_bytes
}

#[test]
fn the_pools_add_up_to_what_is_there_and_everything_is_given_back() {
    simulate(1, |env| {
        let process = process(env)?;
        let open = |dir| Store::open(&process, Path::new(dir), small());
        let (first, second) = (open("/one")?, open("/two")?);
        for index in 0..600 {
            put(&first, &format!("{:03}", index % 200), &"v".repeat(300))?;
            put(&second, &format!("{index:03}"), "v")?;
        }
        first.settle();
        for index in 0..200 {
            assert!(get(&first, &format!("{index:03}"))?.is_some());
        }
        let iter = first.iter(IterOptions::default())?;
        let (one, two) = (first.stats(), second.stats());
        assert_eq!(pool(&two, "memtables"), one.memtable_bytes + two.memtable_bytes);
        assert_eq!(pool(&two, "tables"), one.table_memory_bytes + two.table_memory_bytes);
        assert_eq!(pool(&two, "block_cache"), two.cache_bytes);
        assert_eq!(pool(&two, "jobs"), 0, "nothing runs");
        assert!(two.memory.pools["jobs"].peak_bytes > 0);
        assert!(pool(&one, "iterators") > 0, "an iterator stands somewhere");
        let sum: u64 = two.memory.pools.values().map(|pool| pool.used_bytes).sum();
        assert_eq!(two.memory.used_bytes, sum);
        drop((iter, first, second));
        let left = process.memory().stats();
        let cached = left.pools["block_cache"].used_bytes;
        assert_eq!(left.used_bytes, cached, "only the cache outlives its ranges: {left}");
        Ok::<_, Error>(())
    })
    .expect("the disk works");
}

#[test]
fn a_memtable_that_a_reader_holds_still_counts() {
    simulate(2, |env| {
        let store = open(env, &small())?;
        put(&store, "a", &"v".repeat(5000))?;
        let view = store.inner.view.load_full();
        store.flush()?;
        let held = pool(&store.stats(), "memtables");
        assert!(held > 5000, "{held}");
        drop(view);
        assert!(pool(&store.stats(), "memtables") < held);
        Ok::<_, Error>(())
    })
    .expect("the disk works");
}

/// Writes as fast as the gate lets it, on a disk whose tables are slow, with memory for two
/// memtables and no other bound.
#[test]
fn full_memory_holds_writers_up_until_a_flush_makes_room() {
    let options = Options {
        frozen_memtables_max: 1000,
        l0_rows_slow: 1000,
        l0_rows_stop: 1001,
        log_bytes_max: 64 << 20,
        level_bytes_base: 1 << 30,
        ..small()
    };
    let memtable_bytes = options.memtable_bytes as u64;
    let slow = Fault::from_nth(Operation::Write, 1, FaultEffect::Delay(Duration::from_millis(5)));
    SimEnv::run(SimOptions::new(3), |sim| {
        let plan = FaultPlan::one(slow.on(".table"));
        let env: SharedEnv = FaultEnv::new(sim, plan);
        let limit = ProcessOptions {
            memory_bytes: 128 << 10,
            cache_bytes: 64 << 10,
            ..ProcessOptions::default()
        };
        let process = Process::start(env, &limit)?;
        let store = Store::open(&process, Path::new("/db"), options)?;
        for index in 0..400 {
            put(&store, &format!("{index:03}"), &"v".repeat(500))?;
        }
        let stats = store.stats();
        println!("{}{}", stats.stalls, stats.memory);
        let memory = stats.stalls.causes["memory"];
        assert!(memory.count > 0 && stats.stalls.causes["memtables"].count == 0);
        let peak = stats.memory.pools["memtables"].peak_bytes;
        assert!(peak <= 4 * memtable_bytes, "{peak}");
        assert!(get(&store, "399")?.is_some());
        Ok::<_, Error>(())
    })
    .expect("the disk works");
}

#[test]
fn a_flush_that_fails_is_not_forgotten_because_other_work_succeeds() {
    let outcome: Result<()> = with_faults(4, |_, faults, env| {
        let store = open(env, &Options { frozen_memtables_max: 8, ..small() })?;
        let failure = FaultEffect::Error(FaultErrno::Io);
        faults.set_plan(FaultPlan::one(Fault::from_nth(Operation::Write, 1, failure).on(".table")));
        let inner = &store.inner;
        for index in 0..60 {
            put(&store, &format!("{index:03}"), &"v".repeat(1000))?;
        }
        env.sleep(Duration::from_millis(10));
        inner.schedule_log_work();
        env.sleep(Duration::from_millis(10));
        assert!(inner.health.problem(Work::Flush).is_some(), "the flush still fails");
        assert!(inner.health.problem(Work::Log).is_none());
        faults.set_plan(FaultPlan::default());
        env.sleep(Duration::from_secs(1));
        assert!(inner.health.problem(Work::Flush).is_none(), "it was tried again");
        Ok(())
    });
    outcome.expect("writes were accepted all the time");
}

#[test]
fn damage_is_left_alone_for_longer_each_time_until_the_work_succeeds() {
    simulate(5, |env| {
        let store = open(env, &small())?;
        let inner = &store.inner;
        let damage = Error::from(Corruption::new("/db/t.table", 0, "planted".to_string()));
        let rest = || inner.health.rest(Work::Compaction, || env.now());
        let mut before = Duration::ZERO;
        for _ in 0..6 {
            let after = inner.note_problem(Work::Compaction, Some(&damage));
            assert!(after > before && rest() == after, "{before:?} {after:?}");
            before = after;
        }
        env.sleep(before / 2);
        assert_eq!(rest(), before - before / 2);
        assert!(inner.health.rest(Work::Flush, || env.now()).is_zero(), "others go on");
        inner.note_problem(Work::Compaction, None);
        assert!(rest().is_zero());
        Ok::<_, Error>(())
    })
    .expect("the disk works");
}
