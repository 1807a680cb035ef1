//! Whether writes are taken, and which background work fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terrace_env::Latch;

use super::Inner;
use crate::events::EventKind;
use crate::{Error, Result};

/// After a background failure that may pass, the work is tried again after this long.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// Damage does not pass by itself, and to meet it again costs reading up to it: each time the work
/// is tried again later, up to this.
const RETRY_DAMAGE_AFTER_MAX: Duration = Duration::from_secs(600);

/// A kind of background work: each fails and recovers by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Work {
    /// Memtables go to L0.
    Flush,
    /// Tables go down.
    Compaction,
    /// Segments are prepared, and the log is kept short.
    Log,
    /// Value files go, or are written anew without their garbage.
    Values,
    /// The object store gets what the local manifest has.
    Feed,
    /// What nobody needs any more is deleted from the object store.
    Collect,
    /// The object store gets the log.
    StoreLog,
}

impl Work {
    /// All of them.
    pub(in crate::store) const ALL: [Work; 7] = [
        Work::Flush,
        Work::Compaction,
        Work::Log,
        Work::Values,
        Work::Feed,
        Work::Collect,
        Work::StoreLog,
    ];

    const COUNT: usize = Work::ALL.len();

    /// Its name in statistics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Work::Flush => "flush",
            Work::Compaction => "compaction",
            Work::Log => "log",
            Work::Values => "values",
            Work::Feed => "feed",
            Work::Collect => "collect",
            Work::StoreLog => "store_log",
        }
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Work::Flush => "flush",
            Work::Compaction => "compaction",
            Work::Log => "log work",
            Work::Values => "value log work",
            Work::Feed => "feeding the object store",
            Work::Collect => "deleting from the object store",
            Work::StoreLog => "bringing the log to the object store",
        }
    }
}

/// Whether writes are taken.
#[derive(Debug, Default)]
pub struct Health {
    pub is_closing: AtomicBool,
    pub is_poisoned: AtomicBool,
    /// Why no more writes are taken: the first reason.
    poison: Latch<Option<Poison>>,
    /// The last failure of each kind of work that may pass, until that work succeeds again.
    problems: Latch<[Option<Problem>; Work::COUNT]>,
}

/// Why no more writes are taken until the range is opened again.
#[derive(Clone, Debug)]
struct Poison {
    reason: String,
    /// Somebody else owns the database; otherwise the disk's content is in doubt.
    is_fence: bool,
}

/// Why background work failed: writers that would have to wait for it are told instead.
#[derive(Clone, Debug)]
pub struct Problem {
    pub text: String,
    pub is_no_space: bool,
    /// How often the work has met damage since it last succeeded.
    damage_count: u32,
    /// Not before this time it is tried again by itself.
    retry_at: Duration,
}

/// After how long work that has met damage `count` times in a row is tried again.
fn retry_damage_after(count: u32) -> Duration {
    let factor = 1u32.checked_shl(count.saturating_sub(1)).unwrap_or(u32::MAX);
    RETRY_AFTER.saturating_mul(factor).min(RETRY_DAMAGE_AFTER_MAX)
}

impl Health {
    /// Why this work fails at present, if it does.
    pub fn problem(&self, work: Work) -> Option<Problem> {
        self.problems.lock()[work as usize].clone()
    }

    /// For how long damage keeps this work from being tried again, `now`.
    pub fn rest(&self, work: Work, now: impl FnOnce() -> Duration) -> Duration {
        let damaged = self.problem(work).filter(|problem| problem.damage_count > 0);
        damaged.map_or(Duration::ZERO, |problem| problem.retry_at.saturating_sub(now()))
    }
}

impl Inner {
    /// Takes no more writes until the range is opened again, and says why; keeps the first reason.
    pub(super) fn poison(&self, reason: &str) {
        self.take_no_more(Poison { reason: reason.to_string(), is_fence: false });
    }

