//! Large values that stay where the log has them.

use std::path::Path;
use std::sync::Arc;

use terrace_base::KeyRange;
use terrace_env::{
    CrashPolicy, Fault, FaultEffect, FaultErrno, FaultPlan, JobClass, Operation, SimEnv, SimOptions,
};

use crate::check::{CheckDepth, check_dir};
use crate::options::ValueLogOptions;
use crate::store::tests::*;
use crate::store::{GetOptions, Snapshot, ValueLogStats};
use crate::vlog::ValueHome;

const KEYS: usize = 150;

fn separating() -> Options {
    let value_log = ValueLogOptions { large_bytes: 100, ..ValueLogOptions::default() };
    Options { value_log: Some(value_log), ..small() }
}

fn key(index: usize) -> String {
    format!("key {index:04}")
}

fn value(index: usize, round: usize) -> String {
    format!("{index}.{round}.{}", "x".repeat(400))
}

fn write_round(store: &Store, round: usize) -> Result<()> {
    (0..KEYS).try_for_each(|index| put(store, &key(index), &value(index, round)))
}

fn assert_round(store: &Store, round: usize) -> Result<()> {
    for index in 0..KEYS {
        assert_eq!(get(store, &key(index))?, Some(value(index, round)), "{index}");
    }
    Ok(())
}

/// What a snapshot sees is this round.
fn assert_snapshot(snapshot: &Snapshot, round: usize) -> Result<()> {
    for index in 0..KEYS {
        let item = snapshot.get(key(index).as_bytes(), &GetOptions::default())?;
        let found = item.map(|item| String::from_utf8(item.value).expect("text"));
        assert_eq!(found, Some(value(index, round)), "{index}");
    }
    Ok(())
}

/// The directory has the value files of the version and no other.
fn assert_no_file_is_left(env: &SharedEnv, store: &Store) {
    assert_eq!(files_with(env, ".values").len() as u64, values(store).file_count);
}

fn values(store: &Store) -> ValueLogStats {
    store.stats().value_log
}

fn segment_count(store: &Store) -> usize {
    let version = store.inner.versions.current();
    version.values().iter().filter(|file| file.meta().home == ValueHome::Log).count()
}

/// Goal: nothing is written twice but what the last segment has, and the files of the log that
/// values lie in are never used for another segment. Method: rounds of overwrites under a snapshot
/// of the first one, with many segments coming and going.
#[test]
fn values_stay_in_the_log_and_their_files_are_not_used_again() -> Result<()> {
    simulate(51, |env| {
        let store = open(env, &separating())?;
        write_round(&store, 0)?;
        store.flush()?;
        let of_round = (KEYS * 400) as u64;
        assert!(values(&store).written_bytes < of_round / 5, "{}", values(&store));
        assert!(segment_count(&store) >= 3, "{}", values(&store));
        let snapshot = store.snapshot();
        for round in 1..8 {
            write_round(&store, round)?;
            store.flush()?;
        }
        store.settle();
        let log_files = files_with(env, ".log").len();
        assert!(log_files <= 6, "the log gives its names of them back: {log_files}");
        assert_snapshot(&snapshot, 0)?;
        drop(snapshot);
        assert_round(&store, 7)?;
        // What only the snapshot saw goes when it is met by what came after.
        write_round(&store, 8)?;
        store.compact(&KeyRange::all())?;
        store.settle();
        assert_round(&store, 8)?;
        let live = values(&store);
        assert!(live.bytes < 2 * of_round, "{live}");
        assert_no_file_is_left(env, &store);
        store.close()
    })
}

/// Goal: an open knows which of the log's files are value files, also of those that the log needs
/// no more and of those that it still replays. Method: a process is killed at any moment of some
/// flushes; the next one writes a lot.
#[test]
fn an_open_never_uses_a_retired_segment_again() -> Result<()> {
    for seed in 0..12 {
        println!("seed {seed}");
        let image = killed(seed, |env| {
            let store = open(env, &separating())?;
            for round in 0..=seed as usize / 3 {
                write_round(&store, round)?;
                if seed % 2 == 0 {
                    store.flush()?;
                }
            }
            Ok(store)
        });
        after_crash(image, |env| -> Result<()> {
            let store = open(env, &separating())?;
            assert_round(&store, seed as usize / 3)?;
            let snapshot = store.snapshot();
            for round in 10..14 {
                write_round(&store, round)?;
            }
            store.flush()?;
            assert_snapshot(&snapshot, seed as usize / 3)?;
            drop(snapshot);
            store.close()?;
            let store = open(env, &separating())?;
            assert_round(&store, 13)?;
            store.compact(&KeyRange::all())?;
            store.settle();
            assert_round(&store, 13)?;
            assert_no_file_is_left(env, &store);
            store.close()
        })?;
    }
    Ok(())
}

#[test]
fn what_is_mostly_small_is_copied_out() -> Result<()> {
    simulate(52, |env| {
        let store = open(env, &separating())?;
        for index in 0..900 {
            let text = if index % 20 == 0 { value(index, 0) } else { "y".repeat(60) };
            put(&store, &key(index), &text)?;
        }
        store.flush()?;
        assert_eq!(segment_count(&store), 0, "{}", values(&store));
        assert!(values(&store).written_bytes > 45 * 400, "{}", values(&store));
        assert_eq!(get(&store, &key(40))?, Some(value(40, 0)));
        store.close()
    })
}

