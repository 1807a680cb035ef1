//! Closing a range: after a clean close every byte of its files can be told right from wrong.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use terrace_base::{LogPosition, SeqNo};

use crate::fail_point::fail_point;
use crate::store::upkeep::all_held::AllHeld;
use crate::store::{Inner, Store};
use crate::version::LogEdit;
use crate::wal::Record;
use crate::wal::format::{ClosingBody, RECORD_HEADER_BYTES, RecordKind};
use crate::{Error, Result};

/// Closes the range when the last handle goes.
pub struct Closer {
    /// None if nothing has to be closed.
    inner: Option<Arc<Inner>>,
}

impl Closer {
    pub fn new(inner: &Arc<Inner>) -> Closer {
        Closer { inner: Some(Arc::clone(inner)) }
    }

    /// Of a range that holds no lock and does no work: iterators may outlive the last handle.
    pub fn of_nothing() -> Closer {
        Closer { inner: None }
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        let Some(inner) = &self.inner else { return };
        if std::thread::panicking() {
            // Waiting could hang a thread that must end; what was acknowledged is safe anyway.
            inner.begin_close();
            return;
        }
        if let Err(error) = inner.close() {
            crate::program_log::error!(dir = %inner.dir.display(), %error, "closing failed");
        }
    }
}

impl Store {
    /// Ends the background work, syncs the log and marks the directory as cleanly closed. Waits for
    /// flushes, compactions, checkpoints and ingests that other threads have asked for. On return
    /// the directory can be opened again, whatever is left of this range: other handles, snapshots
    /// and iterators answer [`Error::Closed`] from now on. Closing twice does nothing.
    ///
    /// An object store gets what it does not have yet; if it fails for five seconds, that is logged
    /// as a warning, and the next open goes on.
    ///
    /// One exception: if L0 has a container, a new open answers [`Error::Locked`] as long as an
    /// iterator that has not answered yet, or a pinned value, holds a row in it.
    ///
    /// Errors: `Poisoned` if the range was poisoned before, or is by the last sync. What had been
    /// acknowledged is as durable as its class says in any case, and the directory can be opened.
    pub fn close(&self) -> Result<()> {
        self.inner.close()
    }
}

impl Inner {
    fn close(&self) -> Result<()> {
        // Whoever closes at the same time waits until the directory is free.
        let mut held = self.held.lock();
        if held.is_none() {
            return Ok(());
        }
        self.flush_for_mirror();
        self.begin_close();
        self.jobs.wait_ended();
        let outcome = self.end_log();
        self.let_go();
        // From here on nothing of this range touches a file to write it: no job and no call is
        // under way (`Inner::begin_work`), and writers look again under the holds that
        // `append_closing` had.
        drop(held.take());
        outcome
    }

    /// Lets go of what only readers need that are turned away from now on: a container of L0 is
    /// mapped once. Iterators see that something went, look, and let go of the rest.
    fn let_go(&self) {
        let container = &self.context.opener.container;
        if container.pages().is_some() {
            let emptied = self.versions.let_go_of_tables();
            self.change_view(true, |view| (view.dranges.clone(), emptied));
            container.unmount();
        }
        // No view has come as far: each iterator looks at its next step, and at those after that.
        self.removals.store(u64::MAX, Ordering::Release);
        self.drop_spare_scans();
    }

    /// Marks the log and the manifest as ended cleanly, if they did.
    fn end_log(&self) -> Result<()> {
        if self.log.is_read_only() {
            return Ok(());
        }
        if self.is_poisoned() {
            return Err(self.poisoned());
        }
        match self.append_closing() {
            // The log is synced; what is missing is only the mark that says so.
            Err(Error::NoSpace(error)) => {
                crate::program_log::warn!(%error, "no space for the mark of a clean close");
                Ok(())
            }
            outcome => outcome.and_then(|moment| self.feed_rest(moment)),
        }
    }

    /// Turns callers away and tells background work to end.
    fn begin_close(&self) {
        self.health.is_closing.store(true, Ordering::SeqCst);
        self.jobs.cancel();
        self.io.end();
        if let Some(cloud) = &self.cloud {
            cloud.stop();
        }
        self.end_idle_watch();
        self.wake_all();
    }

    /// Syncs the log, then tells the log where the manifest ends and the manifest where the log
    /// ends; returns the greatest number, and where the log ends before that mark, which the next
    /// open writes over.
    fn append_closing(&self) -> Result<(SeqNo, LogPosition)> {
        let log = self.log()?;
        // Holding every drange exclusively keeps late writers out; the turn keeps the dranges.
        let turn = self.turns.freeze.lock();
        let map = self.dranges.load_full();
        let _all = AllHeld::of(&map, &turn);
        let (seqno, end) = self.sequencer.finished();
        self.sync_log(seqno, end)?;
        self.versions.restart_feed_if_broken()?;
        let feed = self.versions.feed_end();
        let body = ClosingBody { manifest: feed.id, manifest_bytes: feed.bytes }.encode();
        let record_bytes = RECORD_HEADER_BYTES + body.len();
        let taken = loop {
            match self.sequencer.take(0, record_bytes, log) {
                Ok(taken) => break taken,
                Err(_) => log.make_room(record_bytes)?,
            }
        };
        let record = Record {
            kind: RecordKind::Closing,
            first_seqno: taken.first_seqno,
            seqno_count: 0,
            entry_count: 0,
            durable: log.durable(),
            large_bytes: 0,
            body: &[&body],
        };
        fail_point!(self.env, "close::before_mark");
        taken.place.target.append(&taken.place, &record)?;
        self.sequencer.finish(&taken, true);
        log.seal()?;
        self.sync_log(taken.last_seqno, taken.place.end)?;
        fail_point!(self.env, "close::after_mark");
        self.versions
            .close(&LogEdit { closed: Some(taken.place.end), ..LogEdit::default() }.into())?;
        log.give_back()?;
        self.reclaim()?;
        Ok((seqno, end))
    }
}
