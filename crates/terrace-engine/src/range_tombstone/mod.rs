//! Deletes of whole intervals of keys, and which of them covers a key.
//!
//! # Why
//! A range tombstone stands at its start key but speaks about others, so it cannot be found by
//! looking for those. It travels beside the entries, in a form that answers "which is the newest
//! number, at or below this read point, that deletes this key?" without a walk over all of them.
//!
//! The usual form is a list of fragments, each with the numbers of all tombstones that cover it.
//! Nested tombstones break it: of n deletes of `[0, 1)`, `[0, 2)`, `[0, 3)` …, as a queue or a
//! time series makes them, the fragments hold n² / 2 numbers. So here a tombstone is kept at the
//! O(log n) nodes of a segment tree over the fragments, and a question climbs from its fragment to
//! the root:
//!
//! ```text
//! tombstones   [b, e) #9   [b, c) #7   [d, h) #4
//!
//!                       ∅
//!                ╱             ╲
//!              #9              ∅                a number stands at the highest nodes
//!            ╱    ╲          ╱    ╲             that it covers
//!          #7      ∅       #9,#4   #4
//! bounds  b       c       d       e       h     fragments: neighbours of the sorted bounds
//! ```
//!
//! # Invariants
//! 1. [`Fragments`] never change. An interval without keys is in none.
//! 2. A covering number deletes every *older* entry of a key: those with lower numbers.
//! 3. What was inserted into a [`RangeTombstoneSet`] before a read began, the read finds; the same
//!    promise as the memtable's.
//!
//! Start reading at [`Fragments`].

mod fragments;
mod part;
mod set;

pub use fragments::{Fragment, Fragments, Iter};
pub use set::RangeTombstoneSet;

use std::fmt;

use terrace_base::SeqNo;

/// The delete of every key from `start` up to, not including, `end`, borrowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RangeTombstone<'a> {
    /// The first deleted key.
    pub start: &'a [u8],
    /// The first key above them.
    pub end: &'a [u8],
    /// Deletes what has a lower number.
    pub seqno: SeqNo,
}

impl RangeTombstone<'_> {
    /// Whether no key lies in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }
}

impl fmt::Debug for RangeTombstone<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = (self.start.escape_ascii(), self.end.escape_ascii());
        write!(f, "[\"{start}\", \"{end}\"){:?}", self.seqno)
    }
}

#[cfg(all(test, terrace_loom))]
mod models;
#[cfg(test)]
mod tests;
