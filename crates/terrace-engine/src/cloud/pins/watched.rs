use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::PinObjects;
use crate::Result;
use crate::cloud::format::{CheckpointObject, Fate, Holds, PinObject};
use crate::cloud::{CloudName, CloudNames, CloudStore};

/// A pin that has not been renewed for so long on the owner's clock is dropped: its reader is gone.
/// Readers renew their pins at every tenth of it.
pub const STILL_MAX: Duration = Duration::from_secs(15 * 60);

/// Whether a checkpoint is there still is looked at so seldom: one that is removed frees what it
/// held a little later, and each look costs a request.
const CHECKPOINTS_EVERY: Duration = Duration::from_secs(if cfg!(test) { 8 } else { 5 * 60 });

/// The pins of a database, as its owner reads them from time to time. One caller at a time.
#[derive(Debug)]
pub struct WatchedPins {
    objects: PinObjects,
    /// Of this owner.
    nonce: u128,
    /// The first pin that counts.
    first: u64,
    /// Pins from there on that hold nothing any more, for ever.
    dead: BTreeSet<u64>,
    seen: BTreeMap<u64, Seen>,
    /// Pins below are deleted; `None` before those were looked for that an earlier owner has left.
    deleted_below: Option<u64>,
}

/// A pin as it was when it last changed.
#[derive(Debug)]
struct Seen {
    nonce: u128,
    counter: u64,
    since: Duration,
    /// What its checkpoint names, once that is sealed.
    tables: Option<BTreeSet<CloudName>>,
    /// When it was read.
    read: Duration,
}

/// What all pins held when they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    everything: bool,
    from: Option<u64>,
    tables: BTreeSet<CloudName>,
}

impl Held {
    /// Whether a table has to stay that the feed drops with the object of this number, or before.
    #[must_use]
    pub fn holds(&self, table: &CloudName, dropped_at: u64) -> bool {
        self.everything
            || self.from.is_some_and(|from| from < dropped_at)
            || self.tables.contains(table)
    }

    fn add(&mut self, from: u64) {
        self.from = Some(self.from.map_or(from, |before| before.min(from)));
    }
}

impl WatchedPins {
    /// Those of a database whose feed has `first` as its first pin. `nonce` is the owner's.
    #[must_use]
    pub fn new(store: &Arc<CloudStore>, names: CloudNames, nonce: u128, first: u64) -> WatchedPins {
        WatchedPins {
            objects: PinObjects { store: Arc::clone(store), names },
            nonce,
            first,
            dead: BTreeSet::new(),
            seen: BTreeMap::new(),
            deleted_below: None,
        }
    }

    /// The first pin that is not dead, as far as is known.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Reads all pins, drops those that stood still for too long, and says what the others hold.
    /// `tables_of` says what a checkpoint names.
    ///
    /// Cost: a request for each living pin, and one for the first missing number; for checkpoints
    /// only every few minutes.
    /// Errors: `Corruption`, `Unsupported`; the environment's; those of `tables_of`.
    pub fn read(
        &mut self,
        tables_of: &dyn Fn(&CheckpointObject) -> Result<BTreeSet<CloudName>>,
    ) -> Result<Held> {
        let mut held = Held::default();
        let mut number = self.first;
        loop {
            if let Some(tables) = self.checkpoint_read_lately(number) {
                held.tables.extend(tables.iter().cloned());
            } else if !self.dead.contains(&number) {
                let Some(pin) = self.objects.read(number)? else { break };
                if !self.add_what(number, &pin, tables_of, &mut held)? {
                    self.seen.remove(&number);
                    self.dead.insert(number);
                }
            }
            number += 1;
        }
        while self.dead.remove(&self.first) {
            self.first += 1;
        }
        Ok(held)
    }

