//! Goal: of a log in persistent memory a replay finds a prefix that holds all that was synced, and
//! takes no torn tail for damage, nor what an earlier use of the file left for records. Method:
//! every state in which a recorder says that a crash can leave the segment, replayed.

mod golden;
mod retire;
mod reuse;

use std::path::Path;
use std::sync::Arc;

use terrace_base::{Epoch, FileId, LogPosition, SeqNo};
use terrace_env::{
    CrashPolicy, PMEM_PAGE_BYTES, PmemCrash, PmemDomain, PmemExploration, PmemLogFile,
    PmemRecorder, PmemReport, PmemViolation, SharedEnv, SimEnv, SimOptions, WaitFactory,
};

use super::format::{ClosingBody, RecordKind};
use super::local_log::segment_path;
use super::{LocalLog, LocalLogStore, LogFacts, LogSink, LogStart, LogStore, Record, Replayed};
use crate::ids::FileIds;

const DIR: &str = "/log";

/// How many records a use of the segment writes, and after how many it syncs.
const RECORDS: u64 = 7;
const RECORDS_PER_SYNC: u64 = 3;

/// The body of a record: some begin in the middle of a line, and some are longer than several.
fn body(uses: u64, index: u64) -> Vec<u8> {
    vec![(uses * RECORDS + index) as u8 + 1; 5 + (index * 53 % 160) as usize]
}

/// Appends a record, for which there is room; where it ends.
fn append(log: &dyn LogSink, seqno: u64, body: &[u8]) -> LogPosition {
    let record = Record {
        kind: RecordKind::Batch,
        first_seqno: SeqNo(seqno),
        seqno_count: 1,
        entry_count: 1,
        durable: log.durable(),
        large_bytes: 0,
        body: &[body],
    };
    let place = log.take(record.bytes()).expect("there is room");
    place.target.append(&place, &record).expect("nothing fails");
    place.end
}

/// Writes the log of one use of the segment, after `uses` others, and marks how many of its records
/// are synced; `is_synced`: whether they are.
fn write(recorder: &PmemRecorder, uses: u64, is_synced: bool) -> LogStart {
    let file = PmemLogFile::over(recorder.pmem(), &WaitFactory::real());
    let log = LocalLog::of_files(vec![file], uses);
    let start = log.start_at(LogPosition(0));
    for index in 0..RECORDS {
        let body = body(uses, index);
        let end = append(&log, index + 1, &body);
        if index == 0 {
            assert!(log.begin_at(LogPosition(0)).expect("nothing fails"));
            recorder.mark(0);
        }
        if index % RECORDS_PER_SYNC == RECORDS_PER_SYNC - 1 {
            if is_synced {
                log.sync(end).expect("nothing fails");
            }
            recorder.mark(index + 1);
        }
    }
    start
}

/// The bodies that a replay of the segment finds, if it holds these bytes.
fn replay(env: &SharedEnv, start: LogStart, bytes: &[u8]) -> crate::Result<Vec<Vec<u8>>> {
    let path = segment_path(Path::new(DIR), start.segment.expect("there is one"));
    let mut file = env.fs().create(&path, 0)?;
    file.append(bytes)?;
    drop(file);
    let mut bodies = Vec::new();
    let log = LocalLogStore {
        env: Arc::clone(env),
        dir: DIR.into(),
        segment_bytes: bytes.len() as u64,
        medium: None,
    };
    let facts = LogFacts { start, ..LogFacts::default() };
    let replayed = log.replay(facts, &mut |record| {
        bodies.push(record.body().to_vec());
        Ok(())
    });
    env.fs().remove(&path)?;
    replayed.map(|_| bodies)
}

/// What is wrong with a crash, if anything.
fn judge(env: &SharedEnv, start: LogStart, uses: u64, crash: &PmemCrash<'_>) -> Result<(), String> {
    // Before the headers are durable the manifest does not name the segment.
    let Some(synced) = crash.mark else { return Ok(()) };
    let bytes = crash.pmem.claim(0, crash.pmem.bytes()).expect("nobody else has it").to_vec();
    let found = replay(env, start, &bytes).map_err(|error| error.to_string())?;
    let is_prefix = (0..).zip(&found).all(|(index, found)| *found == body(uses, index));
    match is_prefix && found.len() as u64 >= synced {
        true => Ok(()),
        false => Err(format!("{synced} records are synced, found: {found:?}")),
    }
}

fn explore(
    domain: PmemDomain,
    seed: u64,
    before: &[u8],
    uses: u64,
    is_synced: bool,
) -> Result<PmemReport, PmemViolation> {
    let recorder = PmemRecorder::over(before);
    let start = write(&recorder, uses, is_synced);
    let sim = SimOptions { steps_max: u64::MAX, ..SimOptions::new(seed) };
    SimEnv::run(sim, |env| {
        let env: SharedEnv = env;
        env.fs().create_dir_all(Path::new(DIR)).expect("the disk is whole");
        let exploration = PmemExploration { domain, seed };
        recorder.recording().explore(exploration, |crash| judge(&env, start, uses, crash))
    })
}

