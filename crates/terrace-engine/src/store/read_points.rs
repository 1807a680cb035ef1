use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_base::{SeqNo, WallTime};
use terrace_env::{Latch, PlantedBug, is_planted, yield_point};

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
#[derive(Debug, Default)]
pub struct ReadPoints {
    registered: Latch<Registered>,
}

#[derive(Debug, Default)]
struct Registered {
    points: BTreeMap<(SeqNo, Option<WallTime>), usize>,
    /// The latest moment by which a job was allowed to judge expiry.
    judged_until: Option<WallTime>,
}

/// A registered read point; dropping it gives the point up.
#[derive(Debug)]
pub struct ReadPoint {
    seqno: SeqNo,
    /// The moment by which expiry is judged, if it is that of an iterator.
    moment: Option<WallTime>,
    points: Arc<ReadPoints>,
}

impl ReadPoints {
    /// Registers the newest visible number, for a snapshot: expiry goes on in it.
    pub fn register(self: &Arc<Self>, sequencer: &Sequencer) -> ReadPoint {
        self.register_number(|| sequencer.visible(), None)
    }

    /// Registers the newest visible number for an iterator. It is `now` by the clock, as it was
    /// read before this call; [`ReadPoint::moment`] says what the iterator has to judge expiry by.
    pub fn register_iterator(self: &Arc<Self>, sequencer: &Sequencer, now: WallTime) -> ReadPoint {
        self.register_number(|| sequencer.visible(), Some(now))
    }

    /// As [`ReadPoints::register_iterator`], of a number that another live read point holds
    /// already.
    pub fn register_iterator_at(self: &Arc<Self>, held: &ReadPoint, now: WallTime) -> ReadPoint {
        self.register_number(|| held.seqno, Some(now))
    }

    /// Registers once more what another iterator holds: its number and its moment.
    pub fn register_twin(self: &Arc<Self>, held: &ReadPoint) -> ReadPoint {
        let mut registered = self.registered.lock();
        *registered.points.entry((held.seqno, held.moment)).or_default() += 1;
        ReadPoint { seqno: held.seqno, moment: held.moment, points: Arc::clone(self) }
    }

    fn register_number(
        self: &Arc<Self>,
        number: impl Fn() -> SeqNo,
        now: Option<WallTime>,
    ) -> ReadPoint {
        let early = is_planted(PlantedBug::ReadPointBeforeLatch).then(&number);
        yield_point();
        let mut registered = self.registered.lock();
        let seqno = early.unwrap_or_else(number);
        let moment = now.map(|now| registered.judged_until.map_or(now, |judged| judged.max(now)));
        *registered.points.entry((seqno, moment)).or_default() += 1;
        ReadPoint { seqno, moment, points: Arc::clone(self) }
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
        let points = &mut self.points.registered.lock().points;
        if let Some(count) = points.get_mut(&(self.seqno, self.moment)) {
            *count -= 1;
            if *count == 0 {
                points.remove(&(self.seqno, self.moment));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use terrace_base::LogPosition;
    use terrace_env::WaitFactory;

    use super::*;

    /// A job reads the clock after an iterator did, and lists the points before the iterator is
    /// registered: it may drop what expired between the two, so the iterator must not show that.
    #[test]
    fn no_iterator_judges_expiry_by_a_moment_before_that_of_a_job() {
        let sequencer = Sequencer::new(&WaitFactory::real(), SeqNo(7), LogPosition(0));
        let points = Arc::new(ReadPoints::default());
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
        assert_eq!(points.register(&sequencer).moment(), None);
    }
}
