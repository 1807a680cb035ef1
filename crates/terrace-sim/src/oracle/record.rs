use std::sync::Arc;
use std::time::Duration;

use terrace_base::{KeyRange, WallTime};
use terrace_engine::Error;
use terrace_env::{Latch, SimEnv};

use super::keyspaces::Content;
use super::model::{Found, Row};
use crate::workload::{Change, Condition};

/// When something happened in a simulated run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The place in the order of all that was recorded.
    pub tick: u64,
    /// How many changes of the disk had been begun.
    pub io: u64,
    /// Virtual time.
    pub at: Duration,
}

/// One thing that a client did.
#[derive(Clone, Debug)]
pub struct Event {
    /// Which client.
    pub client: usize,
    /// The number of its operation.
    pub step: usize,
    /// Before the store was called.
    pub begun: Stamp,
    /// After it answered; none if it had not when the run ended.
    pub ended: Option<Stamp>,
    /// What was done, and what came of it.
    pub what: What,
}

/// What was done, and what came of it.
#[derive(Clone, Debug)]
pub enum What {
    /// A batch was written.
    Write(Write),
    /// A conditional write that wrote nothing.
    Kept {
        /// What it saw.
        seen: Vec<Seen>,
    },
    /// A key was read.
    Got {
        /// The key and what it held.
        seen: Seen,
        /// The number at which it was read, if in a snapshot.
        at: Option<u64>,
    },
    /// Several keys were read at once.
    GotMany {
        /// The keys and what they held.
        seen: Vec<Seen>,
    },
    /// An interval was read.
    Scanned {
        /// By which iterator.
        iterator: IteratorFacts,
        /// From the end.
        backward: bool,
        /// At most this number.
        limit: u32,
        /// What it showed.
        rows: Vec<Row>,
    },
    /// A snapshot was taken.
    Snapshot {
        /// Its number.
        seqno: u64,
    },
    /// An iterator was made.
    Iterator {
        /// Its number among the iterators of the run.
        id: u64,
        /// What it promises.
        facts: IteratorFacts,
    },
    /// An iterator was moved.
    Moved {
        /// Which.
        id: u64,
        /// How.
        how: Move,
        /// Where it stands now.
        shown: Option<Row>,
    },
    /// A database, or a copy of one, was read as a whole.
    Whole {
        /// The number that it is of.
        seqno: u64,
        /// The wall clock before it was read.
        from: WallTime,
        /// The wall clock after it was read.
        until: WallTime,
        /// What it holds.
        content: Content,
    },
    /// Everything that was acknowledged before is durable: a flush, a compaction or a close
    /// succeeded.
    Durable,
    /// The range was opened, for the first time or again.
    Opened {
        /// The newest visible number.
        seqno: u64,
    },
    /// Tables were judged.
    Checked {
        /// What is damaged.
        damage: Option<String>,
    },
    /// The call failed, and was no write.
    Failed {
        /// With what.
        error: Kind,
        /// What it said.
        text: String,
    },
    /// Under way.
    Begun,
}

/// A write.
#[derive(Clone, Debug)]
pub struct Write {
    /// The changes.
    pub changes: Vec<Change>,
    /// The wall clock when its expiries were computed.
    pub wall: WallTime,
    /// What came of it.
    pub outcome: Outcome,
    /// Whether its acknowledgement promises that it survives a power cut.
    pub is_synced: bool,
    /// Whether it may wait, and so may not be refused for that.
    pub may_wait: bool,
    /// What a conditional write, or a transaction, saw.
    pub seen: Vec<Seen>,
    /// What a transaction walked over.
    pub walked: Vec<Walked>,
    /// Whether somebody else may have come between: then it may be refused for that.
    pub may_conflict: bool,
    /// What a conditional write wanted to see of the first of its keys.
    pub condition: Option<Condition>,
}

/// What came of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has not answered.
    Pending,
    /// It was acknowledged; its last entry has this number.
    Written {
        /// The number.
        last: u64,
    },
    /// It was acknowledged without a number: it has those from `after` up to `upto` that no other
    /// write has. [`number_the_rest`](super::number_the_rest) finds out.
    Between {
        /// What was visible before it began.
        after: u64,
        /// What was visible when it had ended.
        upto: u64,
        /// Whether it may have gone without all changes but its last.
        may_be_short: bool,
    },
    /// It says that it does not know.
    Unknown,
    /// It says that it wrote nothing.
    Refused {
        /// Why.
        error: Kind,
        /// What it said.
        text: String,
    },
}

/// A key as a client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The key.
    pub key: Vec<u8>,
    /// What it held.
    pub found: Option<Found>,
    /// The wall clock before it was read.
    pub from: WallTime,
    /// The wall clock after it was read.
    pub until: WallTime,
}

