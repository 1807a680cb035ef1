//! The write path: gate → holds → room → log → memtables → ordered publication.
//!
//! Between taking numbers and publishing, nothing fails, allocates or waits but the memtable's
//! latch; the one exception is a log that is written by system calls: if that fails, the range is
//! poisoned, and writes that were not published answer *unknown*.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::{LogPosition, MemtableId, SeqNo};
use terrace_env::{PlantedBug, SharedHold, Ticket, is_planted};

use crate::batch::WriteBatch;
use crate::drange::{Active, Drange, DrangeMap, DuplicateChoice};
use crate::fail_point::fail_point;
use crate::memtable::{Memtable, Reservation};
use crate::options::Durability;
use crate::store::gate::ledger::{Cause, WriteTimer};
use crate::store::sequencer::{Grant, NotTaken};
use crate::store::turns::SyncTurn;
use crate::store::upkeep::freeze::Lacks;
use crate::store::write::large::LargeValues;
use crate::store::write::routing::{PerDrange, Placement, for_each};
use crate::store::{Inner, Store};
use crate::wal::Record;
use crate::wal::format::{RECORD_BYTES_MAX, RECORD_HEADER_BYTES, RecordKind, put_memtables};
use crate::{Error, Result};

/// How one write is done.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// What the acknowledgement promises; the range's own class if none is given.
    pub durability: Option<Durability>,
    /// Whether the call may wait: for room in memory or in the log, for the pace that the gate
    /// sets, or for a sync. If not, it answers [`Error::WouldBlock`], and nothing was written.
    pub wait: bool,
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions { durability: None, wait: true }
    }
}

impl Store {
    /// Writes a batch atomically. On return it is visible, and as durable as its class says.
    ///
    /// Errors: `Invalid` (it merges, and the range has no merge operator; nothing was written),
    /// `Operand` (the merge operator refuses one of its operands; nothing was written),
    /// `NoSpace` (the disk is full; nothing was written), `WouldBlock` (only if `wait` is
    /// off; nothing was written), `Poisoned` and `ReadOnly` and `Closed` (nothing was written),
    /// `Unknown` (the range was poisoned while this write was under way).
    pub fn write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.write_numbered(batch, options).map(|_| ())
    }

    /// Makes everything durable that was acknowledged before the call, whatever its class, as an
    /// empty batch of the class [`Durability::Sync`] does.
    ///
    /// Errors: `ReadOnly`, `Closed`, `Poisoned`: then it is in doubt what of it is durable.
    pub fn sync(&self) -> Result<()> {
        self.inner.log()?;
        self.inner.check_healthy()?;
        let promise = self.inner.promise(&WriteOptions::default())?.max(Promise::Synced);
        self.inner.sync_acknowledged(true, promise)
    }

    /// As [`Store::write`]; returns the number of the batch's last entry. The batch's numbers are
    /// consecutive, and whoever reads at this number or above sees all of it. For an empty batch:
    /// the newest number that readers see.
    pub fn write_numbered(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<SeqNo> {
        let watch = self.inner.watch_write();
        let written = self.write_watched(batch, options);
        if let Err(error) = &written {
            self.inner.meters.troubles.write_failed(error);
        }
        if !matches!(written, Err(Error::WouldBlock)) {
            self.inner.write_ended(&watch, batch);
        }
        written
    }

    fn write_watched(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<SeqNo> {
        let inner = &*self.inner;
        inner.log()?;
        let promise = inner.promise(options)?;
        if batch.is_empty() {
            inner.check_healthy()?;
            if promise.waits_for_disk() {
                inner.sync_acknowledged(options.wait, promise)?;
            }
            return Ok(inner.sequencer.visible());
        }
        inner.check_operands(batch)?;
        if promise.waits_for_disk() && !options.wait {
            return Err(Error::WouldBlock);
        }
        let mut timer = inner.begin_timer(batch.memtable_bytes());
        let mut turn = DuplicateChoice::default();
        let taken = loop {
            inner.gate_pass(&mut timer, batch.memtable_bytes(), options.wait)?;
            let map = inner.dranges.load();
            Placement::check(batch, &map)?;
            let placement = Placement::of(batch, &map, &mut turn);
            let holds: PerDrange<SharedHold<'_, Active>> =
                for_each(&placement.dranges, |index| share(&map.list()[*index], &mut timer));
            if !Arc::ptr_eq(&map, &inner.dranges.load()) {
                continue;
            }
            // A close waits for the holds: whoever comes after it is turned away here.
            inner.check_healthy()?;
            let targets: PerDrange<&Memtable> = for_each(&holds, |hold| &*hold.memtable);
            match inner.commit(&placement, &targets)? {
                Commit::Done(taken) => break taken,
                Commit::NeedsRoom(room) => {
                    drop(targets);
                    drop(holds);
                    inner.make_room(&mut timer, &map, room, options.wait)?;
                }
            }
        };
        timer.precedence = None;
        inner.meters.counters.user_bytes(batch.payload_bytes(), batch.len());
        inner.acknowledge(&mut timer, &taken, promise)?;
        Ok(taken.last_seqno)
    }
}

thread_local! {
    /// Where a thread puts what stands before the entries of its record: memory that it keeps.
    static TAGS: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What an acknowledgement promises; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store) enum Promise {
    /// Readers see it.
    Published,
    /// The local disk has it.
    Synced,
    /// It outlives the machine, and so does all before it.
    Outliving,
}

impl Promise {
    fn of(durability: Durability) -> Promise {
        match durability {
            Durability::Buffered | Durability::Interval(_) => Promise::Published,
            Durability::Sync => Promise::Synced,
            Durability::Durable => Promise::Outliving,
        }
    }

    pub fn waits_for_disk(self) -> bool {
        self >= Promise::Synced
    }
}

/// What a commit came to.
pub(in crate::store) enum Commit {
    /// Numbers were taken, and the write is done.
    Done(Grant),
    /// Nothing was taken, for lack of this.
    NeedsRoom(Room),
}

/// What a writer waits for.
#[derive(Clone, Debug)]
pub(in crate::store) enum Room {
    /// Bytes in the memtables that the batch touches.
    Memtables(Lacks),
    /// Room in the log for a record of this number of bytes.
    Log { bytes: usize },
    /// A writer less under way.
    Turn,
}

/// A write that has its numbers and is not finished. Dropped before that, by a failure or a panic,
/// it poisons the range: the writes after it would wait for it for ever.
struct UnderWay<'a>(&'a Inner);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.poison("a write was cut short");
    }
}

