use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use terrace_base::LogPosition;
use terrace_env::{Latch, Mutex, PlantedBug, Signal, WaitFactory, is_planted};

use super::chain::{Chains, LogWork};
use super::format::LogPiece;
use super::objects::LogObjects;
use crate::Result;
use crate::cloud::format::Author;
use crate::cloud::numbered::Placed;
use crate::version::StoreLog;

/// The log as its owner writes it. Called by many threads.
pub struct CloudLog {
    objects: LogObjects,
    author: Author,
    chains: Latch<Chains>,
    stats: Latch<CloudLogStats>,
    collected: Mutex<Collected>,
    /// What the newest moment in the feed says of the log.
    fed: Latch<Option<StoreLog>>,
    /// Somebody waits for records to get safe, or they got safe.
    changed: Signal,
    awaiting: AtomicUsize,
    interval: Duration,
}

/// Somebody waits for records to get safe, until this is dropped.
#[derive(Debug)]
pub struct Awaiting<'a>(&'a CloudLog);

impl Drop for Awaiting<'_> {
    fn drop(&mut self) {
        self.0.awaiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How far collection is.
#[derive(Debug)]
struct Collected {
    /// This owner's objects.
    below: u64,
    /// Those that earlier owners have left, as far as a list shows them.
    listed_below: u64,
    /// Behind this owner's fence.
    first_own: u64,
}

/// From which numbers on objects stay that no moment needs any more, for an archive's sake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptNumbers {
    /// Of those that earlier owners have written.
    pub of_earlier: u64,
    /// Of this owner's.
    pub own: u64,
}

impl KeptNumbers {
    /// Nothing stays for an archive.
    pub const NONE: KeptNumbers = KeptNumbers { of_earlier: u64::MAX, own: u64::MAX };
}

/// What the log in the store has come to since the open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CloudLogStats {
    /// Objects that were stored.
    pub objects: u64,
    /// Bytes of records in them.
    pub bytes: u64,
    /// Bytes of the log, from its end back to what a lost machine would not lose.
    pub unsafe_bytes: u64,
}

impl CloudLog {
    /// Goes on at `next`, which stands behind this owner's fence; an object at most each
    /// `interval`, unless it is full.
    #[must_use]
    pub fn new(
        waits: &WaitFactory,
        objects: LogObjects,
        author: Author,
        next: u64,
        interval: Duration,
    ) -> CloudLog {
        CloudLog {
            objects,
            author,
            chains: Latch::new(Chains::new(author.epoch, next)),
            stats: Latch::default(),
            collected: waits.mutex(Collected { below: next, listed_below: 0, first_own: next }),
            fed: Latch::new(None),
            changed: waits.signal(),
            awaiting: AtomicUsize::new(0),
            interval,
        }
    }

    /// How much time there is at least from one object to the next that is not full.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Whether all that had happened when the log ended at `end` outlives this machine.
    #[must_use]
    pub fn is_safe_through(&self, end: LogPosition) -> bool {
        self.chains.lock().is_safe_through(end)
    }

