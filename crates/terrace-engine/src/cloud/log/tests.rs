//! Goal: whoever takes the log over finds what was safe, and nothing that came too late. Method:
//! owners and takers one after the other, on a store in memory.

use std::sync::Arc;
use std::time::Duration;

use terrace_base::{Epoch, LogPosition, SeqNo, WallTime};
use terrace_env::{SharedEnv, SimEnv, SimOptions};

use super::*;
use crate::Error;
use crate::cloud::format::Author;
use crate::cloud::tests::ScriptedStore;
use crate::cloud::{CloudNames, CloudStore};
use crate::version::StoreLog;
use crate::wal::format::{RECORD_HEADER_BYTES, RecordHeader, RecordKind};

const NAMES: CloudNames = CloudNames::new(0xda7a);

fn with_objects(test: impl FnOnce(&SharedEnv, &LogObjects) + Send) {
    SimEnv::run(SimOptions::new(12), |env| {
        let env: SharedEnv = env;
        let store = Arc::new(CloudStore::new(&env, Arc::new(ScriptedStore::default())));
        test(&env, &LogObjects::new(&store, NAMES));
    });
}

fn author(epoch: u64) -> Author {
    Author { epoch: Epoch(epoch), nonce: u128::from(epoch) * 7 }
}

/// The log of an owner that has fenced it, and the first moment that it feeds.
fn owner(env: &SharedEnv, objects: &LogObjects, epoch: u64) -> (CloudLog, StoreLog) {
    let run = LogRun::take(objects, StoreLog::NONE, author(epoch), |_| ()).unwrap();
    taken(env, objects, epoch, &run)
}

/// As [`owner`], of one that has read the log, and feeds a moment with what it found.
fn taken(env: &SharedEnv, objects: &LogObjects, epoch: u64, run: &LogRun) -> (CloudLog, StoreLog) {
    let waits = env.waits();
    let log = CloudLog::new(&waits, objects.clone(), author(epoch), run.next(), Duration::ZERO);
    let moment = log.moment_taken(run.end());
    log.moment_fed(moment);
    (log, moment)
}

/// One record behind those before it, with its number.
fn next_piece(log: &CloudLog) -> (LogPiece, u64) {
    let work = log.to_read(LogPosition(u64::MAX >> 8)).unwrap();
    let mut piece = LogPiece::new(work.chain, work.from, WallTime(work.from.0));
    let body = b"an entry";
    let header = RecordHeader {
        bytes: (RECORD_HEADER_BYTES + body.len()) as u32,
        first_seqno: SeqNo(work.from.0 + 1),
        durable: LogPosition(0),
        seqno_count: 1,
        entry_count: 1,
        kind: RecordKind::Batch,
    };
    piece.push(&header, body);
    let number = log.number_for(&piece).unwrap();
    (piece, number)
}

fn store_next(log: &CloudLog) -> LogPosition {
    let (piece, mut number) = next_piece(log);
    log.store(&piece, &mut number).unwrap();
    piece.end()
}

fn positions(run: &LogRun) -> Vec<LogPosition> {
    let mut positions = Vec::new();
    let mut note = |record: StoredRecord| positions.push(record.position);
    run.visit(&mut |_, _, record| {
        note(record);
        Ok(())
    })
    .unwrap();
    positions
}

#[test]
fn a_taker_finds_what_is_safe() {
    with_objects(|env, objects| {
        let (log, moment) = owner(env, objects, 1);
        let ends = [(); 3].map(|()| store_next(&log));
        assert!(log.is_safe_through(ends[2]));
        let run = LogRun::take(objects, moment, author(2), |_| ()).unwrap();
        assert_eq!((run.from(), run.end()), (LogPosition(0), ends[2]));
        assert_eq!(positions(&run), [LogPosition(0), ends[0], ends[1]]);
        // Whoever comes next, before the taker has fed a moment, finds the same.
        let again = LogRun::take(objects, moment, author(3), |_| ()).unwrap();
        assert_eq!(positions(&again), positions(&run));
        let (piece, mut number) = next_piece(&log);
        assert!(matches!(log.store(&piece, &mut number), Err(Error::Fenced(_))));
        assert!(!log.is_safe_through(piece.end()));
    });
}

/// What memory does not keep is read again, as far ahead as it was read at first.
#[test]
fn a_long_log_is_read_again_in_its_order() {
    with_objects(|env, objects| {
        let (log, moment) = owner(env, objects, 1);
        let ends = [(); 50].map(|()| store_next(&log));
        assert!(ends[49].0 > 4 * reading::KEPT_BYTES as u64);
        let run = LogRun::take(objects, moment, author(2), |_| ()).unwrap();
        let begins = std::iter::once(LogPosition(0)).chain(ends).take(50);
        assert_eq!(positions(&run), begins.collect::<Vec<_>>());
        objects.delete(moment.number + 30).unwrap();
        let gone = run.visit(&mut |_, _, _| Ok(())).unwrap_err();
        assert!(matches!(gone, Error::Outdated(_)), "{gone}");
    });
}