/// Shares the drange's hold.
#[inline]
fn share<'a>(drange: &'a Drange, timer: &mut WriteTimer<'_>) -> SharedHold<'a, Active> {
    match drange.active.try_shared() {
        Some(hold) => hold,
        None => timer.wait(Cause::Hold, || drange.active.shared()),
    }
}

/// What a failure means to a write that has its numbers.
pub(in crate::store) fn unknown(error: Error) -> Error {
    match error {
        Error::Poisoned(reason) => Error::Unknown(reason),
        error => error,
    }
}

impl Inner {
    /// What the acknowledgement of a write has to promise.
    ///
    /// Errors: `Invalid` if that cannot be had.
    pub(in crate::store) fn promise(&self, options: &WriteOptions) -> Result<Promise> {
        let of_range = Promise::of(self.options.durability);
        let promise = options.durability.map_or(of_range, |asked| of_range.max(Promise::of(asked)));
        if promise == Promise::Outliving {
            self.require_outliving_log()?;
        }
        Ok(promise)
    }

    pub(in crate::store) fn syncs_before_publication(&self) -> bool {
        Promise::of(self.options.durability) >= Promise::Synced
    }

    /// Commits a placed batch into the memtables of its dranges, which the caller holds.
    pub(super) fn commit(
        &self,
        placement: &Placement<'_>,
        targets: &[&Memtable],
    ) -> Result<Commit> {
        let log = self.log()?;
        let large = match self.options.value_log {
            Some(bounds) if log.may_retire() => LargeValues::of(placement, bounds.large_bytes),
            _ => LargeValues::default(),
        };
        let needed = |place: usize| placement.memtable_bytes[place] + large.noted_bytes(place);
        let mut reservations: PerDrange<Reservation<'_>> = PerDrange::new();
        for (place, memtable) in targets.iter().enumerate() {
            let Some(reservation) = memtable.reserve(needed(place)) else {
                let dranges = placement.dranges.iter().enumerate();
                let lacks = dranges.map(|(place, drange)| (*drange, needed(place))).collect();
                return Ok(Commit::NeedsRoom(Room::Memtables(lacks)));
            };
            reservations.push(reservation);
        }
        let noted = self.begin_index_keys(placement);
        let ids: PerDrange<MemtableId> = for_each(targets, |memtable| memtable.id());
        let mut tags = TAGS.take();
        tags.clear();
        put_memtables(&mut tags, &ids, &placement.places);
        let record_bytes = RECORD_HEADER_BYTES + tags.len() + placement.body.len();
        if record_bytes > RECORD_BYTES_MAX {
            TAGS.set(tags);
            return Err(Error::invalid(format!(
                "a batch takes {record_bytes} bytes in the log, and at most {RECORD_BYTES_MAX} are possible: \
                 write it in several"
            )));
        }
        let taken = match self.sequencer.take(placement.seqno_count, record_bytes, log) {
            Ok(taken) => taken,
            Err(NotTaken::LogFull) => {
                return Ok(Commit::NeedsRoom(Room::Log { bytes: record_bytes }));
            }
            Err(NotTaken::TooMany) => return Ok(Commit::NeedsRoom(Room::Turn)),
        };
        let under_way = UnderWay(self);
        let record = Record {
            kind: RecordKind::Batch,
            first_seqno: taken.first_seqno,
            seqno_count: placement.seqno_count,
            entry_count: placement.entry_count,
            durable: log.durable(),
            large_bytes: large.bytes,
            body: &[&tags, &placement.body],
        };
        fail_point!(self.env, "wal::before_append");
        let appended = taken.place.target.append(&taken.place, &record);
        let entries_at = taken.place.position.0 + (RECORD_HEADER_BYTES + tags.len()) as u64;
        TAGS.set(tags);
        if let Err(error) = appended {
            self.poison(&format!("writing to the log failed: {error}"));
            return Err(Error::Unknown(self.poison_reason()));
        }
        if is_planted(PlantedBug::PublishByHalf) && !self.syncs_before_publication() {
            self.sequencer.publish(taken.first_seqno);
        }
        fail_point!(self.env, "wal::after_append");
        for (place, (memtable, reservation)) in targets.iter().zip(&mut reservations).enumerate() {
            memtable.insert_all(reservation, placement.entries_at(place, taken.first_seqno));
        }
        if large.bytes > 0 {
            let entries_at = LogPosition(entries_at);
            large.note(targets, &mut reservations, taken.first_seqno, entries_at);
        }
        self.index_keys(&noted);
        self.sequencer.finish(&taken, !self.syncs_before_publication());
        std::mem::forget(under_way);
        if log.wants_preparation() {
            self.schedule_log_work();
        }
        Ok(Commit::Done(taken))
    }

