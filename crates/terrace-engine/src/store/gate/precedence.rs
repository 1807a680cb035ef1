//! Precedence: a write from which others keep taking the room goes before them.
//!
//! # Why
//! Room for a large write is made in steps: in memtables, in the log, in memtables again if they
//! filled meanwhile. Small writes need little and are done in one step; so they may take what each
//! step made, again and again, and the large write would wait for as long as they go on.
//!
//! # How
//! 1. A write for which room was made [`ROUNDS_MAX`] times takes precedence. One write has it at a
//!    time; it stands as a bit beside the ruling in the gate's word.
//! 2. While it does, every other write waits at the gate. Those that are past the gate finish.
//! 3. When the write has its numbers, or gives up, it drops the precedence and wakes the others.
//!
//! So each other thread takes room from it at most once more. A write that waits at the gate holds
//! nothing, and the write that has precedence stops for the gate's ruling like any other.

use std::sync::atomic::Ordering;
use std::time::Duration;

use terrace_env::Ticket;

use super::{Gate, pack};
use crate::store::Inner;
use crate::store::gate::ledger::{Cause, WriteTimer};
use crate::{Error, Result};

/// A write takes precedence when room was made for it this many times.
const ROUNDS_MAX: u32 = 4;

/// The bit of the gate's word that says that a write has precedence.
const PRECEDENCE_BIT: u64 = 1 << 63;

/// Whether a write has precedence.
#[derive(Debug, Default)]
pub(super) struct Precedent {
    is_taken: bool,
}

impl Precedent {
    /// What it adds to the gate's word.
    pub(super) fn bit(&self) -> u64 {
        if self.is_taken { PRECEDENCE_BIT } else { 0 }
    }
}

/// Every write but the one that has this waits at the gate. See the module's description.
pub(in crate::store) struct Precedence<'a>(&'a Inner);

impl Drop for Precedence<'_> {
    fn drop(&mut self) {
        self.0.gate.set_precedence(false);
        self.0.changed.notify();
    }
}

impl Gate {
    /// Whether a write has precedence.
    fn has_precedence(&self) -> bool {
        self.pressure.load(Ordering::Relaxed) & PRECEDENCE_BIT != 0
    }

    /// Notes that a write has precedence, or that none has; whether that is a change.
    fn set_precedence(&self, is_taken: bool) -> bool {
        let mut precedent = self.ruler.lock();
        let is_change = precedent.is_taken != is_taken;
        precedent.is_taken = is_taken;
        self.pressure.store(pack(self.ruling()) | precedent.bit(), Ordering::Relaxed);
        is_change
    }
}

impl Inner {
    /// Room was made for a write once more. If that happened often enough, the write has precedence
    /// from now on, unless another write has it: then it waits for that at the gate, and tries
    /// again.
    pub(in crate::store) fn count_round<'a>(&'a self, timer: &mut WriteTimer<'a>) {
        timer.rounds = timer.rounds.saturating_add(1);
        if timer.rounds >= ROUNDS_MAX
            && timer.precedence.is_none()
            && self.gate.set_precedence(true)
        {
            timer.precedence = Some(Precedence(self));
        }
    }

    /// Waits at the gate if another write has precedence; whether it did.
    ///
    /// Errors: `WouldBlock` if it would wait and may not; `Poisoned`, `Closed`.
    pub(super) fn wait_for_precedence(
        &self,
        timer: &mut WriteTimer<'_>,
        ticket: Ticket,
        wait: bool,
    ) -> Result<bool> {
        if timer.precedence.is_some() || !self.gate.has_precedence() {
            return Ok(false);
        }
        if !wait {
            return Err(Error::WouldBlock);
        }
        self.check_healthy()?;
        // The end of the precedence notifies; the timeout is for what nobody foresaw.
        timer.wait(Cause::MemtableRoom, || self.wait_for_change(ticket, Duration::from_secs(1)));
        Ok(true)
    }
}
