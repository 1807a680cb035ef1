//! The log that outlives the machine, wherever it lies: what writers wait for, and what each moment
//! of the range says of it.

use std::collections::VecDeque;

use terrace_base::{Epoch, LogPosition, SeqNo};
use terrace_env::{Latch, PlantedBug, Signal, WaitFactory, is_planted};

use crate::cloud::CloudLog;
use crate::version::{LogBehind, VolumeLog};

/// The log that outlives the machine. Called by many threads.
#[derive(Debug)]
pub enum OutlivingLog {
    /// Records of the local log are brought to the object store.
    InStore(Box<CloudLog>),
    /// The log itself lies on a volume that outlives the machine.
    OnVolume(LogOnVolume),
}

impl OutlivingLog {
    /// That in the object store, if it is there.
    #[must_use]
    pub fn in_store(&self) -> Option<&CloudLog> {
        match self {
            OutlivingLog::InStore(log) => Some(log),
            OutlivingLog::OnVolume(_) => None,
        }
    }

    /// That on a volume, if it is there.
    #[must_use]
    pub fn on_volume(&self) -> Option<&LogOnVolume> {
        match self {
            OutlivingLog::InStore(_) => None,
            OutlivingLog::OnVolume(log) => Some(log),
        }
    }

    /// Told when more is safe, or somebody waits for it.
    #[must_use]
    pub fn changed(&self) -> &Signal {
        match self {
            OutlivingLog::InStore(log) => log.changed(),
            OutlivingLog::OnVolume(log) => &log.changed,
        }
    }

    /// Whether all that had happened when the log ended at `end`, which the local log has durably,
    /// outlives this machine.
    #[must_use]
    pub fn is_safe_through(&self, end: LogPosition) -> bool {
        match self {
            OutlivingLog::InStore(log) => log.is_safe_through(end),
            OutlivingLog::OnVolume(log) => log.state.lock().is_safe_through(end),
        }
    }

    /// Whether nothing more gets safe before a moment is fed.
    #[must_use]
    pub fn wants_moment(&self) -> bool {
        match self {
            OutlivingLog::InStore(log) => log.wants_moment(),
            OutlivingLog::OnVolume(log) => log.state.lock().wants_moment(),
        }
    }

    /// The range changes beside its log, which ends at `end` now, by what gets `number`: nothing
    /// behind is safe before a moment has the change.
    pub fn change_beside(&self, end: LogPosition, number: SeqNo) {
        match self {
            OutlivingLog::InStore(log) => log.end_chain_at(end),
            OutlivingLog::OnVolume(log) => log.state.lock().changes.push_back((end, number)),
        }
    }

    /// The change that was to get `number` did not come about, and a write gets it.
    pub fn forget_change(&self, number: SeqNo) {
        if let OutlivingLog::OnVolume(log) = self {
            log.state.lock().changes.retain(|(_, of_change)| *of_change != number);
        }
    }

    /// What a moment says whose tables hold all records below `position`, and all up to `seqno`.
    #[must_use]
    pub fn moment_taken(&self, seqno: SeqNo, position: LogPosition) -> LogBehind {
        match self {
            OutlivingLog::InStore(log) => LogBehind::InStore(log.moment_taken(position)),
            OutlivingLog::OnVolume(log) => {
                LogBehind::OnVolume(VolumeLog { epoch: log.epoch, position, seqno })
            }
        }
    }

    /// A moment that says this is in the feed.
    pub fn moment_fed(&self, behind: LogBehind) {
        match (self, behind) {
            (OutlivingLog::InStore(log), LogBehind::InStore(moment)) => log.moment_fed(moment),
            (OutlivingLog::OnVolume(log), LogBehind::OnVolume(moment)) => {
                log.state.lock().moment_fed(moment);
                log.changed.notify();
            }
            _ => {}
        }
    }
}

/// A log on a volume: its records are durable there when they are synced, as those of any local
/// log. It remains to keep them until a moment in the feed has them, and to know of changes that
/// stand in no record.
#[derive(Debug)]
pub struct LogOnVolume {
    epoch: Epoch,
    state: Latch<BehindMoment>,
    changed: Signal,
}

