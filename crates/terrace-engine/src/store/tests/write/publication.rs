//! When a write becomes visible, and what becomes of the others when one of them does not arrive.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use terrace_base::{LogPosition, SeqNo};
use terrace_env::{JobClass, RealEnv};

use crate::Error;
use crate::ids::FileIds;
use crate::options::Durability;
use crate::store::Seams;
use crate::store::sequencer::Sequencer;
use crate::store::tests::*;
use crate::wal::{
    LogFacts, LogPlace, LogSink, LogStart, LogStore, LogTarget, MemoryLog, Record, Replayed, Visit,
};

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
