//! What the background work of a range did, told to whoever listens.
//!
//! # Why
//! Statistics, the gate's measurements, the program's log, tests and users all want to know what a
//! flush or a compaction came to. Each of them is a [`Listener`]; the work says once what happened,
//! and has none of their bookkeeping in it.
//!
//! # Rules
//! 1. No event is told on the way of a single read or write. That writers stop is told when it
//!    begins and when it ends, and not by each writer.
//! 2. An event is told after what it says: what a flush or a compaction made is in the version by
//!    then.
//! 3. The thread that did the work tells it, with no latch held, but often with a turn or the holds
//!    of dranges. So a listener returns soon, and calls nothing of the range that waits; taking a
//!    snapshot does.
//! 4. Two threads may tell events at the same time, and the later one first: [`Event::at`] orders
//!    them.
//! 5. A user's listener that panics is told nothing more. The panic is caught and logged, since the
//!    work of the range must not end because somebody counted wrongly.

use std::fmt;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::options::Setting;
use crate::store::{CompactionRecord, StallCause, Work};
use crate::version::{NewRow, TreeEdit};

/// Something that happened to a range.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// When it was told, on the clock of the environment, which begins anywhere and never goes
    /// back.
    pub at: Duration,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// An open has come this far with the log: told again and again while one that is long is read,
    /// by the thread that opens.
    Opening(OpenProgress),
    /// A flush of frozen memtables began.
    FlushBegan {
        /// Number of memtables that it writes.
        memtable_count: u64,
        /// Bytes of memory that these memtables take.
        memtable_bytes: u64,
    },
    /// A flush ended, and its row is in L0.
    FlushEnded(FlushRecord),
    /// Memtables of hot dranges were merged in memory.
    MemtablesMerged(MergeRecord),
    /// An ingest put tables into a level.
    Ingested {
        /// The level.
        level: u8,
        /// Bytes of the tables.
        bytes: u64,
        /// Bytes of the value files that their large values became.
        value_bytes: u64,
    },
    /// A compaction took a cut out of L0. [`EventKind::CompactionEnded`] follows.
    Cut(CutRecord),
    /// A compaction that merged tables ended, and what it wrote is in its level.
    CompactionEnded(CompactionRecord),
    /// Value files went, or what lived of them was written anew.
    ValuesKept(ValuesRecord),
    /// Tables went down a level as they were.
    Moved(MoveRecord),
    /// Data left L0 for a level below, by a compaction or a move.
    L0Drained {
        /// Bytes that left it.
        bytes: u64,
        /// How long it took, from the plan to the installed version.
        took: Duration,
    },
    /// A version edit was installed.
    Installed(InstallRecord),
    /// Writers stop until background work has caught up.
    StallBegan {
        /// What they wait for.
        cause: StallCause,
    },
    /// Writers go on.
    StallEnded {
        /// What they waited for.
        cause: StallCause,
    },
    /// A segment was added to the log.
    SegmentAdded {
        /// Bytes of the medium that the log takes since then.
        held_bytes: u64,
    },
    /// Background work failed. Writers that have to wait for it are refused until it succeeds.
    WorkFailed {
        /// Which work.
        work: Work,
        /// Why it failed.
        error: String,
        /// How long it rests before it is tried again.
        retry_after: Duration,
    },
    /// An option was given anew by a caller of this range; it holds for all of its process.
    OptionChanged {
        /// The option, and its new value.
        setting: Setting,
    },
    /// The range takes no more writes until it is opened again.
    Poisoned {
        /// The first failure that put the content of the disk in doubt.
        reason: String,
    },
}

/// How far an open has come with the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenProgress {
    /// What it is doing.
    pub step: OpenStep,
    /// Bytes of the log that this step has dealt with.
    pub bytes: u64,
}

/// What an open does with the log, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenStep {
    /// It brings what a lost machine wrote from the object store.
    FetchLog,
    /// It reads the log, and fills memtables with it.
    ReplayLog,
    /// It flushes what of the log has no room in memory.
    FlushLog,
}

/// What a flush came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlushRecord {
    /// Bytes of memory that the memtables took.
    pub memtable_bytes: u64,
    /// Bytes of the row that was written; 0 if nothing of the memtables was worth writing.
    pub row_bytes: u64,
    /// Bytes of the file that the large values went to; 0 if none did.
    pub value_bytes: u64,
    /// Bytes of the row that lie on L0's own medium, where it has one.
    pub medium_bytes: u64,
    /// How long it took, from its begin to the installed version.
    pub took: Duration,
}

