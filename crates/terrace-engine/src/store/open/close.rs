//! Closing a range: after a clean close every byte of its files can be told right from wrong.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::fail_point::fail_point;
use crate::store::upkeep::all_held::AllHeld;
use crate::store::{Inner, Store};
use crate::version::LogEdit;
use crate::wal::Record;
use crate::wal::format::{ClosingBody, RECORD_HEADER_BYTES, RecordKind};
use crate::{Error, Result};

/// Closes the range when the last handle goes.
pub struct Closer {
    inner: Arc<Inner>,
}

impl Closer {
    pub fn new(inner: &Arc<Inner>) -> Closer {
        Closer { inner: Arc::clone(inner) }
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Waiting could hang a thread that must end; what was acknowledged is safe anyway.
            self.inner.begin_close();
            return;
        }
        if let Err(error) = self.inner.close() {
            tracing::error!(dir = %self.inner.dir.display(), %error, "closing failed");
        }
    }
}

impl Store {
    /// Ends the background work, syncs the log and marks the directory as cleanly closed. Other
    /// handles answer [`Error::Closed`] from now on. Closing twice does nothing.
    ///
    /// Errors: `Poisoned` if the range was poisoned before, or is by the last sync. What had been
    /// acknowledged is as durable as its class says in any case.
    pub fn close(&self) -> Result<()> {
        self.inner.close()
    }
}

impl Inner {
    fn close(&self) -> Result<()> {
        if self.begin_close() {
            return Ok(());
        }
        self.jobs.wait_ended();
        if self.log.is_none() {
            return Ok(());
        }
        if self.is_poisoned() {
            return Err(Error::Poisoned(self.poison_reason()));
        }
        match self.append_closing() {
            // The log is synced; what is missing is only the mark that says so.
            Err(Error::NoSpace(error)) => {
                tracing::warn!(%error, "no space for the mark of a clean close");
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Turns writers away and tells background work to end; whether that had been done before.
    fn begin_close(&self) -> bool {
        let was_closing = self.health.is_closing.swap(true, Ordering::AcqRel);
        self.jobs.cancel();
        self.changed.notify();
        self.sequencer.wake();
        was_closing
    }

    /// Syncs the log, then tells the log where the manifest ends and the manifest where the log
    /// ends.
    fn append_closing(&self) -> Result<()> {
        let log = self.log()?;
        // Holding every drange exclusively keeps late writers out; the turn keeps the dranges.
        let turn = self.turns.freeze.lock();
        let map = self.dranges.load_full();
        let _all = AllHeld::of(&map, &turn);
        let (seqno, end) = self.sequencer.finished();
        self.sync_log(seqno, end)?;
        self.versions.mend()?;
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
            body: &[&body],
        };
        fail_point!(self.env, "close::before_mark");
        taken.place.target.append(&taken.place, &record)?;
        self.sequencer.finish(&taken, true);
        self.sync_log(taken.last_seqno, taken.place.end)?;
        fail_point!(self.env, "close::after_mark");
        self.versions
            .close(&LogEdit { closed: Some(taken.place.end), ..LogEdit::default() }.into())?;
        self.reclaim()
    }
}
