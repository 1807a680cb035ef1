use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::{SeqNo, WallTime};
use terrace_env::{Latch, LatchGuard, PlantedBug, Signal, WaitFactory, is_planted, yield_point};

use super::sequencer::Sequencer;
use crate::explain::Place;

/// The read points that flushes and compactions must serve: those of snapshots and iterators.
///
/// ```text
///   an iterator ──► the list of its thread's place ─╮
///   a snapshot  ──► the list of snapshots          ─┴──► a job looks at all lists at once
/// ```
/// Scans are many and short, and whoever scans beside others would wait for them at a single list.
/// So iterators are registered in several, and mostly each thread has one to itself.
///
/// Registering a point and reading the visible number are one step under the latch of a list, and
/// listing the points is one step under all of them: a job whose list lacks a point knows that the
/// point is at or above everything that had been published when it listed them.
///
/// # Moments of expiry
/// An iterator judges expiry by one moment for as long as it lives, a job by one moment that is no
/// later than that of any iterator. The clock is read before the latch is taken, so a job with a
/// later reading may list the points before an iterator with an earlier one is registered, and drop
/// what has expired between the two. So that is settled under the latches, too: no iterator gets a
/// moment before one by which a job was allowed to judge. This also holds if the clock is set back.
///
/// # What filters did
/// A job that dropped or changed visible entries by a filter asks for a pause of the snapshots
/// ([`ReadPoints::pause_snapshots`]) before it installs what it wrote. It gets one only if no
/// snapshot is held that sees one of these entries, and until it ends the pause none is taken.
/// Iterators go on: they keep the view that they have (`read/iterator.rs`).
#[derive(Debug)]
pub struct ReadPoints {
    snapshots: Arc<Latch<Snapshots>>,
    iterators: [Arc<IteratorList>; LISTS],
    /// Notified when a pause ends.
    pause_ended: Signal,
}

/// How many lists of iterators there are.
const LISTS: usize = if cfg!(terrace_loom) { 2 } else { 16 };

/// In cache lines of its own, as its count of owners is.
#[derive(Debug, Default)]
#[repr(align(128))]
struct IteratorList(Latch<Iterators>);

#[derive(Debug, Default)]
struct Iterators {
    /// The number and the moment of each, ascending.
    points: Vec<(SeqNo, WallTime)>,
    /// The latest moment by which a job was allowed to judge expiry: every list has the same.
    judged_until: Option<WallTime>,
}

#[derive(Debug, Default)]
struct Snapshots {
    points: BTreeMap<SeqNo, SnapshotsAt>,
    /// How many pauses of the snapshots there are.
    pauses: usize,
    /// How many threads wait for the end of all of them.
    waiting: usize,
}

/// The snapshots at one number.
#[derive(Debug)]
struct SnapshotsAt {
    count: usize,
    /// When the first of them was taken.
    since: Duration,
}

/// What is registered now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Number of read points of snapshots.
    pub snapshot_count: u64,
    /// Number of read points of iterators.
    pub iterator_count: u64,
    /// The least number.
    pub oldest_seqno: Option<SeqNo>,
    /// When the oldest snapshot was taken.
    pub oldest_since: Option<Duration>,
}

/// A registered read point; dropping it gives the point up.
#[derive(Debug)]
pub struct ReadPoint {
    seqno: SeqNo,
    of: Holder,
}

/// Whose read point it is, and where it is registered.
#[derive(Debug)]
enum Holder {
    Snapshot(Arc<Latch<Snapshots>>),
    /// With the moment by which it judges expiry.
    Iterator(WallTime, Arc<IteratorList>),
}

/// A time in which no snapshot is taken; dropping it ends it.
#[derive(Debug)]
pub struct SnapshotPause {
    points: Arc<ReadPoints>,
}

impl ReadPoints {
    /// Without any.
    #[must_use]
    pub fn new(waits: &WaitFactory) -> ReadPoints {
        ReadPoints {
            snapshots: Arc::default(),
            iterators: std::array::from_fn(|_| Arc::default()),
            pause_ended: waits.signal(),
        }
    }

