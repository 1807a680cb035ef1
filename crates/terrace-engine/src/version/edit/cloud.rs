use terrace_base::{ByteReader, CodecError};

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
