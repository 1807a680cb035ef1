//! What data commands work on: a directory or a running server, with the same keys either way.

mod local;
mod remote;

use terrace::OwnedRange;

pub(crate) use local::{Access, LocalData, open};
pub(crate) use remote::{RemoteData, SlowEntry};

use crate::failure::Outcome;
use crate::format::Record;

/// Which entries to walk, and how.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    pub(crate) range: OwnedRange,
    pub(crate) reverse: bool,
    pub(crate) limit: u64,
    /// Leaves the values out: they come empty.
    pub(crate) keys_only: bool,
}

/// Is shown each key and value of a walk; an error ends it.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Outcome;

/// Is shown each entry with its expiry.
pub(crate) type VisitRecord<'a> = &'a mut dyn FnMut(&Record) -> Outcome;

/// A database, wherever it is.
pub(crate) trait Data {
    /// The value of a key.
    fn get(&mut self, key: &[u8]) -> Outcome<Option<Vec<u8>>>;

    /// Deletes keys, and returns how many were there.
    fn delete(&mut self, keys: &[Vec<u8>]) -> Outcome<u64>;

    /// Sets some entries. After an error some of them may be set.
    fn put(&mut self, records: &[Record]) -> Outcome;

    /// Sets a key if it holds what is expected (`None`: if it is not there), in one step; whether
    /// it did.
    fn put_if(&mut self, key: &[u8], expected: Option<&[u8]>, value: &[u8]) -> Outcome<bool>;

    /// Walks keys and values in key order.
    fn walk(&mut self, walk: &Walk, visit: Visit<'_>) -> Outcome;

    /// Walks entries in key order, with when they expire.
    fn export(&mut self, range: &OwnedRange, visit: VisitRecord<'_>) -> Outcome;

    /// What the read of a key meets: for people, or as JSON.
    fn explain_get(&mut self, key: &[u8], json: bool) -> Outcome<String>;

    /// What a walk meets, likewise.
    fn explain_scan(&mut self, walk: &Walk, json: bool) -> Outcome<String>;

    /// What the database says of itself: for people, or as JSON.
    fn stats(&mut self, json: bool) -> Outcome<String>;

    /// How the writes are spread over the dranges, likewise.
    fn dranges(&mut self, json: bool) -> Outcome<String>;

    /// What is in L0, likewise.
    fn l0(&mut self, json: bool) -> Outcome<String>;

    /// Ends the work. Nothing may be called after it.
    fn close(&mut self) -> Outcome;
}