/// What a use of the segment leaves: zeros, or another use's records.
fn leftovers() -> [(u64, Vec<u8>); 2] {
    let used = PmemRecorder::new(PMEM_PAGE_BYTES);
    write(&used, 0, true);
    let pmem = used.pmem();
    let content = pmem.claim(0, pmem.bytes()).expect("the log is gone").to_vec();
    [(0, vec![0; PMEM_PAGE_BYTES as usize]), (1, content)]
}

#[test]
fn what_is_synced_survives_every_crash_and_what_is_found_is_a_prefix() {
    for (uses, before) in leftovers() {
        for domain in [PmemDomain::Adr, PmemDomain::Eadr] {
            for seed in 0..2 {
                let report = explore(domain, seed, &before, uses, true);
                let report = report.unwrap_or_else(|wrong| panic!("{uses} uses: {wrong}"));
                let states_min = if domain == PmemDomain::Adr { 1000 } else { 30 };
                assert!(report.states >= states_min, "{uses} uses, {domain:?}: {report:?}");
            }
        }
    }
}

/// The harness can tell: without a fence what is said to be synced is lost in some state, unless
/// the caches survive.
#[test]
fn a_sync_that_is_left_out_is_noticed() {
    for (uses, before) in leftovers() {
        let wrong = explore(PmemDomain::Adr, 3, &before, uses, false).expect_err("no fence");
        assert!(wrong.message.contains("synced"), "{wrong}");
        explore(PmemDomain::Eadr, 3, &before, uses, false).expect("the caches are durable");
    }
}

fn store(env: &SharedEnv) -> LocalLogStore {
    LocalLogStore { env: Arc::clone(env), dir: DIR.into(), segment_bytes: 4096, medium: None }
}

/// A rotation left a segment without records, and the first record behind it was too large for
/// that: the sync of what follows must take it along, since the chain goes through it.
#[test]
fn a_segment_without_records_is_synced_with_what_stands_behind_it() {
    let bodies = [vec![1; 1000], vec![2; 5000]];
    let (disk, start) = SimEnv::run(SimOptions::new(1), |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        env.fs().create_dir_all(Path::new(DIR)).expect("nothing fails");
        let ids = Arc::new(FileIds::new(Epoch(1), 0));
        let log = store(&env).begin(0, &ids, &Replayed::default(), 0).expect("nothing fails");
        let start = log.start_at(LogPosition(0));
        append(log.as_ref(), 1, &bodies[0]);
        log.make_room(4000).expect("nothing fails");
        let rotated = log.rotate().expect("nothing fails");
        // Another thread's sync comes before the thread that rotated says that a replay may begin
        // there.
        log.sync(rotated).expect("nothing fails");
        log.make_room(6000).expect("nothing fails");
        let end = append(log.as_ref(), 2, &bodies[1]);
        assert!(
            (5000..5100).contains(&(end.0 - rotated.0)),
            "nothing else stands behind the rotation"
        );
        log.sync(end).expect("nothing fails");
        assert_eq!(env.fs().list(Path::new(DIR)).expect("nothing fails").len(), 3);
        (sim.disk().crash(CrashPolicy::SyncedOnly, 0), start)
    });
    SimEnv::run(SimOptions { disk, ..SimOptions::new(2) }, |sim| {
        let env: SharedEnv = sim;
        let mut found = Vec::new();
        let facts = LogFacts { start, ..LogFacts::default() };
        let replayed = store(&env).replay(facts, &mut |record| {
            found.push(record.body().to_vec());
            Ok(())
        });
        assert_eq!(replayed.expect("the log is whole").torn, None);
        assert!(found == bodies, "{} records of 2 are there", found.len());
    });
}

/// A log that is kept from further back than tables need it goes on behind what they have, though
/// its last segment holds no batch: a replay would take what is written below for something older.
#[test]
fn a_log_goes_on_behind_what_is_settled() {
    SimEnv::run(SimOptions::new(3), |sim| {
        let env: SharedEnv = sim;
        env.fs().create_dir_all(Path::new(DIR)).expect("nothing fails");
        let begin = |epoch, replayed: &Replayed| {
            let ids = Arc::new(FileIds::new(Epoch(epoch), 0));
            store(&env).begin(0, &ids, replayed, 0).expect("nothing fails")
        };
        let log = begin(1, &Replayed::default());
        let start = log.start_at(LogPosition(0));
        let written = append(log.as_ref(), 1, &[1; 1000]);
        log.sync(written).expect("nothing fails");
        let replay = |settled| {
            let facts = LogFacts { start, settled, durable: settled, ..LogFacts::default() };
            store(&env).replay(facts, &mut |_| Ok(())).expect("the log is whole")
        };
        let log = begin(2, &replay(written));
        let manifest = FileId { epoch: Epoch(2), counter: 1 };
        let closing = ClosingBody { manifest, manifest_bytes: 100 }.encode();
        let record = Record {
            kind: RecordKind::Closing,
            first_seqno: SeqNo(1),
            seqno_count: 0,
            entry_count: 0,
            durable: log.durable(),
            large_bytes: 0,
            body: &[&closing],
        };
        let place = log.take(record.bytes()).expect("there is room");
        place.target.append(&place, &record).expect("nothing fails");
        log.sync(place.end).expect("nothing fails");
        let log = begin(3, &replay(place.end));
        assert!(log.end() >= place.end, "{} lies below {}", log.end(), place.end);
    });
}
