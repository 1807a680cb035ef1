//! Numbers and publication: which writes are visible, and in what order they become so.
//!
//! A writer takes its place in the log and its block of sequence numbers in one step, works on its
//! own, and marks itself done. Whoever finishes the oldest unfinished block publishes it and all
//! finished successors. So visibility has one order, and no writer does another's work.
//!
//! ```text
//!   ticket      40      41      42      43      44
//!             ┌───────┬───────┬───────┬───────┬───────┐
//!             │ done  │ done  │       │ done  │       │
//!             └───────┴───────┴───────┴───────┴───────┘
//!                       finished ▲         next ticket ▲
//! ```
//!
//! # Order
//! A writer stores `done` and then looks at the oldest unfinished slot; both are sequentially
//! consistent, so of two neighbours that finish at once at least one sees both done. A slot's
//! content is written before its `done`, and read after it. Whoever reads it may be held up until
//! the slot serves a later ticket, whose predecessors are not done: so what was read counts only
//! if the ticket is still the oldest afterwards.

use terrace_base::{LogPosition, SeqNo};
use terrace_env::atomic::{AtomicU64, Ordering};
use terrace_env::{Latch, PlantedBug, Signal, WaitFactory, is_planted};

use super::upkeep::all_held::AllHeld;
use crate::wal::{LogPlace, LogSink};

/// How many writes may be under way at once; a power of two. (Few in a model, so that slots are
/// used again.)
const SLOTS: usize = if cfg!(terrace_loom) { 4 } else { 1024 };

/// Gives out numbers, and publishes them in order.
#[derive(Debug)]
pub struct Sequencer {
    next: Latch<Next>,
    slots: Box<[Slot]>,
    /// Every ticket below is done.
    finished_ticket: AtomicU64,
    /// Every record of those tickets ends at or below this position.
    finished_end: AtomicU64,
    /// Every number of those tickets is at or below this one.
    finished_seqno: AtomicU64,
    /// The newest number that readers see.
    visible: AtomicU64,
    /// Notified when `finished` or `visible` has moved.
    moved: Signal,
}

#[derive(Debug)]
struct Next {
    ticket: u64,
    seqno: SeqNo,
}

#[derive(Debug, Default)]
struct Slot {
    /// One more than the ticket that is done.
    done: AtomicU64,
    last_seqno: AtomicU64,
    end: AtomicU64,
}

/// A place in the order of publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteTicket(u64);

/// What a writer took in one step.
#[derive(Debug)]
pub struct Grant {
    /// Its place in the order of publication.
    pub ticket: WriteTicket,
    /// The number of its first entry.
    pub first_seqno: SeqNo,
    /// The number of its last entry.
    pub last_seqno: SeqNo,
    /// Where its record goes.
    pub place: LogPlace,
}

/// Why nothing could be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// The log has no room right now.
    LogFull,
    /// Too many writes are under way.
    TooMany,
}

impl Sequencer {
    /// Goes on after `visible` and `end`, the last number and position that a recovery found.
    #[must_use]
    pub fn new(waits: &WaitFactory, visible: SeqNo, end: LogPosition) -> Sequencer {
        Sequencer::with_slots(waits, visible, end, SLOTS)
    }

    /// As [`Sequencer::new`], for at most `slots` writes under way at once, a power of two.
    pub fn with_slots(
        waits: &WaitFactory,
        visible: SeqNo,
        end: LogPosition,
        slots: usize,
    ) -> Sequencer {
        assert!(slots.is_power_of_two(), "{slots} slots");
        Sequencer {
            next: Latch::new(Next { ticket: 0, seqno: visible.next() }),
            slots: (0..slots).map(|_| Slot::default()).collect(),
            finished_ticket: AtomicU64::new(0),
            finished_end: AtomicU64::new(end.0),
            finished_seqno: AtomicU64::new(visible.0),
            visible: AtomicU64::new(visible.0),
            moved: waits.signal(),
        }
    }

    /// Takes `seqno_count` consecutive numbers and the next place in the log for a record of
    /// `record_bytes`, in one step. What was taken must be [finished](Sequencer::finish), or the
    /// range poisoned.
    pub fn take(
        &self,
        seqno_count: u32,
        record_bytes: usize,
        log: &dyn LogSink,
    ) -> Result<Grant, NotTaken> {
        let mut next = self.next.lock();
        if next.ticket - self.finished_ticket.load(Ordering::Acquire) >= self.slots.len() as u64 {
            return Err(NotTaken::TooMany);
        }
        let place = log.take(record_bytes).ok_or(NotTaken::LogFull)?;
        let ticket = WriteTicket(next.ticket);
        let first_seqno = next.seqno;
        next.ticket += 1;
        next.seqno = SeqNo(first_seqno.0 + u64::from(seqno_count));
        let last_seqno = SeqNo(next.seqno.0 - 1);
        Ok(Grant { ticket, first_seqno, last_seqno, place })
    }

    fn slot(&self, ticket: u64) -> &Slot {
        // Not a remainder: this is asked several times a write, and a division costs as much as the
        // rest.
        &self.slots[ticket as usize & (self.slots.len() - 1)]
    }

    /// Whether the numbers and the place of a write that is not finished lie behind all that is:
    /// what is finished ends before it.
    fn lies_ahead(&self, taken: &Grant) -> bool {
        let (seqno, end) = self.finished();
        seqno < taken.first_seqno && end < taken.place.end
    }

