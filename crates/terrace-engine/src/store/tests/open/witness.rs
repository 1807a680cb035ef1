//! What the log, the manifest and the names in the directory say of each other: damage that one of
//! them cannot notice by itself contradicts another.
//!
//! Each test tells what happened, who would have lost what, and what is said now.

use std::path::{Path, PathBuf};

use terrace_base::KeyRange;
use terrace_env::{CrashPolicy, DiskImage, SharedEnv, SimEnv, SimOptions};

use crate::options::{Durability, Options};
use crate::store::Store;
use crate::store::tests::{get, killed, killed_on, open, put, small};
use crate::{Error, Result};

fn synced() -> Options {
    Options { durability: Durability::Sync, ..small() }
}

/// Opens the range on this disk and does something with it.
fn on_disk<T: Send>(
    disk: DiskImage,
    options: &Options,
    work: impl FnOnce(&Store) -> Result<T> + Send,
) -> Result<T> {
    SimEnv::run(SimOptions { disk, ..SimOptions::new(2) }, |env| {
        let env: SharedEnv = env;
        work(&open(&env, options)?)
    })
}

fn files(disk: &DiskImage, suffix: &str) -> Vec<(PathBuf, u64)> {
    let all = disk.files().into_iter();
    all.filter(|(path, _)| path.to_string_lossy().ends_with(suffix)).collect()
}

fn flip(disk: &mut DiskImage, path: &Path, offset: u64) {
    let byte = disk.read(path).expect("the file is there")[offset as usize];
    disk.write(path, offset, &[byte ^ 0x10]).expect("the file is there");
}

/// The offset of the last record of the only manifest.
fn last_edit(disk: &DiskImage) -> (PathBuf, u64) {
    use crate::version::format::{HEADER_BYTES, decode_manifest_header, decode_record};
    let (path, _) = files(disk, ".manifest").pop().expect("there is a manifest");
    let bytes = disk.read(&path).expect("just listed");
    let (identity, _) = decode_manifest_header(&bytes).expect("whole");
    let (mut offset, mut last) = (HEADER_BYTES, HEADER_BYTES);
    while offset < bytes.len() {
        last = offset;
        offset += decode_record(&bytes[offset..], identity, offset as u64).expect("whole").1;
    }
    (path, last as u64)
}

/// The refusal that damage was met with.
#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T>, file: &Path) {
    match outcome {
        Err(Error::Corruption(corruption)) => {
            assert_eq!(corruption.file, file, "{corruption}");
        }
        other => panic!("damage went unnoticed: {other:?}"),
    }
}

/// The second edit of a new range says where its log begins. A flipped bit in it looked like a
/// torn tail of the manifest; the range then had no log at all, and the open deleted the segments:
/// everything that had been written since the creation was lost, synced or not.
#[test]
fn a_log_that_the_manifest_does_not_know_of_refuses_the_open() {
    let mut disk = killed(1, |env| {
        let store = open(env, &synced())?;
        (0..20).try_for_each(|number| put(&store, &format!("k{number}"), "value"))?;
        Ok(store)
    });
    let (manifest, offset) = last_edit(&disk);
    flip(&mut disk, &manifest, offset + 9);
    let (log, _) = files(&disk, ".log").into_iter().next().expect("there is a log");
    refused(on_disk(disk, &synced(), |store| get(store, "k1")), &log);
}