    /// What the sealed checkpoint of a pin names, if it was read lately.
    fn checkpoint_read_lately(&self, number: u64) -> Option<&BTreeSet<CloudName>> {
        let seen = self.seen.get(&number)?;
        let passed = self.objects.store.env().now().saturating_sub(seen.read);
        seen.tables.as_ref().filter(|_| passed < CHECKPOINTS_EVERY)
    }

    /// Adds what a pin holds; `false` if it is dead.
    fn add_what(
        &mut self,
        number: u64,
        pin: &PinObject,
        tables_of: &dyn Fn(&CheckpointObject) -> Result<BTreeSet<CloudName>>,
        held: &mut Held,
    ) -> Result<bool> {
        let is_still = self.look_at(number, pin);
        match &pin.holds {
            Holds::Nothing => return Ok(false),
            Holds::Checkpoint(_) => {
                return self.add_checkpoint(number, is_still, tables_of, held);
            }
            Holds::Everything | Holds::From(_) if is_still => {
                // Nobody seals a reader's pin.
                self.objects.decide(number, self.nonce, Fate::Dropped)?;
                return Ok(false);
            }
            Holds::Everything => held.everything = true,
            Holds::From(from) => held.add(*from),
        }
        Ok(true)
    }

    fn add_checkpoint(
        &mut self,
        number: u64,
        is_still: bool,
        tables_of: &dyn Fn(&CheckpointObject) -> Result<BTreeSet<CloudName>>,
        held: &mut Held,
    ) -> Result<bool> {
        if let Some(tables) = self.seen.get(&number).and_then(|seen| seen.tables.as_ref()) {
            held.tables.extend(tables.iter().cloned());
            return Ok(true);
        }
        let fate = match is_still {
            true => Some(self.objects.decide(number, self.nonce, Fate::Dropped)?),
            false => self.objects.fate(number)?,
        };
        match fate {
            Some(Fate::Dropped) => return Ok(false),
            None => held.everything = true,
            Some(Fate::Sealed) => match self.objects.checkpoint(number)? {
                Some(checkpoint) => {
                    let tables = tables_of(&checkpoint)?;
                    held.tables.extend(tables.iter().cloned());
                    if let Some(seen) = self.seen.get_mut(&number) {
                        seen.tables = Some(tables);
                    }
                }
                // It is being removed: the next reading finds the pin released.
                None => held.everything = true,
            },
        }
        Ok(true)
    }

    /// Whether the pin stood still for too long.
    fn look_at(&mut self, number: u64, pin: &PinObject) -> bool {
        let now = self.objects.store.env().now();
        let seen = self.seen.entry(number).or_insert_with(|| Seen {
            nonce: pin.nonce,
            counter: pin.counter,
            since: now,
            tables: None,
            read: now,
        });
        seen.read = now;
        if (seen.nonce, seen.counter) != (pin.nonce, pin.counter) {
            let (nonce, counter) = (pin.nonce, pin.counter);
            *seen = Seen { nonce, counter, since: now, tables: None, read: now };
        }
        now.saturating_sub(seen.since) >= STILL_MAX
    }

    /// Deletes some pins below `fed_first`, which a snapshot of the feed has as its first pin;
    /// whether there may be more.
    ///
    /// Errors: the environment's. The next call goes on.
    pub fn delete_below(&mut self, fed_first: u64, count: usize) -> Result<bool> {
        let Some(mut below) = self.deleted_below else {
            // What an earlier owner has left, as far as a list shows it.
            let left: Vec<u64> =
                self.objects.listed()?.into_iter().filter(|pin| *pin < fed_first).collect();
            for pin in left.iter().take(count) {
                self.objects.delete(*pin)?;
            }
            self.deleted_below = (left.len() <= count).then_some(fed_first);
            return Ok(left.len() > count);
        };
        for _ in 0..count {
            if below >= fed_first {
                break;
            }
            self.objects.delete(below)?;
            below += 1;
            self.deleted_below = Some(below);
        }
        Ok(below < fed_first)
    }
}