    /// Marks a write as done: its record is in the log and its entries are in their memtables.
    /// Moves `finished` over it and its finished successors if it was the oldest, and `visible`
    /// along with it if `publish` is set.
    pub fn finish(&self, taken: &Grant, publish: bool) {
        debug_assert!(!self.is_finished(taken.ticket), "a write is finished twice");
        debug_assert!(
            cfg!(terrace_loom) || self.lies_ahead(taken),
            "{taken:?} has numbers or a place that are finished: {:?}",
            self.finished()
        );
        let slot = self.slot(taken.ticket.0);
        // Order: release, so that whoever reads these words sees the ticket before gone.
        slot.last_seqno.store(taken.last_seqno.0, Ordering::Release);
        slot.end.store(taken.place.end.0, Ordering::Release);
        slot.done.store(taken.ticket.0 + 1, Ordering::SeqCst);
        let mut moved = false;
        if publish && is_planted(PlantedBug::PublishOutOfOrder) {
            self.visible.fetch_max(taken.last_seqno.0, Ordering::AcqRel);
        }
        loop {
            let oldest = self.finished_ticket.load(Ordering::SeqCst);
            let slot = self.slot(oldest);
            if slot.done.load(Ordering::SeqCst) != oldest + 1 {
                break;
            }
            let (last, end) =
                (slot.last_seqno.load(Ordering::Acquire), slot.end.load(Ordering::Acquire));
            if self.finished_ticket.load(Ordering::SeqCst) != oldest {
                // Another thread was faster, and the words may be those of a later ticket.
                continue;
            }
            // Order: the end moves before the number, so that whoever reads a number and then the
            // end reads an end that covers it.
            self.finished_end.fetch_max(end, Ordering::AcqRel);
            self.finished_seqno.fetch_max(last, Ordering::AcqRel);
            if publish {
                self.visible.fetch_max(last, Ordering::AcqRel);
            }
            let step = self.finished_ticket.compare_exchange(
                oldest,
                oldest + 1,
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
            moved |= step.is_ok();
        }
        if moved && !is_planted(PlantedBug::LoseWakeUp) {
            self.moved.notify();
        }
    }

    /// The newest number up to which every write is done, and a position that its records and
    /// those of its predecessors do not reach beyond.
    #[must_use]
    pub fn finished(&self) -> (SeqNo, LogPosition) {
        let seqno = SeqNo(self.finished_seqno.load(Ordering::Acquire));
        (seqno, LogPosition(self.finished_end.load(Ordering::Acquire)))
    }

    /// The newest number that readers see.
    #[must_use]
    #[inline]
    pub fn visible(&self) -> SeqNo {
        SeqNo(self.visible.load(Ordering::Acquire))
    }

    /// Makes everything up to `seqno` visible: all of it is finished and, in a range that syncs
    /// first, durable.
    pub fn publish(&self, seqno: SeqNo) {
        let (finished, _) = self.finished();
        let is_finished = seqno <= finished || is_planted(PlantedBug::PublishByHalf);
        assert!(is_finished, "{seqno:?} is published, but only {finished:?} is finished");
        self.visible.fetch_max(seqno.0, Ordering::AcqRel);
        self.moved.notify();
    }

    /// Blocks until `is_enough` holds, looking again whenever something was finished or published
    /// and when [`Sequencer::wake`] is called.
    pub fn wait_until(&self, is_enough: impl FnMut() -> bool) {
        self.wait_by(Signal::wait, is_enough);
    }

    /// As [`Sequencer::wait_until`], for what writers that are under way do without waiting for
    /// anything: within a microsecond, unless they are kept from running.
    pub fn wait_briefly_until(&self, is_enough: impl FnMut() -> bool) {
        self.wait_by(Signal::wait_briefly, is_enough);
    }

    fn wait_by(
        &self,
        wait: impl Fn(&Signal, terrace_env::Ticket),
        mut is_enough: impl FnMut() -> bool,
    ) {
        loop {
            let ticket = self.moved.ticket();
            if is_enough() {
                return;
            }
            wait(&self.moved, ticket);
        }
    }

    /// The number that the next write gets. Stays so only as long as the caller holds every drange.
    #[must_use]
    pub fn next_seqno(&self) -> SeqNo {
        self.next.lock().seqno
    }

    /// Gives out [`Sequencer::next_seqno`] to whoever holds every drange, and so to no write:
    /// nothing is under way. On return it is visible, with everything before it, which is durable
    /// if the range syncs first.
    pub fn skip_one(&self, _all: &AllHeld<'_>) {
        let seqno = {
            let mut next = self.next.lock();
            let is_idle = next.ticket == self.finished_ticket.load(Ordering::Acquire);
            assert!(is_idle, "a write is under way, though every drange is held");
            let seqno = next.seqno;
            next.seqno = seqno.next();
            self.finished_seqno.fetch_max(seqno.0, Ordering::AcqRel);
            seqno
        };
        self.publish(seqno);
    }

    /// Whether this write and all before it are done.
    #[must_use]
    pub fn is_finished(&self, ticket: WriteTicket) -> bool {
        self.finished_ticket.load(Ordering::Acquire) > ticket.0
    }

    /// Makes waiters look again.
    pub fn wake(&self) {
        self.moved.notify();
    }
}
