//! Which records are safe with the store, and what a moment has to say of them. Pure.
//!
//! ```text
//!   moment P                             records of one chain, several objects under way
//!   ├───────────────┬─────────┬─────────┬ ─ ─ ─ ─ ┐
//!   │ 12  there     │ 13      │ 14 there│ 15       ► read up to here
//!   └───────────────┴─────────┴─────────┴ ─ ─ ─ ─ ┘
//!                   ▲ safe: 14 is there, but whoever reads finds no 13, and stops
//! ```
//! A chain begins at a moment of the range, which is fed to the store, and goes on without a gap.
//! Whatever changes the range beside its log ends it: then the next moment begins another one, and
//! until that is fed nothing more is safe.

use std::collections::{BTreeMap, BTreeSet};

use terrace_base::{Epoch, LogPosition};
use terrace_env::{PlantedBug, is_planted};

use crate::version::StoreLog;

/// Records that are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogWork {
    /// The chain that they belong to.
    pub chain: u64,
    /// Where they begin and end in the log.
    pub from: LogPosition,
    /// See `from`.
    pub end: LogPosition,
}

/// The chains of one owner.
#[derive(Debug)]
pub struct Chains {
    epoch: Epoch,
    /// The number that the next object gets.
    next: u64,
    /// How many chains were begun.
    count: u64,
    /// Numbers at which it is not known yet that something stands there.
    unsettled: BTreeSet<u64>,
    newest: Option<Chain>,
    /// All records below are safe. It never goes back.
    safe: LogPosition,
    /// Where the log stood when the range changed beside it, unless a moment in the feed has that.
    change: Option<LogPosition>,
    /// Objects below this number are needed no more.
    needed_from: u64,
}

#[derive(Debug)]
struct Chain {
    /// No other chain of this owner has it.
    id: u64,
    /// A moment at its base, or behind it, is in the feed.
    is_fed: bool,
    /// Records are read up to here.
    read_to: LogPosition,
    /// It ends here.
    until: Option<LogPosition>,
    /// Up to here its records are there, and are found.
    found_to: LogPosition,
    /// What is not found yet, by its base.
    pieces: BTreeMap<LogPosition, Piece>,
    /// The end of what each number holds.
    ends: BTreeMap<u64, LogPosition>,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    end: LogPosition,
    number: u64,
    is_there: bool,
}

impl Chains {
    /// Of the owner with this epoch, whose first object gets this number.
    #[must_use]
    pub fn new(epoch: Epoch, next: u64) -> Chains {
        Chains {
            epoch,
            next,
            count: 0,
            unsettled: BTreeSet::new(),
            newest: None,
            safe: LogPosition(0),
            change: None,
            needed_from: 0,
        }
    }

    /// All records below are safe: whoever has only the store finds them.
    #[must_use]
    pub fn safe(&self) -> LogPosition {
        self.safe
    }

    /// Whether all that had happened when the log ended at `end` is safe, in the log or beside it.
    #[must_use]
    pub fn is_safe_through(&self, end: LogPosition) -> bool {
        self.safe >= end && self.change.is_none_or(|change| end < change)
    }

    /// Objects below are needed no more, whatever becomes of this owner.
    #[must_use]
    pub fn needed_from(&self) -> u64 {
        self.needed_from
    }

    /// Whether nothing more gets safe before a moment is fed.
    #[must_use]
    pub fn wants_moment(&self) -> bool {
        self.newest.as_ref().is_none_or(|chain| !chain.is_fed || chain.until.is_some())
    }

    /// The chain and the records of it to be read next, of a log that ends at `end`; `None` if
    /// there are none.
    #[must_use]
    pub fn to_read(&self, end: LogPosition) -> Option<LogWork> {
        let chain = self.newest.as_ref()?;
        let end = chain.until.map_or(end, |until| until.min(end));
        (chain.read_to < end).then_some(LogWork { chain: chain.id, from: chain.read_to, end })
    }

    /// Where the records begin that are to be read yet; `None` if there are none.
    #[must_use]
    pub fn unread_from(&self) -> Option<LogPosition> {
        let chain = self.newest.as_ref()?;
        let is_read = chain.until.is_some_and(|until| until <= chain.read_to);
        (!is_read).then_some(chain.read_to)
    }

