use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_base::{SeqNo, WallTime};
use terrace_env::Latch;

use super::sequencer::Sequencer;

/// The read points that flushes and compactions must serve: those of snapshots and iterators.
///
/// Registering a point and reading the visible number are one step under the latch, and so is
/// listing the points: a job whose list lacks a point knows that the point is at or above
/// everything that had been published when it listed them.
#[derive(Debug, Default)]
pub struct ReadPoints {
    points: Latch<BTreeMap<(SeqNo, Option<WallTime>), usize>>,
}

/// A registered read point; dropping it gives the point up.
#[derive(Debug)]
pub struct ReadPoint {
    seqno: SeqNo,
    now: Option<WallTime>,
    points: Arc<ReadPoints>,
}

impl ReadPoints {
    /// Registers the newest visible number. `now` is the moment by which an iterator judges
    /// expiry, for as long as it lives.
    pub fn register(self: &Arc<Self>, sequencer: &Sequencer, now: Option<WallTime>) -> ReadPoint {
        let mut points = self.points.lock();
        let seqno = sequencer.visible();
        *points.entry((seqno, now)).or_default() += 1;
        ReadPoint { seqno, now, points: Arc::clone(self) }
    }

    /// Registers a number that another live read point holds already.
    pub fn register_again(self: &Arc<Self>, held: &ReadPoint, now: Option<WallTime>) -> ReadPoint {
        let mut points = self.points.lock();
        *points.entry((held.seqno, now)).or_default() += 1;
        ReadPoint { seqno: held.seqno, now, points: Arc::clone(self) }
    }

    /// How many iterators are registered.
    #[must_use]
    pub fn iterator_count(&self) -> usize {
        let points = self.points.lock();
        points.iter().filter(|((_, now), _)| now.is_some()).map(|(_, count)| count).sum()
    }

    /// The registered numbers, ascending, and the moment by which a job may judge expiry: no later
    /// than `now`, nor than that of any iterator.
    #[must_use]
    pub fn list(&self, now: WallTime) -> (Vec<SeqNo>, WallTime) {
        let points = self.points.lock();
        let mut seqnos: Vec<SeqNo> = points.keys().map(|(seqno, _)| *seqno).collect();
        seqnos.dedup();
        let earliest = points.keys().filter_map(|(_, now)| *now).min();
        (seqnos, earliest.map_or(now, |earliest| earliest.min(now)))
    }
}

impl ReadPoint {
    /// The number.
    #[must_use]
    pub fn seqno(&self) -> SeqNo {
        self.seqno
    }
}

impl Drop for ReadPoint {
    fn drop(&mut self) {
        let mut points = self.points.points.lock();
        if let Some(count) = points.get_mut(&(self.seqno, self.now)) {
            *count -= 1;
            if *count == 0 {
                points.remove(&(self.seqno, self.now));
            }
        }
    }
}