#[test]
fn what_comes_too_late_is_skipped() {
    with_objects(|env, objects| {
        let (log, moment) = owner(env, objects, 1);
        let end = store_next(&log);
        // Two are on their way, and the taker finds neither.
        let (_, first) = next_piece(&log);
        let (late, mut second) = next_piece(&log);
        let run = LogRun::take(objects, moment, author(2), |_| ()).unwrap();
        assert_eq!((run.end(), run.next()), (end, first + 1));
        log.store(&late, &mut second).unwrap();
        assert!(!log.is_safe_through(late.end()), "its predecessor is not there");
        let again = LogRun::take(objects, moment, author(3), |_| ()).unwrap();
        assert_eq!(again.end(), end);
    });
}

#[test]
fn an_owner_steps_over_what_came_too_late_before_it() {
    with_objects(|env, objects| {
        let (zombie, _) = owner(env, objects, 1);
        let (_, _) = next_piece(&zombie);
        let (late, mut second) = next_piece(&zombie);
        let (log, moment) = owner(env, objects, 2);
        zombie.store(&late, &mut second).unwrap();
        let end = store_next(&log);
        assert!(log.is_safe_through(end));
        let run = LogRun::take(objects, moment, author(3), |_| ()).unwrap();
        assert_eq!(positions(&run), [LogPosition(0)]);
        assert_eq!(run.next(), second + 3, "the late one, the owner's, and the fence");
    });
}

#[test]
fn objects_are_collected_and_fences_stay() {
    with_objects(|env, objects| {
        let (log, _) = owner(env, objects, 1);
        store_next(&log);
        let end = store_next(&log);
        let moment = log.moment_taken(end);
        log.collect(KeptNumbers::NONE).unwrap();
        assert!(objects.read(2).unwrap().is_some(), "the moment is not fed yet");
        log.moment_fed(moment);
        log.collect(KeptNumbers::NONE).unwrap();
        assert!(objects.read(1).unwrap().is_some_and(|fence| fence.what == LogContent::Fence));
        assert!(objects.read(2).unwrap().is_none() && objects.read(3).unwrap().is_none());
        let last = store_next(&log);
        let run = LogRun::take(objects, moment, author(2), |_| ()).unwrap();
        assert_eq!((run.from(), run.end()), (end, last));
        // What an owner has left goes with the first moment of the next one.
        let (log, moment) = taken(env, objects, 2, &run);
        log.collect(KeptNumbers::NONE).unwrap();
        assert!(objects.read(moment.number - 2).unwrap().is_none());
        assert!(objects.read(moment.number - 1).unwrap().is_some(), "its own fence");
    });
}

/// Two databases in some ten thousand came to this: what came too late was collected as what a lost
/// owner had left, and its number was free again for an owner that was fenced behind it.
#[test]
fn the_number_of_what_came_too_late_stays_taken() {
    with_objects(|env, objects| {
        let (zombie, _) = owner(env, objects, 1);
        let (_, _) = next_piece(&zombie);
        let (late, mut second) = next_piece(&zombie);
        // The next owner wants that number first, and has written nothing when it is fenced.
        let (fenced, moment) = owner(env, objects, 2);
        zombie.store(&late, &mut second).unwrap();
        let run = LogRun::take(objects, moment, author(3), |_| ()).unwrap();
        let (log, _) = taken(env, objects, 3, &run);
        log.collect(KeptNumbers::NONE).unwrap();
        let (piece, mut number) = next_piece(&fenced);
        assert_eq!(number, second);
        assert!(matches!(fenced.store(&piece, &mut number), Err(Error::Fenced(_))));
        assert!(!fenced.is_safe_through(piece.end()));
    });
}

/// A log that is taken up again once began below what an earlier one had left: its numbers ran into
/// fences of old owners, and what stood behind those was taken for late.
#[test]
fn a_log_that_is_taken_up_again_begins_behind_what_is_left() {
    with_objects(|env, objects| {
        let (log, _) = owner(env, objects, 1);
        let end = [(); 3].map(|()| store_next(&log))[2];
        let moment = log.moment_taken(end);
        LogRun::take(objects, moment, author(2), |_| ()).unwrap();
        log.moment_fed(moment);
        log.collect(KeptNumbers::NONE).unwrap();
        assert!(objects.read(2).unwrap().is_none(), "there is a gap in the numbers");
        // Moments of owners without a log in the store say nothing of it.
        let (log, moment) = owner(env, objects, 4);
        let ends = [(); 6].map(|()| store_next(&log));
        let run = LogRun::take(objects, moment, author(5), |_| ()).unwrap();
        assert_eq!(run.end(), ends[5]);
    });
}