/// What a merge of memtables came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MergeRecord {
    /// Number of memtables that were merged.
    pub memtable_count: u64,
    /// Number of dead versions that were dropped.
    pub dropped_count: u64,
    /// Bytes of the merged memtable, which were not flushed.
    pub kept_bytes: u64,
}

/// What a look at the value log came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValuesRecord {
    /// Number of value files that went.
    pub removed_count: u64,
    /// Bytes of these files.
    pub removed_bytes: u64,
    /// Bytes of the file that has what lives of them; 0 if nothing did.
    pub written_bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// What was read for a cut out of L0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutRecord {
    /// Bytes read out of L0.
    pub l0_bytes: u64,
    /// Bytes read out of the level below.
    pub below_bytes: u64,
}

/// Tables that only changed their level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MoveRecord {
    /// The level that they came from.
    pub from: u8,
    /// The level that they went to.
    pub to: u8,
    /// Number of tables.
    pub table_count: u64,
    /// Bytes of these tables.
    pub bytes: u64,
}

/// What a version edit changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstallRecord {
    /// Number of rows that were added to L0.
    pub rows_added: u64,
    /// Number of rows that were taken out of L0 by name. Rows of which a cut took the last are not
    /// in it.
    pub rows_removed: u64,
    /// Number of tables that were added to levels below L0.
    pub tables_added: u64,
    /// Number of tables that were taken out of levels below L0.
    pub tables_removed: u64,
}

impl InstallRecord {
    /// What `edit` changes, and a row that gets its id as it is installed.
    pub(crate) fn of(edit: &TreeEdit, row: Option<&NewRow>) -> InstallRecord {
        InstallRecord {
            rows_added: edit.rows_added.len() as u64 + u64::from(row.is_some()),
            rows_removed: edit.rows_removed.len() as u64,
            tables_added: edit.tables_added.len() as u64,
            tables_removed: edit.tables_removed.len() as u64,
        }
    }
}

/// Is told what happens to a range. The module's rules say what a listener may do.
pub trait Listener: Send + Sync {
    /// Something happened.
    fn on(&self, event: &Event);
}

impl<L: Listener + ?Sized> Listener for Arc<L> {
    fn on(&self, event: &Event) {
        (**self).on(event);
    }
}

/// The listeners that a user gives to a range. Clones share them.
#[derive(Clone, Default)]
pub struct Listeners(Vec<Guarded>);

/// A listener of a user, and whether it has panicked.
#[derive(Clone)]
struct Guarded {
    listener: Arc<dyn Listener>,
    has_panicked: Arc<AtomicBool>,
}

// A listener is not called again after a panic, so what the panic left behind in it is not seen.
impl UnwindSafe for Listeners {}
impl RefUnwindSafe for Listeners {}

impl Listeners {
    /// No listener.
    #[must_use]
    pub const fn new() -> Listeners {
        Listeners(Vec::new())
    }

    /// These listeners and `listener`, which is told after them.
    #[must_use]
    pub fn with(mut self, listener: Arc<dyn Listener>) -> Listeners {
        self.0.push(Guarded { listener, has_panicked: Arc::default() });
        self
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells all of them, one after the other.
    pub(crate) fn tell(&self, event: &Event) {
        for Guarded { listener, has_panicked } in &self.0 {
            if has_panicked.load(Ordering::Relaxed) {
                continue;
            }
            if catch_unwind(AssertUnwindSafe(|| listener.on(event))).is_err() {
                has_panicked.store(true, Ordering::Relaxed);
                crate::program_log::error!(?event, "a listener panicked and is told nothing more");
            }
        }
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listeners({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a listener that panics harms nobody. Method: two listeners, the first of which panics.

    use super::*;
    use std::sync::atomic::AtomicU64;

    #[derive(Default)]
    struct Counting {
        count: AtomicU64,
        panics: bool,
    }

    impl Listener for Counting {
        fn on(&self, _event: &Event) {
            self.count.fetch_add(1, Ordering::Relaxed);
            assert!(!self.panics, "as planned");
        }
    }

    #[test]
    fn a_listener_that_panics_is_told_nothing_more_and_the_others_are() {
        let broken = Arc::new(Counting { panics: true, ..Counting::default() });
        let whole = Arc::new(Counting::default());
        let listeners = Listeners::new().with(broken.clone()).with(whole.clone());
        let event = Event { at: Duration::ZERO, kind: EventKind::SegmentAdded { held_bytes: 1 } };
        listeners.tell(&event);
        listeners.clone().tell(&event);
        assert_eq!(broken.count.load(Ordering::Relaxed), 1);
        assert_eq!(whole.count.load(Ordering::Relaxed), 2);
    }
}
