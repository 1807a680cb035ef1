//! The writing side: a stream in which large values have been replaced by pointers.

use std::sync::Arc;

use terrace_base::{EntryKind, EntryRef, FileId, LEVEL_MAX, TableUid};
use terrace_env::{PlantedBug, SharedEnv, is_planted};

use super::format::ValueEntry;
use super::{LeavesInLog, ValueFileMeta, ValueFileWriter, ValuePointer};
use crate::Result;
use crate::iter::Stream;
use crate::process::TableIo;
use crate::table::TableStore;
use crate::yielder::BYTES_PER_YIELD;

/// Takes the large values of one job out of its entries: a flush may leave them in the log, the
/// others go into a new value file.
pub struct Separator<'l> {
    env: SharedEnv,
    store: Arc<dyn TableStore>,
    id: FileId,
    /// Values of this many bytes and more are large.
    large_bytes: usize,
    expected_bytes: u64,
    /// Who writes, if that is limited.
    io: Option<TableIo>,
    /// The file, once there is a value for it.
    writer: Option<ValueFileWriter>,
    /// Bytes of values since others were last let in.
    taken_bytes: usize,
    /// What may stay in the log.
    leaves: Option<LeavesInLog<'l>>,
}

impl<'l> Separator<'l> {
    /// A separator that has met no value yet. The file gets this id, which was never used before.
    /// `expected_bytes`: about how many bytes the large values have, so that room for them is
    /// reserved; 0 if that is unknown.
    #[must_use]
    pub fn new(
        env: &SharedEnv,
        store: &Arc<dyn TableStore>,
        id: FileId,
        large_bytes: usize,
        expected_bytes: u64,
    ) -> Separator<'l> {
        let (env, store) = (Arc::clone(env), Arc::clone(store));
        Separator {
            env,
            store,
            id,
            large_bytes,
            expected_bytes,
            io: None,
            writer: None,
            taken_bytes: 0,
            leaves: None,
        }
    }

    /// The same; what it writes obeys a limit, if there is one.
    #[must_use]
    pub fn limited_by(self, io: Option<TableIo>) -> Separator<'l> {
        Separator { io, ..self }
    }

    /// The same; what the log has may stay there.
    #[must_use]
    pub fn leaving_in(self, leaves: LeavesInLog<'l>) -> Separator<'l> {
        Separator { leaves: Some(leaves), ..self }
    }

    /// The entries of `input`, with pointers in the place of large values.
    pub fn separate<'a>(
        &'a mut self,
        input: &'a mut (dyn Stream + 'a),
    ) -> Result<SeparatedStream<'a, 'l>> {
        SeparatedStream::new(input, self)
    }

    /// Whether the entry's value is to be taken out.
    #[must_use]
    pub fn is_large(&self, entry: &EntryRef<'_>) -> bool {
        entry.kind == EntryKind::Value && entry.value.len() >= self.large_bytes
    }

    fn take_out(&mut self, entry: &EntryRef<'_>) -> Result<ValuePointer> {
        // Whoever takes the entries sees their pointers only.
        self.taken_bytes += entry.value.len();
        if self.taken_bytes >= BYTES_PER_YIELD {
            self.taken_bytes = 0;
            self.env.yield_now();
        }
        if let Some(LeavesInLog { log, homes }) = &mut self.leaves
            && let Some(pointer) = homes.pointer(entry, *log, self.store.as_ref())?
        {
            return Ok(pointer);
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let uid = TableUid(self.env.random_u128());
                let store = self.store.as_ref();
                none.insert(ValueFileWriter::create(
                    store,
                    self.id,
                    uid,
                    self.expected_bytes,
                    self.io.as_ref(),
                )?)
            }
        };
        writer.add(&ValueEntry { key: entry.key, seqno: entry.seqno, value: entry.value })
    }

    /// The file that was written, if a value had to be; its content is durable, and so are its name
    /// and those of what was left in the log.
    pub fn finish(self) -> Result<Option<ValueFileMeta>> {
        let has_retired = self.leaves.is_some_and(|one| one.homes.retired().next().is_some());
        let meta = self.writer.map(ValueFileWriter::finish).transpose()?;
        if has_retired || meta.is_some() {
            self.store.sync(LEVEL_MAX)?;
        }
        Ok(meta)
    }
}

impl std::fmt::Debug for Separator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Separator")
            .field("large_bytes", &self.large_bytes)
            .field("writer", &self.writer)
            .finish_non_exhaustive()
    }
}

/// The entries of `input`, with pointers in the place of large values.
pub struct SeparatedStream<'a, 'l> {
    input: &'a mut (dyn Stream + 'a),
    separator: &'a mut Separator<'l>,
    /// The pointer in the place of the present entry's value, if that is large.
    pointer: Vec<u8>,
}

impl<'a, 'l> SeparatedStream<'a, 'l> {
    /// Stands on the first entry of `input`, whose value is taken out already if it is large.
    fn new(
        input: &'a mut (dyn Stream + 'a),
        separator: &'a mut Separator<'l>,
    ) -> Result<SeparatedStream<'a, 'l>> {
        let mut stream = SeparatedStream { input, separator, pointer: Vec::new() };
        stream.take_out()?;
        Ok(stream)
    }

    fn take_out(&mut self) -> Result<()> {
        self.pointer.clear();
        let Some(entry) = self.input.entry() else { return Ok(()) };
        if self.separator.is_large(&entry) {
            self.separator.take_out(&entry)?.encode(&mut self.pointer);
        }
        Ok(())
    }
}

impl Stream for SeparatedStream<'_, '_> {
    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        let entry = self.input.entry()?;
        match self.pointer.is_empty() {
            true => Some(entry),
            false => {
                let is_lost = is_planted(PlantedBug::SeparationLosesExpiry);
                let expiry = entry.expiry.filter(|_| !is_lost);
                let (kind, value) = (EntryKind::ValuePointer, self.pointer.as_slice());
                Some(EntryRef { kind, value, expiry, ..entry })
            }
        }
    }

    fn advance(&mut self) -> Result<()> {
        self.input.advance()?;
        self.take_out()
    }
}
