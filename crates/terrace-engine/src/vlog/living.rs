//! What lives of a value file, front to back: the input of a rewrite.

use std::ops::Range;
use std::sync::Arc;

use terrace_base::{Corruption, SeqNo};

use super::format::{ENTRY_HEADER_BYTES, ValueEntry};
use super::{ValueFile, ValueFileMeta, ValueHome, ValueName, ValuePointer};
use crate::table::ByteInterval;
use crate::{Error, Result};

/// Values that lie near each other are read together, up to this many bytes.
const WINDOW_BYTES: u64 = 256 << 10;

/// How many values are read between two looks whether the work is cancelled.
const VALUES_PER_LOOK: usize = 64;

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
/// and kept.
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
    /// does not; `Closed` if the work is cancelled; what reading gives.
    pub fn new(
        file: Arc<ValueFile>,
        values: &[LivingValue],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Living> {
        let mut placed = Vec::with_capacity(values.len());
        for value in values {
            placed.push((file.place_of(value.pointer.name)?, *value));
        }
        placed.sort_unstable();
        let (window, left) = (Vec::new(), placed.into_iter());
        let mut living = Living { file, left, window, window_at: 0, current: None };
        living.advance()?;
        if living.file.meta().home == ValueHome::Log {
            living.gather(is_cancelled)?;
        }
        Ok(living)
    }

    /// About how many bytes the walk over `count` values of a file takes, which have `bytes`.
    #[must_use]
    pub fn memory_bytes(file: &ValueFileMeta, count: u64, bytes: u64) -> u64 {
        let list = count.saturating_mul(size_of::<(u64, LivingValue)>() as u64);
        list + match file.home {
            ValueHome::File => bytes.min(WINDOW_BYTES),
            ValueHome::Log => bytes + WINDOW_BYTES,
        }
    }

    /// Reads all of the values, and shows them in the order of their keys from here on: in a log
    /// segment they lie in that of their writing.
    fn gather(&mut self, is_cancelled: &dyn Fn() -> bool) -> Result<()> {
        let standing = self.current.iter().map(|one| one.value);
        let all = standing.chain(self.left.as_slice().iter().map(|(_, value)| *value));
        let bytes: u64 = all.map(|value| value.bytes_in(ValueHome::Log)).sum();
        let mut stored: Vec<u8> = Vec::with_capacity(bytes as usize);
        let mut found: Vec<(u64, LivingValue)> = Vec::with_capacity(self.left.len() + 1);
        while let Some(Standing { value, key, bytes, .. }) = self.current.take() {
            found.push((stored.len() as u64, value));
            stored.extend_from_slice(&self.window[key.start..bytes.end]);
            if found.len().is_multiple_of(VALUES_PER_LOOK) && is_cancelled() {
                return Err(Error::Closed);
            }
            self.advance()?;
        }
        let order_of = |(at, value): &(u64, LivingValue)| {
            let key_bytes = value.bytes_in(ValueHome::Log) - u64::from(value.pointer.bytes);
            let key = &stored[*at as usize..(at + key_bytes) as usize];
            (key, std::cmp::Reverse(value.seqno))
        };
        found.sort_unstable_by(|a, b| order_of(a).cmp(&order_of(b)));
        (self.window, self.window_at, self.left) = (stored, 0, found.into_iter());
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
