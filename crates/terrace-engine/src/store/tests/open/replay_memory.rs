//! Goal: a replay takes no more memory than writers would have been let take, however long the log
//! is and however many threads insert; and a crash while it flushes loses nothing and counts
//! nothing twice. Method: a log is written with large memtables and replayed into small ones; the
//! pool of memtables says what was taken at most; the disk is kept at each of its changes, and
//! opened again.

use std::sync::Mutex;

use terrace_env::{CrashPolicy, DiskImage};

use crate::Error;
use crate::events::{EventKind, OpenStep};
use crate::process::PoolName;
use crate::store::tests::upkeep::events::listened;
use crate::store::tests::workload::{Content, content};
use crate::store::tests::*;

/// Large memtables, of which nothing is flushed.
fn roomy() -> Options {
    Options { memtable_bytes: 4 << 20, log_bytes_max: 16 << 20, ..small() }
}

fn scarce() -> Options {
    Options { log_bytes_max: 16 << 20, ..small() }
}

/// What memtables may take at most while and after a range is opened with these options: those that
/// are kept, the one that is being filled, and the one that is written to.
fn bytes_max(options: &Options) -> u64 {
    ((options.frozen_memtables_max + 2) * options.memtable_bytes) as u64
}

/// A log of many small memtables' worth: values, merges onto them, deletes. The disk, and what is
/// on it.
fn write_log(seed: u64, rounds: u32) -> Result<(DiskImage, Content)> {
    SimEnv::run(SimOptions::new(seed), |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let store = open(&env, &roomy())?;
        for round in 0..rounds {
            for key in 0..60 {
                put(&store, &format!("{round:03}/{key:02}"), &format!("{round}").repeat(100))?;
                merge(&store, &format!("merged/{:02}", key % 7), &format!("{round},{key};"))?;
            }
            delete(&store, &format!("{:03}/17", round / 2))?;
        }
        assert_eq!(store.stats().flush_count, 0, "all of it is in the log");
        let content = content(&store)?;
        // All of it is synced then, and survives a power cut.
        drop(store);
        Ok((sim.disk(), content))
    })
}

#[test]
fn an_open_tells_how_far_it_has_come_with_a_long_log() -> Result<()> {
    let (disk, _) = write_log(499, 40)?;
    let sim = SimOptions { disk, ..SimOptions::new(498) };
    SimEnv::run(sim, |env| {
        let env: SharedEnv = env;
        let (kept, options) = listened(scarce());
        let store = open(&env, &options)?;
        let mut steps = Vec::new();
        for kind in kept.kinds() {
            let EventKind::Opening(progress) = kind else { continue };
            steps.push((progress.step, progress.bytes));
        }
        let of = |step| steps.iter().filter(move |(of, _)| *of == step).map(|(_, bytes)| *bytes);
        let (read, flushed) = (of(OpenStep::ReplayLog).max(), of(OpenStep::FlushLog).max());
        assert!(steps.is_sorted_by_key(|(step, bytes)| (*step == OpenStep::FlushLog, *bytes)));
        // All of the log was read, and what had no room for a second time.
        assert!(read > Some(200_000) && flushed > Some(100_000) && flushed < read, "{steps:?}");
        // An open without a log tells nothing.
        store.close()?;
        drop(store);
        let (kept, options) = listened(scarce());
        let _store = open(&env, &options)?;
        assert!(!kept.kinds().iter().any(|kind| matches!(kind, EventKind::Opening(_))));
        Ok(())
    })
}

