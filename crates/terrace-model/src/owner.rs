//! An owner: how it feeds, and how it collects the feed and tables.

use std::collections::{BTreeMap, BTreeSet};

use terrace_env::PlantedBug;

use super::reading::Reading;
use super::store::{Content, Object, Outcome, Pin, Placed, Store, Table};

/// The tables of an epoch begin with its number.
pub const TABLES_PER_EPOCH: u8 = 10;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub epoch: u8,
    fence: usize,
    pub next: usize,
    pub pending: Option<Content>,
    pub is_fenced: bool,
    /// The newest snapshot of its own.
    pub snapshot: Option<usize>,
    pub snapshot_count: u8,
    is_new: bool,
    fences: BTreeSet<usize>,
    stones: BTreeSet<usize>,
    /// The next number to be collected.
    pub collected: usize,
    /// What its local manifest names.
    pub version: Table,
    /// Tables that were dropped, each with the number that says so.
    pub dropped: BTreeMap<Table, usize>,
    /// What a turn of collection has chosen, and the pin as it was read after that.
    pub chosen: Option<(BTreeMap<Table, usize>, Option<Pin>)>,
    /// The table that the pending edit drops.
    pub replaced: Option<Table>,
    /// Tables that were named so far.
    pub count: u8,
    /// A table that it has named and has not stored yet: a planted bug.
    pub unstored: Option<Table>,
}

impl Owner {
    /// The owner that has read this and fenced it by `fence`.
    pub fn behind(reading: &Reading, epoch: u8, fence: usize) -> Owner {
        Owner {
            epoch,
            fence,
            next: fence + 1,
            pending: None,
            is_fenced: false,
            snapshot: None,
            snapshot_count: 0,
            is_new: reading.anchor.is_none(),
            fences: reading.fences.iter().copied().collect(),
            stones: reading.snapshots.iter().copied().collect(),
            collected: 1,
            version: reading.table.unwrap_or(1),
            dropped: BTreeMap::new(),
            chosen: None,
            replaced: None,
            count: 0,
            unstored: None,
        }
    }

    /// Sends what is pending; whether it is known to be there.
    pub fn send(&mut self, store: &mut Store, outcome: Outcome, bug: Option<PlantedBug>) -> bool {
        let Some(content) = self.pending else { return false };
        let object = Object { epoch: self.epoch, content };
        let number = self.next;
        let placed = store.create(number, object, outcome);
        let is_clean = matches!(placed, Placed::There { may_come_again: false });
        let is_snapshot = matches!(content, Content::Snapshot(_));
        if is_snapshot && (!is_clean || self.is_new) {
            self.stones.insert(number);
        }
        match placed {
            Placed::NoAnswer => false,
            Placed::There { .. } => {
                self.pending = None;
                self.next += 1;
                if is_snapshot {
                    (self.snapshot, self.is_new) = (Some(number), false);
                    self.snapshot_count += 1;
                }
                self.dropped.extend(self.replaced.take().map(|table| (table, number)));
                true
            }
            Placed::Taken => {
                let there = store.read(number).expect("it is taken");
                if there.epoch < self.epoch || bug == Some(PlantedBug::SkipFence) {
                    match there.content {
                        Content::Fence => self.fences.insert(number),
                        _ => self.stones.insert(number),
                    };
                    self.next += 1;
                } else {
                    (self.pending, self.is_fenced) = (None, true);
                }
                false
            }
        }
    }

    /// Collects one number of the feed.
    pub fn collect_below(&mut self, store: &mut Store, bug: Option<PlantedBug>) {
        let number = self.collected;
        self.collected += 1;
        if bug == Some(PlantedBug::CollectFences) {
            return store.replace(number, None);
        }
        if self.fences.contains(&number) {
            return;
        }
        if number > self.fence && !self.stones.contains(&number) {
            return store.replace(number, None);
        }
        match store.read(number) {
            Some(object) if matches!(object.content, Content::Snapshot(_)) => {
                store.replace(number, Some(Object { content: Content::Stone, ..object }));
            }
            Some(Object { content: Content::Edits(_), .. }) => store.replace(number, None),
            _ => {}
        }
    }

    /// Chooses what could go, and then reads the pins.
    pub fn read_pins(&mut self, store: &Store) {
        self.chosen = Some((self.dropped.clone(), store.pin));
    }

    /// Names another table in place of its own, and has it fed; the table.
    pub fn append(&mut self, store: &mut Store, bug: Option<PlantedBug>) {
        self.count += 1;
        let table = TABLES_PER_EPOCH * self.epoch + self.count;
        if bug == Some(PlantedBug::NameBeforeUpload) {
            self.unstored = Some(table);
        } else {
            store.tables.insert(table);
        }
        if bug == Some(PlantedBug::CollectBeforeFed) {
            self.dropped.insert(self.version, self.next - 1);
        } else {
            self.replaced = Some(self.version);
        }
        self.version = table;
        self.pending = Some(Content::Edits(table));
    }

    /// The walk over the names of all tables: those of earlier owners that it does not name.
    pub fn walk(&mut self, store: &Store) {
        let Some(snapshot) = self.snapshot else { return };
        let of_others = |table: &&Table| **table / TABLES_PER_EPOCH < self.epoch;
        let orphans = store.tables.iter().filter(of_others).filter(|table| **table != self.version);
        self.dropped.extend(orphans.map(|table| (*table, snapshot)));
    }

    /// Deletes what was chosen, unless somebody else owns the feed by now.
    pub fn delete(&mut self, store: &mut Store, bug: Option<PlantedBug>) {
        let Some((mut chosen, pin)) = self.chosen.take() else { return };
        if bug == Some(PlantedBug::CollectBeforePins) {
            chosen = self.dropped.clone();
        }
        let is_held = |number: usize| match pin {
            None => false,
            Some(Pin::All) => true,
            Some(Pin::From(from)) => number > from,
        };
        chosen.retain(|_, number| !is_held(*number));
        let mut next = self.next;
        while let Some(there) = store.read(next).filter(|there| there.epoch != self.epoch) {
            if there.epoch > self.epoch {
                return;
            }
            next += 1;
        }
        for table in chosen.keys() {
            store.tables.remove(table);
            self.dropped.remove(table);
        }
    }
}