    /// Registers the newest visible number, for a snapshot that is taken `at` this time: expiry
    /// goes on in it. Blocks while snapshots pause: for as long as it takes to install an edit.
    pub fn register(&self, sequencer: &Sequencer, at: Duration) -> ReadPoint {
        loop {
            if let Some(point) = self.register_unless_paused(sequencer, at) {
                return point;
            }
            // Order: the ticket before one more look, so that the end of the pause is not missed.
            let ticket = self.pause_ended.ticket();
            if let Some(point) = self.register_unless_paused(sequencer, at) {
                return point;
            }
            self.snapshots.lock().waiting += 1;
            self.pause_ended.wait(ticket);
            self.snapshots.lock().waiting -= 1;
        }
    }

    fn register_unless_paused(&self, sequencer: &Sequencer, at: Duration) -> Option<ReadPoint> {
        let early = is_planted(PlantedBug::ReadPointBeforeLatch).then(|| sequencer.visible());
        yield_point();
        let mut snapshots = self.snapshots.lock();
        if snapshots.pauses > 0 {
            return None;
        }
        let seqno = early.unwrap_or_else(|| sequencer.visible());
        let there = snapshots.points.entry(seqno);
        there.or_insert(SnapshotsAt { count: 0, since: at }).count += 1;
        Some(ReadPoint { seqno, of: Holder::Snapshot(Arc::clone(&self.snapshots)) })
    }

    /// The newest number that a snapshot is held at.
    #[must_use]
    pub fn newest_snapshot(&self) -> Option<SeqNo> {
        self.snapshots.lock().newest()
    }

    /// No snapshot is taken from now until what this returns is dropped. `None` if one is held that
    /// sees an entry with the number `least`, or some above it; also if somebody waits for the end
    /// of another pause, so that pauses that overlap keep nobody waiting for ever.
    ///
    /// Whoever has a pause must not take a snapshot, nor wait for somebody who does.
    #[must_use]
    pub fn pause_snapshots(self: &Arc<Self>, least: SeqNo) -> Option<SnapshotPause> {
        let mut snapshots = self.snapshots.lock();
        let is_awaited = snapshots.pauses > 0 && snapshots.waiting > 0;
        if is_awaited || snapshots.newest().is_some_and(|newest| newest >= least) {
            return None;
        }
        snapshots.pauses += 1;
        Some(SnapshotPause { points: Arc::clone(self) })
    }

    /// Registers the newest visible number for an iterator. It is `now` by the clock, as it was
    /// read before this call; [`ReadPoint::moment`] says what the iterator has to judge expiry by.
    pub fn register_iterator(&self, sequencer: &Sequencer, now: WallTime) -> ReadPoint {
        self.register_number(|| sequencer.visible(), now)
    }

    /// As [`ReadPoints::register_iterator`], of a number that another live read point holds
    /// already.
    pub fn register_iterator_at(&self, held: &ReadPoint, now: WallTime) -> ReadPoint {
        self.register_number(|| held.seqno, now)
    }

    fn register_number(&self, number: impl Fn() -> SeqNo, now: WallTime) -> ReadPoint {
        let early = is_planted(PlantedBug::ReadPointBeforeLatch).then(&number);
        yield_point();
        let list = &self.iterators[Place::mine().index() % LISTS];
        let mut iterators = list.0.lock();
        let seqno = early.unwrap_or_else(number);
        let moment = iterators.judged_until.map_or(now, |judged| judged.max(now));
        iterators.add(seqno, moment);
        ReadPoint { seqno, of: Holder::Iterator(moment, Arc::clone(list)) }
    }

    /// What is registered now.
    #[must_use]
    pub fn held(&self) -> Held {
        let (snapshots, iterators) = self.all();
        let of_snapshots = snapshots.points.first_key_value().map(|(seqno, _)| *seqno);
        let of_iterators = iterators.iter().filter_map(|list| list.points.first());
        let numbers = of_iterators.map(|(seqno, _)| *seqno).chain(of_snapshots);
        Held {
            snapshot_count: snapshots.points.values().map(|own| own.count as u64).sum(),
            iterator_count: iterators.iter().map(|list| list.points.len() as u64).sum(),
            oldest_seqno: numbers.min(),
            oldest_since: snapshots.points.values().map(|own| own.since).min(),
        }
    }

    /// How many iterators are registered.
    #[must_use]
    pub fn iterator_count(&self) -> usize {
        self.all().1.iter().map(|list| list.points.len()).sum()
    }

