use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_base::{Corruption, FileId};
use terrace_env::Latch;

use super::file::Reader;
use super::{ValueFileMeta, ValuePointer};
use crate::Result;
use crate::table::ReadMode;
use crate::version::TableOpener;

/// The values that the inputs of a job point to, for when it needs one: under merge operands, or to
/// show it to a filter. Files are opened when they are first asked.
#[derive(Debug)]
pub struct ValueSource {
    opener: Arc<TableOpener>,
    files: Vec<ValueFileMeta>,
    open: Latch<BTreeMap<FileId, Arc<Reader>>>,
}

impl ValueSource {
    /// The values in `files`.
    #[must_use]
    pub fn new(opener: Arc<TableOpener>, files: Vec<ValueFileMeta>) -> ValueSource {
        ValueSource { opener, files, open: Latch::default() }
    }

    /// The value of `key` that a stored pointer leads to. Errors: `Corruption`, and what reading
    /// gives.
    pub fn fetch(&self, key: &[u8], pointer: &[u8]) -> Result<Vec<u8>> {
        let damage = |offset: u64, what: String| Corruption::new("(a table)", offset, what);
        let pointer = ValuePointer::decode(pointer)
            .map_err(|error| damage(error.offset as u64, error.what.to_string()))?;
        let holds = |file: &&ValueFileMeta| file.holds(pointer.name.segment);
        let Some(meta) = self.files.iter().find(holds) else {
            let what = format!("it names a value of {:?}, and no file holds it", pointer.name);
            return Err(damage(0, what).into());
        };
        let opened = self.open.lock().get(&meta.id).map(Arc::clone);
        let reader = match opened {
            Some(reader) => reader,
            None => {
                let reader = Arc::new(Reader::open(self.opener.open_values(meta)?, meta)?);
                self.open.lock().insert(meta.id, Arc::clone(&reader));
                reader
            }
        };
        let mode = ReadMode { waits: true, fills_cache: false, ahead_bytes: 0 };
        let mut entry = reader.entry(key, &pointer, &self.opener.cache, mode)?;
        entry.drain(..entry.len() - pointer.bytes as usize);
        Ok(entry)
    }
}
