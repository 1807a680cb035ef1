//! Models of the order of publication, of read points, and of views that reads pin.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use terrace_base::{LogPosition, SeqNo, WallTime};
use terrace_env::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_env::model::{Weakened, explore, explore_weakened, must_fail};
use terrace_env::{Hold, WaitFactory};

use super::current::{Current, Numbered};
use super::read_points::ReadPoints;
use super::sequencer::{Grant, Sequencer};
use super::upkeep::all_held::AllHeld;
use crate::Result;
use crate::wal::{LogPlace, LogSink, LogStart, LogTarget, Record};

/// A log that gives out places and keeps nothing. The sequencer asks it under its latch.
#[derive(Debug, Default)]
struct Places(std::sync::Mutex<u64>);

#[derive(Debug)]
struct Nowhere;

const RECORD_BYTES: u64 = 8;

impl LogTarget for Nowhere {
    fn append(&self, _: &LogPlace, _: &Record<'_>) -> Result<()> {
        Ok(())
    }
}

impl LogSink for Places {
    fn take(&self, _: usize) -> Option<LogPlace> {
        let mut end = self.0.lock().unwrap();
        let position = LogPosition(*end);
        *end += RECORD_BYTES;
        let target = Arc::new(Nowhere);
        Some(LogPlace { position, end: LogPosition(*end), offset: position.0, target })
    }

    fn make_room(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn end(&self) -> LogPosition {
        LogPosition(*self.0.lock().unwrap())
    }

    fn sync(&self, _: LogPosition) -> Result<()> {
        Ok(())
    }

    fn durable(&self) -> LogPosition {
        LogPosition(0)
    }

    fn start_at(&self, position: LogPosition) -> LogStart {
        LogStart { segment: None, position }
    }

    fn release(&self, _: LogPosition) -> Result<()> {
        Ok(())
    }

    fn live_bytes(&self) -> u64 {
        0
    }
}

/// The writers of a model: each write has one number, and is done when its flag is set.
struct Range {
    sequencer: Sequencer,
    log: Places,
    /// By number; number 0 is before every write.
    inserted: Vec<AtomicBool>,
}

impl Range {
    fn new(writes: usize) -> Arc<Range> {
        Arc::new(Range {
            sequencer: Sequencer::new(&WaitFactory::real(), SeqNo::ZERO, LogPosition(0)),
            log: Places::default(),
            inserted: (0..=writes).map(|number| AtomicBool::new(number == 0)).collect(),
        })
    }

    fn take(&self) -> Grant {
        self.sequencer.take(1, RECORD_BYTES as usize, &self.log).expect("there is room")
    }

    fn finish(&self, taken: &Grant, publish: bool) {
        // An insert is released by the publication alone.
        self.inserted[taken.last_seqno.0 as usize].store(true, Ordering::Relaxed);
        self.sequencer.finish(taken, publish);
    }

    fn write(&self) {
        let taken = self.take();
        self.finish(&taken, true);
        self.sequencer.wait_until(|| self.sequencer.is_finished(taken.ticket));
        let visible = self.sequencer.visible();
        assert!(visible >= taken.last_seqno, "an acknowledged write is visible");
    }