#[test]
fn a_batch_over_many_keys_and_kinds_is_found_again() -> Result<()> {
    simulate(53, |env| {
        let options = Options { dranges: 4, ..separating() };
        let store = open(env, &options)?;
        for round in 0..6 {
            for first in (0..KEYS).step_by(10) {
                let mut batch = WriteBatch::new();
                for index in first..first + 10 {
                    batch.put(key(index).as_bytes(), value(index, round).as_bytes())?;
                    batch.put(format!("small {index}").as_bytes(), b"little")?;
                }
                batch.delete_range(b"zzz", b"zzzz")?;
                batch.delete(format!("small {first}").as_bytes())?;
                store.write(&batch, &WriteOptions::default())?;
            }
            store.flush()?;
            assert_round(&store, round)?;
        }
        assert!(segment_count(&store) > 0);
        store.compact(&KeyRange::all())?;
        store.settle();
        assert_round(&store, 5)?;
        assert_eq!(get(&store, "small 10")?, None);
        assert_eq!(get(&store, "small 11")?, Some("little".to_string()));
        store.close()
    })
}

/// A second name that cannot be given fails the flush, which is tried again; what it has given is
/// taken back.
#[test]
fn a_name_that_cannot_be_given_fails_the_flush_and_nothing_else() -> Result<()> {
    with_faults(54, |_, faults, env| {
        // No flush begins by itself.
        let (memtable_bytes, log_bytes_max) = (1 << 20, 1 << 20);
        let store = open(env, &Options { memtable_bytes, log_bytes_max, ..separating() })?;
        write_round(&store, 0)?;
        let fault = Fault::from_nth(Operation::Link, 2, FaultEffect::Error(FaultErrno::NoSpace));
        faults.set_plan(FaultPlan::one(fault.on(".values")));
        assert!(store.flush().is_err());
        assert!(!faults.injected().is_empty(), "one name was given before");
        assert_eq!(files_with(env, ".values"), []);
        faults.set_plan(FaultPlan::default());
        store.flush()?;
        assert!(segment_count(&store) >= 2);
        store.settle();
        assert_round(&store, 0)?;
        assert_no_file_is_left(env, &store);
        store.close()
    })
}

/// Goal: what is a value file is whole and durable when an edit names it, also the records in it
/// that are none of the flush's. Method: many write at once; the power fails after one of ten
/// flushes; the database that is left passes a check of every byte.
#[test]
fn a_segment_that_became_a_value_file_is_whole_after_a_power_cut() -> Result<()> {
    for seed in 0..20 {
        println!("seed {seed}");
        let disks = SimEnv::run(SimOptions::new(seed), |sim| {
            let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
            let options = Options { dranges: 4, memtable_bytes: 24 << 10, ..separating() };
            let store = Arc::new(open(&env, &options).expect("the disk is empty"));
            let writers: Vec<_> = (0..4)
                .map(|writer| {
                    let store = Arc::clone(&store);
                    let write = move || {
                        for index in 0..KEYS {
                            let key = format!("{} {index}", (b'a' + 6 * writer as u8) as char);
                            put(&store, &key, &value(index, writer)).expect("nothing fails");
                        }
                    };
                    env.spawn(JobClass::Client, "writer", Box::new(write)).expect("simulated")
                })
                .collect();
            let moment = |_| {
                store.flush().expect("nothing fails");
                sim.disk().crash(CrashPolicy::SyncedOnly, seed)
            };
            let disks: Vec<_> = (0..10).map(moment).collect();
            writers.into_iter().for_each(|writer| assert!(writer.join()));
            disks
        });
        for disk in disks {
            after_crash(disk, |env| {
                let report = check_dir(env, Path::new(DIR), CheckDepth::Full, &mut |_, _| {})?;
                assert!(report.is_clean(), "{report}");
                Ok::<_, crate::Error>(())
            })?;
        }
    }
    Ok(())
}

#[test]
fn a_checkpoint_of_values_in_the_log_goes_its_own_way() -> Result<()> {
    simulate(55, |env| {
        let store = open(env, &separating())?;
        write_round(&store, 0)?;
        let to = Path::new("/checkpoint");
        store.checkpoint(to, &mut |_, _| true)?;
        assert!(segment_count(&store) > 0);
        let files = env.fs().list(to)?;
        for round in 1..5 {
            write_round(&store, round)?;
        }
        store.flush()?;
        assert_eq!(env.fs().list(to)?, files, "what is shared stays as it is");
        store.compact(&KeyRange::all())?;
        store.settle();
        let copy = Store::open(&process(env)?, to, separating())?;
        assert_round(&copy, 0)?;
        write_round(&copy, 9)?;
        copy.compact(&KeyRange::all())?;
        assert_round(&copy, 9)?;
        copy.close()?;
        assert_round(&store, 4)?;
        store.close()
    })
}