#[test]
fn a_replay_of_a_long_log_keeps_to_the_memory_of_memtables() -> Result<()> {
    let (disk, expected) = write_log(500, 40)?;
    for threads in [1, 2, 4] {
        let sim = SimOptions { disk: disk.clone(), ..SimOptions::new(501) };
        SimEnv::run(sim, |env| {
            let env: SharedEnv = env;
            let process = process_with(&env, threads)?;
            let options = scarce();
            let store = Store::open(&process, Path::new(DIR), options.clone())?;
            let pool = process.memory().pool(PoolName::Memtables);
            let (peak, max) = (pool.peak_bytes(), bytes_max(&options));
            assert!(peak <= max, "{threads} threads took {peak} bytes instead of {max}");
            assert!(peak > options.memtable_bytes as u64, "{peak} bytes: nothing was counted");
            assert_eq!(content(&store)?, expected, "{threads} threads");
            assert!(store.stats().flush_count > 4, "it was flushed on the way");
            store.settle();
            assert!(pool.used_bytes() <= max);
            put(&store, "after", "the replay")?;
            store.close()?;
            drop(store);
            let again = open(&env, &options)?;
            assert!(again.recovery().replayed_entries < 2000, "what was flushed is not replayed");
            assert_eq!(get(&again, "after")?.as_deref(), Some("the replay"));
            let mut found = content(&again)?;
            found.retain(|(key, _)| key != b"after");
            assert_eq!(found, expected);
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}

/// The limit of the whole process counts, too, where it is less.
#[test]
fn a_replay_keeps_to_the_limit_of_the_process() -> Result<()> {
    let (disk, expected) = write_log(510, 30)?;
    let sim = SimOptions { disk, ..SimOptions::new(511) };
    SimEnv::run(sim, |env| {
        let env: SharedEnv = env;
        let options = ProcessOptions {
            cache_bytes: 64 << 10,
            memory_bytes: 160 << 10,
            ..ProcessOptions::default()
        };
        let process = Process::start(Arc::clone(&env), &options)?;
        let options = Options { frozen_memtables_max: 50, ..scarce() };
        let store = Store::open(&process, Path::new(DIR), options.clone())?;
        let peak = process.memory().pool(PoolName::Memtables).peak_bytes();
        let max = (96 << 10) + 2 * options.memtable_bytes as u64;
        assert!(peak <= max, "{peak} bytes of {max}");
        assert_eq!(content(&store)?, expected);
        Ok(())
    })
}

#[test]
fn a_crash_while_a_replay_flushes_loses_nothing_and_counts_nothing_twice() -> Result<()> {
    let (disk, expected) = write_log(520, 14)?;
    let moments: Arc<Mutex<Vec<DiskImage>>> = Arc::default();
    let kept = Arc::clone(&moments);
    let sim = SimOptions {
        disk,
        on_io: Some(Box::new(move |point| {
            kept.lock().expect("one thread runs at a time").push(point.disk.clone());
        })),
        ..SimOptions::new(521)
    };
    SimEnv::run(sim, |env| {
        let env: SharedEnv = env;
        drop(open(&env, &scarce())?);
        Ok::<_, Error>(())
    })?;
    let moments = std::mem::take(&mut *moments.lock().expect("the run is over"));
    assert!(moments.len() > 100, "{} moments", moments.len());
    for (index, disk) in moments.into_iter().enumerate().step_by(7) {
        let after = match index % 2 {
            0 => disk,
            _ => disk.crash(CrashPolicy::Sectors, index as u64),
        };
        let sim = SimOptions { disk: after, ..SimOptions::new(1000 + index as u64) };
        let found = SimEnv::run(sim, |env| {
            let env: SharedEnv = env;
            content(&open_by(&env, &scarce(), 1 + index % 3)?)
        });
        let found = found.unwrap_or_else(|error| panic!("moment {index}: {error}"));
        let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
        assert!(found == expected, "moment {index}: {differs:?}");
    }
    Ok(())
}

/// What cannot be flushed stays in memory: a full disk keeps nobody from reading.
#[test]
fn a_replay_on_a_full_disk_opens_all_the_same() -> Result<()> {
    let (disk, expected) = write_log(530, 20)?;
    let sim = SimOptions { disk, ..SimOptions::new(531) };
    SimEnv::run(sim, |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        // Room for a manifest and a segment, and for no table.
        sim.set_capacity(u64::MAX - sim.disk().free_bytes() + (40 << 10));
        let store = open(&env, &scarce())?;
        assert_eq!(content(&store)?, expected);
        sim.set_capacity(u64::MAX);
        store.flush()?;
        store.close()?;
        drop(store);
        assert_eq!(content(&open(&env, &scarce())?)?, expected);
        Ok(())
    })
}
