//! Values come back into the tables: a stream in which pointers to short values have been replaced
//! by those values.
//!
//! ```text
//!   what survives   a ─► (7, 64)   b   c ─► (9, 64)   d ─► (7, 190)     in the order of keys
//!   value files     7 │ a │ d │ …        9 │ c │ …                      in the order of keys, each
//!   the output      a, value       b   c, value       d, value
//! ```
//! Each file was written in the order of keys, so that a walk over many files at once goes through
//! each from its front to its end: it has a window of each, and reads more at once the longer it
//! goes on there. What no reader can see any more was dropped before, and is not read.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_base::{EntryKind, EntryRef, FileId};
use terrace_env::{PlantedBug, is_planted};

use super::file::Reader;
use super::{FetchedValue, ValueFileMeta, ValuePointer, ValueWindows};
use crate::iter::Stream;
use crate::table::ReadMode;
use crate::version::TableOpener;
use crate::{Error, Result};

/// Of how many files a job has windows at a time: of those that it met last.
const WINDOWED_MAX: usize = 256;

/// Bytes of a window at most.
const WINDOW_BYTES_MAX: u64 = 64 << 10;

/// How many values are brought in place between two looks whether the job is cancelled.
const VALUES_PER_LOOK: u32 = 64;

/// Brings the values of one job in place.
#[derive(Debug)]
pub struct InPlace {
    opener: Arc<TableOpener>,
    /// Pointers to values of this many bytes and more stay pointers.
    pointers_from: u64,
    files: Vec<Walked>,
    /// Which of them holds a segment.
    by_segment: BTreeMap<FileId, usize>,
    /// Number of values so far.
    count: u64,
    /// Bytes of these.
    bytes: u64,
}

/// A value file on the way of the job.
#[derive(Debug)]
struct Walked {
    meta: ValueFileMeta,
    /// Open from the first value on, until the job has met many others.
    open: Option<(Reader, ValueWindows)>,
    /// Whether it cannot be opened or read: its values stay where they are.
    is_given_up: bool,
    /// How many values had been brought when it was last asked for one.
    used: u64,
}

impl InPlace {
    /// For a job whose inputs name values in `files`.
    #[must_use]
    pub fn new(opener: &Arc<TableOpener>, pointers_from: u64, files: &[ValueFileMeta]) -> InPlace {
        let held = files
            .iter()
            .enumerate()
            .flat_map(|(index, file)| file.segments.iter().map(move |segment| (segment.id, index)));
        let by_segment = held.collect();
        let files = files.iter().map(|meta| Walked {
            meta: meta.clone(),
            open: None,
            is_given_up: false,
            used: 0,
        });
        InPlace {
            opener: Arc::clone(opener),
            pointers_from,
            files: files.collect(),
            by_segment,
            count: 0,
            bytes: 0,
        }
    }

    /// About how many bytes the windows of a job take that meets so many files, and brings about
    /// `bytes` in place.
    #[must_use]
    pub fn memory_bytes(file_count: usize, bytes: u64) -> u64 {
        (file_count.min(WINDOWED_MAX) as u64 * WINDOW_BYTES_MAX).min(bytes)
    }

