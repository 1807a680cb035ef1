//! What a review of the engine found. Each test tells what happened, who would have lost what, and
//! the repair.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terrace_base::{LogPosition, SeqNo};
use terrace_env::{
    CrashPolicy, DiskImage, Fault, FaultEffect, FaultEnv, FaultErrno, FaultPlan, JobClass,
    Operation, RealEnv,
};

use super::*;
use crate::Error;
use crate::options::Durability;
use crate::store::sequencer::Sequencer;
use crate::store::{Seams, Update};
use crate::version::FileIds;
use crate::wal::{
    LogPlace, LogSink, LogStart, LogStore, LogTarget, MemoryLog, Record, Replayed, Visit,
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

fn put_synced(store: &Store, key: &str, value: &str) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(key.as_bytes(), value.as_bytes())?;
    let options = WriteOptions { durability: Some(Durability::Sync), ..WriteOptions::default() };
    store.write(&batch, &options)
}

/// A log that syncs by itself: everything in it is durable at once, as on persistent memory.
#[derive(Clone, Debug, Default)]
struct DurableLog {
    inner: MemoryLog,
    panics: Arc<AtomicBool>,
}

impl LogStore for DurableLog {
    fn replay(&self, start: LogStart, visit: &mut Visit<'_>) -> Result<Replayed> {
        self.inner.replay(start, visit)
    }

    fn begin(
        &self,
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
    let sequencer = Sequencer::with_slots(env.as_ref(), SeqNo::ZERO, LogPosition(0), 2);
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