    /// What a reader relies on: everything up to its read point is there.
    fn check_visible(&self) -> SeqNo {
        let visible = self.sequencer.visible();
        for number in 0..=visible.0 as usize {
            let is_there = self.inserted[number].load(Ordering::Relaxed);
            assert!(is_there, "number {number} is missing below read point {visible}");
        }
        visible
    }
}

fn writers_and_a_reader(writers: usize, with_reader: bool) {
    let range = Range::new(writers);
    let mut threads: Vec<_> = (1..writers)
        .map(|_| {
            let range = Arc::clone(&range);
            thread::spawn(move || range.write())
        })
        .collect();
    if with_reader {
        let range = Arc::clone(&range);
        threads.push(thread::spawn(move || {
            let first = range.check_visible();
            assert!(range.check_visible() >= first, "the read point never goes back");
        }));
    }
    range.write();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let all = SeqNo(writers as u64);
    assert_eq!(range.check_visible(), all, "no publication is lost");
    assert_eq!(range.sequencer.finished(), (all, LogPosition(all.0 * RECORD_BYTES)));
}

#[test]
fn two_writers_and_a_reader_see_one_order() {
    explore("sequencer: two writers and a reader", 3, || writers_and_a_reader(2, true));
}

#[test]
fn three_writers_lose_no_publication() {
    explore("sequencer: three writers", 2, || writers_and_a_reader(3, false));
}

#[test]
fn two_writers_lose_no_publication() {
    let name = "sequencer: two writers";
    explore(name, 5, || writers_and_a_reader(2, false));
    // Two neighbours that finish at once would each wait for the other.
    let weakened = Weakened::SequentialConsistency;
    must_fail(name, weakened, 3, || writers_and_a_reader(2, false));
}

/// What readers rely on needs no sequential consistency: what they see is there.
fn writers_who_do_not_wait() {
    let range = Range::new(2);
    let threads = [(); 2].map(|()| {
        let range = Arc::clone(&range);
        thread::spawn(move || {
            let taken = range.take();
            range.finish(&taken, true);
        })
    });
    let first = range.check_visible();
    assert!(range.check_visible() >= first, "the read point never goes back");
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    range.check_visible();
}

#[test]
fn what_is_visible_is_there() {
    let name = "sequencer: what is visible is there";
    explore_weakened(name, Weakened::SequentialConsistency, 3, writers_who_do_not_wait);
    let weakened = Weakened::ReleasesAndSequentialConsistency;
    must_fail(name, weakened, 3, writers_who_do_not_wait);
    must_fail(name, Weakened::Acquires, 3, writers_who_do_not_wait);
}

/// A writer that is slow in `finish`, while the other goes on until the slots are used again: the
/// numbers that the slow one read out of its slot once were those of a later write, which it
/// published ahead of two that were not done. Readers would have seen their snapshot change.
fn slots_are_used_again() {
    let range = Range::new(5);
    let slow = range.take();
    let next = range.take();
    let other = Arc::clone(&range);
    let thread = thread::spawn(move || {
        other.finish(&slow, true);
        other.check_visible();
    });
    range.finish(&next, true);
    // If both are done, three more are taken, of which only the last one finishes.
    if range.sequencer.visible() == SeqNo(2) {
        let _unfinished = (range.take(), range.take());
        let last = range.take();
        range.finish(&last, true);
        range.check_visible();
    }
    thread.join().unwrap();
    range.check_visible();
}

#[test]
fn a_slot_that_is_used_again_publishes_nothing_early() {
    let name = "sequencer: slots used again";
    explore(name, 4, slots_are_used_again);
    explore_weakened(name, Weakened::SequentialConsistency, 4, slots_are_used_again);
}

/// The class `sync`: what is finished becomes visible after a sync of all of it.
fn sync_before_publication() {
    let range = Range::new(2);
    let synced = Arc::new(AtomicU64::new(0));
    let write = |range: &Range, synced: &AtomicU64| {
        let taken = range.take();
        range.finish(&taken, false);
        // As `Inner::sync_log` does it: what was finished, then the sync, then the publication.
        let (seqno, through) = range.sequencer.finished();
        assert!(through.0 >= seqno.0 * RECORD_BYTES, "the end covers the number");
        synced.fetch_max(through.0, Ordering::Relaxed);
        range.sequencer.publish(seqno);
        let visible = range.check_visible();
        let durable = synced.load(Ordering::Relaxed);
        assert!(durable >= visible.0 * RECORD_BYTES, "what is visible is synced");
    };
    let thread = {
        let (range, synced) = (Arc::clone(&range), Arc::clone(&synced));
        thread::spawn(move || write(&range, &synced))
    };
    write(&range, &synced);
    thread.join().unwrap();
    assert_eq!(range.sequencer.finished().0, SeqNo(2));
}

#[test]
fn nothing_is_visible_before_its_sync_in_class_sync() {
    let name = "sequencer: sync before publication";
    explore(name, 3, sync_before_publication);
    must_fail(name, Weakened::Releases, 3, sync_before_publication);
}

/// A reader registers while a job lists: a point that the job does not know lies at or above
/// everything that had been published when it looked, so the job may drop what that hides.
fn register_while_listing(register: fn(&Arc<ReadPoints>, &Range) -> SeqNo) {
    let range = Range::new(1);
    let points = Arc::new(ReadPoints::new(&WaitFactory::real()));
    let reader = {
        let (range, points) = (Arc::clone(&range), Arc::clone(&points));
        thread::spawn(move || register(&points, &range))
    };
    let job = {
        let (range, points) = (Arc::clone(&range), Arc::clone(&points));
        thread::spawn(move || {
            // What a flush waits for before it lists: everything that it will drop is hidden by
            // what is published by now.
            let published = range.sequencer.visible();
            (published, points.list(WallTime(0)).0)
        })
    };
    range.write();
    let registered = reader.join().unwrap();
    let (published, listed) = job.join().unwrap();
    assert!(
        registered >= published || listed.contains(&registered),
        "read point {registered} is below {published} and was not listed"
    );
}

fn register_as_it_is(points: &Arc<ReadPoints>, range: &Range) -> SeqNo {
    let point = points.register(&range.sequencer, Duration::ZERO);
    let seqno = point.seqno();
    // It lives on, as an iterator does.
    std::mem::forget(point);
    seqno
}

#[test]
fn a_job_knows_every_read_point_that_it_could_hurt() {
    explore("read points: register while a job lists", 3, || {
        register_while_listing(register_as_it_is);
    });
    // The number read before the latch is taken: a job may come between.
    must_fail("read points: a number read too early", Weakened::Nothing, 3, || {
        register_while_listing(|points, range| {
            let early = range.sequencer.visible();
            let held = points.register(&range.sequencer, Duration::ZERO);
            std::mem::forget(held);
            early
        });
    });
}

/// A job lists the points with a later reading of the clock than that of an iterator which is about
/// to be registered: the iterator judges by no earlier moment than the job, whichever comes first.
#[test]
fn an_iterator_judges_expiry_by_no_earlier_moment_than_a_job() {
    explore("read points: a moment beside a job", 3, || {
        let range = Range::new(1);
        let points = Arc::new(ReadPoints::new(&WaitFactory::real()));
        let job = {
            let points = Arc::clone(&points);
            thread::spawn(move || points.list(WallTime(9)).1)
        };
        let point = points.register_iterator(&range.sequencer, WallTime(5));
        let judged_by = job.join().unwrap();
        assert!(point.moment() >= Some(judged_by), "{point:?} beside a job at {judged_by:?}");
    });
}

/// A snapshot is taken and reads twice while a job puts into effect what a filter did to the entry
/// with number 1: it sees the same both times, whether it came first, in between or last.
fn read_twice_beside_a_filtering(install: fn(&Arc<ReadPoints>, &AtomicU64)) {
    let range = Range::new(1);
    range.write();
    let points = Arc::new(ReadPoints::new(&WaitFactory::real()));
    let shown = Arc::new(AtomicU64::new(0));
    let job = {
        let (points, shown) = (Arc::clone(&points), Arc::clone(&shown));
        thread::spawn(move || install(&points, &shown))
    };
    let point = points.register(&range.sequencer, Duration::ZERO);
    let first = shown.load(Ordering::Acquire);
    let second = shown.load(Ordering::Acquire);
    assert_eq!(first, second, "a snapshot at {:?} saw a filter work", point.seqno());
    drop(point);
    job.join().unwrap();
}

#[test]
fn no_snapshot_sees_a_filter_work() {
    explore("read points: a snapshot beside a filtering", 3, || {
        read_twice_beside_a_filtering(|points, shown| {
            if let Some(pause) = points.pause_snapshots(SeqNo(1)) {
                shown.store(1, Ordering::Release);
                drop(pause);
            }
        });
    });
    // Looked at once, as the list of a job is: a snapshot may come between.
    must_fail("read points: a filtering without a pause", Weakened::Nothing, 3, || {
        read_twice_beside_a_filtering(|points, shown| {
            if points.newest_snapshot().is_none_or(|newest| newest < SeqNo(1)) {
                shown.store(1, Ordering::Release);
            }
        });
    });
}

/// A view of a model.
#[derive(Debug)]
struct Shown {
    number: u64,
    /// Whether it names the tables of an ingest, which has number 1.
    names_the_ingest: bool,
}

impl Numbered for Shown {
    fn number(&self) -> u64 {
        self.number
    }
}

fn views() -> Arc<Current<Shown>> {
    Arc::new(Current::new(Shown { number: 0, names_the_ingest: false }))
}

/// How a reader takes its view and its read point: whether the view names the ingest, and the
/// point.
type Begin = fn(&Current<Shown>, &Sequencer) -> (bool, SeqNo);

fn begin_as_it_is(views: &Current<Shown>, sequencer: &Sequencer) -> (bool, SeqNo) {
    let (view, read_point) = views.pin_and_ask(|| sequencer.visible());
    (view.names_the_ingest, read_point)
}

/// Without a look whether the view is still the current one.
fn begin_with_any_view(views: &Current<Shown>, sequencer: &Sequencer) -> (bool, SeqNo) {
    let view = views.load();
    (view.names_the_ingest, sequencer.visible())
}

/// No drange is in these models, so all of them are held.
fn all_held() -> AllHeld<'static> {
    AllHeld { holds: Vec::new() }
}

