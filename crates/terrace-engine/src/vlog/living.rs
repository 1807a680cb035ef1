//! What lives of a value file, in the order of keys: the input of a rewrite.
//!
//! Tables say which values live, by their names and no more. What else is wanted stands beside the
//! value: in a written file, the header of its entry; in a segment of the log, its record.

use std::ops::Range;
use std::sync::Arc;

use terrace_base::{Corruption, FileId, SeqNo};

use super::format::{ENTRY_HEADER_BYTES, EntryHeader, ValueEntry, decode_entry};
use super::log_values::{LogValue, LogValues};
use super::{ValueFile, ValueFileMeta, ValueHome, ValueName};
use crate::table::{ByteInterval, NamesBySegment};
use crate::{Error, Result};

/// Values that lie near each other are read together, up to this many bytes.
const WINDOW_BYTES: u64 = 256 << 10;

/// How many values are looked up or read between two looks whether the work is cancelled.
const VALUES_PER_LOOK: usize = 64;

/// A walk over the living values of one file, in the order of their keys: a written file has them
/// in it; what lives of a log segment is read at once, kept, and sorted. Each is checked before it
/// is shown.
#[derive(Debug)]
pub struct Living {
    file: Arc<ValueFile>,
    left: Left,
    /// A stretch of the file, or all that lives of a log segment.
    window: Vec<u8>,
    window_at: u64,
    current: Option<Standing>,
}

/// What was not shown yet.
#[derive(Debug)]
enum Left {
    /// Where each lies in a written file, ascending.
    Placed(std::vec::IntoIter<(u64, ValueName)>),
    /// Values of a log segment, which the window has.
    Gathered(FileId, std::vec::IntoIter<LogValue>),
}

/// The value that a walk stands on, which was checked when the walk came to it.
#[derive(Clone, Debug)]
struct Standing {
    name: ValueName,
    seqno: SeqNo,
    /// Where the window has its key, and behind that its bytes.
    key: Range<usize>,
    bytes: Range<usize>,
}

