//! How a read begins: the one place that knows in which order it takes what belongs together.
//!
//! # The order
//! 1. Pin the view.
//! 2. Take the read point: the newest number that readers see, or a snapshot's.
//! 3. Ask the lookup index.
//! 4. Keep all of it if the view is still the current one; else begin anew (`current.rs`).
//!
//! # Why the view before the number
//! The read point of a get is not registered, so flushes and compactions drop versions below it.
//! Whatever they left out of the pinned view was hidden by an entry that had been published before,
//! and so lies at or below a number that is taken afterwards (decision 1).
//!
//! # Why the view must still be current
//! * *An ingest* adds tables with number N and leaves the memtables as they are. A write N+1 goes
//!   into a memtable that an older view names: with that view the read would see N+1 without N. N
//!   is published after the view that names its tables, so who reads at N or above does not keep an
//!   older view.
//! * *A freeze* puts other memtables in the place of all of them, before anybody writes to these. A
//!   read of several keys with the older view would see all that came before, and nothing after.
//! * *The lookup index* may forget what the current view does not hold any more. It is told so
//!   after the view was replaced, so an answer that was given while the view was current holds in
//!   it (decision 30).

use std::sync::Arc;

use smallvec::SmallVec;
use terrace_base::SeqNo;

use crate::Result;
use crate::lookup_index::Bound;
use crate::store::Inner;
use crate::store::read::key_search::KeySearch;
use crate::store::view::View;
use crate::swap::Guard;
use crate::table::ReadMode;

/// At which number a read sees the range.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) enum At {
    /// The newest one that readers see.
    Now,
    /// This one, which is registered.
    Number(SeqNo),
}

/// A read of one key that has begun.
pub(in crate::store) struct Reading {
    /// What there is.
    pub view: Guard<Arc<View>>,
    /// Entries above are not seen.
    pub read_point: SeqNo,
    bound: Bound,
}

/// A read of several keys that has begun: all of them are seen as they were at one number.
pub(in crate::store) struct Readings {
    /// What there is.
    pub view: Guard<Arc<View>>,
    read_point: SeqNo,
    /// What the lookup index knows of each key; nothing if there is no index.
    bounds: SmallVec<[Bound; 16]>,
}

impl Reading {
    /// The search for the key that the read began with.
    #[inline]
    pub fn search<'a>(&self, key: &'a [u8], mode: ReadMode) -> KeySearch<'a> {
        KeySearch::new(key, self.read_point, mode).within(self.bound)
    }
}

impl Readings {
    /// The search for `key`, which is the one at `index`.
    #[inline]
    pub fn search<'a>(&self, index: usize, key: &'a [u8], mode: ReadMode) -> KeySearch<'a> {
        let bound = self.bounds.get(index).copied().unwrap_or(Bound::NONE);
        KeySearch::new(key, self.read_point, mode).within(bound)
    }
}

impl Inner {
    /// Begins a read of `key`. Errors: `Closed`.
    #[inline]
    pub(in crate::store) fn begin_read(&self, key: &[u8], at: At) -> Result<Reading> {
        self.check_open()?;
        let ask = || (self.read_point_at(at), self.bound_of(key));
        let (view, (read_point, bound)) = self.view.pin_and_ask(ask);
        Ok(Reading { view, read_point, bound })
    }

    /// Begins a read of all of `keys`. Errors: `Closed`.
    pub(in crate::store) fn begin_reads(&self, keys: &[&[u8]], at: At) -> Result<Readings> {
        self.check_open()?;
        let ask = || (self.read_point_at(at), self.bounds_of(keys));
        let (view, (read_point, bounds)) = self.view.pin_and_ask(ask);
        Ok(Readings { view, read_point, bounds })
    }

    #[inline]
    fn read_point_at(&self, at: At) -> SeqNo {
        match at {
            At::Now => self.sequencer.visible(),
            At::Number(number) => number,
        }
    }

    fn bounds_of(&self, keys: &[&[u8]]) -> SmallVec<[Bound; 16]> {
        let is_known = self.lookups.is_some();
        keys.iter().filter(|_| is_known).map(|key| self.bound_of(key)).collect()
    }
}
