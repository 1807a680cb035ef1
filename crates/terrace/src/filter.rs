//! Compaction filters: what compactions drop or change as they come by it.
//!
//! A compaction writes old entries anew in any case. A filter is asked about each of them on that
//! occasion, and so costs no read and no write of its own: it lets go of what has become worthless,
//! or brings values into a newer form.
//!
//! ```
//! use terrace::filter::{CompactionFilter, Decision};
//! use terrace::Db;
//!
//! /// Lets go of the sessions of versions before this one.
//! #[derive(Debug)]
//! struct OldSessions {
//!     oldest: u8,
//! }
//!
//! impl CompactionFilter for OldSessions {
//!     fn name(&self) -> &str {
//!         "old-sessions"
//!     }
//!
//!     fn decide(&self, _key: &[u8], value: &[u8]) -> Decision {
//!         let version = value.first().copied().unwrap_or_default();
//!         if version < self.oldest { Decision::Drop } else { Decision::Keep }
//!     }
//! }
//!
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! let db = Db::options()
//!     .compaction_filter("sessions", OldSessions { oldest: 2 })
//!     .open(directory.path())?;
//! let sessions = db.keyspace("sessions")?;
//! sessions.put("ada", [1, 7, 7])?;
//! sessions.put("bob", [2, 7, 7])?;
//! db.admin().compact(&sessions, ..)?;
//! assert!(!sessions.contains_key("ada")?);
//! assert!(sessions.contains_key("bob")?);
//! # Ok(())
//! # }
//! ```
//!
//! # What a filter is asked about
//! * The newest value of a key, with the key as the keyspace knows it. Not about tombstones and
//!   what has expired. Where a keyspace merges, it is shown the value that operands were folded
//!   into, and no operand.
//! * By compactions only. A flush, and a table that goes down as it is, ask nobody. So an entry is
//!   asked about some time after it was written: soon, late, several times, or never as long as it
//!   lies still. A compaction of everything ([`Admin::compact`](crate::Admin::compact)) asks about
//!   all that was written before the call, but for what a snapshot sees. Do not count on a filter
//!   for what must not be read any more; test for it where you read.
//! * Not about what a snapshot sees, or a transaction that has begun: for them nothing changes as
//!   long as they live, and an iterator goes on as it began. While some are always held, little is
//!   filtered; [`StoreStats::filter_set_aside_count`](crate::StoreStats::filter_set_aside_count)
//!   says how often a compaction was done again without the filter because of that, or because the
//!   filter failed. To take a
//!   snapshot waits for the moment in which an outcome of a filter is put into effect, which is a
//!   sync of a few bytes.
//!
//! # What its answer means
//! [`Decision::Drop`] deletes the key as a delete would that happens at an unknown moment: no older
//! version comes back. [`Decision::Change`] puts another value in the place, with the same number
//! and the same expiry, and is no write to anybody: no conflict of a transaction comes from it. A
//! conditional write decides by the value that it finds at that moment.
//!
//! In a keyspace that merges, newer operands may lie above a value that a filter is shown. If it
//! drops the value, they begin with nothing. So let it drop only what the operator takes for
//! nothing, as a sum of 0, or whole keys, whatever their value is.
//!
//! # Which filter
//! A filter belongs to this opening, and nothing of it is kept: it serves the keyspace that has the
//! name at the time. A program that opens the database without it filters nothing, and loses
//! nothing either.
//!
//! A compaction that is under way when its keyspace is renamed still asks the filter of the old
//! name.
//!
//! A panic of a filter is caught, and nothing is lost. A compaction in the background is done again
//! without the filter, as the next ones are for a while; listeners are told of an error that names
//! filter and key. A compaction that was asked for ends with that error.

use std::fmt;

pub use terrace_engine::compaction::filter::{Decision, Wants};

/// Says what becomes of values as compactions come by them. The [module](self) has the rules.
///
/// It is asked by background threads, several at once. It must not block, nor call the database.
pub trait CompactionFilter: Send + Sync + fmt::Debug {
    /// Its name, for errors: at most 64 bytes of printable ASCII without spaces.
    fn name(&self) -> &str;

    /// What it has to know of the value of `key`. The default is [`Wants::Value`]. A filter that
    /// can tell by the key saves reading a value that lies in the value log.
    fn wants(&self, key: &[u8]) -> Wants {
        let _ = key;
        Wants::Value
    }

    /// What becomes of `key` and its value. The value is empty if it was not wanted.
    fn decide(&self, key: &[u8], value: &[u8]) -> Decision;
}
