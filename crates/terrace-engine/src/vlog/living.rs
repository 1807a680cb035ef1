//! What lives of a value file, front to back: the input of a rewrite.

use std::ops::Range;
use std::sync::Arc;

use terrace_base::{Corruption, SeqNo};

use super::format::{ENTRY_HEADER_BYTES, ValueEntry};
use super::{ValueFile, ValueHome, ValueName, ValuePointer};
use crate::Result;
use crate::table::ByteInterval;

/// Values that lie near each other are read together, up to this many bytes.
const WINDOW_BYTES: u64 = 256 << 10;

/// A value that tables name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LivingValue {
    /// What tables have in its place.
    pub pointer: ValuePointer,
    /// The number of the entry that has it.
    pub seqno: SeqNo,
    /// Bytes of its entry in a value file.
    pub entry_bytes: u64,
}

impl LivingValue {
    /// Bytes that it takes where it lies.
    fn bytes_in(&self, home: ValueHome) -> u64 {
        self.entry_bytes - ENTRY_HEADER_BYTES as u64 + home.front_bytes() as u64
    }
}

/// A walk over the living values of one file, in the order in which they lie there, which is that
/// of their keys. Each is checked before it is shown. What lives of a log segment is read at once
/// and kept, twice for a moment.
#[derive(Debug)]
pub struct Living {
    file: Arc<ValueFile>,
    /// Where each lies, ascending; those that were shown are gone.
    left: std::vec::IntoIter<(u64, LivingValue)>,
    window: Vec<u8>,
    window_at: u64,
    current: Option<Standing>,
}

/// The value that a walk stands on, which was checked when the walk came to it.
#[derive(Clone, Debug)]
struct Standing {
    value: LivingValue,
    seqno: SeqNo,
    /// Where the window has its key, and behind that its bytes.
    key: Range<usize>,
    bytes: Range<usize>,
}

impl Living {
    /// Stands on the first of `values`, all of which the file holds. Errors: `Corruption` if it
    /// does not, and what reading gives.
    pub fn new(file: Arc<ValueFile>, values: &[LivingValue]) -> Result<Living> {
        let mut placed = Vec::with_capacity(values.len());
        for value in values {
            placed.push((file.place_of(value.pointer.name)?, *value));
        }
        placed.sort_unstable();
        let (window, left) = (Vec::new(), placed.into_iter());
        let mut living = Living { file, left, window, window_at: 0, current: None };
        living.advance()?;
        if living.file.meta().home == ValueHome::Log {
            living.gather()?;
        }
        Ok(living)
    }

    /// Reads all of the values and puts them into the order of their keys: in a log segment they
    /// lie in that of their writing.
    fn gather(&mut self) -> Result<()> {
        let mut found: Vec<(Vec<u8>, LivingValue)> = Vec::with_capacity(self.left.len() + 1);
        while let Some(Standing { value, key, bytes, .. }) = self.current.take() {
            found.push((self.window[key.start..bytes.end].to_vec(), value));
            self.advance()?;
        }
        let key_of = |(stored, value): &(Vec<u8>, LivingValue)| {
            let key_bytes = stored.len() - value.pointer.bytes as usize;
            (stored[..key_bytes].to_vec(), std::cmp::Reverse(value.seqno))
        };
        found.sort_by_cached_key(key_of);
        (self.window, self.window_at) = (Vec::new(), 0);
        let mut left = Vec::with_capacity(found.len());
        for (stored, value) in found {
            left.push((self.window.len() as u64, value));
            self.window.extend_from_slice(&stored);
        }
        self.left = left.into_iter();
        self.advance()
    }

    /// The value that the walk stands on; `None` at the end.
    #[must_use]
    pub fn current(&self) -> Option<(ValueName, ValueEntry<'_>)> {
        let Standing { value, seqno, key, bytes } = self.current.as_ref()?;
        let (key, stored) = (&self.window[key.clone()], &self.window[bytes.clone()]);
        Some((value.pointer.name, ValueEntry { key, seqno: *seqno, value: stored }))
    }

    /// Goes to the next value. Errors: `Corruption`, and what reading gives.
    pub fn advance(&mut self) -> Result<()> {
        self.current = None;
        let Some((place, value)) = self.left.next() else { return Ok(()) };
        let home = self.file.meta().home;
        let end = place + value.bytes_in(home);
        if place < self.window_at || end > self.window_at + self.window.len() as u64 {
            self.read_window(place, end)?;
        }
        let from = (place - self.window_at) as usize;
        let to = (end - self.window_at) as usize;
        let seqno = match home.decode(&self.window[from..to], &value.pointer) {
            Ok(entry) if home == ValueHome::File => entry.seqno,
            Ok(_) => value.seqno,
            Err(what) => return Err(Corruption::new(self.file.name()?, place, what).into()),
        };
        let value_at = to - value.pointer.bytes as usize;
        let (key, bytes) = (from + home.front_bytes()..value_at, value_at..to);
        self.current = Some(Standing { value, seqno, key, bytes });
        Ok(())
    }

    /// Reads from `place` on: through `end`, and what of the next values lies near.
    fn read_window(&mut self, place: u64, end: u64) -> Result<()> {
        let home = self.file.meta().home;
        let end_of = |(at, value): &(u64, LivingValue)| at.saturating_add(value.bytes_in(home));
        let near = |placed: &&(u64, LivingValue)| end_of(placed) <= place + WINDOW_BYTES;
        let last = self.left.as_slice().iter().take_while(near).last();
        let end = last.map_or(end, |placed| end.max(end_of(placed)));
        let interval = ByteInterval { offset: place, bytes: (end - place) as usize };
        self.window = self.file.read_raw(interval)?;
        self.window_at = place;
        Ok(())
    }
}
