//! Goal: any state since the oldest base of an archive can be had again, exactly; what the archive
//! does not reach any more goes. Method: an owner with an archive, states of it that are noted, and
//! whoever has only the store, which asks for them. States at random points are asked for in
//! `lost.rs`, where machines are lost and the store fails.

use std::time::Duration;

use terrace_base::{KeyRange, SeqNo, WallTime};

use super::durable::{durably, logged, put_durably};
use super::fill;
use super::mirror::content;
use crate::WriteBatch;
use crate::cloud::{CheckpointName, CloudNames, LogPoint};
use crate::options::{CloudOptions, ValueLogOptions};
use crate::store::cloud::{CloudDatabase, StoreMoment};
use crate::store::tests::*;

const URL: &str = "file:///store";
const KEEP: Duration = Duration::from_secs(3600);

/// With an archive and a moment a minute.
fn archived(options: Options) -> Options {
    let options = logged(options);
    let mirror = Some(Duration::from_secs(60));
    let cloud = options.cloud.map(|cloud| CloudOptions { mirror, archive: Some(KEEP), ..cloud });
    Options { cloud, ..options }
}

fn open(env: &SharedEnv, options: Options) -> Result<Store> {
    Store::open(&process(env)?, Path::new(DIR), options)
}

/// A state as its owner saw it: its number, its time and what was in it.
type Noted = (SeqNo, WallTime, Vec<(Vec<u8>, Vec<u8>)>);

/// What is there now, once the store has all of it. Nothing is written in the millisecond of its
/// time.
fn note(env: &SharedEnv, owner: &Store) -> Result<Noted> {
    put_durably(owner, "durable", &env.now().as_millis().to_string())?;
    env.sleep(Duration::from_millis(1500));
    let noted = (owner.inner.sequencer.visible(), env.wall_time(), content(owner)?);
    env.sleep(Duration::from_millis(5));
    Ok(noted)
}

/// All states that were noted are found by their number and by their time, and as clones.
fn assert_found(env: &SharedEnv, noted: &[Noted]) -> Result<()> {
    let process = process(env)?;
    let database = CloudDatabase::open(&process, URL, None)?;
    for (index, (number, at, expected)) in noted.iter().enumerate() {
        for point in [LogPoint::Number(*number), LogPoint::Time(*at)] {
            let reader = database.follow(StoreMoment::Archived(point), small())?;
            assert_eq!(reader.store().snapshot().seqno(), *number, "{point}");
            assert_eq!(content(reader.store())?, *expected, "{point}");
        }
        let dir = format!("/clone{}-{index}", env.now().as_nanos());
        let point = StoreMoment::Archived(LogPoint::Number(*number));
        let report = database.clone_to(point, Path::new(&dir), small(), &mut |_, _| true)?;
        assert_eq!(report.seqno, *number);
        let cloned = Store::open(&process, Path::new(&dir), small())?;
        assert_eq!(content(&cloned)?, *expected, "{dir}");
        fill(&cloned, 3..4)?;
        cloned.close()?;
    }
    Ok(())
}

/// How many objects there are of the log.
fn log_objects(owner: &Store) -> Result<usize> {
    let store = owner.inner.cloud.as_ref().expect("it has one").store()?;
    let names = CloudNames::new(owner.inner.versions.current().database());
    Ok(store.list(&names.log_prefix())?.len())
}

#[test]
fn each_state_is_found_again() {
    find_each_state(SimOptions::new(601)).expect("nothing fails");
}

/// Goal: the test is not blind. Method: a bug is planted, and must be found.
#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_of_archives_are_found() {
    for bug in terrace_env::PlantedBug::OF_ARCHIVE {
        let planted = || SimOptions { planted: vec![*bug], ..SimOptions::new(601) };
        let outcome = std::panic::catch_unwind(|| find_each_state(planted()));
        assert!(!matches!(outcome, Ok(Ok(()))), "{} was not found", bug.name());
    }
}

