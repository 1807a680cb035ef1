//! Pins: what readers of the store and checkpoints need, so that its owner does not delete it.
//!
//! # Why
//! A reader on another machine reads what the database was a moment ago, and a checkpoint what it
//! was long ago. The owner deletes what its newest version does not name. So whoever needs more has
//! to leave word in the store, and the owner has to find all such words without relying on lists,
//! and in the end do without those whose writer is gone.
//!
//! # Picture
//! ```text
//!  pin/  1        2            3            4            5 …
//!        released from 17      checkpoint   everything   missing: the end
//!        ───────► └─ a reader  └─ "monday"  └─ a reader that begins
//!        first pin, by the newest snapshot of the feed
//!
//!  reader      take: everything ─► read the feed ─► narrow: from 17 ─► renew … ─► release
//!  checkpoint  take: "monday" (all, until sealed) ─► read the feed ─► store it ─► seal ─► look
//!  owner       choose what nobody names ─► read all pins ─► look ─► delete what none of them holds
//! ```
//!
//! # Invariants
//! 1. Numbers are dense: one is passed over only when it is taken. So whoever reads from the first
//!    pin to the first missing number has read all that were there before.
//! 2. A pin is there before its maker reads the feed, and the owner chooses what it deletes before
//!    it reads the pins. So either the owner sees the pin, or its maker sees the edit that drops
//!    what is deleted.
//! 3. A reader's pin is replaced at each renewal, and an earlier put may land late: then it holds
//!    more than it has to, and never less.
//! 4. `fate` is decided once, by put-if-absent: dropped by an owner, because the pin stood still,
//!    or sealed by the maker of a checkpoint. So nobody believes in a checkpoint that was dropped.
//! 5. Pins below the feed's first pin count for nothing: a snapshot says so before they are
//!    deleted, and whoever takes one, or seals it, looks for it after that.
//! 6. An owner that was fenced may find no pins where its successor has deleted some. So it looks
//!    whether it still is the owner after it has read them, and before it deletes anything.
//! 7. No name is used twice, those of checkpoints neither: what deletes one late deletes no other.
//!
//! Begin at `reader.rs` and `checkpoints.rs` (the makers) and `watched.rs` (the owner's side).

mod census;
mod checkpoints;
mod objects;
mod reader;
#[cfg(test)]
mod tests;
mod watched;

pub use self::census::{PinCensus, PinSeen};
pub use self::checkpoints::{Checkpoints, Removal};
use self::objects::PinObjects;
pub use self::reader::{ReaderPin, pin_and_read};
pub use self::watched::{Held, STILL_MAX as PIN_STILL_MAX, WatchedPins};
