//! Goal: the file of a segment that stays as a value file is never written again by the log, which
//! says that it keeps it until its own name for it is durably gone, and gives its unused end back.
//! Method: a small log in a simulation, whose segments get second names as a flush gives them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{Epoch, FileId, LogPosition, SeqNo};
use terrace_env::{
    CrashPolicy, DiskImage, Fault, FaultEffect, FaultEnv, FaultErrno, FaultPlan, Operation,
    SharedEnv, SimEnv, SimOptions,
};

use crate::Result;
use crate::ids::FileIds;
use crate::wal::format::{RecordKind, SEGMENT_HEADER_BYTES};
use crate::wal::{FinishedSegment, LocalLogStore, LogFacts, LogSink, LogStart, LogStore, Record};

const DIR: &str = "/log";

const SEGMENT_BYTES: u64 = 64 << 10;

/// Of which a segment takes seven, with some room left.
const BODY_BYTES: usize = 8 << 10;

/// A log, opened again and again on one disk.
struct Opened {
    env: SharedEnv,
    log: Arc<dyn LogSink>,
    epoch: u64,
}

impl Opened {
    /// Opens the log that begins at `start`, of which the manifest says that `retired` is a value
    /// file.
    fn new(
        env: &SharedEnv,
        epoch: u64,
        start: LogStart,
        retired: Option<&FinishedSegment>,
    ) -> Opened {
        let store = LocalLogStore {
            env: Arc::clone(env),
            dir: PathBuf::from(DIR),
            segment_bytes: SEGMENT_BYTES,
            medium: None,
        };
        let retired = retired.iter().map(|one| (one.id, one.file_bytes())).collect();
        let facts = LogFacts { database: 1, start, retired, ..LogFacts::default() };
        let replayed = store.replay(facts, &mut |_| Ok(())).expect("the log is whole");
        let ids = Arc::new(FileIds::new(Epoch(epoch), 0));
        let log = store.begin(1, &ids, &replayed, 0).expect("nothing fails");
        Opened { env: Arc::clone(env), log, epoch }
    }

    fn first(env: &SharedEnv) -> Opened {
        env.fs().create_dir_all(Path::new(DIR)).expect("nothing fails");
        Opened::new(env, 1, LogStart { segment: None, position: LogPosition(0) }, None)
    }

    /// Opens the log again, as far as it is not released.
    fn again(self, retired: &FinishedSegment) -> Opened {
        let start = self.log.start_at(self.log.end());
        Opened::new(&self.env, self.epoch + 1, start, Some(retired))
    }

    fn write(&self, count: usize, large_bytes: u64) {
        for _ in 0..count {
            let body = vec![7; BODY_BYTES];
            let record = Record {
                kind: RecordKind::Batch,
                first_seqno: SeqNo(1),
                seqno_count: 1,
                entry_count: 1,
                durable: self.log.durable(),
                large_bytes,
                body: &[&body],
            };
            let place = loop {
                match self.log.take(record.bytes()) {
                    Some(place) => break place,
                    None => self.log.make_room(record.bytes()).expect("there is space"),
                }
            };
            place.target.append(&place, &record).expect("nothing fails");
        }
    }

    /// Makes the first finished segment a value file, as a flush does.
    fn retire_first(&self) -> FinishedSegment {
        let segment = self.log.finished(LogPosition(0)).swap_remove(0);
        self.log.retire(&segment);
        self.env.fs().link(&segment.path, &values_of(&segment)).expect("the name is new");
        self.env.fs().sync_dir(Path::new(DIR)).expect("nothing fails");
        self.log.sync(self.log.end()).expect("nothing fails");
        segment
    }

    /// The first bytes of a segment's value file.
    fn content(&self, segment: &FinishedSegment) -> Vec<u8> {
        let file = self.env.fs().open(&values_of(segment)).expect("it is there");
        let mut bytes = vec![0; segment.file_bytes() as usize];
        assert_eq!(file.read_at(0, &mut bytes).expect("nothing fails"), bytes.len());
        bytes
    }

    /// Writes much, and none of it over what the segment held.
    fn assert_not_written_to(&self, segment: &FinishedSegment, content: &[u8]) {
        self.write(40, 0);
        assert_eq!(self.content(segment), content);
    }

    fn bytes_of(&self, path: &Path) -> Option<u64> {
        let entries = self.env.fs().list(Path::new(DIR)).expect("nothing fails");
        entries.iter().find(|entry| path.ends_with(&entry.name)).map(|entry| entry.bytes)
    }
}

fn values_of(segment: &FinishedSegment) -> PathBuf {
    segment.path.with_extension("values")
}

