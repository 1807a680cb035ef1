//! A reading of the feed, number after number.

use super::store::{Content, Object, Store, Table};

/// How far a reading is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reading {
    /// The newest snapshot that was read, and who wrote it.
    pub anchor: Option<(usize, u8)>,
    pub next: usize,
    pub epoch: u8,
    /// What it comes to.
    pub table: Option<Table>,
    pub fences: Vec<usize>,
    pub snapshots: Vec<usize>,
}

/// What stands at the next number.
#[derive(PartialEq, Eq)]
pub enum Step {
    Read,
    Missing,
    /// The reading has to begin elsewhere.
    OutOfPlace,
}

impl Reading {
    /// A reading from a number that a list has shown, or from the first.
    pub fn from(number: usize) -> Reading {
        let (fences, snapshots) = (Vec::new(), Vec::new());
        Reading { anchor: None, next: number, epoch: 0, table: None, fences, snapshots }
    }

    pub fn read_next(&mut self, store: &Store) -> Step {
        match store.read(self.next) {
            None => Step::Missing,
            Some(object) => self.take(object),
        }
    }

    pub fn take(&mut self, object: Object) -> Step {
        let number = self.next;
        self.next += 1;
        match object.content {
            Content::Fence => self.fences.push(number),
            Content::Snapshot(_) => self.snapshots.push(number),
            Content::Edits(_) | Content::Stone => {}
        }
        if object.epoch < self.epoch {
            return Step::Read;
        }
        self.epoch = object.epoch;
        match object.content {
            Content::Fence => Step::Read,
            Content::Stone => Step::OutOfPlace,
            Content::Edits(_) if self.anchor.is_none() => Step::OutOfPlace,
            Content::Edits(table) => {
                self.table = Some(table);
                Step::Read
            }
            Content::Snapshot(table) => {
                self.anchor = Some((number, object.epoch));
                self.table = Some(table);
                Step::Read
            }
        }
    }

    /// Whether what the reading rests on is still there.
    pub fn is_still_there(&self, store: &Store) -> bool {
        let Some((number, epoch)) = self.anchor else { return true };
        store.read(number).is_some_and(|object| {
            matches!(object.content, Content::Snapshot(_)) && object.epoch == epoch
        })
    }
}
