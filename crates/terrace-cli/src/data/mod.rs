//! What data commands work on: a directory or a running server, with the same keys either way.

mod local;
mod opening;
mod remote;

use std::collections::BTreeMap;
use std::time::Duration;

use terrace::OwnedRange;

pub(crate) use local::{Access, LocalData, keyspace_of, open};
pub(crate) use remote::{RemoteData, SlowEntry, Watch};

use crate::failure::{Failure, Outcome};
use crate::format::Record;
use crate::signals::StopFlag;

/// Which entries to walk, and how.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    pub(crate) range: OwnedRange,
    pub(crate) reverse: bool,
    pub(crate) limit: u64,
    pub(crate) wanted: Wanted,
}

/// What of entries is wanted; the rest comes empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Keys,
    /// Keys and values.
    Values,
    /// Keys, values, and when they expire.
    All,
}

/// About how much there is, in tables and in memory; what is dead counts until it is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

/// Figures by name, in their order.
pub(crate) type Figures = Vec<(String, u64)>;

/// Is shown each entry of a walk; an error ends it.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&Record) -> Outcome;

/// A database, wherever it is, and a keyspace in it.
pub(crate) trait Data {
    /// Goes on in the keyspace of this name; it is made if it is missing and may be made.
    ///
    /// Errors: there is none.
    fn use_keyspace(&mut self, name: &str, may_make: bool) -> Outcome;

    /// All keyspaces by name, each with about what it holds.
    fn keyspaces(&mut self) -> Outcome<Vec<(String, Size)>>;

    /// What keyspaces were asked since the server was started, or the directory opened: their
    /// figures by name. Of those that are left out nobody asked anything.
    fn keyspace_stats(&mut self) -> Outcome<BTreeMap<String, Figures>>;

    /// Drops a keyspace; whether there was one.
    fn drop_keyspace(&mut self, name: &str) -> Outcome<bool>;

    /// The entries of keys, in their order, with what is wanted of each.
    fn get(&mut self, keys: &[Vec<u8>], wanted: Wanted) -> Outcome<Vec<Option<Record>>>;

    /// Deletes keys, and returns how many were there.
    fn delete(&mut self, keys: &[Vec<u8>]) -> Outcome<u64>;

    /// Deletes every key of an interval, in one step.
    fn delete_range(&mut self, range: &OwnedRange) -> Outcome;

    /// How many keys are in an interval. A directory is counted until somebody wants it to stop.
    fn count(&mut self, range: &OwnedRange, stop: &StopFlag) -> Outcome<u64>;

    /// About how much is in an interval.
    fn size(&mut self, range: &OwnedRange) -> Outcome<Size>;

    /// Sets some entries. After an error some of them may be set.
    fn put(&mut self, records: &[Record]) -> Outcome;

    /// Sets an entry if its key holds what is expected (`None`: if it is not there), in one step;
    /// whether it did.
    fn put_if(&mut self, record: &Record, expected: Option<&[u8]>) -> Outcome<bool>;

    /// Walks entries in key order.
    fn walk(&mut self, walk: &Walk, visit: Visit<'_>) -> Outcome;

    /// What the read of a key meets: for people, or as JSON.
    fn explain_get(&mut self, key: &[u8], json: bool) -> Outcome<String>;

    /// What a walk meets, likewise.
    fn explain_scan(&mut self, walk: &Walk, json: bool) -> Outcome<String>;

    /// What the database says of itself, as JSON.
    fn stats(&mut self) -> Outcome<String>;

    /// How long ago the server was started, whose counters count from then on; `None` if this is
    /// none.
    fn uptime(&mut self) -> Outcome<Option<Duration>> {
        Ok(None)
    }

    /// How the writes are spread over the dranges: for people, or as JSON.
    fn dranges(&mut self, json: bool) -> Outcome<String>;

    /// What is in L0, likewise.
    fn l0(&mut self, json: bool) -> Outcome<String>;

    /// Goes on to what is there by now, if this shows a moment of a database that somebody else
    /// writes.
    fn refresh(&mut self) -> Outcome {
        Ok(())
    }

    /// Whether it is one that runs by itself.
    fn is_server(&self) -> bool;

    /// Ends the work. Nothing may be called after it.
    fn close(&mut self) -> Outcome;
}

/// What to say of a keyspace that is not there.
fn no_keyspace(name: &str) -> Failure {
    Failure::Negative(format!("there is no keyspace {name}; `terrace keyspaces` lists them"))
}