    /// The number for records up to `end`, which follow on those before. `None` if the chain was
    /// given up meanwhile.
    pub fn add(&mut self, id: u64, base: LogPosition, end: LogPosition) -> Option<u64> {
        let number = self.next;
        let chain = self.newest.as_mut().filter(|chain| chain.id == id)?;
        assert_eq!(chain.read_to, base, "records follow on those before");
        chain.read_to = end;
        chain.pieces.insert(base, Piece { end, number, is_there: false });
        chain.ends.insert(number, end);
        self.next += 1;
        self.unsettled.insert(number);
        Some(number)
    }

    /// Something of an earlier owner stands where the records at `base` were to go: another number.
    pub fn move_on(&mut self, id: u64, base: LogPosition, taken: u64) -> Option<u64> {
        self.settle(taken);
        let number = self.next;
        let chain = self.newest.as_mut().filter(|chain| chain.id == id)?;
        let piece = chain.pieces.get_mut(&base)?;
        piece.number = number;
        chain.ends.remove(&taken);
        chain.ends.insert(number, piece.end);
        self.next += 1;
        self.unsettled.insert(number);
        Some(number)
    }

    /// The records at `base` are there.
    pub fn placed(&mut self, id: u64, base: LogPosition, number: u64) {
        if let Some(chain) = self.newest.as_mut().filter(|chain| chain.id == id)
            && let Some(piece) = chain.pieces.get_mut(&base)
        {
            piece.is_there = true;
            if is_planted(PlantedBug::LogSafeOverGaps) && chain.is_fed {
                self.safe = self.safe.max(piece.end);
            }
        }
        self.settle(number);
    }

    fn settle(&mut self, number: u64) {
        self.unsettled.remove(&number);
        self.find();
    }

    /// Notes what whoever reads finds by now.
    fn find(&mut self) {
        let missing = self.unsettled.first().copied().unwrap_or(u64::MAX);
        let Some(chain) = &mut self.newest else { return };
        while let Some(first) = chain.pieces.first_entry()
            && first.get().is_there
            && first.get().number < missing
        {
            chain.found_to = first.remove().end;
        }
        if chain.is_fed {
            self.safe = self.safe.max(chain.found_to);
        }
    }

    /// The range changes beside its log where that ends at `end`.
    pub fn end_at(&mut self, end: LogPosition) {
        self.change.get_or_insert(end);
        if let Some(chain) = &mut self.newest {
            chain.until.get_or_insert(end);
        }
    }

    /// Records that were to be read are gone.
    pub fn give_up(&mut self, id: u64) {
        if self.newest.as_ref().is_some_and(|chain| chain.id == id) {
            self.newest = None;
        }
    }

    /// A moment of the range was taken whose tables hold all records below `position`: what it has
    /// to say of the log.
    pub fn moment_taken(&mut self, position: LogPosition) -> StoreLog {
        let goes_on = |chain: &&mut Chain| chain.until.is_none_or(|until| position < until);
        if self.newest.as_mut().filter(goes_on).is_none() {
            self.count += 1;
            self.newest = Some(Chain {
                id: self.count,
                is_fed: false,
                read_to: position,
                until: None,
                found_to: position,
                pieces: BTreeMap::new(),
                ends: BTreeMap::new(),
            });
        }
        let chain = self.newest.as_ref().expect("there is one now");
        let holding = chain.ends.iter().find(|(_, end)| **end > position);
        let number = holding.map_or(self.next, |(number, _)| *number);
        if is_planted(PlantedBug::LogCollectedEarly) {
            self.needed_from = self.needed_from.max(number);
        }
        StoreLog { epoch: self.epoch, chain: chain.id, number, position }
    }