    /// The registered numbers, ascending, and the moment by which a job may judge expiry: no later
    /// than `now`, nor than that of any iterator, those included that are registered later.
    #[must_use]
    pub fn list(&self, now: WallTime) -> (Vec<SeqNo>, WallTime) {
        let (snapshots, mut iterators) = self.all();
        let mut seqnos: Vec<SeqNo> = snapshots.points.keys().copied().collect();
        let mut moment = now;
        for (seqno, own) in iterators.iter().flat_map(|list| &list.points) {
            seqnos.push(*seqno);
            moment = moment.min(*own);
        }
        seqnos.sort_unstable();
        seqnos.dedup();
        for list in &mut iterators {
            list.judged_until = list.judged_until.max(Some(moment));
        }
        (seqnos, moment)
    }

    /// All lists, so that none changes meanwhile. Whoever registers takes one of the latches, and
    /// no other while it has it.
    fn all(&self) -> (LatchGuard<'_, Snapshots>, [LatchGuard<'_, Iterators>; LISTS]) {
        let snapshots = self.snapshots.lock();
        (snapshots, std::array::from_fn(|list| self.iterators[list].0.lock()))
    }
}

impl Snapshots {
    fn newest(&self) -> Option<SeqNo> {
        if is_planted(PlantedBug::FilterAboveTheOldestReader) {
            return self.points.first_key_value().map(|(seqno, _)| *seqno);
        }
        self.points.last_key_value().map(|(seqno, _)| *seqno)
    }
}

/// A list that is empty keeps room for so many points.
const ROOM_KEPT: usize = 64;

impl Iterators {
    fn add(&mut self, seqno: SeqNo, moment: WallTime) {
        let place = self.points.partition_point(|own| *own <= (seqno, moment));
        self.points.insert(place, (seqno, moment));
    }

    fn remove(&mut self, seqno: SeqNo, moment: WallTime) {
        if let Ok(place) = self.points.binary_search(&(seqno, moment)) {
            self.points.remove(place);
        }
        if self.points.is_empty() && self.points.capacity() > ROOM_KEPT {
            self.points = Vec::new();
        }
    }
}

impl Drop for SnapshotPause {
    fn drop(&mut self) {
        self.points.snapshots.lock().pauses -= 1;
        self.points.pause_ended.notify();
    }
}

impl ReadPoint {
    /// The number.
    #[must_use]
    pub fn seqno(&self) -> SeqNo {
        self.seqno
    }

    /// The moment by which an iterator judges expiry; none for a snapshot.
    #[must_use]
    pub fn moment(&self) -> Option<WallTime> {
        match &self.of {
            Holder::Snapshot(_) => None,
            Holder::Iterator(moment, _) => Some(*moment),
        }
    }

    /// Registers once more what an iterator holds: its number and its moment.
    #[must_use]
    pub fn twin(&self) -> ReadPoint {
        let of = match &self.of {
            Holder::Snapshot(list) => {
                list.lock().points.entry(self.seqno).and_modify(|own| own.count += 1);
                Holder::Snapshot(Arc::clone(list))
            }
            Holder::Iterator(moment, list) => {
                list.0.lock().add(self.seqno, *moment);
                Holder::Iterator(*moment, Arc::clone(list))
            }
        };
        ReadPoint { seqno: self.seqno, of }
    }
}