fn simulate(seed: u64, test: impl FnOnce(&Arc<FaultEnv>, &SharedEnv) -> Result<()> + Send) {
    on_disk(DiskImage::new(), seed, |_, faults, env| test(faults, env)).expect("nothing fails");
}

/// Runs `test` on a log whose first segment has become a value file.
fn with_retired(
    seed: u64,
    test: impl FnOnce(&Arc<FaultEnv>, Opened, FinishedSegment) -> Result<()> + Send,
) {
    simulate(seed, |faults, env| {
        let opened = Opened::first(env);
        opened.write(9, 8000);
        let segment = opened.retire_first();
        test(faults, opened, segment)
    });
}

/// The next call of `operation` on a file under its name of the log fails.
fn fail_once(faults: &FaultEnv, operation: Operation) {
    let fault = Fault::nth(operation, 1, FaultEffect::Error(FaultErrno::Io));
    faults.set_plan(FaultPlan::one(fault.on(".log")));
}

fn on_disk<T: Send>(
    disk: DiskImage,
    seed: u64,
    test: impl FnOnce(&Arc<SimEnv>, &Arc<FaultEnv>, &SharedEnv) -> T + Send,
) -> T {
    SimEnv::run(SimOptions { disk, ..SimOptions::new(seed) }, |sim| {
        let faults = FaultEnv::new(Arc::<SimEnv>::clone(&sim), FaultPlan::default());
        let env: SharedEnv = Arc::<FaultEnv>::clone(&faults);
        test(&sim, &faults, &env)
    })
}

#[test]
fn what_is_finished_says_where_its_records_are_and_how_many_large_values_it_has() {
    simulate(1, |_, env| {
        let opened = Opened::first(env);
        assert_eq!(opened.log.finished(LogPosition(0)), [], "it is still written to");
        opened.write(9, 1000);
        let finished = opened.log.finished(LogPosition(0));
        assert_eq!(finished.len(), 1);
        let one = &finished[0];
        let count = one.large_bytes / 1000;
        assert_eq!((one.base.0, one.record_bytes()), (0, count * 8224));
        assert_eq!(one.offset_of(LogPosition(8224)), Some(SEGMENT_HEADER_BYTES + 8224));
        assert_eq!(one.offset_of(one.end), None);
        assert!(one.may_stay(one.record_bytes() * 85 / 100 + 1));
        assert!(!one.may_stay(one.record_bytes() * 85 / 100 - 1));
        assert_eq!(opened.log.finished(one.end), [], "nothing above that is finished");
        Ok(())
    });
}

#[test]
fn a_rotation_is_for_what_must_be_synced_or_may_stay() {
    // Bytes of large values in each record, whether the log is synced, and whether a segment ends.
    for (large_bytes, is_synced, ends) in
        [(0, false, true), (0, true, false), (3000, true, false), (8000, true, true)]
    {
        simulate(2, |_, env| {
            let opened = Opened::first(env);
            opened.write(3, large_bytes);
            if is_synced {
                opened.log.sync(opened.log.end())?;
            }
            opened.log.prepare()?;
            opened.log.rotate()?;
            let finished = opened.log.finished(LogPosition(0)).len();
            assert_eq!(finished == 1, ends, "{large_bytes} {is_synced}");
            Ok(())
        });
    }
}

#[test]
fn the_file_of_a_value_file_is_not_used_again() {
    with_retired(3, |_, opened, segment| {
        let content = opened.content(&segment);
        assert!(opened.log.keeps(segment.id));
        opened.log.release(opened.log.end())?;
        assert!(!opened.log.keeps(segment.id));
        assert_eq!(opened.bytes_of(&segment.path), None, "the log gives its name back");
        assert_eq!(opened.bytes_of(&values_of(&segment)), Some(segment.file_bytes()));
        opened.assert_not_written_to(&segment, &content);
        let opened = opened.again(&segment);
        assert!(!opened.log.keeps(segment.id), "no name of it was found");
        opened.assert_not_written_to(&segment, &content);
        Ok(())
    });
}

#[test]
fn a_name_that_cannot_be_removed_is_kept_until_the_next_open_removes_it() {
    with_retired(4, |faults, opened, segment| {
        let content = opened.content(&segment);
        fail_once(faults, Operation::Remove);
        opened.log.release(opened.log.end())?;
        assert!(!faults.injected().is_empty());
        assert!(opened.log.keeps(segment.id), "its name is there");
        opened.assert_not_written_to(&segment, &content);
        let opened = opened.again(&segment);
        assert_eq!(opened.bytes_of(&segment.path), None);
        assert!(!opened.log.keeps(segment.id));
        opened.assert_not_written_to(&segment, &content);
        Ok(())
    });
}