/// An ingest with number 1, and a write with number 2, beside a reader that may see either.
fn read_beside_an_ingest(begin: Begin, publishes_first: bool) {
    let (range, views) = (Range::new(2), views());
    let ingest = {
        let (range, views) = (Arc::clone(&range), Arc::clone(&views));
        thread::spawn(move || {
            if publishes_first {
                range.sequencer.skip_one(&all_held());
            }
            let next = |_: &Shown, number| Shown { number, names_the_ingest: true };
            views.replace(next, |_| ());
            if !publishes_first {
                range.sequencer.skip_one(&all_held());
            }
            let taken = range.take();
            range.finish(&taken, true);
        })
    };
    let (names_the_ingest, read_point) = begin(&views, &range.sequencer);
    assert!(
        names_the_ingest || read_point < SeqNo(1),
        "the view lacks an ingest that is visible at read point {read_point}"
    );
    ingest.join().unwrap();
    let (names_the_ingest, read_point) = begin(&views, &range.sequencer);
    assert!(names_the_ingest && read_point == SeqNo(2), "everything has ended");
}

#[test]
fn a_view_holds_every_ingest_that_the_read_point_covers() {
    let name = "views: a get beside an ingest";
    explore(name, 3, || read_beside_an_ingest(begin_as_it_is, false));
    must_fail("views: any view will do", Weakened::Nothing, 3, || {
        read_beside_an_ingest(begin_with_any_view, false);
    });
    must_fail("views: published before it is installed", Weakened::Nothing, 3, || {
        read_beside_an_ingest(begin_as_it_is, true);
    });
    must_fail(name, Weakened::Releases, 3, || read_beside_an_ingest(begin_as_it_is, false));
}

