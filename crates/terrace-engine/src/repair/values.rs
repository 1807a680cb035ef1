//! Values in value files: a pointer becomes the value that it leads to, in place.
//!
//! The repaired range has no value files. Its tables hold what theirs pointed to, so that nothing
//! in it rests on names that were given elsewhere; where values are to be separated, its
//! compactions do that anew. A value is believed by its own checksum, which covers its name, its
//! number and its key: what the ends of a file say of it is not needed, if it lies where its name
//! says.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use terrace_base::{Entry, EntryKind, EntryRef, FileId, KeyRange};
use terrace_env::Latch;

use super::report::{Loss, LossKind};
use super::salvage::Losses;
use crate::iter::Stream;
use crate::survey::{Listing, ValueSurvey};
use crate::table::{ByteInterval, LocalTableStore, TableFile, TableStore};
use crate::vlog::{Frame, ValueFileMeta, ValueHome, ValueName, ValuePointer};
use crate::{Error, Result};

/// The values of a damaged range, wherever they lie.
#[derive(Default)]
pub(super) struct SalvagedValues {
    dir: PathBuf,
    files: Vec<ValuesFound>,
    counts: Latch<Counts>,
}

/// How many pointers were followed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// To a value.
    pub found: u64,
    /// To nothing that could be read.
    pub lost: u64,
}

/// A value file that is there.
struct ValuesFound {
    id: FileId,
    meta: Option<ValueFileMeta>,
    file: Arc<dyn TableFile>,
    /// The segments that it is said to hold, beside the one of its own id.
    segments: Vec<FileId>,
    /// Where the values of those lie, once somebody has asked.
    moved: Latch<Option<Arc<BTreeMap<ValueName, u64>>>>,
}

impl SalvagedValues {
    /// Opens the value files of a directory. `metas`: what readable edits say of them.
    ///
    /// Errors: those that are no damage.
    pub fn find(
        dir: PathBuf,
        listing: &Listing,
        metas: &BTreeMap<FileId, ValueFileMeta>,
        store: &dyn TableStore,
    ) -> Result<SalvagedValues> {
        let mut files = Vec::new();
        for (id, _) in &listing.values {
            let file = store.open(&LocalTableStore::location_of_values(*id))?;
            let mut segments: Vec<FileId> = match Frame::read(file.as_ref()) {
                Ok(frame) => frame.segments.iter().map(|segment| segment.id).collect(),
                Err(Error::Corruption(_)) => Vec::new(),
                Err(error) => return Err(error),
            };
            let meta = metas.get(id).cloned();
            segments.extend(meta.iter().flat_map(|meta| &meta.segments).map(|one| one.id));
            files.push(ValuesFound { id: *id, meta, file, segments, moved: Latch::default() });
        }
        Ok(SalvagedValues { dir, files, counts: Latch::default() })
    }

    /// How many pointers were followed so far.
    pub fn counts(&self) -> Counts {
        *self.counts.lock()
    }

    /// The value that an entry points to; else why there is none. Errors: those that are no damage.
    fn fetch(&self, entry: &EntryRef<'_>) -> Result<std::result::Result<Vec<u8>, NoValue>> {
        let pointer = match ValuePointer::decode(entry.value) {
            Ok(pointer) => pointer,
            Err(error) => {
                let why = format!("what should be a pointer to a value is none: {}", error.what);
                return Ok(Err(NoValue { file: self.dir.clone(), offset: 0, why }));
            }
        };
        let name = pointer.name;
        let path = self.dir.join(format!("{}.values", name.segment));
        let why = format!("the file with value {name:?} is missing");
        let mut none = NoValue { file: path, offset: name.offset, why };
        for file in &self.files {
            let Some(place) = file.place_of(name)? else { continue };
            let why = match file.value(entry.key, &pointer, place)? {
                Ok(value) => return Ok(Ok(value)),
                Err(why) => format!("value {name:?}: {why}"),
            };
            none = NoValue { file: file.file.name(), offset: place, why };
        }
        Ok(Err(none))
    }
}

/// Why a value is lost.
struct NoValue {
    file: PathBuf,
    offset: u64,
    why: String,
}