impl Living {
    /// Stands on the first of those of `names` that are in segments of the file, all of which it
    /// holds; the offsets of each segment ascend, each is there once.
    ///
    /// Cost: of a written file, a look into its places for each value, if it was rewritten; of a
    /// segment of the log, it is read up to the last value.
    /// Errors: `Corruption` if the file does not hold one; `Closed` if the work is cancelled; what
    /// reading gives.
    pub fn new(
        file: Arc<ValueFile>,
        names: &NamesBySegment,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Living> {
        let (mut window, left) = match file.meta().home {
            ValueHome::File => (Vec::new(), Left::Placed(places(&file, names, is_cancelled)?)),
            ValueHome::Log => {
                let segment = file.meta().id;
                let none = Vec::new();
                let offsets = names.get(&segment).unwrap_or(&none);
                let LogValues { mut found, bytes } =
                    LogValues::gather(&file, offsets, is_cancelled)?;
                found.sort_unstable_by(|a, b| a.order_in(&bytes).cmp(&b.order_in(&bytes)));
                (bytes, Left::Gathered(segment, found.into_iter()))
            }
        };
        window.shrink_to_fit();
        let mut living = Living { file, left, window, window_at: 0, current: None };
        living.advance()?;
        Ok(living)
    }

    /// About how many bytes the walk over `count` values of a file takes, which have `bytes`.
    #[must_use]
    pub fn memory_bytes(file: &ValueFileMeta, count: u64, bytes: u64) -> u64 {
        match file.home {
            ValueHome::File => {
                let placed = count.saturating_mul(size_of::<(u64, ValueName)>() as u64);
                placed + bytes.min(WINDOW_BYTES)
            }
            ValueHome::Log => {
                let found = count.saturating_mul(size_of::<LogValue>() as u64);
                found + bytes + WINDOW_BYTES
            }
        }
    }

    /// The value that the walk stands on; `None` at the end.
    #[must_use]
    pub fn current(&self) -> Option<(ValueName, ValueEntry<'_>)> {
        let Standing { name, seqno, key, bytes } = self.current.as_ref()?;
        let (key, value) = (&self.window[key.clone()], &self.window[bytes.clone()]);
        Some((*name, ValueEntry { key, seqno: *seqno, value }))
    }

    /// Goes to the next value. Errors: `Corruption`, and what reading gives.
    pub fn advance(&mut self) -> Result<()> {
        self.current = None;
        match &mut self.left {
            Left::Placed(left) => {
                if let Some((place, name)) = left.next() {
                    self.current = Some(self.stand_on(place, name)?);
                }
            }
            Left::Gathered(segment, left) => {
                self.current = left.next().map(|value| {
                    let (key, bytes) = value.places();
                    let name = ValueName { segment: *segment, offset: value.offset };
                    Standing { name, seqno: value.seqno, key, bytes }
                });
            }
        }
        Ok(())
    }

    /// The value with this name, which is at `place` of a written file.
    fn stand_on(&mut self, place: u64, name: ValueName) -> Result<Standing> {
        let header_end = place.saturating_add(ENTRY_HEADER_BYTES as u64);
        self.have(place, header_end)?;
        let from = (place - self.window_at) as usize;
        let header = match EntryHeader::decode(&self.window[from..from + ENTRY_HEADER_BYTES]) {
            Ok(header) => header,
            Err(error) => return Err(self.damage(place, error.what)?),
        };
        self.have(place, place.saturating_add(header.entry_bytes()))?;
        let from = (place - self.window_at) as usize;
        let end = from + header.entry_bytes() as usize;
        match decode_entry(&self.window[from..end], name) {
            Ok(entry) => {
                let key = from + ENTRY_HEADER_BYTES..from + ENTRY_HEADER_BYTES + entry.key.len();
                let bytes = key.end..end;
                Ok(Standing { name, seqno: entry.seqno, key, bytes })
            }
            Err(error) => Err(self.damage(place, error.what)?),
        }
    }

    fn damage(&self, place: u64, what: &str) -> Result<Error> {
        Ok(Corruption::new(self.file.name()?, place, what).into())
    }

    /// Has the window hold `place..end` of the file: and what of the next values lies near, if it
    /// is read anew. Errors: `Corruption` if that is behind the values.
    fn have(&mut self, place: u64, end: u64) -> Result<()> {
        let window_end = self.window_at + self.window.len() as u64;
        if self.window_at <= place && end <= window_end {
            return Ok(());
        }
        let entries_end = self.file.entries_end()?;
        if end > entries_end {
            return Err(self.damage(place, "a value that ends behind all values")?);
        }
        let Left::Placed(left) = &self.left else { return Ok(()) };
        let meta = self.file.meta();
        let count: u64 = meta.segments.iter().map(|one| one.count).sum();
        // How long a value is, its header says. Most are about as long as all others.
        let usual = (meta.entry_bytes() / count.max(1)).next_multiple_of(512).min(WINDOW_BYTES);
        let near = |(at, _): &&(u64, ValueName)| *at <= place + (WINDOW_BYTES - usual);
        let last = left.as_slice().iter().take_while(near).last();
        let wanted = last.map_or(place, |(at, _)| *at) + usual;
        let bytes = (wanted.min(entries_end).max(end) - place) as usize;
        self.window = self.file.read_raw(ByteInterval { offset: place, bytes })?;
        self.window_at = place;
        Ok(())
    }
}

/// Where each of the named values of a written file lies, ascending.
fn places(
    file: &ValueFile,
    names: &NamesBySegment,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<std::vec::IntoIter<(u64, ValueName)>> {
    let mut placed = Vec::new();
    for held in &file.meta().segments {
        let Some(offsets) = names.get(&held.id) else { continue };
        placed.reserve(offsets.len());
        for offset in offsets {
            let name = ValueName { segment: held.id, offset: *offset };
            placed.push((file.place_of(name)?, name));
            if placed.len().is_multiple_of(VALUES_PER_LOOK) && is_cancelled() {
                return Err(Error::Closed);
            }
        }
    }
    placed.sort_unstable();
    Ok(placed.into_iter())
}
