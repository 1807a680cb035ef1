use terrace_base::PreambleError;

use super::format::{LogObject, decode_log, encode_stone, has_no_records_by_size};
use crate::Result;
use crate::cloud::CloudName;
use crate::cloud::format::Author;
use crate::cloud::numbered::{Numbered, NumberedObjects};

/// The objects of one database's log.
pub type LogObjects = NumberedObjects<LogObject>;

impl Numbered for LogObject {
    fn name(number: u64) -> CloudName {
        CloudName::Log(number)
    }

    fn decode(
        database: u128,
        number: u64,
        bytes: Vec<u8>,
    ) -> std::result::Result<LogObject, PreambleError> {
        decode_log(database, number, bytes)
    }
}

impl LogObjects {
    /// The greatest number that a list shows; 0 if it shows none.
    ///
    /// Errors: the environment's.
    pub(super) fn greatest_listed(&self) -> Result<u64> {
        let listed = self.store.list(&self.names.log_prefix())?;
        let numbers = listed.iter().filter_map(|object| match self.names.parse(&object.name) {
            Some(CloudName::Log(number)) => Some(number),
            _ => None,
        });
        Ok(numbers.max().unwrap_or(0))
    }

    /// Puts a stone in the place of what somebody had left at a number too late.
    ///
    /// Errors: the environment's.
    pub(super) fn put_stone(&self, number: u64, author: Author) -> Result<()> {
        self.store.put(&self.name(number), &encode_stone(self.names.database(), number, author))
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
            if !has_no_records_by_size(object.bytes) {
                self.store.delete(&object.name)?;
            }
        }
        Ok(())
    }
}