    /// The entries of `input`, with short values in the place of their pointers. `is_cancelled` is
    /// asked every so often whether the work is still wanted.
    ///
    /// Errors: as [`InPlaceStream::advance`].
    pub fn bring<'a>(
        &'a mut self,
        input: &'a mut (dyn Stream + 'a),
        is_cancelled: &'a dyn Fn() -> bool,
    ) -> Result<InPlaceStream<'a>> {
        let until_look = VALUES_PER_LOOK;
        let mut stream =
            InPlaceStream { input, in_place: self, value: None, is_cancelled, until_look };
        stream.bring()?;
        Ok(stream)
    }

    /// Bytes of the values that were brought.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The value of `key` that `pointer` leads to; none if it stays where it is: no file of the job
    /// holds it, it is damaged, or its file cannot be read. Errors: `Closed`, and others that say
    /// nothing of the file.
    ///
    /// Whoever reads such a value is told. A job that failed because of it would be begun again and
    /// again.
    fn fetch_unless_lost(
        &mut self,
        key: &[u8],
        pointer: &ValuePointer,
    ) -> Result<Option<FetchedValue>> {
        match self.fetch(key, pointer) {
            Err(Error::Corruption(error)) => {
                crate::program_log::warn!(%error, "a damaged value is not brought in place");
                Ok(None)
            }
            Err(Error::Io(error)) => {
                crate::program_log::warn!(%error, "the values of a file are not brought in place");
                if let Some(index) = self.by_segment.get(&pointer.name.segment) {
                    self.files[*index].is_given_up = true;
                }
                Ok(None)
            }
            outcome => outcome,
        }
    }

    /// The same. Errors: `Corruption`, and what reading gives.
    fn fetch(&mut self, key: &[u8], pointer: &ValuePointer) -> Result<Option<FetchedValue>> {
        let Some(index) = self.by_segment.get(&pointer.name.segment).copied() else {
            return Ok(None);
        };
        if self.files[index].is_given_up {
            return Ok(None);
        }
        self.count += 1;
        if self.files[index].open.is_none() {
            self.open(index).inspect_err(|_| self.files[index].is_given_up = true)?;
        }
        let file = &mut self.files[index];
        file.used = self.count;
        let Some((reader, windows)) = &mut file.open else { return Ok(None) };
        let mode = ReadMode { waits: true, fills_cache: false, ahead_bytes: 0 };
        let value = reader.value_in_walk(key, pointer, &self.opener.cache, mode, windows)?;
        self.bytes += value.bytes().len() as u64;
        Ok(Some(value))
    }

    /// Opens a file; closes the one that was asked longest ago, if too many are open.
    fn open(&mut self, index: usize) -> Result<()> {
        let open = || self.files.iter().enumerate().filter(|(_, file)| file.open.is_some());
        if open().count() >= WINDOWED_MAX
            && let Some((oldest, _)) = open().min_by_key(|(_, file)| file.used)
        {
            self.files[oldest].open = None;
        }
        let meta = &self.files[index].meta;
        let reader = Reader::open(self.opener.open_values(meta)?, meta)?;
        self.files[index].open = Some((reader, ValueWindows::default()));
        Ok(())
    }
}

/// The entries of a stream, with short values in the place of their pointers.
pub struct InPlaceStream<'a> {
    input: &'a mut (dyn Stream + 'a),
    in_place: &'a mut InPlace,
    /// The value of the present entry, if it was brought.
    value: Option<FetchedValue>,
    is_cancelled: &'a dyn Fn() -> bool,
    until_look: u32,
}

impl InPlaceStream<'_> {
    /// Brings the value of the entry that the input stands on, if that is a pointer to a short one.
    fn bring(&mut self) -> Result<()> {
        let before = self.value.take();
        let Some(entry) = self.input.entry() else { return Ok(()) };
        if entry.kind != EntryKind::ValuePointer {
            return Ok(());
        }
        // What should be a pointer and is none is damage of its key alone.
        let Ok(pointer) = ValuePointer::decode(entry.value) else { return Ok(()) };
        if u64::from(pointer.bytes) >= self.in_place.pointers_from {
            return Ok(());
        }
        self.until_look -= 1;
        if self.until_look == 0 {
            self.until_look = VALUES_PER_LOOK;
            if (self.is_cancelled)() {
                return Err(Error::Closed);
            }
        }
        if before.is_some() && is_planted(PlantedBug::InPlaceTakesNeighbour) {
            self.value = before;
            return Ok(());
        }
        self.value = self.in_place.fetch_unless_lost(entry.key, &pointer)?;
        Ok(())
    }
}

impl Stream for InPlaceStream<'_> {
    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        let entry = self.input.entry()?;
        let Some(value) = &self.value else { return Some(entry) };
        let is_lost = is_planted(PlantedBug::InPlaceLosesExpiry);
        let expiry = entry.expiry.filter(|_| !is_lost);
        Some(EntryRef { kind: EntryKind::Value, value: value.bytes(), expiry, ..entry })
    }

    /// Goes to the next entry. Errors: those of the input; `Closed` if the job is cancelled.
    fn advance(&mut self) -> Result<()> {
        self.input.advance()?;
        self.bring()
    }
}
