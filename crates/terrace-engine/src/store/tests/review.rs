//! What a review of the engine found. Each test tells what happened, who would have lost what, and
//! the repair.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terrace_base::{
    EntryKind, Epoch, FileId, KeyRange, LevelNo, LogPosition, MemtableId, RowId, SeqNo,
};
use terrace_env::{
    CrashPolicy, DiskImage, Fault, FaultEffect, FaultEnv, FaultErrno, FaultPlan, JobClass,
    Operation, RealEnv,
};

use super::*;
use crate::Error;
use crate::options::Durability;
use crate::store::sequencer::Sequencer;
use crate::store::{IterOptions, Seams, Update};
use crate::table::TableLocation;
use crate::version::format::{decode_manifest_header, encode_record};
use crate::version::{FileIds, RowMeta, TableMeta, VersionEdit};
use crate::wal::format::{
    RecordHeader, RecordKind, SEGMENT_HEADER_BYTES, SegmentHeader, put_entry, put_memtables,
};
use crate::wal::{
    LogFacts, LogPlace, LogSink, LogStart, LogStore, LogTarget, MemoryLog, Record, Replayed, Visit,
};

/// Runs `test` in a simulation whose calls fail by plan.
fn with_faults<T: Send>(
    seed: u64,
    test: impl FnOnce(&Arc<SimEnv>, &Arc<FaultEnv>, &SharedEnv) -> T + Send,
) -> T {
    let sim = SimOptions { steps_max: 4_000_000, ..SimOptions::new(seed) };
    SimEnv::run(sim, |sim| {
        let faults = FaultEnv::new(Arc::<SimEnv>::clone(&sim), FaultPlan::default());
        let env: SharedEnv = Arc::<FaultEnv>::clone(&faults);
        test(&sim, &faults, &env)
    })
}

/// Runs `test` on a disk that a crash left.
fn after_crash<T: Send>(disk: DiskImage, test: impl FnOnce(&SharedEnv) -> T + Send) -> T {
    SimEnv::run(SimOptions { disk, ..SimOptions::new(1) }, |env| {
        let env: SharedEnv = env;
        test(&env)
    })
}

/// What `run` leaves when the process dies at its end.
fn killed(seed: u64, run: impl FnOnce(&SharedEnv) -> Result<Store> + Send) -> DiskImage {
    SimEnv::run(SimOptions::new(seed), |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let store = run(&env).expect("the disk is large enough");
        let disk = sim.disk().crash(CrashPolicy::ProcessKill, 0);
        drop(store);
        disk
    })
}

/// As `small`, but nothing is compacted by itself.
fn lazy() -> Options {
    Options { l0_rows_per_cut: 100, l0_rows_slow: 100, l0_rows_stop: 101, ..small() }
}

fn put_synced(store: &Store, key: &str, value: &str) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(key.as_bytes(), value.as_bytes())?;
    let options = WriteOptions { durability: Some(Durability::Sync), ..WriteOptions::default() };
    store.write(&batch, &options)
}

fn files_with(env: &SharedEnv, suffix: &str) -> Vec<(String, u64)> {
    let entries = env.fs().list(Path::new(DIR)).expect("the directory is there");
    let entries = entries.into_iter().filter(|entry| entry.name.ends_with(suffix));
    entries.map(|entry| (entry.name, entry.bytes)).collect()
}

/// The segments that were begun, oldest first.
fn segments_of(disk: &DiskImage) -> Vec<(PathBuf, SegmentHeader)> {
    let files = disk.files().into_iter().map(|(path, _)| path);
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .filter_map(|path| {
            let bytes = disk.read(&path).expect("listed");
            let header = SegmentHeader::decode(&bytes[..SEGMENT_HEADER_BYTES as usize], 0).ok()?;
            path.ends_with(format!("{}.log", header.file_id)).then_some((path, header))
        })
        .collect()
}

/// A log that syncs by itself: everything in it is durable at once, as on persistent memory.
#[derive(Clone, Debug, Default)]
struct DurableLog {
    inner: MemoryLog,
    panics: Arc<AtomicBool>,
}

impl LogStore for DurableLog {
    fn replay(&self, facts: LogFacts, visit: &mut Visit<'_>) -> Result<Replayed> {
        self.inner.replay(facts, visit)
    }

