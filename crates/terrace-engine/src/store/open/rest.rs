//! The rest of a log that is longer than what memtables may take: replayed once the open may write,
//! and flushed on the way.
//!
//! # Why a crash loses nothing, and counts nothing twice
//! The log is understood, its torn tail cut off, and the new epoch durable before anything here is
//! written. Each memtable holds whole records, one after the other, and takes the place of the
//! records from its begin to its end: a flush says that the log is settled up to the begin of the
//! first memtable that is not flushed, and never beyond the first record that is in no memtable. So
//! the next replay begins with a record whose entries are in no table, even if the log is kept from
//! further back.

use std::sync::Arc;

use terrace_base::{KeyRange, LogPosition, MemtableId};

use crate::drange::Frozen;
use crate::events::OpenStep;
use crate::store::Inner;
use crate::store::open::recovery::{Refill, Replay, bytes_kept_max};
use crate::wal::LogStore;
use crate::{Error, Result};

impl Inner {
    /// Replays the log from `rest` on, and flushes whatever there is no memory for. `covers`: the
    /// memtables of earlier opens of which anything was replayed. Nobody else has the range yet.
    ///
    /// A full disk keeps nobody out: what cannot be flushed stays in memory then.
    ///
    /// Errors: those of replays and flushes.
    pub(super) fn replay_rest(
        &self,
        log: &dyn LogStore,
        rest: LogPosition,
        covers: Vec<MemtableId>,
    ) -> Result<()> {
        self.flush_replayed(rest)?;
        let bytes_max = bytes_kept_max(&self.process, &self.options);
        let mut take_full = |frozen: Arc<Frozen>| {
            let end = frozen.end;
            self.add_replayed(frozen);
            let kept_bytes = self.view.load().frozen_bytes;
            if kept_bytes + self.options.memtable_bytes > bytes_max {
                self.flush_replayed(end)?;
            }
            Ok(true)
        };
        let version = self.versions.current();
        let step = OpenStep::FlushLog;
        let replay =
            Replay { process: &self.process, log, options: &self.options, ids: &self.ids, step };
        let mut refill = Refill::new(replay, &version, rest, &mut take_full);
        log.replay(version.log_facts(), &mut |record| refill.record(record))?;
        let filled = refill.finish();
        // It takes no more writes: to go on with it would be to flush it with what comes next.
        self.add_replayed(Arc::new(Frozen {
            memtable: filled.last,
            keys: KeyRange::all(),
            begin: filled.last_begin,
            end: self.sequencer.finished().1,
            covers,
            is_merged: false,
        }));
        Ok(())
    }

    /// Shows a memtable that was replayed, newer than all before it.
    fn add_replayed(&self, frozen: Arc<Frozen>) {
        self.change_view(false, |view| {
            let mut dranges = view.dranges.clone();
            for drange in &mut dranges {
                drange.frozen.insert(0, Arc::clone(&frozen));
            }
            (dranges, Arc::clone(&view.version))
        });
    }

    /// Flushes all memtables that were replayed, where the records from `rest` on are in none.
    fn flush_replayed(&self, rest: LogPosition) -> Result<()> {
        let _caller_waits = self.io.hurry_flushes();
        let turn = self.turns.flush.lock();
        let frozen = self.view.load().frozen();
        match self.flush_these(&turn, frozen, |except| self.oldest_position(except).min(rest)) {
            Err(Error::NoSpace(error)) => {
                crate::program_log::warn!(%error, "no space to flush what is replayed: it stays in memory");
                Ok(())
            }
            flushed => flushed,
        }
    }
}
