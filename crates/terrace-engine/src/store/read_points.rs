use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::{SeqNo, WallTime};
use terrace_env::{Latch, PlantedBug, Signal, WaitFactory, is_planted, yield_point};

use super::sequencer::Sequencer;

/// The read points that flushes and compactions must serve: those of snapshots and iterators.
///
/// Registering a point and reading the visible number are one step under the latch, and so is
/// listing the points: a job whose list lacks a point knows that the point is at or above
/// everything that had been published when it listed them.
///
/// # Moments of expiry
/// An iterator judges expiry by one moment for as long as it lives, a job by one moment that is no
/// later than that of any iterator. The clock is read before the latch is taken, so a job with a
/// later reading may list the points before an iterator with an earlier one is registered, and drop
/// what has expired between the two. So that is settled under the latch, too: no iterator gets a
/// moment before one by which a job was allowed to judge. This also holds if the clock is set back.
///
/// # What filters did
/// A job that dropped or changed visible entries by a filter asks for a pause of the snapshots
/// ([`ReadPoints::pause_snapshots`]) before it installs what it wrote. It gets one only if no
/// snapshot is held that sees one of these entries, and until it ends the pause none is taken.
/// Iterators go on: they keep the view that they have (`read/iterator.rs`).
#[derive(Debug)]
pub struct ReadPoints {
    registered: Latch<Registered>,
    /// Notified when a pause ends.
    pause_ended: Signal,
}

