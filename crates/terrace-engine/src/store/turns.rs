//! Turns: what one thread at a time does for a range. Whoever does it shows that it has the turn,
//! by value: a function that needs a turn takes it.

use std::collections::BTreeSet;
use std::fmt;

use terrace_base::FileId;
use terrace_env::{Mutex, WaitFactory};

/// The turns of a range. Order: flush before freeze; a sync comes after both.
pub(in crate::store) struct Turns {
    /// One flush at a time, so that rows are installed in the order of their memtables.
    pub flush: Mutex<FlushTurn>,
    /// One freeze at a time: what is frozen together shows together to a flush, and the dranges
    /// stay as they are.
    pub freeze: Mutex<FreezeTurn>,
    /// One change of which value files there are, but for those that flushes bring.
    pub values: Mutex<ValuesTurn>,
    /// One sync of the log on behalf of writers at a time.
    pub sync: Mutex<SyncTurn>,
}

/// The turn of flushes.
pub(in crate::store) struct FlushTurn(());

/// The turn of freezes.
pub(in crate::store) struct FreezeTurn(());

/// The turn of the value log.
pub(in crate::store) struct ValuesTurn {
    /// Files that were to be rewritten and hold damage: they stay as they are until the range is
    /// opened again, so that one damaged value does not keep the garbage of all others.
    pub damaged: BTreeSet<FileId>,
    /// Tables that cannot say which values they name.
    pub damaged_tables: DamagedTables,
}

/// Tables that were to say which values they name, and could not. Ids of tables are never used
/// twice, so nothing here becomes wrong.
#[derive(Debug, Default)]
pub(in crate::store) struct DamagedTables {
    /// Neither lists nor entries say it: files that they name values of stay as they are, as long
    /// as they count.
    pub unreadable: BTreeSet<FileId>,
    /// The lists do not say it, which was told.
    pub lists_told: BTreeSet<FileId>,
}

/// The turn of syncs.
pub(in crate::store) struct SyncTurn(());

impl Turns {
    /// Turns that nobody has. There is one of each in a range: nothing else makes a turn.
    pub fn new(waits: &WaitFactory) -> Turns {
        Turns {
            flush: waits.mutex(FlushTurn(())),
            freeze: waits.mutex(FreezeTurn(())),
            values: waits.mutex(ValuesTurn {
                damaged: BTreeSet::new(),
                damaged_tables: DamagedTables::default(),
            }),
            sync: waits.mutex(SyncTurn(())),
        }
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").finish_non_exhaustive()
    }
}
