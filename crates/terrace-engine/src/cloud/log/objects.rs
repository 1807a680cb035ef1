use std::sync::Arc;

use terrace_base::PreambleError;
use terrace_env::ObjectName;

use super::format::{LogObject, decode_log, is_fence_by_size};
use crate::Result;
use crate::cloud::feed::read_decoded;
use crate::cloud::{CloudName, CloudNames, CloudStore, Creation, PendingGet, is_missing};

/// The objects of one database's log.
#[derive(Clone, Debug)]
pub struct LogObjects {
    /// Where they lie.
    pub store: Arc<CloudStore>,
    /// What they are called.
    pub names: CloudNames,
}

/// What came of the creation of an object.
#[derive(Debug)]
pub(super) enum Placed {
    /// It stands there.
    There,
    /// Another one stands there; `None` if it has been collected since.
    Taken(Option<LogObject>),
}

impl LogObjects {
    pub(super) fn name(&self, number: u64) -> ObjectName {
        self.names.of(&CloudName::Log(number))
    }

    /// What stands at a number; `None` if nothing does.
    ///
    /// Errors: `Corruption`, `Unsupported`; the environment's.
    pub(super) fn read(&self, number: u64) -> Result<Option<LogObject>> {
        read_decoded(&self.store, &self.name(number), |bytes| self.decode(number, bytes.to_vec()))
    }

    /// Begins to read what stands at a number.
    pub(super) fn begin_read(&self, number: u64) -> PendingGet {
        self.store.begin_get(&self.name(number), None)
    }

    /// As [`LogObjects::read`], of what was begun.
    pub(super) fn end_read(&self, number: u64, begun: PendingGet) -> Result<Option<LogObject>> {
        let bytes = match begun.wait() {
            Ok(bytes) => bytes,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        match self.decode(number, bytes) {
            Ok(object) => Ok(Some(object)),
            // It may be damaged on its way only.
            Err(_) => self.read(number),
        }
    }

    fn decode(&self, number: u64, bytes: Vec<u8>) -> std::result::Result<LogObject, PreambleError> {
        decode_log(self.names.database(), number, bytes)
    }

    /// Creates the object with this number. `bytes` are such as nobody else would create.
    pub(super) fn create(&self, number: u64, bytes: &[u8]) -> Result<Placed> {
        match self.store.create(&self.name(number), bytes)? {
            Creation::Created { .. } => Ok(Placed::There),
            Creation::Taken(there) => {
                let decoded = there.and_then(|there| self.decode(number, there).ok());
                // What came with the answer may be damaged on its way.
                let there = if decoded.is_some() { decoded } else { self.read(number)? };
                let ours = self.decode(number, bytes.to_vec()).ok();
                if there.is_some() && there == ours {
                    return Ok(Placed::There);
                }
                Ok(Placed::Taken(there))
            }
        }
    }

    /// Deletes what stands at a number.
    ///
    /// Errors: the environment's.
    pub(super) fn delete(&self, number: u64) -> Result<()> {
        self.store.delete(&self.name(number))
    }

    /// Deletes the records below a number that earlier owners have left. What a list does not show
    /// is left.
    ///
    /// Errors: the environment's.
    pub(super) fn collect_listed_below(&self, below: u64) -> Result<()> {
        for object in self.store.list(&self.names.log_prefix())? {
            match self.names.parse(&object.name) {
                Some(CloudName::Log(number)) if number < below => {}
                _ => continue,
            }
            if !is_fence_by_size(object.bytes) {
                self.store.delete(&object.name)?;
            }
        }
        Ok(())
    }
}