    /// The feed has a moment that says this.
    pub fn moment_fed(&mut self, log: StoreLog) {
        self.safe = self.safe.max(log.position);
        self.needed_from = self.needed_from.max(log.number);
        if let Some(chain) = self.newest.as_mut().filter(|chain| chain.id == log.chain) {
            chain.is_fed = true;
            if chain.until.is_none() {
                self.change = None;
            }
            chain.ends = chain.ends.split_off(&log.number);
        }
        self.find();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(position: u64) -> LogPosition {
        LogPosition(position)
    }

    fn fed(chains: &mut Chains, position: u64) -> StoreLog {
        let log = chains.moment_taken(at(position));
        chains.moment_fed(log);
        log
    }

    #[test]
    fn records_are_safe_in_their_order_behind_a_moment_that_is_fed() {
        let mut chains = Chains::new(Epoch(2), 5);
        assert!(chains.wants_moment());
        assert_eq!(chains.to_read(at(900)), None);
        let log = chains.moment_taken(at(100));
        assert_eq!((log.chain, log.number, log.position), (1, 5, at(100)));
        assert_eq!(
            chains.to_read(at(900)),
            Some(LogWork { chain: 1, from: at(100), end: at(900) })
        );
        assert_eq!(chains.add(1, at(100), at(200)), Some(5));
        chains.placed(1, at(100), 5);
        assert_eq!(chains.safe(), at(0), "nobody finds the moment yet");
        chains.moment_fed(log);
        assert_eq!(chains.safe(), at(200));
        let [second, third] = [(200, 300), (300, 400)]
            .map(|(from, to)| chains.add(1, at(from), at(to)).expect("it goes on"));
        chains.placed(1, at(300), third);
        assert_eq!(chains.safe(), at(200), "whoever reads stops at the one before");
        chains.placed(1, at(200), second);
        assert_eq!(chains.safe(), at(400));
        assert!(!chains.wants_moment());
    }

    #[test]
    fn records_that_move_on_are_safe_once_all_numbers_before_them_are_taken() {
        let mut chains = Chains::new(Epoch(2), 5);
        fed(&mut chains, 100);
        chains.add(1, at(100), at(200));
        chains.add(1, at(200), at(300));
        assert_eq!(chains.move_on(1, at(100), 5), Some(7));
        chains.placed(1, at(100), 7);
        assert_eq!(chains.safe(), at(100), "nothing stands at 6");
        let log = chains.moment_taken(at(150));
        assert_eq!(log.number, 6, "the first one that ends behind it, wherever it was moved");
        chains.placed(1, at(200), 6);
        assert_eq!(chains.safe(), at(300));
    }

    #[test]
    fn what_changes_beside_the_log_waits_for_the_next_moment() {
        let mut chains = Chains::new(Epoch(2), 5);
        fed(&mut chains, 100);
        chains.add(1, at(100), at(200));
        chains.placed(1, at(100), 5);
        chains.end_at(at(200));
        assert_eq!(chains.to_read(at(900)), None);
        assert!(chains.wants_moment());
        assert_eq!(chains.safe(), at(200));
        assert!(!chains.is_safe_through(at(200)), "the change is not");
        assert!(chains.is_safe_through(at(150)));
        // A moment that was taken before it does not help.
        assert_eq!(fed(&mut chains, 150).chain, 1);
        assert!(chains.wants_moment());
        let log = chains.moment_taken(at(200));
        assert!(!chains.is_safe_through(at(200)), "the moment is not in the feed yet");
        chains.moment_fed(log);
        assert!(chains.is_safe_through(at(200)));
        assert_eq!((log.chain, log.number), (2, 6), "another chain at the same position");
        assert_eq!(
            chains.to_read(at(900)),
            Some(LogWork { chain: 2, from: at(200), end: at(900) })
        );
        assert!(!chains.wants_moment());
        assert_eq!(chains.needed_from(), 6);
    }

    #[test]
    fn a_chain_that_lost_records_is_given_up() {
        let mut chains = Chains::new(Epoch(2), 5);
        fed(&mut chains, 100);
        chains.add(1, at(100), at(200));
        chains.give_up(1);
        assert_eq!(chains.add(1, at(200), at(300)), None);
        chains.placed(1, at(100), 5);
        assert_eq!(chains.safe(), at(100));
        assert_eq!(fed(&mut chains, 700).number, 6);
        assert_eq!(chains.safe(), at(700));
    }
}
