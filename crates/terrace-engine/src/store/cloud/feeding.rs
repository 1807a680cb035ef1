use std::cell::Cell;
use std::sync::{Arc, Weak};
use std::time::Duration;

use terrace_base::{LogPosition, SeqNo};

use super::behind::{FeedSource, TakeMoment, TakeVersion};
use super::{CloudDatabase, OutlivingLog};
use crate::cloud::format::Extent;
use crate::cloud::{CloudLog, CloudNames, KeptNumbers};
use crate::drange::Drange;
use crate::store::Inner;
use crate::version::{TableOpener, Version, VersionEdit};
use crate::{Error, Result};

/// How long a close goes on trying to feed a store that fails, and how long it waits at first.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(5);
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// Moments that durable writes wait for follow on each other no faster.
const MOMENTS_APART_MIN: Duration = Duration::from_millis(100);

impl Inner {
    /// From now on jobs feed what the local manifest gets, and delete what nobody needs.
    pub(in crate::store) fn start_feeding(self: &Arc<Self>) {
        let Some(behind) = self.behind() else { return };
        let calls = |schedule: fn(&Inner)| {
            let me = Weak::clone(&self.me);
            move || {
                if let Some(inner) = me.upgrade() {
                    schedule(&inner);
                }
            }
        };
        behind.set_wake(calls(Inner::schedule_feeding));
        self.context.opener.far.set_wake(calls(Inner::schedule_collecting));
        self.context.opener.far.set_grows(calls(Inner::size_cache));
        self.size_cache();
        self.schedule_feeding();
        self.look_for_fence_later(behind.number());
    }

    pub(in crate::store) fn behind(&self) -> Option<&Arc<super::FeedBehind>> {
        self.cloud.as_ref()?.behind()
    }

    /// Does one thing that is due for the feed in the store; `false` if nothing was.
    pub(in crate::store) fn keep_feed(&self) -> Result<bool> {
        let Some(behind) = self.behind() else { return Ok(false) };
        let fed = behind.feed_one(&Running(self));
        match self.outliving_log().filter(|_| fed.is_ok()) {
            Some(OutlivingLog::InStore(log)) => log.collect(self.keep_archive(log, false)?)?,
            Some(OutlivingLog::OnVolume(_)) => self.release_volume()?,
            None => {}
        }
        if let Some(period) = self.mirror_period() {
            let is_awaited = self.awaits_moment();
            self.await_moment(if is_awaited { MOMENTS_APART_MIN } else { period });
        }
        fed
    }

    /// Keeps the archive up with the newest moment in the feed, if there is one to keep; what of
    /// the log has to stay for it.
    fn keep_archive(&self, log: &CloudLog, is_last: bool) -> Result<KeptNumbers> {
        let Some(tier) = &self.cloud else { return Ok(KeptNumbers::NONE) };
        let Some(archive) = tier.archive() else { return Ok(KeptNumbers::NONE) };
        archive.keep_up(log.newest_fed(), (self.env.wall_time(), is_last), |name| {
            let names = CloudNames::new(self.versions.current().database());
            CloudDatabase::of_owner(&self.process, tier, names)?.make(name)
        })
    }

    /// How often a moment of the range is fed, if its upper levels are mirrored.
    fn mirror_period(&self) -> Option<Duration> {
        self.cloud.as_ref()?.options()?.mirror
    }

    /// With a mirror, what the log holds alone goes into tables, so that the store gets it at the
    /// close.
    pub(in crate::store) fn flush_for_mirror(&self) {
        if self.mirror_period().is_none() || self.log.is_read_only() {
            return;
        }
        if let Err(error) = self.flush_all() {
            let dir = self.dir.display();
            crate::program_log::warn!(%dir, %error, "closed before the store had all entries");
        }
    }