    /// Says that the caller waits for records to get safe.
    pub fn await_more(&self) -> Awaiting<'_> {
        // Order: whoever looks for work after the notification sees it.
        self.awaiting.fetch_add(1, Ordering::SeqCst);
        self.changed.notify();
        Awaiting(self)
    }

    /// Whether somebody waits.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.awaiting.load(Ordering::SeqCst) > 0
    }

    /// Told when more is safe, or somebody waits for it.
    #[must_use]
    pub fn changed(&self) -> &Signal {
        &self.changed
    }

    /// What it has come to, of a log that ends at `end`.
    #[must_use]
    pub fn stats(&self, end: LogPosition) -> CloudLogStats {
        let unsafe_bytes = end.0.saturating_sub(self.chains.lock().safe().0);
        CloudLogStats { unsafe_bytes, ..*self.stats.lock() }
    }

    /// Whether nothing gets safe before a moment is fed.
    #[must_use]
    pub fn wants_moment(&self) -> bool {
        self.chains.lock().wants_moment()
    }

    /// The range changes beside its log, which ends at `end` now: nothing behind is safe before a
    /// moment has the change.
    pub fn end_chain_at(&self, end: LogPosition) {
        if !is_planted(PlantedBug::LogOverIngests) {
            self.chains.lock().end_at(end);
        }
    }

    /// What the moment says of the log whose tables hold all records below `position`.
    #[must_use]
    pub fn moment_taken(&self, position: LogPosition) -> StoreLog {
        let log = self.chains.lock().moment_taken(position);
        self.changed.notify();
        log
    }

    /// A moment that says this is in the feed.
    pub fn moment_fed(&self, log: StoreLog) {
        *self.fed.lock() = Some(log);
        self.chains.lock().moment_fed(log);
        self.changed.notify();
    }

    /// What is to be read next of a log that ends at `end`.
    #[must_use]
    pub fn to_read(&self, end: LogPosition) -> Option<LogWork> {
        self.chains.lock().to_read(end)
    }

    /// Where the records begin that are to be read yet; `None` if there are none.
    #[must_use]
    pub fn unread_from(&self) -> Option<LogPosition> {
        self.chains.lock().unread_from()
    }

    /// Records that were to be read are gone: a moment has to make up for them.
    pub fn give_up(&self, chain: u64) {
        self.chains.lock().give_up(chain);
    }

    /// The number for records that were read; `None` if nobody needs them any more.
    #[must_use]
    pub fn number_for(&self, piece: &LogPiece) -> Option<u64> {
        self.chains.lock().add(piece.chain, piece.base, piece.end())
    }

    /// Stores records under a number that was given for them, or under a later one if an earlier
    /// owner's object stands there.
    ///
    /// Errors: `Fenced`; the environment's: then the caller tries again, with the number that it
    /// gets back.
    pub fn store(&self, piece: &LogPiece, number: &mut u64) -> Result<()> {
        loop {
            let bytes = piece.encode(self.objects.names.database(), *number, self.author);
            if is_planted(PlantedBug::LogSafeBeforeStored) {
                self.chains.lock().placed(piece.chain, piece.base, *number);
            }
            match self.objects.create(*number, &bytes)? {
                Placed::There { .. } => {
                    self.chains.lock().placed(piece.chain, piece.base, *number);
                    let mut stats = self.stats.lock();
                    stats.objects += 1;
                    stats.bytes += piece.bytes();
                    drop(stats);
                    self.changed.notify();
                    return Ok(());
                }
                Placed::Taken(Some(there)) if there.author.epoch < self.author.epoch => {
                    let moved = self.chains.lock().move_on(piece.chain, piece.base, *number);
                    let Some(moved) = moved else { return Ok(()) };
                    *number = moved;
                }
                Placed::Taken(there) => {
                    let by = there.map(|there| there.author.epoch);
                    return Err(self.objects.overtaken(self.author, by));
                }
            }
        }
    }

    /// What the newest moment in the feed says of the log; `None` if there is none of this owner.
    #[must_use]
    pub fn newest_fed(&self) -> Option<StoreLog> {
        *self.fed.lock()
    }

    /// Deletes what no moment in the feed needs, and no archive.
    ///
    /// Errors: the environment's. The next call goes on.
    pub fn collect(&self, kept: KeptNumbers) -> Result<()> {
        let mut collected = self.collected.lock();
        let needed_from = self.chains.lock().needed_from();
        // What earlier owners have left: the moments that needed it are replaced.
        let of_earlier = collected.first_own.min(kept.of_earlier);
        if needed_from > 0 && collected.listed_below < of_earlier {
            self.objects.collect_listed_below(of_earlier)?;
            collected.listed_below = of_earlier;
        }
        while collected.below < needed_from.min(kept.own) {
            self.objects.delete(collected.below)?;
            collected.below += 1;
        }
        Ok(())
    }
}

impl fmt::Debug for CloudLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudLog").field("author", &self.author).finish_non_exhaustive()
    }
}
