//! An owner that feeds nothing looks now and then whether somebody else has fenced it.
//!
//! # Why
//! An owner learns of its fence when it feeds next. One that writes little feeds once in a
//! memtable, and until then acknowledges writes as `sync` that no other owner will ever see.
//!
//! # How
//! Whoever has fed since the last look was the owner then, and asks for nothing. Else one object is
//! asked for, the next one of the feed, which is there if somebody has taken its number: one
//! request in [`APART`], 43,800 a month, and only while the range is open. A store that does not
//! answer says nothing about the fence; the next look asks again.
//!
//! Reads are not refused by it: what a fenced owner answers is the database as it was while it was
//! the owner.

use std::time::Duration;

use crate::Error;
use crate::store::Inner;

/// The time between two looks.
const APART: Duration = Duration::from_secs(60);

impl Inner {
    /// Looks for a fence later, and so on until the range is closed or fenced. `fed`: the number
    /// that the feed has come to now, unless it is just going on.
    pub(super) fn look_for_fence_later(&self, fed: Option<u64>) {
        self.look_after(APART, move |inner| inner.look_for_fence(fed));
    }

    fn look_for_fence(&self, before: Option<u64>) {
        let Some(tier) = &self.cloud else { return };
        let (Some(behind), Some(collector)) = (tier.behind(), tier.collector()) else { return };
        if self.is_poisoned() || self.is_closing() {
            return;
        }
        let fed = behind.number();
        if let Some(number) = fed.filter(|_| fed == before) {
            match collector.require_owner(number) {
                Err(Error::Fenced(reason)) => return self.take_fence(&reason),
                Err(error) => {
                    crate::program_log::debug!(%error, "whether this is the owner is not known");
                }
                Ok(()) => {}
            }
        }
        self.look_for_fence_later(fed);
    }
}
