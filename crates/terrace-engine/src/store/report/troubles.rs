//! What went wrong, and what is held for long: counts that should stay small.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace_base::SeqNo;
use terrace_env::Latch;

use crate::Error;
use crate::events::{Event, EventKind, Listener};
use crate::store::health::Work;
use crate::store::{Inner, read_points};

/// Why a write was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    NoSpace,
    Poisoned,
    Unknown,
    Io,
    Conflict,
    Invalid,
    ReadOnly,
    Closed,
    Other,
}

impl Refusal {
    const ALL: [Refusal; 9] = [
        Refusal::NoSpace,
        Refusal::Poisoned,
        Refusal::Unknown,
        Refusal::Io,
        Refusal::Conflict,
        Refusal::Invalid,
        Refusal::ReadOnly,
        Refusal::Closed,
        Refusal::Other,
    ];

    fn name(self) -> &'static str {
        match self {
            Refusal::NoSpace => "no_space",
            Refusal::Poisoned => "poisoned",
            Refusal::Unknown => "unknown",
            Refusal::Io => "io",
            Refusal::Conflict => "conflict",
            Refusal::Invalid => "invalid",
            Refusal::ReadOnly => "read_only",
            Refusal::Closed => "closed",
            Refusal::Other => "other",
        }
    }

    /// `None` for a caller who asked not to wait, and comes again.
    fn of(error: &Error) -> Option<Refusal> {
        Some(match error {
            Error::WouldBlock | Error::NeedsIo => return None,
            Error::NoSpace(_) => Refusal::NoSpace,
            Error::Poisoned(_) => Refusal::Poisoned,
            Error::Unknown(_) => Refusal::Unknown,
            Error::Io(_) => Refusal::Io,
            Error::Conflict(_) => Refusal::Conflict,
            Error::Invalid(_) | Error::Operand(_) => Refusal::Invalid,
            Error::ReadOnly => Refusal::ReadOnly,
            Error::Closed => Refusal::Closed,
            _ => Refusal::Other,
        })
    }
}

/// Counts of writes that were not acknowledged, by the cause, and of background work that failed.
#[derive(Debug, Default)]
pub struct Troubles {
    refused: [AtomicU64; Refusal::ALL.len()],
    failed: [AtomicU64; Work::ALL.len()],
    last_failures: Latch<[String; Work::ALL.len()]>,
}

impl Troubles {
    /// A write ended with this error.
    #[cold]
    pub fn write_failed(&self, error: &Error) {
        if let Some(refusal) = Refusal::of(error) {
            self.refused[refusal as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Numbers of writes that were not acknowledged, by the cause: every cause is there.
    pub fn refused(&self) -> BTreeMap<&'static str, u64> {
        let count = |refusal: Refusal| self.refused[refusal as usize].load(Ordering::Relaxed);
        Refusal::ALL.into_iter().map(|refusal| (refusal.name(), count(refusal))).collect()
    }
}

impl Listener for Troubles {
    fn on(&self, event: &Event) {
        if let EventKind::WorkFailed { work, error, .. } = &event.kind {
            self.failed[*work as usize].fetch_add(1, Ordering::Relaxed);
            self.last_failures.lock()[*work as usize].clone_from(error);
        }
    }
}

/// How often a kind of background work has failed since the open. It is tried again each time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FailedWorkStats {
    /// How often.
    pub count: u64,
    /// Whether it failed the last time that it was tried. Writers that have to wait for it are
    /// refused then.
    pub is_failing: bool,
    /// The last error; empty if there was none.
    pub last_error: String,
}

/// What is read at a moment of the past, and so keeps what was overwritten since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SnapshotStats {
    /// Number of moments that snapshots hold, those of open transactions included.
    pub snapshot_count: u64,
    /// Number of iterators that are open.
    pub iterator_count: u64,
    /// How long ago the oldest snapshot was taken, in milliseconds; 0 if there is none.
    pub oldest_age_ms: u64,
    /// The number that the oldest snapshot or iterator reads at, if there is one.
    pub oldest_seqno: Option<u64>,
    /// Number of entries that were written since then. What they overwrote is kept.
    pub entries_since: u64,
}

impl SnapshotStats {
    fn of(held: &read_points::Held, visible: SeqNo, now: Duration) -> SnapshotStats {
        let age = held.oldest_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        let oldest = held.oldest_seqno;
        SnapshotStats {
            snapshot_count: held.snapshot_count,
            iterator_count: held.iterator_count,
            oldest_age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            oldest_seqno: oldest.map(|seqno| seqno.0),
            entries_since: oldest.map_or(0, |oldest| visible.0.saturating_sub(oldest.0)),
        }
    }
}

impl Inner {
    pub(super) fn failed_work(&self) -> BTreeMap<&'static str, FailedWorkStats> {
        let troubles = &self.meters.troubles;
        let last = troubles.last_failures.lock().clone();
        let stats = |work: Work| FailedWorkStats {
            count: troubles.failed[work as usize].load(Ordering::Relaxed),
            is_failing: self.health.problem(work).is_some(),
            last_error: last[work as usize].clone(),
        };
        Work::ALL.into_iter().map(|work| (work.word(), stats(work))).collect()
    }

    pub(super) fn snapshot_stats(&self) -> SnapshotStats {
        let (held, visible) = (self.read_points.held(), self.sequencer.visible());
        SnapshotStats::of(&held, visible, self.env.now())
    }
}
