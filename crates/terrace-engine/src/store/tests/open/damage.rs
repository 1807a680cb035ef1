//! Damaged bytes that an open meets: what is lost by them, and what must not be.

use std::path::PathBuf;

use terrace_base::KeyRange;
use terrace_env::CrashPolicy;

use crate::Error;
use crate::store::tests::*;
use crate::wal::format::{SEGMENT_HEADER_BYTES, SegmentHeader};

#[test]
fn what_is_written_after_damage_to_settled_records_is_not_lost() -> Result<()> {
    let mut disk = killed(8, |env| {
        let store = open(env, &small())?;
        for index in 0..10 {
            put(&store, &format!("{index}"), "settled")?;
        }
        store.flush()?;
        Ok(store)
    });
    let segments = segments_of(&disk);
    assert_eq!(segments.len(), 1);
    disk.write(&segments[0].0, SEGMENT_HEADER_BYTES + 40, &[0xa5]).expect("inside the file");
    let crashed = SimEnv::run(SimOptions { disk, ..SimOptions::new(2) }, |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        match open(&env, &small()) {
            Ok(store) => {
                put_synced(&store, "later", "acknowledged")?;
                Ok::<_, Error>(Some(sim.disk().crash(CrashPolicy::SyncedOnly, 0)))
            }
            Err(Error::Corruption(_)) => Ok(None),
            Err(error) => Err(error),
        }
    })?;
    let Some(crashed) = crashed else { return Ok(()) };
    after_crash(crashed, |env| {
        let store = open(env, &small())?;
        assert_eq!(get(&store, "later")?.as_deref(), Some("acknowledged"));
        Ok(())
    })
}

#[test]
fn a_damaged_header_of_the_last_segment_is_no_torn_tail() {
    let options = Options {
        memtable_bytes: 1 << 20,
        log_segment_bytes: 4 << 10,
        log_bytes_max: 1 << 20,
        ..small()
    };
    let disk = killed(9, |env| {
        let store = open(env, &options)?;
        for index in 0..40 {
            put_synced(&store, &format!("{index}"), &"x".repeat(200))?;
        }
        Ok(store)
    });
    let segments = segments_of(&disk);
    assert!(segments.len() > 2);
    let (last, header) = segments.last().expect("some");
    let second = SegmentHeader::second_offset(header.segment_bytes);
    // Magic, file id, predecessor, base, zeros, checksum.
    for offset in [0, 40, 56, 64, 100, 125] {
        let mut damaged = disk.clone();
        damaged.write(last, offset, &[0xa5]).expect("inside the file");
        let values = after_crash(damaged.clone(), |env| {
            let store = open(env, &options)?;
            (0..40).map(|index| get(&store, &index.to_string())).collect::<Result<Vec<_>>>()
        });
        let values = values.expect("the second header is whole");
        assert!(values.iter().all(Option::is_some), "{offset}: {values:?}");
        damaged.write(last, second + offset, &[0xa5]).expect("inside the file");
        let outcome = after_crash(damaged, |env| open(env, &options).map(|_| ()));
        assert!(matches!(outcome, Err(Error::Corruption(_))), "{offset}: {outcome:?}");
    }
}

#[test]
fn a_lost_edit_whose_tables_are_gone_deletes_nothing() {
    let mut disk = killed(16, |env| {
        let store = open(env, &lazy())?;
        for round in 0..3 {
            for index in 0..60 {
                put(&store, &format!("{index:04}"), &format!("{round}").repeat(100))?;
            }
            store.flush()?;
        }
        store.compact(&KeyRange::all())?;
        Ok(store)
    });
    let manifest = disk.files().into_iter().map(|(path, _)| path);
    let manifest: Vec<_> =
        manifest.filter(|path| path.extension().is_some_and(|e| e == "manifest")).collect();
    let bytes = disk.read(&manifest[0]).expect("listed").len() as u64;
    disk.write(&manifest[0], bytes - 16, &[0xa5]).expect("inside the file");
    let before = disk.files();
    SimEnv::run(SimOptions { disk, ..SimOptions::new(1) }, |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let refused = open(&env, &small()).expect_err("its inputs are deleted");
        assert!(refused.is_corruption(), "{refused}");
        let tables = |files: Vec<(PathBuf, u64)>| -> Vec<_> {
            files.into_iter().filter(|(path, _)| path.to_string_lossy().contains("table")).collect()
        };
        assert_eq!(tables(sim.disk().files()), tables(before));
    });
}
