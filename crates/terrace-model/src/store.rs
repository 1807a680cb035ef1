//! The object store: the feed's numbers, tables, one pin, and a put that comes late.

use std::collections::BTreeSet;

/// A table, which is all that a version has.
pub type Table = u8;

/// What an object of the feed says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    Fence,
    Snapshot(Table),
    /// This table takes the place of the one before.
    Edits(Table),
    Stone,
}

/// An object of the feed. No two openers have the same epoch here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    pub epoch: u8,
    pub content: Content,
}

/// What becomes of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It is done, and answered.
    Answered,
    /// The same, after an attempt that may still land.
    AnsweredAtLast,
    /// It is done, and the answer is lost.
    Lost,
    /// It may land later.
    Late,
}

/// What a put came to, for whoever sent it.
pub enum Placed {
    There { may_come_again: bool },
    Taken,
    NoAnswer,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Store {
    /// Number n is at n - 1.
    feed: Vec<Option<Object>>,
    pub tables: BTreeSet<Table>,
    /// The reader's pin, if there is one.
    pub pin: Option<Pin>,
    /// A put-if-absent that lands later.
    late: Option<(usize, Object)>,
    /// How many puts did not just succeed.
    pub faults: u8,
}

/// What a pin holds: all, or what was dropped by an object behind this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pin {
    All,
    From(usize),
}

impl Store {
    pub fn read(&self, number: usize) -> Option<Object> {
        *self.feed.get(number - 1)?
    }

    /// The numbers that a list shows, of snapshots.
    pub fn snapshots(&self) -> impl Iterator<Item = usize> {
        let is_snapshot = |object: &Option<Object>| {
            object.is_some_and(|object| matches!(object.content, Content::Snapshot(_)))
        };
        let places = self.feed.iter().enumerate().filter(move |(_, object)| is_snapshot(object));
        places.map(|(place, _)| place + 1)
    }

    /// The greatest number that was ever created.
    pub fn length(&self) -> usize {
        self.feed.len()
    }

    pub fn has_late(&self) -> bool {
        self.late.is_some()
    }

    /// Whether an object of this epoch, or a higher one, is there.
    pub fn has_epoch(&self, epoch: u8) -> bool {
        self.feed.iter().flatten().any(|object| object.epoch >= epoch)
    }

    pub fn create(&mut self, number: usize, object: Object, outcome: Outcome) -> Placed {
        if outcome != Outcome::Answered {
            self.faults += 1;
        }
        if matches!(outcome, Outcome::Late | Outcome::AnsweredAtLast) {
            self.late = Some((number, object));
        }
        if outcome == Outcome::Late {
            return Placed::NoAnswer;
        }
        match self.read(number) {
            None => self.replace(number, Some(object)),
            // It is what an attempt before has left.
            Some(there) if there == object => return Placed::There { may_come_again: true },
            Some(_) if outcome == Outcome::Lost => return Placed::NoAnswer,
            Some(_) => return Placed::Taken,
        }
        match outcome {
            Outcome::Lost => Placed::NoAnswer,
            outcome => Placed::There { may_come_again: outcome != Outcome::Answered },
        }
    }

    /// What comes late lands, unless something is in its place.
    pub fn land(&mut self) {
        if let Some((number, object)) = self.late.take()
            && self.read(number).is_none()
        {
            self.replace(number, Some(object));
        }
    }

    pub fn replace(&mut self, number: usize, object: Option<Object>) {
        if self.feed.len() < number {
            self.feed.resize(number, None);
        }
        self.feed[number - 1] = object;
    }
}
