//! Object stores: what the engine asks of one, and nothing more.
//!
//! # Why
//! The lower levels of a database may live where a byte costs little and a request costs money and
//! milliseconds. Such a store has no append, no rename and no lock; what it has is here, and every
//! protocol above is built from it.
//!
//! # What may be relied on
//! 1. An object is there whole or not at all, and never changes but by [`ObjectStore::put`].
//! 2. [`ObjectStore::put_if_absent`] lets one of several writers win; the others hear
//!    [`Put::Taken`].
//! 3. After a put was answered, every get finds the object, until a delete was begun.
//!
//! # What may not
//! * A call that failed may have happened, may still happen later, or never
//!   ([`EnvError::is_unknown_outcome`](crate::EnvError::is_unknown_outcome)).
//! * Nothing is tried again here: whoever calls knows whether it may be.
//! * A list may lack names that are there. Nothing that decides what is deleted may rest on one.
//!
//! No type of an asynchronous runtime crosses this seam: calls block; [`ObjectStore::begin_get`] is
//! for whoever wants several under way at once.

#[cfg(feature = "cloud")]
pub(crate) mod cloud;
#[cfg(test)]
pub(crate) mod contract;
pub(crate) mod directory;
mod emulated;
mod name;
mod none;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use self::emulated::{ObjectsEnv, ObjectsPace, ObjectsProfile, PacedRequest, RequestWay};
pub use self::name::ObjectName;
pub use self::none::NoObjectStores;
use crate::EnvResult;

/// The most names that one list has.
pub(crate) const LIST_NAMES_MAX: usize = 1000;

/// The object stores that an environment reaches.
pub trait ObjectStores: Send + Sync + fmt::Debug {
    /// The store at `url`: `s3://BUCKET/PREFIX`, `gs://…`, `az://…`, `file:///DIR`; in a simulation
    /// `sim://NAME`. Credentials come from the process's environment, and are in no error and no
    /// text that comes back from here. Makes no request, but for a directory, which is made.
    ///
    /// Errors: no store has such an address, or this build has no such store.
    fn open(&self, url: &str) -> EnvResult<Arc<dyn ObjectStore>>;
}

/// A store of objects, or all below a prefix in one. Called by many threads at once.
pub trait ObjectStore: Send + Sync + fmt::Debug {
    /// The URL that it was opened by, without anything secret.
    fn url(&self) -> &str;

    /// Stores an object, and replaces one of the same name. One request.
    fn put(&self, name: &ObjectName, bytes: &[u8]) -> EnvResult<()>;

    /// Stores an object unless there is one of that name. One request.
    fn put_if_absent(&self, name: &ObjectName, bytes: &[u8]) -> EnvResult<Put>;

    /// Begins an object that comes in parts, for those that are too large for one request. It is
    /// there from a successful [`ObjectUpload::finish`] on.
    fn begin_upload(&self, name: &ObjectName) -> EnvResult<Box<dyn ObjectUpload>>;

    /// The bytes of an object; all of it without an interval. An interval that the object does not
    /// hold whole is an error, never a shorter answer. One request.
    ///
    /// Errors: [`EnvError::is_not_found`](crate::EnvError::is_not_found) if there is none.
    fn get(&self, name: &ObjectName, interval: Option<Range<u64>>) -> EnvResult<Vec<u8>> {
        self.begin_get(name, interval).wait()
    }

    /// As [`ObjectStore::get`], but returns at once; the answer is waited for later.
    fn begin_get(&self, name: &ObjectName, interval: Option<Range<u64>>) -> PendingObject;

    /// The size of an object in bytes. One request. Errors: as of [`ObjectStore::get`].
    fn bytes_of(&self, name: &ObjectName) -> EnvResult<u64>;

    /// Deletes an object. One that is not there is no error. One request.
    fn delete(&self, name: &ObjectName) -> EnvResult<()>;

    /// Names that begin with `prefix` and stand behind `after` (nothing: from the first one on), in
    /// bytewise order, with their sizes: at most a thousand, the first ones of those known. One
    /// request, unless a thousand names in a row are of others.
    fn list(&self, prefix: &str, after: Option<&ObjectName>) -> EnvResult<ListPage>;
}

/// Whether a conditional put stored the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It did.
    Created,
    /// There was one of that name, which stays as it is.
    Taken,
}

/// One answer of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// In the order of their names. None if there are none behind them either.
    pub objects: Vec<ListedObject>,
    /// Whether there is nothing behind them, as far as is known.
    pub is_last: bool,
}

/// One object of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// Its name.
    pub name: ObjectName,
    /// Its size in bytes.
    pub bytes: u64,
}

/// An object that comes in parts.
pub trait ObjectUpload: Send + fmt::Debug {
    /// The next part: at least 5 MiB, but for the last one. One request.
    fn append(&mut self, part: &[u8]) -> EnvResult<()>;

    /// Makes it an object. One request.
    fn finish(self: Box<Self>) -> EnvResult<()>;

    /// Gives up what was uploaded, which would be paid for otherwise. One request. Dropping an
    /// upload without this leaves its parts in the store.
    fn abort(self: Box<Self>) -> EnvResult<()>;
}

/// A get under way.
pub struct PendingObject(Box<dyn FnOnce() -> EnvResult<Vec<u8>> + Send>);

impl PendingObject {
    /// A get whose answer `wait` waits for.
    #[must_use]
    pub fn new(wait: Box<dyn FnOnce() -> EnvResult<Vec<u8>> + Send>) -> PendingObject {
        PendingObject(wait)
    }

    /// Blocks until the answer is there.
    pub fn wait(self) -> EnvResult<Vec<u8>> {
        (self.0)()
    }
}

impl fmt::Debug for PendingObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PendingObject")
    }
}
