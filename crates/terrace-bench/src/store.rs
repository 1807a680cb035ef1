use std::error::Error;

use crate::CloudRequests;

/// Whatever a store fails with.
pub type StoreError = Box<dyn Error + Send + Sync>;

/// What a store has been given and what it has written because of it, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The bytes of keys and values that were put.
    pub user_bytes: u64,
    /// The bytes written to files: logs, tables and whatever else.
    pub written_bytes: u64,
}

/// What writes were delayed by since a store was opened: its own account, cause by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Each cause's name and the microseconds that it took.
    pub by_cause: Vec<(&'static str, u64)>,
}

impl Delays {
    /// The delays between an earlier account and this one.
    #[must_use]
    pub fn since(&self, earlier: &Delays) -> Delays {
        let before = |name: &str| {
            earlier.by_cause.iter().find(|(cause, _)| *cause == name).map_or(0, |(_, us)| *us)
        };
        let by_cause = self.by_cause.iter();
        Delays {
            by_cause: by_cause.map(|(name, us)| (*name, us.saturating_sub(before(name)))).collect(),
        }
    }

    /// These delays and those of another account with the same causes.
    #[must_use]
    pub(crate) fn and(&self, other: &Delays) -> Delays {
        let both = self.by_cause.iter().zip(&other.by_cause);
        Delays { by_cause: both.map(|((name, us), (_, more))| (*name, us + more)).collect() }
    }

    /// All of them, in microseconds.
    #[must_use]
    pub fn total_us(&self) -> u64 {
        self.by_cause.iter().map(|(_, us)| us).sum()
    }
}

/// A store that can be measured. Calls come from many threads at once.
pub trait Store: Sync {
    /// The length of the value of `key`, having read all of it; `None` if it is not there.
    ///
    /// Errors: the store's own.
    fn get(&self, key: &[u8]) -> Result<Option<usize>, StoreError>;

    /// Sets the value of `key`.
    ///
    /// Errors: the store's own.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Reads up to `count` records in key order from `start` on, and returns how many there were.
    ///
    /// Errors: the store's own.
    fn scan(&self, start: &[u8], count: u64) -> Result<u64, StoreError>;

    /// Reads the value of `key`, then sets it.
    ///
    /// Errors: the store's own.
    fn modify(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.get(key)?;
        self.put(key, value)
    }

    /// Reads the values of two keys, then sets both in one batch.
    ///
    /// Errors: the store's own; that it has no batches.
    fn write_pair(&self, _keys: [&[u8]; 2], _value: &[u8]) -> Result<(), StoreError> {
        Err("it writes no batches here".into())
    }

    /// Reads the values of two keys, then sets both, as one serializable transaction; how often
    /// that was begun anew because of a conflict before it committed.
    ///
    /// Errors: the store's own; that it has no transactions.
    fn transact(&self, _keys: [&[u8]; 2], _value: &[u8]) -> Result<u64, StoreError> {
        Err("it has no transactions here".into())
    }

    /// What was written so far; `None` for a store that does not tell.
    fn counters(&self) -> Option<Counters>;

    /// What writes were delayed by so far; `None` for a store that does not tell.
    fn delays(&self) -> Option<Delays> {
        None
    }

    /// What was asked of an object store so far; `None` for a store that has none.
    fn cloud_requests(&self) -> Option<CloudRequests> {
        None
    }

    /// The memory that the store knows it has taken, in bytes; `None` if it does not tell.
    fn memory_bytes(&self) -> Option<u64> {
        None
    }
}