    /// Waits until a finished write may be acknowledged.
    pub(in crate::store) fn acknowledge(
        &self,
        timer: &mut WriteTimer<'_>,
        taken: &Grant,
        promise: Promise,
    ) -> Result<()> {
        if promise.waits_for_disk() && is_planted(PlantedBug::AcknowledgeBeforeSync) {
            self.sequencer.wait_until(|| self.sequencer.is_finished(taken.ticket));
            self.sequencer.publish(self.sequencer.finished().0);
            return Ok(());
        }
        let is_done = || self.sequencer.is_finished(taken.ticket);
        if !is_done() {
            timer.wait(Cause::Publication, || {
                self.sequencer.wait_briefly_until(|| is_done() || self.is_poisoned());
            });
        }
        if !is_done() {
            return Err(Error::Unknown(self.poison_reason()));
        }
        if !promise.waits_for_disk() {
            return Ok(());
        }
        let (seqno, end) = (taken.last_seqno, taken.place.end);
        timer.wait(Cause::Sync, || self.keep_promise(promise, seqno, end)).map_err(unknown)
    }

    /// Makes everything durable that was acknowledged; if the call may not `wait`, it answers
    /// `WouldBlock` where it would have to.
    fn sync_acknowledged(&self, wait: bool, promise: Promise) -> Result<()> {
        // An acknowledged write was finished before.
        let (seqno, end) = self.sequencer.finished();
        if !wait && (self.log()?.durable() < end || promise == Promise::Outliving) {
            return Err(Error::WouldBlock);
        }
        self.keep_promise(promise, seqno, end)
    }

    /// Makes everything below `end` as durable as promised, and everything up to `seqno` visible.
    /// All of that is finished.
    ///
    /// Errors: `Poisoned`; `Unknown`.
    pub(in crate::store) fn keep_promise(
        &self,
        promise: Promise,
        seqno: SeqNo,
        end: LogPosition,
    ) -> Result<()> {
        if promise.waits_for_disk() {
            self.sync_log(seqno, end)?;
        }
        if promise == Promise::Outliving {
            self.await_outliving(end)?;
        }
        Ok(())
    }

    /// Makes the log durable through `end`; if the range syncs before it publishes, also makes
    /// everything up to `seqno` visible. All of that is finished. Callers that wait at the same
    /// time share one sync.
    ///
    /// Errors: `Poisoned`.
    pub(in crate::store) fn sync_log(&self, seqno: SeqNo, end: LogPosition) -> Result<()> {
        let log = self.log()?;
        let syncs_first = self.syncs_before_publication();
        let is_done =
            || log.durable() >= end && (!syncs_first || self.sequencer.visible() >= seqno);
        if is_done() {
            return Ok(());
        }
        // Whoever finds nobody syncing does it for all that are finished by then. The others wait
        // for the end of that sync, not for a turn of their own: most of them have nothing left to
        // do.
        let mut turn = None;
        self.sequencer.wait_until(|| {
            if is_done() || self.is_poisoned() {
                return true;
            }
            turn = self.turns.sync.try_lock();
            turn.is_some()
        });
        let Some(turn) = turn else {
            return if is_done() { Ok(()) } else { Err(self.poisoned()) };
        };
        let synced = if is_done() { Ok(()) } else { self.sync_finished(&turn, end) };
        drop(turn);
        // The turn is free again: one of those that wait takes it.
        self.sequencer.wake();
        synced
    }

