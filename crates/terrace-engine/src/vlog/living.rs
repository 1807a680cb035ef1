//! What lives of a value file, front to back: the input of a rewrite.

use std::sync::Arc;

use terrace_base::Corruption;

use super::format::{ValueEntry, decode_entry};
use super::{ValueFile, ValueName};
use crate::Result;
use crate::table::ByteInterval;

/// Values that lie near each other are read together, up to this many bytes.
const WINDOW_BYTES: u64 = 256 << 10;

/// A value that tables name, and the bytes of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LivingValue {
    /// Its name.
    pub name: ValueName,
    /// Bytes of its entry in a value file.
    pub entry_bytes: u64,
}

/// A walk over the living values of one file, in the order in which they lie there, which is that
/// of their keys. Each is checked before it is shown.
#[derive(Debug)]
pub struct Living {
    file: Arc<ValueFile>,
    /// Where each lies, ascending; those that were shown are gone.
    left: std::vec::IntoIter<(u64, LivingValue)>,
    window: Vec<u8>,
    window_at: u64,
    current: Option<(ValueName, std::ops::Range<usize>)>,
}

impl Living {
    /// Stands on the first of `values`, all of which the file holds. Errors: `Corruption` if it
    /// does not, and what reading gives.
    pub fn new(file: Arc<ValueFile>, values: &[LivingValue]) -> Result<Living> {
        let mut placed = Vec::with_capacity(values.len());
        for value in values {
            placed.push((file.place_of(value.name)?, *value));
        }
        placed.sort_unstable();
        let (window, left) = (Vec::new(), placed.into_iter());
        let mut living = Living { file, left, window, window_at: 0, current: None };
        living.advance()?;
        Ok(living)
    }

    /// The value that the walk stands on; `None` at the end.
    #[must_use]
    pub fn current(&self) -> Option<(ValueName, ValueEntry<'_>)> {
        let (name, range) = self.current.as_ref()?;
        let entry = decode_entry(&self.window[range.clone()], *name);
        Some((*name, entry.expect("it was checked when the walk came to it")))
    }

    /// Goes to the next value. Errors: `Corruption`, and what reading gives.
    pub fn advance(&mut self) -> Result<()> {
        self.current = None;
        let Some((place, value)) = self.left.next() else { return Ok(()) };
        let end = place + value.entry_bytes;
        if place < self.window_at || end > self.window_at + self.window.len() as u64 {
            self.read_window(place, end)?;
        }
        let from = (place - self.window_at) as usize;
        let range = from..from + value.entry_bytes as usize;
        if let Err(error) = decode_entry(&self.window[range.clone()], value.name) {
            return Err(Corruption::new(self.file.name()?, place, error.what).into());
        }
        self.current = Some((value.name, range));
        Ok(())
    }

    /// Reads from `place` on: through `end`, and what of the next values lies near.
    fn read_window(&mut self, place: u64, end: u64) -> Result<()> {
        let near = |(at, value): &&(u64, LivingValue)| {
            at.saturating_add(value.entry_bytes) <= place + WINDOW_BYTES
        };
        let last = self.left.as_slice().iter().take_while(near).last();
        let end = last.map_or(end, |(at, value)| end.max(at + value.entry_bytes));
        let interval = ByteInterval { offset: place, bytes: (end - place) as usize };
        self.window = self.file.read_raw(interval)?;
        self.window_at = place;
        Ok(())
    }
}