/// One key, of which every number is a version, written by one drange.
struct Key {
    range: Arc<Range>,
    hold: Hold<()>,
    /// By number: the value that was written.
    values: Vec<AtomicU64>,
    /// The number of the newest version that was inserted.
    newest: AtomicU64,
}

impl Key {
    fn new(writes: usize) -> Arc<Key> {
        Arc::new(Key {
            range: Range::new(writes),
            hold: WaitFactory::real().hold(()),
            values: (0..=writes).map(|_| AtomicU64::new(0)).collect(),
            newest: AtomicU64::new(0),
        })
    }

    /// Inserts a version, under a hold; its number.
    fn insert(&self, value: u64) -> SeqNo {
        let taken = self.range.take();
        self.values[taken.last_seqno.0 as usize].store(value, Ordering::Relaxed);
        self.newest.fetch_max(taken.last_seqno.0, Ordering::Relaxed);
        self.range.finish(&taken, true);
        taken.last_seqno
    }

    fn is_changed_since(&self, seqno: SeqNo) -> bool {
        self.newest.load(Ordering::Relaxed) > seqno.0
    }
}

/// A transaction that adds one to what it reads: what it read and its number, if it commits.
type AddOne = fn(&Key) -> Option<(u64, SeqNo)>;

fn add_one_as_it_is(key: &Key) -> Option<(u64, SeqNo)> {
    let snapshot = key.range.sequencer.visible();
    let read = key.values[snapshot.0 as usize].load(Ordering::Relaxed);
    let _held = key.hold.exclusive();
    (!key.is_changed_since(snapshot)).then(|| (read, key.insert(read + 1)))
}

/// It looks first, and holds only to write.
fn add_one_looking_too_early(key: &Key) -> Option<(u64, SeqNo)> {
    let snapshot = key.range.sequencer.visible();
    let read = key.values[snapshot.0 as usize].load(Ordering::Relaxed);
    let is_changed = key.is_changed_since(snapshot);
    let _held = key.hold.exclusive();
    (!is_changed).then(|| (read, key.insert(read + 1)))
}

/// It shares the hold, as a plain write does.
fn add_one_sharing_the_hold(key: &Key) -> Option<(u64, SeqNo)> {
    let snapshot = key.range.sequencer.visible();
    let read = key.values[snapshot.0 as usize].load(Ordering::Relaxed);
    let _held = key.hold.shared();
    (!key.is_changed_since(snapshot)).then(|| (read, key.insert(read + 1)))
}

/// Two transactions and a plain write of one key: who commits read what stands before its number.
fn transactions_beside_a_write(add_one: AddOne) {
    let key = Key::new(3);
    let other = {
        let key = Arc::clone(&key);
        thread::spawn(move || add_one(&key))
    };
    let writer = {
        let key = Arc::clone(&key);
        thread::spawn(move || {
            let _held = key.hold.shared();
            key.insert(100);
        })
    };
    let own = add_one(&key);
    let committed = [own, other.join().unwrap()];
    writer.join().unwrap();
    for (read, number) in committed.into_iter().flatten() {
        let before = key.values[number.0 as usize - 1].load(Ordering::Relaxed);
        assert_eq!(read, before, "what the transaction with number {number} read");
    }
}

#[test]
fn a_transaction_commits_only_over_what_it_read() {
    let name = "transactions: two beside a write";
    explore(name, 2, || transactions_beside_a_write(add_one_as_it_is));
    must_fail("transactions: a look before the hold", Weakened::Nothing, 2, || {
        transactions_beside_a_write(add_one_looking_too_early);
    });
    must_fail("transactions: a shared hold", Weakened::Nothing, 2, || {
        transactions_beside_a_write(add_one_sharing_the_hold);
    });
}
