//! Ends of tables that are asked for before these are opened.
//!
//! A get looks into one row of L0 after the other, and the table of each is opened for it by a
//! request. Where all rows lie in the store, as after a machine was lost, the first reads would
//! wait for one request after the other.

use std::collections::BTreeMap;
use std::fmt;

use terrace_env::Latch;

use super::tables::FarName;
use crate::cloud::PendingGet;

/// So many ends are asked for and not taken, at most. Each holds a place for a request, and up to a
/// megabyte.
pub(super) const TAILS_MAX: usize = 16;

/// An end that was asked for.
pub(super) struct AskedTail {
    /// Where it begins in the table.
    pub offset: u64,
    /// Its bytes, on their way.
    pub pending: PendingGet,
}

/// The ends that were asked for, by the random part of their tables' names. Called by many threads.
#[derive(Default)]
pub(super) struct TailsAhead {
    asked: Latch<BTreeMap<u128, AskedTail>>,
}

impl TailsAhead {
    /// Whether one more may be asked for.
    pub fn has_room(&self) -> bool {
        self.asked.lock().len() < TAILS_MAX
    }

    /// The end of this table is on its way.
    pub fn add(&self, table: &FarName, tail: AskedTail) {
        // What may be replaced is let go of without the latch: that may call the environment.
        let _replaced = self.asked.lock().insert(table.nonce, tail);
    }

    /// The end of this table, if it was asked for; it is the caller's now.
    pub fn take(&self, table: &FarName) -> Option<AskedTail> {
        self.asked.lock().remove(&table.nonce)
    }
}

impl fmt::Debug for TailsAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TailsAhead, {} tables", self.asked.lock().len())
    }
}
