use std::path::Path;
use std::sync::Arc;

use terrace_base::{Corruption, PreambleError};
use terrace_env::ObjectName;

use crate::cloud::format::{FeedObject, decode_feed, encode_feed};
use crate::cloud::{CloudName, CloudNames, CloudStore, Creation, PendingGet, is_missing};
use crate::{Error, Result};

/// The objects of one database's feed.
#[derive(Clone, Debug)]
pub(in crate::cloud) struct FeedObjects {
    pub store: Arc<CloudStore>,
    pub names: CloudNames,
}

/// What came of the creation of an object.
#[derive(Debug)]
pub(super) enum Placed {
    /// It stands there.
    There {
        /// Whether a put of it may still land: should the object be deleted, it may come again.
        may_come_again: bool,
    },
    /// Another one stands there; `None` if it has been collected since.
    Taken(Option<FeedObject>),
}

impl FeedObjects {
    pub fn name(&self, number: u64) -> ObjectName {
        self.names.of(&CloudName::Feed(number))
    }

    /// What stands at a number; `None` if nothing does.
    ///
    /// Errors: `Corruption`, `Unsupported`; the environment's.
    pub fn read(&self, number: u64) -> Result<Option<FeedObject>> {
        read_decoded(&self.store, &self.name(number), |bytes| self.decode(number, bytes))
    }

    /// Begins to read what stands at a number.
    pub(super) fn begin_read(&self, number: u64) -> PendingGet {
        self.store.begin_get(&self.name(number), None)
    }

    /// As [`FeedObjects::read`], of what was begun.
    pub(super) fn end_read(&self, number: u64, begun: PendingGet) -> Result<Option<FeedObject>> {
        let bytes = match begun.wait() {
            Ok(bytes) => bytes,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        match self.decode(number, &bytes) {
            Ok(object) => Ok(Some(object)),
            // It may be damaged on its way only.
            Err(_) => self.read(number),
        }
    }

    fn decode(&self, number: u64, bytes: &[u8]) -> std::result::Result<FeedObject, PreambleError> {
        decode_feed(self.names.database(), number, bytes)
    }

    pub(super) fn create(&self, number: u64, object: &FeedObject) -> Result<Placed> {
        let bytes = encode_feed(self.names.database(), number, object);
        match self.store.create(&self.name(number), &bytes)? {
            Creation::Created { may_come_again } => Ok(Placed::There { may_come_again }),
            Creation::Taken(bytes) => {
                let decoded = bytes.and_then(|bytes| self.decode(number, &bytes).ok());
                // What came with the answer may be damaged on its way.
                let there = if decoded.is_some() { decoded } else { self.read(number)? };
                match there {
                    Some(there) if there == *object => Ok(Placed::There { may_come_again: true }),
                    there => Ok(Placed::Taken(there)),
                }
            }
        }
    }

    /// Puts a stone, or whatever else, in the place of what stands at a number.
    pub(super) fn replace(&self, number: u64, object: &FeedObject) -> Result<()> {
        let bytes = encode_feed(self.names.database(), number, object);
        self.store.put(&self.name(number), &bytes)
    }

    /// The numbers that a list shows, ascending. Some may be missing, and some may be gone.
    pub(super) fn listed(&self) -> Result<Vec<u64>> {
        let listed = self.store.list(&self.names.feed_prefix())?;
        let number = |name| match self.names.parse(name) {
            Some(CloudName::Feed(number)) => Some(number),
            _ => None,
        };
        Ok(listed.iter().filter_map(|object| number(&object.name)).collect())
    }
}

/// How often an object is read whose bytes are damaged: they may be so on their way only.
const READS_MAX: u32 = 4;

/// An object, decoded; `None` if there is none.
///
/// Errors: `Corruption` if it is damaged each time; `Unsupported`; the environment's.
pub(in crate::cloud) fn read_decoded<T>(
    store: &CloudStore,
    name: &ObjectName,
    decode: impl Fn(&[u8]) -> std::result::Result<T, PreambleError>,
) -> Result<Option<T>> {
    let mut reads = 0;
    loop {
        let Some(bytes) = store.find(name)? else { return Ok(None) };
        reads += 1;
        match decode(&bytes) {
            Ok(object) => return Ok(Some(object)),
            Err(_) if reads < READS_MAX => {}
            Err(error) => return Err(undecodable(name, &error)),
        }
    }
}

/// The error for an object that cannot be read.
pub(in crate::cloud) fn undecodable(name: &ObjectName, error: &PreambleError) -> Error {
    match error {
        PreambleError::Codec(error) => {
            Corruption::from_codec(Path::new(name.as_str()), 0, error).into()
        }
        PreambleError::Unsupported => Error::Unsupported(format!(
            "the object {name} was written by a later version of Terrace; open the database with \
             that version"
        )),
    }
}