#[test]
fn a_name_that_could_not_be_removed_goes_with_the_next_release() {
    with_retired(7, |faults, opened, segment| {
        fail_once(faults, Operation::Remove);
        opened.log.release(opened.log.end())?;
        assert!(opened.log.keeps(segment.id), "its name is there");
        opened.log.release(opened.log.end())?;
        assert_eq!(opened.bytes_of(&segment.path), None);
        assert!(!opened.log.keeps(segment.id));
        Ok(())
    });
}

#[test]
fn a_name_that_can_never_be_removed_fails_no_release_and_no_open() {
    with_retired(9, |faults, opened, segment| {
        let content = opened.content(&segment);
        let fault = Fault::from_nth(Operation::Remove, 1, FaultEffect::Error(FaultErrno::Io));
        let name = segment.path.file_name().expect("it has a name").to_string_lossy();
        faults.set_plan(FaultPlan::one(fault.on(name.as_ref())));
        opened.log.release(opened.log.end())?;
        opened.write(9, 8000);
        opened.log.release(opened.log.end())?;
        let opened = opened.again(&segment);
        assert!(opened.log.keeps(segment.id), "its name is there");
        opened.assert_not_written_to(&segment, &content);
        Ok(())
    });
}

#[test]
fn a_file_that_cannot_be_cut_goes_by_its_name_all_the_same() {
    with_retired(8, |faults, opened, segment| {
        let bytes = opened.bytes_of(&segment.path);
        assert!(bytes > Some(segment.file_bytes()), "some of it is unused");
        fail_once(faults, Operation::Write);
        opened.log.release(opened.log.end())?;
        assert!(!faults.injected().is_empty());
        assert_eq!(opened.bytes_of(&segment.path), None);
        assert_eq!(opened.bytes_of(&values_of(&segment)), bytes);
        Ok(())
    });
}

#[test]
fn a_segment_that_is_replayed_stays_a_value_file() {
    with_retired(5, |_, opened, segment| {
        let content = opened.content(&segment);
        let start = opened.log.start_at(LogPosition(0));
        let opened = Opened::new(&opened.env, 2, start, Some(&segment));
        assert!(opened.log.keeps(segment.id));
        opened.log.release(opened.log.end())?;
        assert!(!opened.log.keeps(segment.id));
        assert_eq!(opened.bytes_of(&values_of(&segment)), Some(segment.file_bytes()));
        opened.assert_not_written_to(&segment, &content);
        Ok(())
    });
}

#[test]
fn a_file_that_can_have_no_second_name_is_used_again_and_no_other_is_offered() {
    simulate(6, |_, env| {
        let opened = Opened::first(env);
        opened.write(17, 8000);
        let segment = opened.log.finished(LogPosition(0)).swap_remove(0);
        assert!(opened.log.may_retire());
        opened.log.retire(&segment);
        opened.log.refuse(segment.id);
        assert!(!opened.log.may_retire());
        assert_eq!(opened.log.finished(LogPosition(0)), []);
        opened.log.release(opened.log.end())?;
        assert!(!opened.log.keeps(segment.id));
        Ok(())
    });
}

/// Goal: what the log says it keeps no more has no name of the log after any power cut: whoever
/// deletes the value file then leaves nothing that a later open would write to. Method: a process
/// that died between the remove and the sync of the directory is among those before.
#[test]
fn no_name_comes_back_that_the_log_said_to_be_gone() {
    for seed in 0..40 {
        println!("seed {seed}");
        let (segment, disk) = on_disk(DiskImage::new(), seed, |sim, faults, env| {
            let opened = Opened::first(env);
            opened.write(9, 8000);
            let segment = opened.retire_first();
            let fault = Fault::from_nth(Operation::SyncDir, 1, FaultEffect::Error(FaultErrno::Io));
            faults.set_plan(FaultPlan::one(fault));
            let released = opened.log.release(opened.log.end());
            assert_eq!(opened.log.keeps(segment.id), released.is_err());
            faults.set_plan(FaultPlan::default());
            let opened = opened.again(&segment);
            assert!(!opened.log.keeps(segment.id));
            env.fs().remove(&values_of(&segment)).expect("nothing fails");
            (segment, sim.disk().crash(CrashPolicy::Sectors, seed))
        });
        on_disk(disk, seed, |_, _, env| {
            let entries = env.fs().list(Path::new(DIR)).expect("nothing fails");
            let name = |id: FileId| format!("{id}.log");
            assert!(entries.iter().all(|entry| entry.name != name(segment.id)), "{entries:?}");
        });
    }
}