impl Drop for ReadPoint {
    fn drop(&mut self) {
        match &self.of {
            Holder::Iterator(moment, list) => list.0.lock().remove(self.seqno, *moment),
            Holder::Snapshot(list) => {
                let points = &mut list.lock().points;
                if let Some(own) = points.get_mut(&self.seqno) {
                    own.count -= 1;
                    if own.count == 0 {
                        points.remove(&self.seqno);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use terrace_base::LogPosition;

    use super::*;

    /// A job reads the clock after an iterator did, and lists the points before the iterator is
    /// registered: it may drop what expired between the two, so the iterator must not show that.
    #[test]
    fn no_iterator_judges_expiry_by_a_moment_before_that_of_a_job() {
        let sequencer = Sequencer::new(&WaitFactory::real(), SeqNo(7), LogPosition(0));
        let points = Arc::new(ReadPoints::new(&WaitFactory::real()));
        assert_eq!(points.list(WallTime(100)), (Vec::new(), WallTime(100)));
        let late = points.register_iterator(&sequencer, WallTime(50));
        assert_eq!((late.seqno(), late.moment()), (SeqNo(7), Some(WallTime(100))));
        let later = points.register_iterator_at(&late, WallTime(120));
        assert_eq!(later.moment(), Some(WallTime(120)));
        assert_eq!(points.list(WallTime(200)), (vec![SeqNo(7)], WallTime(100)));
        drop(late);
        assert_eq!(points.list(WallTime(200)).1, WallTime(120));
        drop(later);
        assert_eq!(points.list(WallTime(90)).1, WallTime(90), "the clock may be set back");
        assert_eq!(
            points.register_iterator(&sequencer, WallTime(90)).moment(),
            Some(WallTime(120))
        );
        assert_eq!(points.register(&sequencer, Duration::ZERO).moment(), None);
    }

    /// Goal: whichever list a point is in, a job knows it, and what is given up is gone from the
    /// list that has it. Method: threads register and hand on what they have, and another one drops
    /// it.
    #[test]
    fn points_of_all_threads_are_listed_and_go() {
        let sequencer = Sequencer::new(&WaitFactory::real(), SeqNo(7), LogPosition(0));
        let points = Arc::new(ReadPoints::new(&WaitFactory::real()));
        let held: Vec<[ReadPoint; 3]> = std::thread::scope(|scope| {
            let register = |number: u64| {
                let (points, sequencer) = (&points, &sequencer);
                scope.spawn(move || {
                    let first = points.register_iterator(sequencer, WallTime(100 + number));
                    let twin = first.twin();
                    [points.register_iterator_at(&twin, WallTime(300)), first, twin]
                })
            };
            let threads: Vec<_> = (0..3 * LISTS as u64).map(register).collect();
            threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
        });
        assert_eq!(points.iterator_count(), 9 * LISTS);
        assert_eq!(points.list(WallTime(200)), (vec![SeqNo(7)], WallTime(100)));
        drop(held);
        assert_eq!(points.held(), Held::default());
        assert_eq!(points.list(WallTime(200)), (Vec::new(), WallTime(200)));
    }

    #[test]
    fn snapshots_pause_only_if_none_sees_what_a_filter_did() {
        let sequencer = Sequencer::new(&WaitFactory::real(), SeqNo(7), LogPosition(0));
        let points = Arc::new(ReadPoints::new(&WaitFactory::real()));
        let taken = || points.register_unless_paused(&sequencer, Duration::ZERO);
        assert_eq!(points.newest_snapshot(), None);
        let iterator = points.register_iterator(&sequencer, WallTime(5));
        let pause = points.pause_snapshots(SeqNo(3)).expect("an iterator is in nobody's way");
        assert!(taken().is_none());
        let another = points.pause_snapshots(SeqNo(7)).expect("pauses may overlap");
        drop(pause);
        assert!(taken().is_none());
        drop(another);
        let snapshot = taken().expect("the last pause has ended");
        assert_eq!(points.newest_snapshot(), Some(SeqNo(7)));
        assert!(points.pause_snapshots(SeqNo(7)).is_none());
        assert!(points.pause_snapshots(SeqNo(3)).is_none());
        let above = points.pause_snapshots(SeqNo(8)).expect("it sees nothing of that");
        drop((above, snapshot));
        assert!(points.pause_snapshots(SeqNo(1)).is_some());
        drop(iterator);
    }

    #[test]
    fn the_oldest_snapshot_is_known_for_as_long_as_it_is_held() {
        let sequencer = Sequencer::new(&WaitFactory::real(), SeqNo(7), LogPosition(0));
        let points = Arc::new(ReadPoints::new(&WaitFactory::real()));
        assert_eq!(points.held(), Held::default());
        let seconds = Duration::from_secs;
        let (first, second) =
            (points.register(&sequencer, seconds(1)), points.register(&sequencer, seconds(2)));
        let iterator = points.register_iterator(&sequencer, WallTime(50));
        let held = points.held();
        assert_eq!((held.snapshot_count, held.iterator_count), (2, 1));
        assert_eq!((held.oldest_seqno, held.oldest_since), (Some(SeqNo(7)), Some(seconds(1))));
        drop(first);
        // At the same number: no older than the oldest that was ever there.
        assert_eq!(points.held().oldest_since, Some(seconds(1)));
        drop(second);
        assert_eq!(points.held().oldest_since, None);
        assert_eq!(points.held().oldest_seqno, Some(SeqNo(7)));
        drop(iterator);
        assert_eq!(points.held(), Held::default());
    }
}
