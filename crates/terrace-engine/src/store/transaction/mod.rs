//! Transactions: read at one moment, write later, as if nothing had come between.
//!
//! # Why
//! A program that reads here and writes there must not overlook what others write meanwhile. It
//! holds nothing while it thinks: it reads at a snapshot and notes what it read; the commit looks
//! whether any of that was written since, and writes only if not. Who finds a conflict begins anew.
//!
//! # How
//! ```text
//!   S := a snapshot's number           registered until the read set goes
//!   read at S, note keys and intervals (writers go on)
//!   commit:
//!     intervals noted? look through all that is inserted, without holds, up to number F
//!     hold the dranges of all keys and intervals that were read, and of all keys to be written
//!     is anything of what was read inserted with a number above S (above F, where looked)?
//!       yes: release, wait until that number is published, answer a conflict
//!       no:  write the batch under the same holds, with the next numbers from C on
//!     release; answer when the batch is published
//! ```
//!
//! # Why it is serializable
//! The order is that of the numbers, and what a transaction read at S is what a read just before C
//! would have told:
//!
//! 1. *Nobody comes between the look and the write.* Whoever writes to a drange shares its hold
//!    from before it takes numbers until its entries are inserted. Under the exclusive holds every
//!    number below C that concerns these keys is inserted, published or not, and the look finds it.
//! 2. *An interval is read as a whole.* What was walked over is noted, the gaps included, so a key
//!    that appears in a gap is a conflict, too. A range tombstone counts where it covers a key that
//!    was read, or shares a key with an interval.
//! 3. *What is dropped is not missed.* Flushes and compactions keep what S sees and what the newest
//!    read sees. If no entry of a key is left with a number above S, then both see the same: the
//!    key may have come and gone again, and is as it was.
//! 4. *An ingest* takes no numbers under shared holds; it holds every drange exclusively from
//!    before it takes its number until the view names its tables. So it lies before the look, which
//!    then finds its tables in the view, or after C.
//! 5. *A table or memtable whose greatest number is not above S* holds nothing to be found, and is
//!    not looked into. That makes the look cheap: mostly nothing but active memtables is left.
//!
//! A transaction that writes nothing read everything at S, and is serializable there: it needs no
//! commit. Whoever gives an empty batch all the same asks whether what was read is still so.
//!
//! # Expiry is time, and no conflict
//! An entry that was live when it was read, and has expired since, was changed by nobody: the
//! transaction read it at that time by the clock, and commits. What somebody else wrote after S is
//! a conflict even if that has expired meanwhile: the read set registers its number with a moment,
//! as an iterator does, so no job drops what expires after it was made.
//!
//! # Invariants
//! 1. The snapshot's number stays registered as long as the read set.
//! 2. A key, or a piece of an interval, is noted before the reader is told what is there.
//! 3. Holds are taken in the order of dranges.
//! 4. Blocks are read under holds only if they went missing again several times.
//!
//! # Cost of a look
//! For a key: a descent in each of its drange's memtables that took entries after S, as a rule one;
//! and a get in each table that did, as a rule none. For an interval: a step for each of its keys
//! in those memtables and tables, a second time under the holds where more was written meanwhile.
//!
//! Begin at `commit.rs`. `read_set.rs` and `intervals.rs` hold what was read; `changes.rs` looks
//! for what was written since.

mod changes;
mod commit;
mod conflict;
mod intervals;
mod read_set;

pub use conflict::Conflict;
pub use read_set::{ReadSet, WalkId};
