//! The writing side: large values are replaced by pointers, and above the last level medium ones.

use std::sync::Arc;

use terrace_base::{EntryKind, EntryRef, FileId, LEVEL_MAX, TableUid};
use terrace_env::{PlantedBug, SharedEnv, is_planted};

use super::format::ValueEntry;
use super::{LeavesInLog, ValueFileMeta, ValueFileWriter, ValuePointer};
use crate::Result;
use crate::process::TableIo;
use crate::table::TableStore;
use crate::yielder::BYTES_PER_YIELD;

/// Takes the large values of one job out of its entries, and if it is told to the medium ones: a
/// flush may leave large ones in the log, the others go into new value files.
///
/// Medium values have a file of their own. They come in place long before large ones are garbage,
/// and that file goes then; in a common one the large values would have to be copied.
pub struct Separator<'l> {
    env: SharedEnv,
    store: Arc<dyn TableStore>,
    /// Who writes, if that is limited.
    io: Option<TableIo>,
    large: Class,
    medium: Option<Class>,
    /// Bytes of values since others were last let in.
    taken_bytes: usize,
    /// What may stay in the log.
    leaves: Option<LeavesInLog<'l>>,
    /// The pointer in the place of the value of the entry that was handed over last; empty if that
    /// stays.
    pointer: Vec<u8>,
}

/// The values of one class, and the file that they go into.
#[derive(Debug)]
struct Class {
    /// Values of this many bytes and more are of this class, or of a larger one.
    from_bytes: usize,
    id: FileId,
    expected_bytes: u64,
    /// The file, once there is a value for it.
    writer: Option<ValueFileWriter>,
}

impl Class {
    /// The class of values of `from_bytes` and more, for which the file gets this id, which was
    /// never used before. See [`Separator::new`] for `expected_bytes`.
    fn new(from_bytes: usize, id: FileId, expected_bytes: u64) -> Class {
        Class { from_bytes, id, expected_bytes, writer: None }
    }
}

impl<'l> Separator<'l> {
    /// A separator of large values that has met none yet. The file gets this id, which was never
    /// used before. `expected_bytes`: about how many bytes the large values have, so that room for
    /// them is reserved; 0 if that is unknown.
    #[must_use]
    pub fn new(
        env: &SharedEnv,
        store: &Arc<dyn TableStore>,
        id: FileId,
        large_bytes: usize,
        expected_bytes: u64,
    ) -> Separator<'l> {
        Separator {
            env: Arc::clone(env),
            store: Arc::clone(store),
            io: None,
            large: Class::new(large_bytes, id, expected_bytes),
            medium: None,
            taken_bytes: 0,
            leaves: None,
            pointer: Vec::new(),
        }
    }

    /// The same; it takes out medium values too, of `medium_bytes` and more, into a file with this
    /// id. See [`Separator::new`] for the others.
    #[must_use]
    pub fn with_medium(
        self,
        id: FileId,
        medium_bytes: usize,
        expected_bytes: u64,
    ) -> Separator<'l> {
        Separator { medium: Some(Class::new(medium_bytes, id, expected_bytes)), ..self }
    }

    /// The same; what it writes obeys a limit, if there is one.
    #[must_use]
    pub fn limited_by(self, io: Option<TableIo>) -> Separator<'l> {
        Separator { io, ..self }
    }

    /// The same; what the log has of the large values may stay there.
    #[must_use]
    pub fn leaving_in(self, leaves: LeavesInLog<'l>) -> Separator<'l> {
        Separator { leaves: Some(leaves), ..self }
    }

    /// The entry, with a pointer in the place of its value if that is taken out. Each entry is
    /// handed over once.
    #[inline]
    pub fn separated<'e>(&'e mut self, entry: EntryRef<'e>) -> Result<EntryRef<'e>> {
        self.pointer.clear();
        if self.is_taken(&entry) {
            self.take_out(&entry)?.encode(&mut self.pointer);
        }
        Ok(self.shown(entry))
    }

    /// The entry that was handed over last, with the pointer in the place of its value if there is
    /// one.
    #[inline]
    #[must_use]
    pub fn shown<'e>(&'e self, entry: EntryRef<'e>) -> EntryRef<'e> {
        if self.pointer.is_empty() {
            return entry;
        }
        let is_lost = is_planted(PlantedBug::SeparationLosesExpiry);
        let expiry = entry.expiry.filter(|_| !is_lost);
        EntryRef { kind: EntryKind::ValuePointer, value: &self.pointer, expiry, ..entry }
    }

    /// Whether the entry's value is to be taken out.
    #[inline]
    fn is_taken(&self, entry: &EntryRef<'_>) -> bool {
        let from_bytes = self.medium.as_ref().unwrap_or(&self.large).from_bytes;
        entry.kind == EntryKind::Value && entry.value.len() >= from_bytes
    }

    fn take_out(&mut self, entry: &EntryRef<'_>) -> Result<ValuePointer> {
        // Whoever takes the entries sees their pointers only.
        self.taken_bytes += entry.value.len();
        if self.taken_bytes >= BYTES_PER_YIELD {
            self.taken_bytes = 0;
            self.env.yield_now();
        }
        let is_large = entry.value.len() >= self.large.from_bytes;
        if let Some(LeavesInLog { log, homes }) = self.leaves.as_mut().filter(|_| is_large)
            && let Some(pointer) = homes.pointer(entry, *log, self.store.as_ref())?
        {
            return Ok(pointer);
        }
        let class = self.medium.as_mut().filter(|_| !is_large).unwrap_or(&mut self.large);
        let writer = match &mut class.writer {
            Some(writer) => writer,
            none => {
                let uid = TableUid(self.env.random_u128());
                let (store, bytes) = (self.store.as_ref(), class.expected_bytes);
                none.insert(ValueFileWriter::create(store, class.id, uid, bytes, self.io.as_ref())?)
            }
        };
        writer.add(&ValueEntry { key: entry.key, seqno: entry.seqno, value: entry.value })
    }

    /// The files that were written, as far as values had to be: one of each class at the most.
    /// Their content is durable, and so are their names and those of what was left in the log.
    pub fn finish(self) -> Result<Vec<ValueFileMeta>> {
        let has_retired = self.leaves.is_some_and(|one| one.homes.retired().next().is_some());
        let classes = [Some(self.large), self.medium].into_iter().flatten();
        let writers = classes.filter_map(|class| class.writer);
        let written: Vec<_> = writers.map(ValueFileWriter::finish).collect::<Result<_>>()?;
        if has_retired || !written.is_empty() {
            self.store.sync(LEVEL_MAX)?;
        }
        Ok(written)
    }
}

impl std::fmt::Debug for Separator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Separator")
            .field("large", &self.large)
            .field("medium", &self.medium)
            .finish_non_exhaustive()
    }
}
