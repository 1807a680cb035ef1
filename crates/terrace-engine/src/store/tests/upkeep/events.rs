//! Goal: listeners are told what happened, once, in figures that agree with the statistics. Method:
//! a listener that keeps everything, on a simulated machine; faults make the rare events happen.

use std::time::Duration;

use terrace_base::KeyRange;
use terrace_env::{Fault, FaultEffect, FaultErrno, FaultPlan, Latch, Operation};

use crate::events::{Event, EventKind, Listener, Listeners};
use crate::store::tests::*;
use crate::store::{StoreStats, Work};

/// Keeps all events.
#[derive(Default)]
pub struct Kept(Latch<Vec<Event>>);

impl Listener for Kept {
    fn on(&self, event: &Event) {
        self.0.lock().push(event.clone());
    }
}

impl Kept {
    pub fn kinds(&self) -> Vec<EventKind> {
        self.0.lock().iter().map(|event| event.kind.clone()).collect()
    }

    fn count(&self, is_counted: impl Fn(&EventKind) -> bool) -> usize {
        self.kinds().iter().filter(|kind| is_counted(kind)).count()
    }

    fn sum(&self, of: impl Fn(&EventKind) -> u64) -> u64 {
        self.kinds().iter().map(of).sum()
    }
}

pub fn listened(options: Options) -> (Arc<Kept>, Options) {
    let kept = Arc::new(Kept::default());
    let listeners = Listeners::new().with(Arc::<Kept>::clone(&kept));
    (kept, Options { listeners, ..options })
}

#[test]
fn a_flush_and_a_compaction_are_told_in_the_order_of_their_steps() -> Result<()> {
    simulate(1, |env| {
        let (kept, options) = listened(lazy());
        let store = open(env, &options)?;
        put(&store, "key", "value")?;
        put(&store, "other", "value")?;
        store.flush()?;
        let words: Vec<&str> = kept
            .kinds()
            .iter()
            .filter_map(|kind| match kind {
                EventKind::FlushBegan { memtable_count: 1, .. } => Some("flush began"),
                EventKind::Installed(edit) if edit.rows_added == 1 => Some("row installed"),
                EventKind::FlushEnded(flush) if flush.row_bytes > 0 => Some("flush ended"),
                EventKind::SegmentAdded { .. } => None,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(words, ["flush began", "row installed", "flush ended"]);
        // What lies in two rows cannot move down as it is.
        put(&store, "key", "newer")?;
        store.compact(&KeyRange::all())?;
        let last = store.compactions().pop().expect("two rows were merged");
        assert_eq!(kept.count(|kind| *kind == EventKind::CompactionEnded(last)), 1);
        let at: Vec<Duration> = kept.0.lock().iter().map(|event| event.at).collect();
        assert!(at.is_sorted(), "one thread after the other tells them: {at:?}");
        Ok(())
    })
}

#[test]
fn the_figures_of_events_are_those_of_the_statistics() -> Result<()> {
    for seed in 0..4 {
        println!("seed {seed}");
        simulate(seed, |env| {
            let (kept, options) = listened(small());
            let store = open(env, &options)?;
            for index in 0..1500u64 {
                put(&store, &format!("{:03}", index * 37 % 500), &"v".repeat(100))?;
            }
            store.flush()?;
            store.settle();
            agrees(&kept, &store.stats());
            Result::Ok(())
        })?;
    }
    Ok(())
}

fn agrees(kept: &Kept, stats: &StoreStats) {
    use EventKind::{CompactionEnded, Cut, FlushBegan, FlushEnded, Moved};
    assert!(stats.cut_count > 0 && stats.dropped_entry_count > 0, "that was too little");
    let flushes = kept.count(|kind| matches!(kind, FlushEnded(_)));
    assert_eq!(flushes as u64, stats.flush_count);
    assert_eq!(kept.count(|kind| matches!(kind, FlushBegan { .. })), flushes);
    let compactions = kept.count(|kind| matches!(kind, CompactionEnded(_)));
    assert_eq!(compactions as u64, stats.compaction_count);
    assert_eq!(kept.count(|kind| matches!(kind, Cut(_))) as u64, stats.cut_count);
    assert_eq!(kept.count(|kind| matches!(kind, Moved(_))) as u64, stats.move_count);
    let sum = |of: fn(&EventKind) -> u64| kept.sum(of);
    let flushed = sum(|kind| if let FlushEnded(flush) = kind { flush.row_bytes } else { 0 });
    assert_eq!(flushed, stats.flush_bytes);
    let dropped =
        sum(|kind| if let CompactionEnded(done) = kind { done.dropped_entry_count } else { 0 });
    assert_eq!(dropped, stats.dropped_entry_count);
    // Every edit that changed tables was one of these.
    let installed = kept.count(|kind| matches!(kind, EventKind::Installed(_)));
    assert_eq!(installed as u64, stats.flush_count + stats.compaction_count + stats.move_count);
}

#[test]
fn a_stop_of_writers_is_told_once_when_it_begins_and_once_when_it_ends() -> Result<()> {
    with_faults(5, |_, faults, env| {
        let (kept, options) = listened(small());
        let store = open(env, &options)?;
        let slow = FaultEffect::Delay(Duration::from_millis(5));
        let plan = Fault::from_nth(Operation::Write, 1, slow).on(".table");
        faults.set_plan(FaultPlan::one(plan));
        for index in 0..600 {
            put(&store, &format!("{index:06}"), &"v".repeat(500))?;
        }
        store.flush()?;
        store.settle();
        // They alternate: no writer that comes while others wait tells it once more.
        let mut stopped = None;
        let mut told = 0;
        for kind in kept.kinds() {
            match kind {
                EventKind::StallBegan { cause } => {
                    assert_eq!(stopped.replace(cause), None);
                    told += 1;
                }
                EventKind::StallEnded { cause } => assert_eq!(stopped.take(), Some(cause)),
                _ => {}
            }
        }
        assert!(told > 0, "nothing stopped: {}", store.stats().stalls);
        assert_eq!(stopped, None, "writers go on at the end");
        Ok(())
    })
}

#[test]
fn work_that_fails_and_a_range_that_is_poisoned_are_told() -> Result<()> {
    with_faults(6, |_, faults, env| {
        let (kept, options) = listened(lazy());
        let store = open(env, &options)?;
        put(&store, "key", "value")?;
        let full = FaultEffect::Error(FaultErrno::NoSpace);
        faults.set_plan(FaultPlan::one(Fault::from_nth(Operation::Create, 1, full).on(".table")));
        while kept.count(|kind| matches!(kind, EventKind::WorkFailed { .. })) == 0 {
            if put(&store, "more", &"v".repeat(1000)).is_err() {
                break;
            }
        }
        let failed = |kind: &EventKind| match kind {
            EventKind::WorkFailed { work: Work::Flush, error, retry_after } => {
                error.contains("disk is full") && *retry_after > Duration::ZERO
            }
            _ => false,
        };
        assert!(kept.count(failed) > 0, "{:?}", kept.kinds());
        let broken = FaultEffect::Error(FaultErrno::Io);
        faults.set_plan(FaultPlan::one(Fault::from_nth(Operation::Sync, 1, broken).on(".log")));
        for _ in 0..2 {
            assert!(put_synced(&store, "lost", "value").is_err(), "the sync fails");
        }
        assert_eq!(kept.count(|kind| matches!(kind, EventKind::Poisoned { .. })), 1);
        faults.set_plan(FaultPlan::default());
        Ok(())
    })
}
