//! Goal: a backup is the range at its moment, shares with an earlier one what both have and nothing
//! with its source, and comes back whole or not at all. Method: backups of a range that goes on;
//! damage, faults at every call, and crashes at every moment of a restore.

use std::path::PathBuf;

use terrace_base::KeyRange;
use terrace_env::{CrashPolicy, Fault, FaultEffect, FaultErrno, FaultPlan};

use crate::Error;
use crate::check::{CheckDepth, check_dir};
use crate::store::tests::workload::content;
use crate::store::tests::*;
use crate::store::{CheckpointReport, CopyOptions, restore, seqno_of_copy};

fn backup_dir(number: usize) -> PathBuf {
    PathBuf::from(format!("/backups/{number}"))
}

fn target() -> PathBuf {
    PathBuf::from("/restored")
}

/// The backup with this number, which shares with the one before it.
fn back_up(store: &Store, number: usize) -> Result<CheckpointReport> {
    let earlier = number.checked_sub(1).map(backup_dir);
    let options = CopyOptions { earlier, ..CopyOptions::default() };
    store.checkpoint_with(&backup_dir(number), &options, &mut |_, _| true)
}

fn bring_back(env: &SharedEnv, number: usize) -> Result<u64> {
    restore(env, &backup_dir(number), &target(), &CopyOptions::default(), &mut |done, total| {
        assert!(done <= total);
        true
    })
}

fn fill(store: &Store, from: u32, to: u32) -> Result<()> {
    for number in from..to {
        put(store, &format!("key{number:05}"), &number.to_string().repeat(10))?;
    }
    Ok(())
}

fn content_of(env: &SharedEnv, dir: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let report = check_dir(env, dir, CheckDepth::Full, &mut |_, _| ())?;
    assert!(report.is_clean(), "{report}");
    let options = Options { create_if_missing: false, ..small() };
    let copy = Store::open(&process(env)?, dir, options)?;
    let found = content(&copy)?;
    copy.close()?;
    Ok(found)
}

#[test]
fn a_backup_shares_with_the_one_before_it_and_both_come_back() -> Result<()> {
    simulate(1, |env| {
        let store = open(env, &small())?;
        fill(&store, 0, 600)?;
        let first = back_up(&store, 0)?;
        assert_eq!(first.linked_count, 0, "nothing is shared with the source: {first:?}");
        assert!(first.copied_count > 2 && first.copied_bytes == first.table_bytes);
        let before = content(&store)?;
        // What comes later lies elsewhere, so most tables stay.
        for number in 0..20 {
            put(&store, &format!("later{number:05}"), "value")?;
        }
        let second = back_up(&store, 1)?;
        assert!(second.linked_count > 0 && second.copied_count > 0, "{second:?}");
        assert!(second.copied_bytes < second.table_bytes / 2, "{second:?}");
        let after = content(&store)?;
        assert!(seqno_of_copy(env, &backup_dir(0))? < seqno_of_copy(env, &backup_dir(1))?);
        assert_eq!(seqno_of_copy(env, &backup_dir(1))?, second.seqno);
        // The source goes on, and the first backup goes.
        let mut batch = WriteBatch::new();
        batch.delete_range(b"", &[0xff; 9])?;
        store.write(&batch, &WriteOptions::default())?;
        store.compact(&KeyRange::all())?;
        bring_back(env, 0)?;
        assert_eq!(content_of(env, &target())?, before);
        for entry in env.fs().list(&backup_dir(0))? {
            env.fs().remove(&backup_dir(0).join(entry.name))?;
        }
        for entry in env.fs().list(&target())? {
            env.fs().remove(&target().join(entry.name))?;
        }
        bring_back(env, 1)?;
        assert_eq!(content_of(env, &target())?, after);
        store.close()
    })
}

/// Two that were restored from one backup count their files by the same numbers.
#[test]
fn tables_of_one_name_and_different_bytes_are_not_shared() -> Result<()> {
    simulate(2, |env| {
        let store = open(env, &small())?;
        fill(&store, 0, 100)?;
        back_up(&store, 0)?;
        store.close()?;
        let options = CopyOptions::default();
        let mut contents = Vec::new();
        for (number, dir) in ["/one", "/other"].iter().enumerate() {
            restore(env, &backup_dir(0), Path::new(dir), &options, &mut |_, _| true)?;
            let store = Store::open(&process(env)?, Path::new(dir), small())?;
            fill(&store, 0, 100 + number as u32)?;
            put(&store, "only", dir)?;
            let earlier = Some(PathBuf::from(if number == 0 { "/backups/0" } else { "/twin0" }));
            let options = CopyOptions { earlier, ..CopyOptions::default() };
            let to = PathBuf::from(format!("/twin{number}"));
            store.checkpoint_with(&to, &options, &mut |_, _| true)?;
            contents.push(content(&store)?);
            store.close()?;
        }
        for (number, wanted) in contents.iter().enumerate() {
            assert_eq!(&content_of(env, Path::new(&format!("/twin{number}")))?, wanted);
        }
        Ok(())
    })
}

#[test]
fn what_is_no_backup_is_not_restored_and_a_target_must_be_empty() -> Result<()> {
    simulate(3, |env| {
        let store = open(env, &small())?;
        fill(&store, 0, 50)?;
        back_up(&store, 0)?;
        store.close()?;
        let restored = |from: &Path, to: &Path| {
            let refused = restore(env, from, to, &CopyOptions::default(), &mut |_, _| true);
            refused.expect_err("it is refused").to_string()
        };
        let (db, backup) = (Path::new(DIR), backup_dir(0));
        assert!(restored(db, &target()).contains("has a log; name the directory of a backup"));
        assert!(restored(&backup, db).contains("is not empty"));
        env.fs().create_dir_all(Path::new("/nothing"))?;
        assert!(restored(Path::new("/nothing"), &target()).contains("holds no database"));
        let cancelled =
            restore(env, &backup, &target(), &CopyOptions::default(), &mut |_, _| false);
        assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
        bring_back(env, 0)?;
        Ok(())
    })
}