    fn begin(
        &self,
        _database: u128,
        _ids: &Arc<FileIds>,
        _replayed: &Replayed,
        _reserved_bytes: u64,
    ) -> Result<Arc<dyn LogSink>> {
        Ok(Arc::new(self.clone()))
    }
}

impl LogSink for DurableLog {
    fn take(&self, bytes: usize) -> Option<LogPlace> {
        let place = self.inner.take(bytes)?;
        let target = Arc::new(Target { inner: Arc::clone(&place.target), log: self.clone() });
        Some(LogPlace { target, ..place })
    }

    fn make_room(&self, bytes: usize) -> Result<()> {
        self.inner.make_room(bytes)
    }

    fn end(&self) -> LogPosition {
        LogSink::end(&self.inner)
    }

    fn sync(&self, _through: LogPosition) -> Result<()> {
        Ok(())
    }

    fn durable(&self) -> LogPosition {
        LogSink::end(&self.inner)
    }

    fn start_at(&self, from: LogPosition) -> LogStart {
        self.inner.start_at(from)
    }

    fn release(&self, from: LogPosition) -> Result<()> {
        self.inner.release(from)
    }

    fn live_bytes(&self) -> u64 {
        self.inner.live_bytes()
    }
}

#[derive(Debug)]
struct Target {
    inner: Arc<dyn LogTarget>,
    log: DurableLog,
}

impl LogTarget for Target {
    fn append(&self, place: &LogPlace, record: &Record<'_>) -> Result<()> {
        assert!(!self.log.panics.swap(false, Ordering::Relaxed), "out of luck");
        self.inner.append(place, record)
    }
}

fn open_on(env: &SharedEnv, log: &DurableLog, options: &Options) -> Result<Store> {
    let process = process(env)?;
    let local = Seams::local(&process, Path::new(DIR), options);
    let seams = Seams { log: Arc::new(log.clone()), ..local };
    Store::open_with(&process, Path::new(DIR), options.clone(), seams)
}

