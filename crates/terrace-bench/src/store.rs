use std::error::Error;

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

    /// What was written so far; `None` for a store that does not tell.
    fn counters(&self) -> Option<Counters>;
}