impl ValuesFound {
    /// Where the entry of a value stands, if it is in this file.
    fn place_of(&self, name: ValueName) -> Result<Option<u64>> {
        if name.segment == self.id {
            return Ok(Some(name.offset));
        }
        if !self.segments.contains(&name.segment) {
            return Ok(None);
        }
        let known = self.moved.lock().clone();
        let moved = match known {
            Some(moved) => moved,
            None => {
                let survey = ValueSurvey::read(&self.file, self.id, self.meta.as_ref())?;
                let places = survey.values.iter().map(|value| (value.name, value.offset));
                let moved = Arc::new(places.collect::<BTreeMap<_, _>>());
                *self.moved.lock() = Some(Arc::clone(&moved));
                moved
            }
        };
        Ok(moved.get(&name).copied())
    }

    /// The value that lies at `place`, if it is the one that is pointed to; else why not.
    fn value(
        &self,
        key: &[u8],
        pointer: &ValuePointer,
        place: u64,
    ) -> Result<std::result::Result<Vec<u8>, &'static str>> {
        // In a segment of the log a value lies behind its key alone; what was moved has all that
        // belongs to it again.
        let is_in_log = pointer.checksum.is_some() && pointer.name.segment == self.id;
        let home = if is_in_log { ValueHome::Log } else { ValueHome::File };
        let bytes = home.stored_bytes(key.len(), pointer.bytes as usize);
        let Some(stored) = self.read(ByteInterval { offset: place, bytes })? else {
            return Ok(Err("it is cut"));
        };
        Ok(match home.decode(&stored, pointer) {
            Ok(found) if found.key == key => Ok(found.value.to_vec()),
            Ok(_) => Err("it is one of another key"),
            Err(what) => Err(what),
        })
    }

    /// Bytes of the file; `None` if it is shorter.
    fn read(&self, interval: ByteInterval) -> Result<Option<Vec<u8>>> {
        let end = interval.offset.checked_add(interval.bytes as u64);
        if end.is_none_or(|end| end > self.file.bytes()) {
            return Ok(None);
        }
        match self.file.read(&[interval]).wait() {
            Ok(mut read) => Ok(read.pop()),
            Err(Error::Corruption(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A stream with values where its input has pointers. What a pointer does not lead to is noted as
/// lost, and left out.
pub(super) struct InlineStream {
    input: Box<dyn Stream + Send>,
    values: Arc<SalvagedValues>,
    losses: Losses,
    /// What the input's pointer stands for.
    current: Option<Entry>,
}

impl InlineStream {
    /// Stands on the first entry that is left.
    pub fn new(
        input: Box<dyn Stream + Send>,
        values: &Arc<SalvagedValues>,
        losses: &Losses,
    ) -> Result<InlineStream> {
        let (values, losses) = (Arc::clone(values), Arc::clone(losses));
        let mut stream = InlineStream { input, values, losses, current: None };
        stream.settle()?;
        Ok(stream)
    }

    fn settle(&mut self) -> Result<()> {
        self.current = None;
        while let Some(entry) = self.input.entry()
            && entry.kind == EntryKind::ValuePointer
        {
            match self.values.fetch(&entry)? {
                Ok(value) => {
                    self.values.counts.lock().found += 1;
                    let value = EntryRef { kind: EntryKind::Value, value: &value, ..entry };
                    self.current = Some(value.to_entry());
                    return Ok(());
                }
                Err(NoValue { file, offset, why }) => {
                    self.values.counts.lock().lost += 1;
                    self.losses.lock().push(Loss {
                        kind: LossKind::Lost,
                        keys: KeyRange::new(entry.key, Some([entry.key, &[0]].concat())),
                        numbers: Some((entry.seqno, entry.seqno)),
                        file,
                        offset,
                        why,
                    });
                }
            }
            self.input.advance()?;
        }
        Ok(())
    }
}

impl Stream for InlineStream {
    fn entry(&self) -> Option<EntryRef<'_>> {
        match &self.current {
            Some(entry) => Some(entry.as_ref()),
            None => self.input.entry(),
        }
    }

    fn advance(&mut self) -> Result<()> {
        self.input.advance()?;
        self.settle()
    }
}