/// The last edit is that of a compaction, its inputs are deleted, and then a bit of it flips. It
/// looked like a torn tail; the open deleted the compaction's outputs as orphans, which were the
/// only copy of everything in them, and found out later that the inputs are gone.
#[test]
fn a_missing_table_refuses_the_open_before_anything_is_deleted() {
    let mut disk = killed(1, |env| {
        let store = open(env, &synced())?;
        for round in 0..3 {
            (0..20)
                .try_for_each(|number| put(&store, &format!("k{number}"), &format!("{round}")))?;
            store.flush()?;
        }
        store.compact(&KeyRange::all())?;
        Ok(store)
    });
    let whole = on_disk(disk.clone(), &synced(), |store| get(store, "k1"));
    assert_eq!(whole.expect("the disk is whole"), Some("2".to_string()));
    let (manifest, offset) = last_edit(&disk);
    flip(&mut disk, &manifest, offset + 9);
    let tables = files(&disk, ".table");
    SimEnv::run(SimOptions { disk, ..SimOptions::new(2) }, |sim| {
        let env: SharedEnv = sim.clone();
        let outcome = open(&env, &synced()).and_then(|store| get(&store, "k1"));
        assert!(matches!(outcome, Err(Error::Corruption(_))), "{outcome:?}");
        assert_eq!(files(&sim.disk(), ".table"), tables, "the open deleted tables");
    });
}

/// An open makes the log durable that it read, copies of it at the front of a new segment. One of
/// them was then damaged, and the process was killed before it wrote anything: the damage looked
/// like a torn tail, and everything behind it was dropped, though it had been made durable.
#[test]
fn a_segment_of_a_later_epoch_says_that_the_log_before_it_was_durable() {
    let options = small();
    let disk = killed(1, |env| {
        let store = open(env, &options)?;
        (0..20).try_for_each(|number| put(&store, &format!("k{number}"), "value"))?;
        Ok(store)
    });
    let mut disk = killed_on(disk, 1, |env| open(env, &options));
    let (log, _) = files(&disk, ".log").into_iter().last().expect("there is a log");
    flip(&mut disk, &log, 128 + 200);
    refused(on_disk(disk, &options, |store| get(store, "k19")), &log);
}

/// The header of a segment holds what its records are checked with. With it a whole segment went,
/// as if it had never been begun: synced writes too.
#[test]
fn a_damaged_segment_header_loses_nothing() {
    let mut disk = killed(1, |env| {
        let store = open(env, &synced())?;
        put(&store, "k", "before")?;
        drop(store);
        let store = open(env, &synced())?;
        (0..20).try_for_each(|number| put(&store, &format!("k{number}"), "value"))?;
        Ok(store)
    });
    for (log, _) in files(&disk, ".log") {
        flip(&mut disk, &log, 70);
    }
    let found = on_disk(disk, &synced(), |store| Ok((get(store, "k")?, get(store, "k19")?)));
    let expected = (Some("before".to_string()), Some("value".to_string()));
    assert_eq!(found.expect("nothing is lost"), expected);
}

/// A segment of another database under the same name has the same id, predecessor and base: its
/// records were taken for ours.
#[test]
fn a_segment_of_another_database_is_not_taken_for_ours() {
    let make = |seed: u64, value: &'static str| {
        SimEnv::run(SimOptions::new(seed), |sim| {
            let env: SharedEnv = sim.clone();
            let store = open(&env, &synced()).expect("the disk is whole");
            put(&store, "k", value).expect("the disk is whole");
            let disk = sim.disk().crash(CrashPolicy::ProcessKill, 0);
            drop(store);
            disk
        })
    };
    let (mut ours, theirs) = (make(1, "ours"), make(2, "theirs"));
    let (log, _) = files(&ours, ".log").into_iter().next().expect("there is a log");
    ours.write(&log, 0, &theirs.read(&log).expect("it has the same name")).expect("it is there");
    refused(on_disk(ours, &synced(), |store| get(store, "k")), &log);
}

/// A flush is installed only after its part of the log has been synced. On a disk that lied about
/// that sync the log ended below where the manifest says that it is needed from: what was written
/// next stood at positions that count as flushed already, and was skipped by the open after that.
#[test]
fn a_log_that_ends_below_what_was_flushed_refuses_the_open() {
    let mut disk = killed(1, |env| {
        let store = open(env, &synced())?;
        (0..20).try_for_each(|number| put(&store, &format!("k{number}"), "value"))?;
        store.flush()?;
        Ok(store)
    });
    let (log, bytes) = files(&disk, ".log").into_iter().next().expect("there is a log");
    disk.write(&log, 256, &vec![0; bytes as usize - 512]).expect("it is there");
    refused(on_disk(disk, &synced(), |store| get(store, "k19")), &log);
}