#[test]
fn a_synced_write_is_visible_when_it_is_acknowledged_however_it_became_durable() -> Result<()> {
    simulate(1, |env| {
        let options = Options { durability: Durability::Sync, ..small() };
        let store = open_on(env, &DurableLog::default(), &options)?;
        put(&store, "a", "1")?;
        assert_eq!(get(&store, "a")?.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn a_writer_that_panics_half_way_hangs_nobody() -> Result<()> {
    simulate(2, |env| {
        let log = DurableLog::default();
        let store = open_on(env, &log, &small())?;
        put(&store, "a", "1")?;
        log.panics.store(true, Ordering::Relaxed);
        assert!(catch_unwind(AssertUnwindSafe(|| put(&store, "b", "2"))).is_err());
        let refused = put(&store, "c", "3").expect_err("a record is missing from the log");
        assert!(matches!(refused, Error::Poisoned(_)), "{refused}");
        assert_eq!(get(&store, "a")?.as_deref(), Some("1"));
        assert!(store.close().is_err());
        Ok(())
    })
}

#[test]
fn nothing_is_published_before_all_that_comes_before_it() {
    let env: SharedEnv = RealEnv::new();
    let log = Arc::new(MemoryLog::default());
    let sequencer = Sequencer::with_slots(&env.waits(), SeqNo::ZERO, LogPosition(0), 2);
    let sequencer = Arc::new(sequencer);
    let is_wrong = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..6)
        .map(|thread| {
            let (log, sequencer) = (Arc::clone(&log), Arc::clone(&sequencer));
            let is_wrong = Arc::clone(&is_wrong);
            let write = move || {
                let Ok(taken) = sequencer.take(1, 8, log.as_ref()) else {
                    return std::hint::spin_loop();
                };
                // Long enough for others to come by, now and then for a change of thread.
                (0..taken.first_seqno.0 % 512).for_each(|_| std::hint::spin_loop());
                if sequencer.visible() >= taken.first_seqno
                    || sequencer.finished().1 >= taken.place.end
                {
                    is_wrong.store(true, Ordering::Relaxed);
                }
                sequencer.finish(&taken, true);
            };
            let job = Box::new(move || (0..400_000).for_each(|_| write()));
            env.spawn(JobClass::Client, &format!("{thread}"), job).expect("a thread")
        })
        .collect();
    assert!(threads.into_iter().all(terrace_env::JobHandle::join));
    assert!(!is_wrong.load(Ordering::Relaxed), "a write was published before it was done");
}

#[test]
fn writers_that_wait_for_l0_are_let_in_after_a_compaction_by_hand() -> Result<()> {
    for seed in 0..6 {
        with_faults(seed, |_, faults, env| {
            let store = open(env, &small())?;
            for index in 0..300 {
                put(&store, &format!("{index:04}"), &"o".repeat(200))?;
            }
            store.settle();
            let slow = FaultEffect::Delay(Duration::from_millis(3));
            let slow = Fault::from_nth(Operation::Read, 1, slow).on(".table");
            faults.set_plan(FaultPlan::one(slow));
            let writer = {
                let store = store.clone();
                let job = Box::new(move || {
                    for index in 0..3000 {
                        put(&store, &format!("{index:04}"), &"n".repeat(300)).expect("room");
                    }
                });
                env.spawn(JobClass::Client, "writer", job)?
            };
            store.compact(&KeyRange::all())?;
            assert!(writer.join());
            assert!(env.now() < Duration::from_secs(120), "{:?}", env.now());
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}

#[test]
fn an_iterator_lets_go_of_what_a_flush_after_a_freeze_replaced() -> Result<()> {
    simulate(4, |env| {
        let store = open(env, &small())?;
        for index in 0..400 {
            put(&store, &format!("{index:04}"), "old")?;
        }
        store.flush()?;
        store.settle();
        let mut iter = store.iter(IterOptions::default())?;
        iter.seek_to_first()?;
        for index in 0..400 {
            put(&store, &format!("{index:04}"), &"new".repeat(40))?;
        }
        store.compact(&KeyRange::all())?;
        store.settle();
        for index in 0..200 {
            assert_eq!(iter.entry().expect("still there").key, format!("{index:04}").as_bytes());
            iter.next()?;
        }
        store.inner.reclaim()?;
        let files = store.inner.context.opener.store.list()?.len();
        assert_eq!(files, store.inner.versions.current().tables().count());
        Ok(())
    })
}

#[test]
fn a_table_that_cannot_be_deleted_holds_up_no_other() -> Result<()> {
    with_faults(5, |_, faults, env| {
        let store = open(env, &lazy())?;
        for round in 0..3 {
            for index in 0..60 {
                put(&store, &format!("{index:04}"), &format!("{round}").repeat(100))?;
            }
            store.flush()?;
        }
        let fault = Fault::nth(Operation::Remove, 1, FaultEffect::Error(FaultErrno::Io));
        faults.set_plan(FaultPlan::one(fault.on(".table")));
        let _ = store.compact(&KeyRange::all());
        assert!(!faults.injected().is_empty());
        store.inner.reclaim()?;
        let files = store.inner.context.opener.store.list()?.len();
        assert_eq!(files, store.inner.versions.current().tables().count());
        Ok(())
    })
}

#[test]
fn opening_again_and_again_takes_no_more_space() -> Result<()> {
    simulate(6, |env| {
        for round in 0..60 {
            let store = open(env, &small())?;
            put(&store, &format!("{round:04}"), "one line a day")?;
            store.settle();
        }
        let store = open(env, &small())?;
        for round in 0..60 {
            assert!(get(&store, &format!("{round:04}"))?.is_some());
        }
        let logs = files_with(env, ".log");
        let bytes: u64 = logs.iter().map(|(_, bytes)| bytes).sum();
        let bound = small().log_bytes_max + 4 * small().log_segment_bytes;
        assert!(bytes <= bound, "{} log files hold {bytes} bytes", logs.len());
        Ok(())
    })
}

#[test]
fn a_range_that_filled_its_disk_opens_again() -> Result<()> {
    SimEnv::run(SimOptions::new(7), |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        sim.set_capacity(400 << 10);
        let mut store = open(&env, &small())?;
        let mut written = 0;
        while put(&store, &format!("{written:06}"), &"x".repeat(500)).is_ok() {
            written += 1;
            assert!(written < 10_000, "the disk never fills");
        }
        for _ in 0..5 {
            drop(store);
            store = open(&env, &small())?;
            for index in 0..written {
                assert!(get(&store, &format!("{index:06}"))?.is_some());
            }
        }
        Ok(())
    })
}

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
fn a_refusal_waits_for_what_it_rests_on() -> Result<()> {
    with_faults(10, |_, faults, env| {
        let store = open(env, &Options { durability: Durability::Sync, ..small() })?;
        store.settle();
        let slow = FaultEffect::Delay(Duration::from_secs(1));
        faults.set_plan(FaultPlan::one(Fault::nth(Operation::Sync, 1, slow).on(".log")));
        let writer = {
            let store = store.clone();
            env.spawn(
                JobClass::Client,
                "writer",
                Box::new(move || {
                    put(&store, "n", "text").expect("room");
                }),
            )?
        };
        env.sleep(Duration::from_millis(100));
        assert_eq!(get(&store, "n")?, None, "not durable yet");
        let refused = store.update(&[b"n"], &WriteOptions::default(), |old| match &old[0] {
            Some(_) => Err(Error::invalid("not a number")),
            None => Ok(Update::Keep),
        });
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        assert_eq!(get(&store, "n")?.as_deref(), Some("text"), "the refusal rests on it");
        assert!(writer.join());
        Ok(())
    })
}

/// A flush asks which records the memtables beside it still need. A memtable that was frozen
/// between its look at the frozen ones and its look at the active ones was in neither, so the
/// manifest gave up its records: a kill before its own flush lost it whole.
#[test]
fn a_freeze_beside_a_flush_gives_up_no_record() {
    let tight = || Options { memtable_bytes: 16 << 10, frozen_memtables_max: 8, ..lazy() };
    for seed in 0..60 {
        let value = "x".repeat(3000);
        let disk = killed(seed, |env| {
            let store = Arc::new(open(env, &tight())?);
            let clients: Vec<_> = (0..2)
                .map(|client| {
                    let (store, value) = (Arc::clone(&store), value.clone());
                    let job = Box::new(move || {
                        for index in 0..50 {
                            put(&store, &format!("{client}/{index:03}"), &value).expect("room");
                        }
                    });
                    env.spawn(JobClass::Client, &client.to_string(), job)
                })
                .collect();
            clients.into_iter().for_each(|client| assert!(client.expect("simulated").join()));
            Ok(Arc::into_inner(store).expect("the clients are gone"))
        });
        after_crash(disk, |env| {
            let store = open(env, &tight()).expect("nothing is damaged");
            for key in (0..2).flat_map(|c| (0..50).map(move |i| format!("{c}/{i:03}"))) {
                let there = get(&store, &key).expect("nothing is damaged").is_some();
                assert!(there, "seed {seed}: {key} was acknowledged and is lost");
            }
        });
    }
}

#[test]
fn a_range_that_is_only_read_starts_no_work() -> Result<()> {
    let disk = killed(11, |env| {
        let store = open(env, &lazy())?;
        for _ in 0..4 {
            put(&store, "a", "1")?;
            store.flush()?;
        }
        Ok(store)
    });
    let full = killed(12, |env| {
        let store = open(env, &Options { memtable_bytes: 1 << 20, ..lazy() })?;
        for index in 0..400 {
            put(&store, &format!("{index}"), &"x".repeat(100))?;
        }
        Ok(store)
    });
    for disk in [disk, full] {
        let before = disk.files();
        SimEnv::run(SimOptions { disk, ..SimOptions::new(3) }, |sim| {
            let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
            let store = open(&env, &Options { read_only: true, ..small() })?;
            assert!(matches!(store.flush(), Err(Error::ReadOnly)));
            assert!(matches!(store.compact(&KeyRange::all()), Err(Error::ReadOnly)));
            store.settle();
            store.close()?;
            assert_eq!(sim.disk().files(), before);
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}

#[test]
fn a_close_beside_a_failed_write_leaves_a_range_that_opens() -> Result<()> {
    for seed in 0..20 {
        let disk = with_faults(seed, |sim, faults, env| {
            let store = open(env, &small())?;
            put_synced(&store, "a", "1")?;
            store.settle();
            let faults_of_write =
                [FaultEffect::Delay(Duration::from_millis(1)), FaultEffect::Error(FaultErrno::Io)]
                    .map(|effect| Fault::nth(Operation::Write, 1, effect).on(".log"));
            faults.set_plan(FaultPlan { faults: faults_of_write.to_vec() });
            let client = {
                let store = store.clone();
                let job = Box::new(move || drop(put(&store, "b", "2")));
                env.spawn(JobClass::Client, "client", job)?
            };
            env.sleep(Duration::from_micros(500));
            assert!(store.close().is_err());
            assert!(client.join());
            Ok::<_, Error>(sim.disk().crash(CrashPolicy::ProcessKill, 0))
        })?;
        after_crash(disk, |env| {
            let store = open(env, &small())?;
            assert_eq!(get(&store, "a")?.as_deref(), Some("1"), "seed {seed}");
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}

#[test]
fn a_close_mends_a_manifest_that_a_full_disk_broke() -> Result<()> {
    with_faults(15, |_, faults, env| {
        let store = open(env, &small())?;
        put(&store, "a", "1")?;
        let fault = Fault::nth(Operation::Write, 1, FaultEffect::ShortWrite(FaultErrno::NoSpace));
        faults.set_plan(FaultPlan::one(fault.on(".manifest")));
        assert!(matches!(store.flush(), Err(Error::NoSpace(_))));
        store.close()?;
        drop(store);
        let store = open(env, &small())?;
        assert!(store.recovery().was_closed);
        assert_eq!(get(&store, "a")?.as_deref(), Some("1"));
        Ok(())
    })
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

/// A segment of a killed range to which a record with this body was added, right but for what it
/// says.
fn with_record(body: &[u8], entry_count: u16) -> DiskImage {
    let options = Options { log_segment_bytes: 1 << 20, log_bytes_max: 4 << 20, ..small() };
    let mut disk = killed(17, |env| {
        let store = open(env, &options)?;
        put(&store, "a", "1")?;
        Ok(store)
    });
    let (path, header) = segments_of(&disk).pop().expect("one");
    let bytes = disk.read(&path).expect("listed");
    let mut offset = SEGMENT_HEADER_BYTES;
    while let Ok((record, _)) =
        RecordHeader::decode(&bytes[offset as usize..], header.identity, offset)
    {
        offset += record.padded_bytes();
    }
    let record = RecordHeader {
        bytes: (crate::wal::format::RECORD_HEADER_BYTES + body.len()) as u32,
        first_seqno: SeqNo(100),
        durable: LogPosition(0),
        seqno_count: 1,
        entry_count,
        kind: RecordKind::Batch,
    };
    let encoded = record.encode(header.identity, offset, &[body]);
    disk.write(&path, offset, &[&encoded, body].concat()).expect("inside the file");
    disk
}

#[test]
fn forged_records_are_refused_and_not_believed() {
    let memtable = MemtableId { epoch: Epoch(1), counter: 1 };
    let entries: [(EntryKind, &[u8], &[u8]); 2] = [
        (EntryKind::Value, &[b'k'; 100_000], b""),
        (EntryKind::RangeTombstone, b"a", &[b'k'; 100_000]),
    ];
    for (kind, key, value) in entries {
        let mut body = Vec::new();
        put_memtables(&mut body, &[memtable], &[]);
        put_entry(&mut body, kind, false, None, key, value);
        let outcome = after_crash(with_record(&body, 1), |env| open(env, &small()).map(|_| ()));
        assert!(matches!(outcome, Err(Error::Corruption(_))), "{outcome:?}");
    }
}

#[test]
fn a_forged_position_of_a_segment_is_refused_and_not_believed() {
    let mut disk = killed(18, |env| {
        let store = open(env, &small())?;
        put(&store, "a", "1")?;
        Ok(store)
    });
    let (path, header) = segments_of(&disk).pop().expect("one");
    let forged = SegmentHeader { base: LogPosition(u64::MAX - 40), ..header };
    for offset in [0, SegmentHeader::second_offset(header.segment_bytes)] {
        disk.write(&path, offset, &forged.encode(offset)).expect("inside the file");
    }
    let outcome = after_crash(disk, |env| open(env, &small()).map(|_| ()));
    assert!(matches!(outcome, Err(Error::Corruption(_))), "{outcome:?}");
}

#[test]
fn a_table_that_only_moves_down_stays_open() -> Result<()> {
    simulate(20, |env| {
        let options = Options { l0_rows_per_cut: 2, l0_rows_slow: 2, ..lazy() };
        let store = open(env, &options)?;
        put(&store, "a", "1")?;
        store.flush()?;
        let table = |store: &Store| {
            let version = store.inner.versions.current();
            let mut tables: Vec<_> = version.tables().map(Arc::clone).collect();
            tables.sort_by_key(|table| table.meta().id);
            tables.remove(0)
        };
        let before = table(&store);
        put(&store, "b", "2")?;
        store.flush()?;
        store.settle();
        assert_eq!(store.stats().compaction_count, 0, "the rows share no key");
        assert_eq!(store.inner.versions.current().l0.rows().len(), 0);
        assert!(Arc::ptr_eq(&before, &table(&store)));
        Ok(())
    })
}

#[test]
fn a_full_disk_is_not_asked_for_space_at_every_write() -> Result<()> {
    with_faults(23, |_, faults, env| {
        let options = Options {
            memtable_bytes: 4 << 20,
            log_segment_bytes: 1 << 20,
            log_bytes_max: 4 << 20,
            ..small()
        };
        let store = open(env, &options)?;
        store.settle();
        let full = FaultEffect::Error(FaultErrno::NoSpace);
        faults.set_plan(FaultPlan::one(Fault::from_nth(Operation::Preallocate, 1, full)));
        let mut written = 0;
        let refused = loop {
            match put(&store, &format!("{written:06}"), &"x".repeat(500)) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::NoSpace(_)), "{refused}");
        let asked = faults.injected().len();
        assert!(asked < 20, "asked {asked} times during {written} writes");
        faults.set_plan(FaultPlan::default());
        put(&store, "after", "there is space")?;
        Ok(())
    })
}

#[test]
fn forged_numbers_of_a_manifest_are_refused_and_not_believed() {
    let disk = killed(19, |env| {
        let store = open(env, &lazy())?;
        for _ in 0..2 {
            put(&store, "a", "1")?;
            store.flush()?;
        }
        Ok(store)
    });
    let manifest = disk.files().into_iter().map(|(path, _)| path);
    let mut manifest = manifest.filter(|path| path.extension().is_some_and(|e| e == "manifest"));
    let manifest = manifest.next_back().expect("one");
    let bytes = disk.read(&manifest).expect("listed");
    let (identity, id) = decode_manifest_header(&bytes).expect("just written");
    let record = bytes.len() as u64;
    let huge = [u64::MAX, 1 << 63, (1 << 62) + 7];
    for number in huge {
        let base = VersionEdit::default();
        let file = FileId { epoch: Epoch(number), counter: 1 };
        let memtable = MemtableId { epoch: Epoch(1), counter: number };
        let position = LogPosition(number);
        let edits = [
            VersionEdit { epoch: Some(Epoch(number)), ..base.clone() },
            VersionEdit { next_row: Some(RowId(number)), ..base.clone() },
            VersionEdit { greatest_seqno: Some(SeqNo(u64::MAX - 1)), ..base.clone() },
            VersionEdit { closed: Some(position), ..base.clone() },
            VersionEdit { memtables_flushed: vec![(memtable, position)], ..base.clone() },
            VersionEdit {
                log_start: Some(LogStart { segment: Some(file), position: LogPosition(0) }),
                ..base.clone()
            },
            VersionEdit { log_start: Some(LogStart { segment: None, position }), ..base.clone() },
            VersionEdit { tables_added: vec![(LevelNo(1), table(number))], ..base.clone() },
            VersionEdit {
                rows_added: vec![RowMeta { id: RowId(number), tables: Vec::new() }],
                ..base.clone()
            },
        ];
        for edit in edits {
            let mut forged = disk.clone();
            forged.write(&manifest, record, &encode_record(identity, record, &edit)).expect("room");
            let outcome = after_crash(forged, |env| open(env, &small()).map(|_| ()));
            assert!(matches!(outcome, Err(Error::Corruption(_))), "{id} {edit:?}: {outcome:?}");
        }
    }
}

/// A table that says that it is huge.
fn table(number: u64) -> TableMeta {
    TableMeta {
        location: TableLocation(b"000001-00000001.table".to_vec()),
        bytes: number,
        greatest_seqno: SeqNo(2),
        bounds: KeyRange::new("a", Some(b"b".to_vec())),
        ..TableMeta::sample(1)
    }
}