    /// Makes it durable that a replay may begin at `from`, below which everything is finished;
    /// `false` if only a sync can.
    ///
    /// Errors: `Poisoned`.
    pub(in crate::store) fn begin_log_at(&self, from: LogPosition) -> Result<bool> {
        self.log()?.begin_at(from).map_err(|error| {
            self.poison(&format!("syncing the log failed: {error}"));
            self.poisoned()
        })
    }

    /// Makes everything that is finished, and the log through `end`, durable, and then visible if
    /// the range syncs first.
    fn sync_finished(&self, turn: &SyncTurn, end: LogPosition) -> Result<()> {
        // A sync may cover more than the number that is read here and published: so who finds the
        // log durable has still to see to it that its own number is published.
        let (finished, through) = self.sequencer.finished();
        self.sync_log_below(turn, through.max(end))?;
        if self.syncs_before_publication() {
            self.sequencer.publish(finished);
        }
        Ok(())
    }

    /// Makes the log durable below `end`, where everything is finished, and not what is above: the
    /// segment that is written to would be written to the disk with what is prepared in it.
    ///
    /// Errors: `Poisoned`.
    pub(in crate::store) fn sync_values_in_log(&self, end: LogPosition) -> Result<()> {
        let turn = self.turns.sync.lock();
        let synced = self.sync_log_below(&turn, end);
        drop(turn);
        // The turn is free again: one of those that wait for it takes it.
        self.sequencer.wake();
        synced
    }

    fn sync_log_below(&self, _turn: &SyncTurn, end: LogPosition) -> Result<()> {
        let log = self.log()?;
        if self.is_poisoned() {
            return Err(self.poisoned());
        }
        if log.durable() >= end {
            return Ok(());
        }
        fail_point!(self.env, "wal::before_sync");
        if let Err(error) = log.sync(end) {
            self.poison(&format!("syncing the log failed: {error}"));
            return Err(self.poisoned());
        }
        fail_point!(self.env, "wal::after_sync");
        self.meters.counters.log_synced();
        Ok(())
    }

    /// Makes the room that a commit lacked, or says why there is none.
    pub(in crate::store) fn make_room<'a>(
        &'a self,
        timer: &mut WriteTimer<'a>,
        map: &Arc<DrangeMap>,
        room: Room,
        wait: bool,
    ) -> Result<()> {
        let cause = match room {
            Room::Memtables(_) => Cause::MemtableRoom,
            Room::Log { .. } => Cause::LogRoom,
            Room::Turn => Cause::Publication,
        };
        // It may take a new segment of the log, or freeze.
        let _work = self.begin_work()?;
        timer.wait(cause, || self.make_room_now(map, room, wait))?;
        self.count_round(timer);
        Ok(())
    }

    fn make_room_now(&self, map: &Arc<DrangeMap>, room: Room, wait: bool) -> Result<()> {
        match room {
            Room::Memtables(lacks) => self.make_memtable_room(map, &lacks),
            Room::Log { .. } if !wait => Err(Error::WouldBlock),
            Room::Log { bytes } => {
                let made = self.poison_if_sync_failed(self.log()?.make_room(bytes));
                if let Err(Error::Io(error)) = &made {
                    crate::program_log::warn!(%error, "a log segment could not be prepared");
                }
                made
            }
            Room::Turn if !wait => Err(Error::WouldBlock),
            Room::Turn => {
                let before = self.sequencer.finished();
                self.sequencer
                    .wait_until(|| self.sequencer.finished() != before || self.is_poisoned());
                self.check_healthy()
            }
        }
    }

    /// Waits for `changed`, at most for `patience`.
    pub(in crate::store) fn wait_for_change(&self, ticket: Ticket, patience: Duration) {
        self.changed.wait_timeout(ticket, patience);
    }

    /// Waits for a whole `period`, or until the range begins to close or is poisoned.
    pub(in crate::store) fn wait_period(&self, mut ticket: Ticket, period: Duration) {
        let until = self.env.now() + period;
        loop {
            let left = until.saturating_sub(self.env.now());
            if left.is_zero() || self.is_closing() || self.is_poisoned() {
                return;
            }
            self.changed.wait_timeout(ticket, left);
            ticket = self.changed.ticket();
        }
    }
}