/// An interval as a transaction saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walked {
    /// By which iterator.
    pub iterator: IteratorFacts,
    /// From the end.
    pub backward: bool,
    /// At most this number.
    pub limit: u32,
    /// What it showed.
    pub rows: Vec<Row>,
}

/// What an iterator promises to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IteratorFacts {
    /// The keys.
    pub within: KeyRange,
    /// The number that it reads at.
    pub seqno: u64,
    /// The wall clock before it was made. It judges expiry by a moment from here to `until`.
    pub from: WallTime,
    /// The wall clock after it was made.
    pub until: WallTime,
    /// The snapshot's number, if it reads in one.
    pub at: Option<u64>,
}

/// A movement of an iterator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// To the first key at or above.
    Seek(Vec<u8>),
    /// To the last key below, or the last.
    SeekBack(Option<Vec<u8>>),
    /// One key on.
    Next,
    /// One key back.
    Prev,
}

/// Kinds of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// [`Error::Invalid`] or [`Error::Operand`].
    Invalid,
    /// [`Error::Merge`].
    Merge,
    /// [`Error::Conflict`].
    Conflict,
    /// [`Error::Corruption`].
    Corruption,
    /// [`Error::NoSpace`].
    NoSpace,
    /// [`Error::Io`].
    Io,
    /// [`Error::Poisoned`].
    Poisoned,
    /// [`Error::Unknown`].
    Unknown,
    /// [`Error::NeedsIo`].
    NeedsIo,
    /// [`Error::WouldBlock`].
    WouldBlock,
    /// [`Error::Locked`].
    Locked,
    /// [`Error::ReadOnly`].
    ReadOnly,
    /// [`Error::Closed`].
    Closed,
    /// [`Error::Unsupported`].
    Unsupported,
    /// One that this harness does not know.
    Other,
}

impl Kind {
    /// The kind of an error.
    #[must_use]
    pub fn of(error: &Error) -> Kind {
        match error {
            Error::Invalid(_) | Error::Operand(_) => Kind::Invalid,
            Error::Merge(_) => Kind::Merge,
            Error::Conflict(_) => Kind::Conflict,
            Error::Corruption(_) => Kind::Corruption,
            Error::NoSpace(_) => Kind::NoSpace,
            Error::Io(_) => Kind::Io,
            Error::Poisoned(_) => Kind::Poisoned,
            Error::Unknown(_) => Kind::Unknown,
            Error::NeedsIo => Kind::NeedsIo,
            Error::WouldBlock => Kind::WouldBlock,
            Error::Locked(_) => Kind::Locked,
            Error::ReadOnly => Kind::ReadOnly,
            Error::Closed => Kind::Closed,
            Error::Unsupported(_) => Kind::Unsupported,
            _ => Kind::Other,
        }
    }
}

/// Everything that the clients of one run did. It lives outside of the simulated disk, and no fault
/// touches it.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// In the order in which they began.
    pub events: Vec<Event>,
    ticks: u64,
    iterators: u64,
}

impl Record {
    /// The writes with the events that they are.
    pub fn writes(&self) -> impl Iterator<Item = (&Event, &Write)> {
        self.events.iter().filter_map(|event| match &event.what {
            What::Write(write) => Some((event, write)),
            _ => None,
        })
    }
}

/// Where the clients of a run write down what they do.
#[derive(Clone, Debug)]
pub struct Recorder {
    sim: Arc<SimEnv>,
    record: Arc<Latch<Record>>,
}

/// The place of an event in its record.
#[derive(Clone, Copy, Debug)]
pub struct EventId(usize);

impl Recorder {
    /// For a run in `sim`; what is recorded can be taken from `record` later.
    #[must_use]
    pub fn new(sim: Arc<SimEnv>, record: Arc<Latch<Record>>) -> Recorder {
        Recorder { sim, record }
    }

    /// An operation begins.
    pub fn begin(&self, client: usize, step: usize, what: What) -> EventId {
        let (io, at) = (self.sim.io_count(), self.sim.virtual_time());
        let mut record = self.record.lock();
        record.ticks += 1;
        let begun = Stamp { tick: record.ticks, io, at };
        record.events.push(Event { client, step, begun, ended: None, what });
        EventId(record.events.len() - 1)
    }

    /// An operation ends; `change` writes down what came of it.
    pub fn end(&self, id: EventId, change: impl FnOnce(&mut What)) {
        let (io, at) = (self.sim.io_count(), self.sim.virtual_time());
        let mut record = self.record.lock();
        record.ticks += 1;
        let ended = Stamp { tick: record.ticks, io, at };
        let event = &mut record.events[id.0];
        event.ended = Some(ended);
        change(&mut event.what);
    }

    /// A number for a new iterator.
    #[must_use]
    pub fn next_iterator(&self) -> u64 {
        let mut record = self.record.lock();
        record.iterators += 1;
        record.iterators
    }
}