    /// Feeds what waits, at a close, whose end `moment` is, and tries again for a while if that
    /// fails. What the store does not take until then, the next open feeds, which begins with a
    /// snapshot.
    ///
    /// Errors: `Fenced`.
    pub(in crate::store) fn feed_rest(&self, moment: (SeqNo, LogPosition)) -> Result<()> {
        let Some(behind) = self.behind() else { return Ok(()) };
        let closing = Closing { inner: self, moment, is_done: Cell::new(false) };
        let (until, mut wait) = (self.env.now() + CLOSE_WAIT_MAX, FIRST_WAIT);
        loop {
            match behind.feed_one(&closing) {
                Ok(true) => {}
                Ok(false) => {
                    self.archive_rest();
                    return Ok(());
                }
                Err(error @ Error::Fenced(_)) => return Err(error),
                Err(error) if self.env.now() + wait > until => {
                    let dir = self.dir.display();
                    crate::program_log::warn!(%dir, %error, "closed before the store had all edits");
                    return Ok(());
                }
                Err(_) => {
                    // If the moment comes all the same, it is fed twice, which does no harm.
                    closing.is_done.set(false);
                    self.env.sleep(wait);
                    wait *= 2;
                }
            }
        }
    }

    /// Keeps the archive up with the last moment, so that what was written in a short time is in
    /// it.
    fn archive_rest(&self) {
        let Some(OutlivingLog::InStore(log)) = self.outliving_log() else { return };
        if let Err(error) = self.keep_archive(log, true) {
            let dir = self.dir.display();
            crate::program_log::warn!(%dir, %error, "closed without a checkpoint of the archive");
        }
    }

    /// Whether all entries are in tables.
    fn has_flushed_all(&self) -> bool {
        let view = self.view.load();
        let dranges = self.dranges.load();
        let is_empty = |drange: &Arc<Drange>| drange.active.shared().memtable.is_empty();
        view.frozen_bytes + view.merged_bytes == 0 && dranges.list().iter().all(is_empty)
    }
}

/// The range while it is open: what takes long ends when it closes.
struct Running<'a>(&'a Inner);

/// The range at its close: what was begun is brought to its end.
struct Closing<'a> {
    inner: &'a Inner,
    moment: (SeqNo, LogPosition),
    is_done: Cell<bool>,
}

impl FeedSource for Running<'_> {
    fn with_version(&self, take: TakeVersion<'_>) -> Result<()> {
        self.0.versions.with_snapshot(take)
    }

    fn with_moment(&self, take: TakeMoment<'_>) -> Result<()> {
        self.0.with_moment(take)
    }

    fn log(&self) -> Option<&OutlivingLog> {
        self.0.outliving_log()
    }

    fn moment_is_fed(&self) {
        if let Some(tier) = &self.0.cloud {
            tier.let_go_of_log_before();
        }
    }

    fn due_moment(&self, last: Option<Duration>, may_hurry: bool) -> Option<Extent> {
        let period = self.0.mirror_period()?;
        let passed = last.map(|last| self.0.env.now().saturating_sub(last));
        let is_time = passed.is_none_or(|passed| passed >= period);
        if may_hurry
            && self.0.awaits_moment()
            && passed.is_none_or(|passed| passed >= MOMENTS_APART_MIN)
        {
            return Some(Extent::Moment);
        }
        let is_new = || self.0.behind().is_some_and(|behind| behind.is_behind());
        let is_due = is_time && (last.is_none() || is_new() || !self.0.has_flushed_all());
        is_due.then_some(Extent::Moment)
    }

    fn opener(&self) -> &TableOpener {
        &self.0.context.opener
    }

    fn goes_on(&self) -> bool {
        !self.0.is_closing()
    }
}

impl FeedSource for Closing<'_> {
    fn with_version(&self, take: TakeVersion<'_>) -> Result<()> {
        self.inner.versions.with_snapshot(take)
    }

    /// Nobody writes any more.
    fn with_moment(&self, take: TakeMoment<'_>) -> Result<()> {
        self.inner.versions.with_snapshot(&mut |snapshot: &VersionEdit, version: &Arc<Version>| {
            take(snapshot, version, self.moment);
        })
    }

    fn log(&self) -> Option<&OutlivingLog> {
        self.inner.outliving_log()
    }

    /// Once, unless that failed. If something is in the log alone, the feed stays at the moment
    /// before.
    fn due_moment(&self, _last: Option<Duration>, _may_hurry: bool) -> Option<Extent> {
        let is_due = !self.is_done.replace(true) && self.inner.has_flushed_all();
        is_due.then_some(Extent::Closed)
    }

    fn opener(&self) -> &TableOpener {
        &self.inner.context.opener
    }

    fn goes_on(&self) -> bool {
        true
    }
}