#[test]
fn a_rate_is_kept_to() -> Result<()> {
    simulate(4, |env| {
        let store = open(env, &small())?;
        fill(&store, 0, 2000)?;
        let slowly = CopyOptions { bytes_per_second: Some(10_000), ..CopyOptions::default() };
        let began = env.now();
        let report = store.checkpoint_with(&backup_dir(0), &slowly, &mut |_, _| true)?;
        let seconds = (env.now() - began).as_secs();
        assert!(seconds >= report.copied_bytes / 10_000 / 2, "{seconds} s for {report:?}");
        store.close()
    })
}

#[test]
fn a_copy_that_waits_for_its_rate_ends_when_it_is_told_to() -> Result<()> {
    simulate(6, |env| {
        let store = open(env, &small())?;
        fill(&store, 0, 2000)?;
        let hardly = CopyOptions { bytes_per_second: Some(1), ..CopyOptions::default() };
        let began = env.now();
        let mut looks = 0;
        let cancelled = store.checkpoint_with(&backup_dir(0), &hardly, &mut |_, _| {
            looks += 1;
            looks < 10
        });
        assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
        let seconds = (env.now() - began).as_secs();
        assert!(seconds < 10, "it went on for {seconds} s");
        store.close()
    })
}

/// A byte of a table is not what it was.
#[test]
fn a_damaged_backup_is_not_restored_and_not_shared() -> Result<()> {
    let disk = killed(5, |env| {
        let store = open(env, &small())?;
        fill(&store, 0, 300)?;
        back_up(&store, 0)?;
        Ok(store)
    });
    let names = disk.files().into_iter().map(|(path, _)| path);
    let table = names
        .filter(|path| path.starts_with(backup_dir(0)))
        .find(|path| path.extension().is_some_and(|extension| extension == "table"));
    let table = table.expect("a backup has tables");
    for place in ["data", "footer"] {
        let mut damaged = disk.clone();
        let bytes = damaged.read(&table).expect("it is there");
        let offset = if place == "data" { 100 } else { bytes.len() - 20 };
        damaged.write(&table, offset as u64, &[bytes[offset] ^ 1]).expect("it is there");
        after_crash(damaged, |env| -> Result<()> {
            let error = bring_back(env, 0).expect_err("it is damaged");
            assert!(matches!(error, Error::Corruption(_)), "{place}: {error}");
            let left = env.fs().list(&target())?;
            assert!(left.iter().all(|entry| entry.name == "LOCK"), "{place}: {left:?}");
            let store = open(env, &small())?;
            let next = back_up(&store, 1)?;
            if place == "footer" {
                content_of(env, &backup_dir(1))?;
                assert!(next.copied_count > 0);
            }
            store.close()
        })?;
    }
    Ok(())
}

#[test]
fn a_restore_that_fails_or_is_cut_short_leaves_a_whole_range_or_none() {
    let (wanted, moments) = with_moments(7, |env, watch| {
        let store = open(env, &small()).unwrap();
        fill(&store, 0, 100).unwrap();
        back_up(&store, 0).unwrap();
        store.close().unwrap();
        watch.during(|| bring_back(env, 0)).unwrap();
        content_of(env, &target()).unwrap()
    });
    let (mut whole, mut none) = (0, 0);
    for (index, moment) in moments.iter().enumerate() {
        for policy in CrashPolicy::ALL {
            let disk = moment.crash(policy, index as u64);
            let sim = SimOptions { disk, ..SimOptions::new(index as u64 + 100) };
            SimEnv::run(sim, |env| {
                let env: SharedEnv = env;
                let options = Options { create_if_missing: false, ..small() };
                match Store::open(&process(&env).unwrap(), &target(), options) {
                    Ok(copy) => {
                        assert_eq!(content(&copy).unwrap(), wanted, "moment {index}, {policy:?}");
                        copy.close().unwrap();
                        whole += 1;
                    }
                    Err(_) => none += 1,
                }
                assert_eq!(content_of(&env, &backup_dir(0)).unwrap(), wanted);
            });
        }
    }
    assert!(whole > 0 && none > 0, "{whole} whole, {none} not there");

    let mut failures = 0;
    for call in 1.. {
        let is_over = with_faults(8, |_, faults, env| {
            let store = open(env, &small()).unwrap();
            fill(&store, 0, 100).unwrap();
            back_up(&store, 0).unwrap();
            store.close().unwrap();
            let fault = Fault::any(call, FaultEffect::Error(FaultErrno::Io)).on("/restored");
            faults.set_plan(FaultPlan::one(fault));
            let outcome = bring_back(env, 0);
            let is_hit = !faults.injected().is_empty();
            faults.set_plan(FaultPlan::default());
            assert_eq!(outcome.is_err(), is_hit, "call {call}: {outcome:?}");
            if is_hit {
                bring_back(env, 0).unwrap();
            }
            assert_eq!(content_of(env, &target()).unwrap(), wanted);
            !is_hit
        });
        if is_over {
            break;
        }
        failures += 1;
    }
    assert!(failures > 10, "{failures} calls");
}