#[derive(Debug, Default)]
struct Registered {
    points: BTreeMap<(SeqNo, Option<WallTime>), usize>,
    /// When the first of the snapshots at a number was taken. Iterators, which are many, have
    /// none.
    since: BTreeMap<SeqNo, Duration>,
    /// The latest moment by which a job was allowed to judge expiry.
    judged_until: Option<WallTime>,
    /// How many pauses of the snapshots there are.
    pauses: usize,
    /// How many threads wait for the end of all of them.
    waiting: usize,
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
    /// The moment by which expiry is judged, if it is that of an iterator.
    moment: Option<WallTime>,
    points: Arc<ReadPoints>,
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
        ReadPoints { registered: Latch::default(), pause_ended: waits.signal() }
    }

    /// Registers the newest visible number, for a snapshot that is taken `at` this time: expiry
    /// goes on in it. Blocks while snapshots pause: for as long as it takes to install an edit.
    pub fn register(self: &Arc<Self>, sequencer: &Sequencer, at: Duration) -> ReadPoint {
        loop {
            if let Some(point) = self.register_unless_paused(sequencer, at) {
                return point;
            }
            // Order: the ticket before one more look, so that the end of the pause is not missed.
            let ticket = self.pause_ended.ticket();
            if let Some(point) = self.register_unless_paused(sequencer, at) {
                return point;
            }
            self.registered.lock().waiting += 1;
            self.pause_ended.wait(ticket);
            self.registered.lock().waiting -= 1;
        }
    }

    fn register_unless_paused(
        self: &Arc<Self>,
        sequencer: &Sequencer,
        at: Duration,
    ) -> Option<ReadPoint> {
        let early = is_planted(PlantedBug::ReadPointBeforeLatch).then(|| sequencer.visible());
        yield_point();
        let mut registered = self.registered.lock();
        if registered.pauses > 0 {
            return None;
        }
        let seqno = early.unwrap_or_else(|| sequencer.visible());
        *registered.points.entry((seqno, None)).or_default() += 1;
        registered.since.entry(seqno).or_insert(at);
        Some(ReadPoint { seqno, moment: None, points: Arc::clone(self) })
    }

    /// The newest number that a snapshot is held at.
    #[must_use]
    pub fn newest_snapshot(&self) -> Option<SeqNo> {
        self.registered.lock().newest_snapshot()
    }

    /// No snapshot is taken from now until what this returns is dropped. `None` if one is held that
    /// sees an entry with the number `least`, or some above it; also if somebody waits for the end
    /// of another pause, so that pauses that overlap keep nobody waiting for ever.
    ///
    /// Whoever has a pause must not take a snapshot, nor wait for somebody who does.
    #[must_use]
    pub fn pause_snapshots(self: &Arc<Self>, least: SeqNo) -> Option<SnapshotPause> {
        let mut registered = self.registered.lock();
        let is_awaited = registered.pauses > 0 && registered.waiting > 0;
        if is_awaited || registered.newest_snapshot().is_some_and(|newest| newest >= least) {
            return None;
        }
        registered.pauses += 1;
        Some(SnapshotPause { points: Arc::clone(self) })
    }

    /// Registers the newest visible number for an iterator. It is `now` by the clock, as it was
    /// read before this call; [`ReadPoint::moment`] says what the iterator has to judge expiry by.
    pub fn register_iterator(self: &Arc<Self>, sequencer: &Sequencer, now: WallTime) -> ReadPoint {
        self.register_number(|| sequencer.visible(), now)
    }

    /// As [`ReadPoints::register_iterator`], of a number that another live read point holds
    /// already.
    pub fn register_iterator_at(self: &Arc<Self>, held: &ReadPoint, now: WallTime) -> ReadPoint {
        self.register_number(|| held.seqno, now)
    }

    /// Registers once more what another iterator holds: its number and its moment.
    pub fn register_twin(self: &Arc<Self>, held: &ReadPoint) -> ReadPoint {
        let mut registered = self.registered.lock();
        *registered.points.entry((held.seqno, held.moment)).or_default() += 1;
        ReadPoint { seqno: held.seqno, moment: held.moment, points: Arc::clone(self) }
    }

    fn register_number(self: &Arc<Self>, number: impl Fn() -> SeqNo, now: WallTime) -> ReadPoint {
        let early = is_planted(PlantedBug::ReadPointBeforeLatch).then(&number);
        yield_point();
        let mut registered = self.registered.lock();
        let seqno = early.unwrap_or_else(number);
        let moment = Some(registered.judged_until.map_or(now, |judged| judged.max(now)));
        *registered.points.entry((seqno, moment)).or_default() += 1;
        ReadPoint { seqno, moment, points: Arc::clone(self) }
    }

    /// What is registered now.
    #[must_use]
    pub fn held(&self) -> Held {
        let registered = self.registered.lock();
        let mut held = Held {
            oldest_seqno: registered.points.keys().next().map(|(seqno, _)| *seqno),
            oldest_since: registered.since.values().min().copied(),
            ..Held::default()
        };
        for ((_, moment), count) in &registered.points {
            let of_kind =
                if moment.is_none() { &mut held.snapshot_count } else { &mut held.iterator_count };
            *of_kind += *count as u64;
        }
        held
    }

    /// How many iterators are registered.
    #[must_use]
    pub fn iterator_count(&self) -> usize {
        let points = &self.registered.lock().points;
        points.iter().filter(|((_, now), _)| now.is_some()).map(|(_, count)| count).sum()
    }

    /// The registered numbers, ascending, and the moment by which a job may judge expiry: no later
    /// than `now`, nor than that of any iterator, those included that are registered later.
    #[must_use]
    pub fn list(&self, now: WallTime) -> (Vec<SeqNo>, WallTime) {
        let mut registered = self.registered.lock();
        let points = &registered.points;
        let mut seqnos: Vec<SeqNo> = points.keys().map(|(seqno, _)| *seqno).collect();
        seqnos.dedup();
        let earliest = points.keys().filter_map(|(_, moment)| *moment).min();
        let moment = earliest.map_or(now, |earliest| earliest.min(now));
        registered.judged_until = registered.judged_until.max(Some(moment));
        (seqnos, moment)
    }
}

impl Registered {
    fn newest_snapshot(&self) -> Option<SeqNo> {
        let newest = self.since.last_key_value();
        if is_planted(PlantedBug::FilterAboveTheOldestReader) {
            return self.since.first_key_value().map(|(seqno, _)| *seqno);
        }
        newest.map(|(seqno, _)| *seqno)
    }
}

impl Drop for SnapshotPause {
    fn drop(&mut self) {
        self.points.registered.lock().pauses -= 1;
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
        self.moment
    }
}

impl Drop for ReadPoint {
    fn drop(&mut self) {
        let registered = &mut *self.points.registered.lock();
        let points = &mut registered.points;
        if let Some(count) = points.get_mut(&(self.seqno, self.moment)) {
            *count -= 1;
            if *count == 0 {
                points.remove(&(self.seqno, self.moment));
                if self.moment.is_none() {
                    registered.since.remove(&self.seqno);
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
