use terrace_base::{ByteReader, CodecError, Epoch, LogPosition, put_varint};

use super::VersionEdit;
use crate::version::format::bounded;

/// The longest URL of an object store.
const URL_BYTES_MAX: usize = 1024;

/// The object store that a range is fed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudEdit {
    /// Who may have written there last.
    pub authors: FeedAuthors,
    /// The store's URL, without anything secret, so that whoever opens the directory finds it.
    /// Empty in what was written before it was kept.
    pub url: String,
}

/// Who may have written the newest content of the feed in the object store, if this directory was
/// the last to own it. Each open draws a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedAuthors {
    /// The open that wrote this.
    pub own: u128,
    /// Whose content that open had found, which stands there until the first of its own does; 0 if
    /// there was none.
    pub before: u128,
}

/// Where the log lies in the object store that goes on behind a moment of the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreLog {
    /// Of the owner that writes it.
    pub epoch: Epoch,
    /// Which of that owner's chains of records it is; 0 if there is none.
    pub chain: u64,
    /// The objects that hold what is needed have this number, or a greater one.
    pub number: u64,
    /// Everything below is in tables, and nothing from here on.
    pub position: LogPosition,
}

impl StoreLog {
    /// There is none.
    pub const NONE: StoreLog =
        StoreLog { epoch: Epoch(0), chain: 0, number: 0, position: LogPosition(0) };

    /// What the newest of these edits that says anything of it says; nothing if there is none.
    pub fn newest_in(edits: &[VersionEdit]) -> Option<StoreLog> {
        let newest = edits.iter().filter_map(|edit| edit.range.store_log).next_back();
        newest.filter(|log| *log != StoreLog::NONE)
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        for number in [self.epoch.0, self.chain, self.number, self.position.0] {
            put_varint(out, number);
        }
    }

    pub(super) fn read(reader: &mut ByteReader<'_>) -> Result<StoreLog, CodecError> {
        Ok(StoreLog {
            epoch: Epoch(bounded(reader)?),
            chain: bounded(reader)?,
            number: bounded(reader)?,
            position: LogPosition(bounded(reader)?),
        })
    }
}

impl CloudEdit {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.authors.own.to_le_bytes());
        out.extend_from_slice(&self.authors.before.to_le_bytes());
        out.extend_from_slice(self.url.as_bytes());
    }

    pub(super) fn read(reader: &mut ByteReader<'_>) -> Result<CloudEdit, CodecError> {
        let authors = FeedAuthors { own: reader.u128()?, before: reader.u128()? };
        let error = reader.error("not the URL of an object store");
        let url = str::from_utf8(reader.take_rest()).map_err(|_| error)?;
        if url.len() > URL_BYTES_MAX {
            return Err(error);
        }
        Ok(CloudEdit { authors, url: url.to_string() })
    }
}
