use std::fmt;
use std::sync::Arc;

use terrace_base::{EntryRef, KeyRange};

use super::reader::{LoadedEntry, RowReader};
use crate::Result;
use crate::iter::Stream;

/// A [`Stream`] over one row; see [`RowReader::stream`]. It keeps the page that it stands on.
pub struct RowStream {
    row: Arc<RowReader>,
    loaded: LoadedEntry,
    stands: bool,
    end: usize,
    /// The pages of data below this one were checked.
    checked_end: usize,
}

impl RowStream {
    pub(super) fn new(row: Arc<RowReader>, range: &KeyRange) -> Result<RowStream> {
        let start = row.lower_bound(range.start())?;
        let end = match range.end() {
            _ if range.is_empty() => start,
            Some(end) => row.lower_bound(end)?,
            None => row.len(),
        };
        let (loaded, stands) = (LoadedEntry::default(), false);
        let mut stream = RowStream { row, loaded, stands, end, checked_end: 0 };
        stream.settle(start)?;
        Ok(stream)
    }

    /// Stands on the entry with this index, or on the first behind it whose pages are there.
    fn settle(&mut self, mut index: usize) -> Result<()> {
        self.stands = false;
        while index < self.end {
            self.check_pages_of(index)?;
            match self.row.load(index, &mut self.loaded)? {
                Ok(()) => {
                    self.stands = true;
                    return Ok(());
                }
                Err(gone) => index = self.row.after_gone(gone),
            }
        }
        Ok(())
    }

    /// Checks the pages that an entry lies in, as far as the stream has not been there.
    fn check_pages_of(&mut self, index: usize) -> Result<()> {
        let place = self.row.place(index);
        let first = (place.start >> self.row.shift) as usize;
        let last = ((place.end - 1) >> self.row.shift) as usize;
        for ordinal in first.max(self.checked_end)..=last {
            self.row.recheck_page(ordinal)?;
        }
        self.checked_end = self.checked_end.max(last + 1);
        Ok(())
    }
}

impl Stream for RowStream {
    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.stands.then(|| self.loaded.entry.entry(self.loaded.bytes()))
    }

    fn advance(&mut self) -> Result<()> {
        assert!(self.stands, "the stream stands on an entry");
        self.settle(self.loaded.index + 1)
    }
}

impl fmt::Debug for RowStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowStream").field("entry", &self.entry()).finish_non_exhaustive()
    }
}
