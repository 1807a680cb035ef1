//! Values that stand in the value log: what a pointer that a search has found leads to.

use terrace_base::{Corruption, EntryKind, EntryRef, Expiry, SeqNo};

use crate::explain::note;
use crate::table::ReadMode;
use crate::version::{ValueFiles, Version};
use crate::vlog::{FetchedValue, ValueFile, ValuePointer, ValueWindows};
use crate::{Error, Result};

/// The value log, as a read of one view meets it.
#[derive(Clone, Copy)]
pub(in crate::store) struct Values<'a> {
    files: &'a ValueFiles,
    mode: ReadMode,
}

impl<'a> Values<'a> {
    /// That of a version; `mode` says whether a read may wait for the disk.
    pub fn of(version: &'a Version, mode: ReadMode) -> Values<'a> {
        Values { files: version.values(), mode }
    }

    /// The value that an entry points to. Errors: `Corruption`, `NeedsIo`, and what reading gives.
    #[inline(never)]
    pub fn fetch(&self, entry: &EntryRef<'_>) -> Result<Fetched> {
        self.fetch_by(entry, |file, pointer| file.read(entry.key, pointer, self.mode))
    }

    /// The same for a walk that has these windows.
    #[inline(never)]
    pub fn fetch_on(&self, entry: &EntryRef<'_>, windows: &mut ValueWindows) -> Result<Fetched> {
        self.fetch_by(entry, |file, pointer| file.read_on(entry.key, pointer, self.mode, windows))
    }

    /// Has the value that an entry points to made ready, if that can be done without waiting for
    /// it; how many bytes it has. Errors: as [`Values::fetch`].
    pub fn ask_for(&self, entry: &EntryRef<'_>) -> Result<u64> {
        let (file, pointer) = self.find(entry)?;
        file.ask_for(entry.key, &pointer)?;
        Ok(pointer.bytes.into())
    }

    fn fetch_by(
        &self,
        entry: &EntryRef<'_>,
        read: impl FnOnce(&ValueFile, &ValuePointer) -> Result<FetchedValue>,
    ) -> Result<Fetched> {
        let (file, pointer) = self.find(entry)?;
        let value = read(file, &pointer)?;
        note(|notes| notes.fetched(file.meta().id, pointer.bytes.into()));
        Ok(Fetched { value, expiry: entry.expiry, seqno: entry.seqno })
    }

    /// The pointer that an entry is, and the file that holds what it names.
    #[inline]
    fn find(&self, entry: &EntryRef<'_>) -> Result<(&'a ValueFile, ValuePointer)> {
        debug_assert_eq!(entry.kind, EntryKind::ValuePointer);
        let pointer = ValuePointer::decode(entry.value)
            .map_err(|error| Corruption::new("(a table)", error.offset as u64, error.what))?;
        match self.files.of_segment(pointer.name.segment) {
            Some(file) => Ok((file, pointer)),
            None => Err(dangling(&pointer)),
        }
    }
}

fn dangling(pointer: &ValuePointer) -> Error {
    let detail = format!("a table names a value of {:?}, and no file holds it", pointer.name);
    Corruption::new("(the value log)", pointer.name.offset, detail).into()
}

/// A value from the value log, with what its entry in the table says of it.
#[derive(Clone, Debug)]
pub(in crate::store) struct Fetched {
    pub value: FetchedValue,
    expiry: Option<Expiry>,
    seqno: SeqNo,
}

impl Fetched {
    /// The entry's value left out.
    pub fn without_value(entry: &EntryRef<'_>) -> Fetched {
        let value = FetchedValue::none();
        Fetched { value, expiry: entry.expiry, seqno: entry.seqno }
    }

    /// The entry that would hold the value.
    #[inline]
    pub fn entry<'a>(&'a self, key: &'a [u8]) -> EntryRef<'a> {
        let (seqno, expiry, value) = (self.seqno, self.expiry, self.value.bytes());
        EntryRef { key, seqno, kind: EntryKind::Value, expiry, value }
    }
}
