use terrace_base::PreambleError;

use crate::Result;
use crate::cloud::CloudName;
use crate::cloud::format::{FeedObject, decode_feed, encode_feed};
use crate::cloud::numbered::{Numbered, NumberedObjects, Placed};

/// The objects of one database's feed.
pub(super) type FeedObjects = NumberedObjects<FeedObject>;

impl Numbered for FeedObject {
    fn name(number: u64) -> CloudName {
        CloudName::Feed(number)
    }

    fn decode(
        database: u128,
        number: u64,
        bytes: Vec<u8>,
    ) -> std::result::Result<FeedObject, PreambleError> {
        decode_feed(database, number, &bytes)
    }
}

impl FeedObjects {
    /// Creates the object with this number.
    ///
    /// Errors: as of [`NumberedObjects::create`].
    pub(super) fn place(&self, number: u64, object: &FeedObject) -> Result<Placed<FeedObject>> {
        self.create(number, &encode_feed(self.names.database(), number, object))
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