fn find_each_state(sim: SimOptions) -> Result<()> {
    SimEnv::run(sim, |sim| {
        let env: &SharedEnv = &(sim as SharedEnv);
        let values = ValueLogOptions { large_bytes: 60, ..ValueLogOptions::default() };
        let options = || archived(Options { value_log: Some(values), ..small() });
        let owner = open(env, options())?;
        let mut noted = Vec::new();
        for round in 0..4 {
            fill(&owner, round..round + 1)?;
            noted.push(note(env, &owner)?);
            let mut batch = WriteBatch::new();
            batch.delete_range(b"0010", b"0040")?;
            batch.merge(b"merged", b"+")?;
            owner.write(&batch, &durably())?;
            noted.push(note(env, &owner)?);
            owner.compact(&KeyRange::all())?;
            // An ingest stands in no log: another base follows on it.
            let mut ingest = owner.begin_ingest()?;
            ingest.add(b"ingested", round.to_string().as_bytes(), None)?;
            ingest.finish()?;
            noted.push(note(env, &owner)?);
        }
        assert_found(env, &noted)?;
        drop(owner);
        // Another process goes on, which has no archive and leaves that one as it is; then one that
        // has.
        for options in [logged(small()), options()] {
            let owner = open(env, Options { value_log: Some(values), ..options })?;
            env.sleep(Duration::from_secs(120));
            fill(&owner, 5..7)?;
            owner.compact(&KeyRange::all())?;
            env.sleep(Duration::from_secs(1200));
            owner.settle();
            assert_found(env, &noted)?;
            drop(owner);
        }
        Ok(())
    })
}

#[test]
fn an_archive_reaches_back_as_far_as_it_is_told() -> Result<()> {
    simulate(602, |env| {
        let owner = open(env, archived(small()))?;
        let first = note(env, &owner)?;
        let mut most = 0;
        for round in 0..30 {
            fill(&owner, round..round + 1)?;
            env.sleep(Duration::from_secs(300));
            owner.settle();
            most = most.max(log_objects(&owner)?);
        }
        let stats = owner.stats().cloud.and_then(|cloud| cloud.archive).expect("it has one");
        assert_eq!(stats.keep_ms, KEEP.as_millis() as u64);
        // One each time that so many bytes were written, and all of the last hour.
        assert!((3..40).contains(&stats.base_count), "{stats:?}");
        let since = stats.since_ms.expect("there are some");
        let reaches = env.wall_time().0 - since;
        assert!(reaches >= stats.keep_ms && reaches < 2 * stats.keep_ms, "{stats:?} {reaches}");
        assert!(most < 100, "what is too old goes: {most}");
        let database = CloudDatabase::open(&process(env)?, URL, None)?;
        let follow = |point| database.follow(StoreMoment::Archived(point), small());
        for point in [LogPoint::Number(first.0), LogPoint::Time(first.1)] {
            let too_old = follow(point).unwrap_err();
            assert!(too_old.to_string().contains("ask for a later state"), "{too_old}");
        }
        let future = follow(LogPoint::Time(WallTime(env.wall_time().0 + 10_000))).unwrap_err();
        assert!(future.to_string().contains("in the future"), "{future}");
        let reserved = CheckpointName::new("archive-mine").expect("a plain name");
        let refused = database.make_checkpoint(reserved).unwrap_err();
        assert!(refused.to_string().contains("choose another"), "{refused}");
        // Whoever removes its checkpoints ends it.
        for checkpoint in database.checkpoints()? {
            assert!(database.remove_checkpoint(&checkpoint.name)?);
        }
        let none = follow(LogPoint::Number(SeqNo(5))).unwrap_err();
        assert!(none.to_string().contains("--cloud-archive"), "{none}");
        drop(owner);
        let owner = open(env, logged(small()))?;
        put_durably(&owner, "a", "b")?;
        env.sleep(Duration::from_secs(1200));
        owner.settle();
        let left = log_objects(&owner)?;
        assert!(left < 12, "fences stay, and what the newest moment needs: {left}");
        Ok(())
    })
}