/// Damage to the closing record, which only the manifest knows of, was reported for a file `log`
/// that does not exist.
#[test]
fn damage_to_the_closing_record_names_its_segment_and_place() {
    let mut disk = killed(1, |env| {
        let store = open(env, &small())?;
        store.close()?;
        Ok(store)
    });
    let (log, _) = files(&disk, ".log").into_iter().next().expect("there is a log");
    flip(&mut disk, &log, 128 + 40);
    match on_disk(disk, &small(), |store| get(store, "k")) {
        Err(Error::Corruption(corruption)) => {
            assert_eq!((corruption.file, corruption.offset), (log, 128), "{}", corruption.detail);
        }
        other => panic!("damage went unnoticed: {other:?}"),
    }
}

/// A table that went while the range was open: the read said that the system failed.
#[test]
fn a_table_that_is_gone_is_damage() {
    let outcome = SimEnv::run(SimOptions::new(1), |sim| {
        let env: SharedEnv = sim.clone();
        let store = open(&env, &small())?;
        put(&store, "k", "value")?;
        store.flush()?;
        let (table, _) = files(&sim.disk(), ".table").pop().expect("just flushed");
        env.fs().remove(&table)?;
        get(&store, "k")
    });
    assert!(matches!(outcome, Err(Error::Corruption(_))), "{outcome:?}");
}

/// The last segment is gone, with everything that was synced into it. The log before it ended with
/// the record of a clean close, so that nothing seemed to be missing.
#[test]
fn a_missing_last_segment_is_noticed_once_the_manifest_went_on() {
    let mut disk = killed(1, |env| {
        let store = open(env, &synced())?;
        for round in 0..2 {
            put(&store, "k", &format!("flushed {round}"))?;
            store.flush()?;
        }
        put(&store, "k", "before")?;
        store.close()?;
        drop(store);
        let store = open(env, &synced())?;
        store.compact(&KeyRange::all())?;
        put(&store, "k", "after")?;
        Ok(store)
    });
    let logs = files(&disk, ".log").into_iter().map(|(path, _)| path);
    let logs: Vec<_> = logs.filter(|path| path.to_string_lossy().contains("/000002-")).collect();
    assert!(!logs.is_empty());
    logs.iter().for_each(|log| disk.remove(log).expect("it is there"));
    let outcome = on_disk(disk, &synced(), |store| get(store, "k"));
    assert!(matches!(outcome, Err(Error::Corruption(_))), "{outcome:?}");
}

/// Two segments have each other's names. Each looked like a file that was to be used again, and
/// had not been: the log ended before them.
#[test]
fn a_segment_under_the_name_of_an_older_one_is_no_idle_file() {
    let mut disk = killed(1, |env| {
        let store = open(env, &synced())?;
        put(&store, "k", "before")?;
        drop(store);
        let store = open(env, &synced())?;
        put(&store, "k", "after")?;
        Ok(store)
    });
    let logs = files(&disk, ".log");
    let begun: Vec<_> = logs
        .iter()
        .filter(|(path, _)| disk.read(path).expect("listed")[..8] == *b"terrlog\0")
        .map(|(path, _)| path.clone())
        .collect();
    assert_eq!(begun.len(), 2);
    let contents = [&begun[0], &begun[1]].map(|path| disk.read(path).expect("listed"));
    disk.write(&begun[0], 0, &contents[1]).expect("it is there");
    disk.write(&begun[1], 0, &contents[0]).expect("it is there");
    refused(on_disk(disk, &synced(), |store| get(store, "k")), &begun[0]);
}