    /// Takes no more writes because somebody else owns the database.
    pub(super) fn take_fence(&self, reason: &str) {
        self.take_no_more(Poison { reason: reason.to_string(), is_fence: true });
    }

    fn take_no_more(&self, why: Poison) {
        let reason = why.reason.clone();
        self.health.poison.lock().get_or_insert(why);
        if !self.health.is_poisoned.swap(true, Ordering::AcqRel) {
            self.tell(EventKind::Poisoned { reason });
        }
        self.wake_all();
    }

    /// Wakes whoever waits for this range, for it ends.
    pub(super) fn wake_all(&self) {
        self.changed.notify();
        self.sequencer.wake();
        if let Some(log) = self.outliving_log() {
            log.changed().notify();
        }
    }

    /// Passes on how a piece of work ended. If a sync failed in it, the range takes no more writes,
    /// whoever had asked for the work.
    pub(super) fn poison_if_sync_failed<T>(&self, outcome: Result<T>) -> Result<T> {
        if let Err(Error::Poisoned(reason)) = &outcome {
            self.poison(reason);
        }
        outcome
    }

    /// Errors: `Poisoned` or `Closed`.
    #[inline]
    pub(super) fn check_healthy(&self) -> Result<()> {
        if self.health.is_poisoned.load(Ordering::Acquire) {
            return Err(self.poisoned());
        }
        self.check_open()
    }

    /// Errors: `Closed`.
    #[inline]
    pub(super) fn check_open(&self) -> Result<()> {
        if self.is_closing() { Err(Error::Closed) } else { Ok(()) }
    }

    /// What a failure means to a reader: if the range was closed meanwhile, its files may be gone.
    pub(super) fn or_closed(&self, error: Error) -> Error {
        if self.is_closing() { Error::Closed } else { error }
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.health.is_poisoned.load(Ordering::Acquire)
    }

    pub(super) fn poison_reason(&self) -> String {
        let poison = self.health.poison.lock();
        poison.as_ref().map_or_else(|| "no reason was kept".into(), |poison| poison.reason.clone())
    }

    /// The error of whoever asks for a write that is not taken any more: `Poisoned` or `Fenced`.
    pub(super) fn poisoned(&self) -> Error {
        let reason = self.poison_reason();
        let is_fence = self.health.poison.lock().as_ref().is_some_and(|poison| poison.is_fence);
        if is_fence { Error::Fenced(reason) } else { Error::Poisoned(reason) }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.health.is_closing.load(Ordering::Acquire)
    }

    /// Remembers why this work fails, and says when to try it again; or that it succeeds again.
    /// Writers that would have to wait for it are told so.
    pub(super) fn note_problem(&self, work: Work, error: Option<&Error>) -> Duration {
        let now = if error.is_some() { self.env.now() } else { Duration::ZERO };
        let (is_new, retry_after) = {
            let mut problems = self.health.problems.lock();
            let noted = &mut problems[work as usize];
            let before = noted.as_ref().map_or(0, |problem| problem.damage_count);
            let is_damage = matches!(error, Some(Error::Corruption(_)));
            let damage_count = if is_damage { before + 1 } else { 0 };
            let retry_after =
                if is_damage { retry_damage_after(damage_count) } else { RETRY_AFTER };
            let is_new = error.is_some() && noted.is_none();
            *noted = error.map(|error| Problem {
                text: error.to_string(),
                is_no_space: matches!(error, Error::NoSpace(_)),
                damage_count,
                retry_at: now + retry_after,
            });
            (is_new, retry_after)
        };
        if is_new {
            self.changed.notify();
        }
        retry_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_met_again_ever_more_rarely() {
        let ms = Duration::from_millis;
        let after: Vec<_> = (1..=4).map(retry_damage_after).collect();
        assert_eq!(after, [ms(250), ms(500), ms(1000), ms(2000)]);
        for count in [20, 32, 33, u32::MAX] {
            assert_eq!(retry_damage_after(count), RETRY_DAMAGE_AFTER_MAX);
        }
    }
}