impl LogOnVolume {
    /// Of the owner with this epoch, which finds the log kept from a position on.
    #[must_use]
    pub fn new(waits: &WaitFactory, epoch: Epoch, kept_from: LogPosition) -> LogOnVolume {
        let state = Latch::new(BehindMoment::new(kept_from));
        LogOnVolume { epoch, state, changed: waits.signal() }
    }

    /// What it has come to, of a log that ends at `end`.
    #[must_use]
    pub fn stats(&self, end: LogPosition) -> VolumeLogStats {
        let state = self.state.lock();
        VolumeLogStats {
            kept_bytes: end.0.saturating_sub(state.kept_from.0),
            awaits_moment: state.wants_moment(),
        }
    }

    /// Whoever takes the range over needs the records from here on.
    #[must_use]
    pub fn kept_from(&self) -> LogPosition {
        if is_planted(PlantedBug::VolumeLogReleasedEarly) {
            return LogPosition(u64::MAX);
        }
        self.state.lock().kept_from
    }
}

/// What a log on a volume has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct VolumeLogStats {
    /// Bytes of the log, from its end back to the newest moment in the object store: what whoever
    /// takes the range over replays.
    pub kept_bytes: u64,
    /// Whether nothing more is durable before the next moment is there: there was an ingest, or
    /// none was stored since the open.
    pub awaits_moment: bool,
}

/// What stands behind the newest moment of an owner that is in the feed. Pure.
#[derive(Debug)]
struct BehindMoment {
    /// Whether there is one.
    is_fed: bool,
    /// Where the newest moment in the feed is, of this owner or the one before.
    kept_from: LogPosition,
    /// Where the log ended when the range changed beside it, and the number of the change, unless
    /// a moment in the feed has it.
    changes: VecDeque<(LogPosition, SeqNo)>,
}

impl BehindMoment {
    fn new(kept_from: LogPosition) -> BehindMoment {
        BehindMoment { is_fed: false, kept_from, changes: VecDeque::new() }
    }

    fn is_safe_through(&self, end: LogPosition) -> bool {
        let is_before_changes = self.changes.front().is_none_or(|(change, _)| end < *change);
        self.is_fed && is_before_changes || is_planted(PlantedBug::VolumeLogWithoutMoment)
    }

    fn wants_moment(&self) -> bool {
        !self.is_fed || !self.changes.is_empty()
    }

    fn moment_fed(&mut self, moment: VolumeLog) {
        self.is_fed = true;
        self.kept_from = self.kept_from.max(moment.position);
        self.changes.retain(|(_, number)| *number > moment.seqno);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(position: u64, seqno: u64) -> VolumeLog {
        VolumeLog { epoch: Epoch(1), position: LogPosition(position), seqno: SeqNo(seqno) }
    }

    #[test]
    fn records_are_safe_behind_a_moment_of_this_owner() {
        let mut state = BehindMoment::new(LogPosition(40));
        assert!(state.wants_moment() && !state.is_safe_through(LogPosition(50)));
        state.moment_fed(moment(100, 7));
        assert!(!state.wants_moment() && state.is_safe_through(LogPosition(500)));
        assert_eq!(state.kept_from, LogPosition(100));
    }

    #[test]
    fn what_follows_on_a_change_is_safe_once_a_moment_has_the_change() {
        let mut state = BehindMoment::new(LogPosition(0));
        state.moment_fed(moment(100, 7));
        state.changes.extend([(LogPosition(200), SeqNo(9)), (LogPosition(200), SeqNo(10))]);
        assert!(state.wants_moment() && state.is_safe_through(LogPosition(199)));
        assert!(!state.is_safe_through(LogPosition(200)), "the change itself is not");
        // Taken at the same position, but before the changes, and between them.
        for seqno in [8, 9] {
            state.moment_fed(moment(200, seqno));
            assert!(!state.is_safe_through(LogPosition(200)), "{seqno}");
        }
        state.moment_fed(moment(200, 10));
        assert!(!state.wants_moment() && state.is_safe_through(LogPosition(900)));
    }
}
