//! Lists of names as a reader gives them: which values of some segments a table points to.

use std::collections::{BTreeMap, BTreeSet};

use terrace_base::{Corruption, FileId};

use super::format::footer::Handle;
use super::format::frame;
use super::format::names::decode_lists;
use super::reader::{TableReader, interval_of};
use super::store::ByteInterval;
use crate::Result;
use crate::vlog::NamedBytes;

/// Values by segment: the offsets in their names, ascending in what one table says.
pub type NamesBySegment = BTreeMap<FileId, Vec<u64>>;

/// A frame of lists: where it lies, and of which segments they are.
#[derive(Clone, Debug)]
pub(super) struct ListPlace {
    pub(super) named: Vec<NamedBytes>,
    pub(super) handle: Handle,
}

impl TableReader {
    /// Whether the table has lists of the values that it points to. One without a pointer has none,
    /// nor has one that was built before there were lists.
    #[must_use]
    pub fn has_lists(&self) -> bool {
        !self.properties().lists.is_empty()
    }

    /// The values of these segments that the table points to, whether or not that part of it
    /// counts; `None` if it has no lists, so that only its entries tell.
    ///
    /// Cost: one read of the lists of these segments, past the cache; short ones lie together in
    /// some 4 KiB.
    /// Errors: [`Error::Corruption`](crate::Error::Corruption) of a list; the entries may be whole.
    pub fn named_values(&self, segments: &BTreeSet<FileId>) -> Result<Option<NamesBySegment>> {
        if !self.has_lists() {
            return Ok(None);
        }
        let is_asked = |one: &NamedBytes| segments.contains(&one.segment);
        let places: Vec<ListPlace> =
            self.list_places().filter(|place| place.named.iter().any(is_asked)).collect();
        let intervals: Vec<ByteInterval> =
            places.iter().map(|place| interval_of(place.handle)).collect();
        let frames = self.file.read(&intervals).wait()?;
        let mut names = NamesBySegment::new();
        if let Some(missing) = intervals.get(frames.len()) {
            return Err(missing.too_short(&self.name()).into());
        }
        for (place, frame) in places.iter().zip(&frames) {
            let lists = self.lists_in(place, frame)?;
            let lists = place.named.iter().zip(lists).filter(|(one, _)| is_asked(one));
            names.extend(lists.map(|(one, offsets)| (one.segment, offsets)));
        }
        Ok(Some(names))
    }

    /// Where the lists lie, in the order of the segments.
    pub(super) fn list_places(&self) -> impl Iterator<Item = ListPlace> {
        let properties = self.properties();
        let mut offset = self.footer.names.offset;
        let mut named = properties.named.iter().copied();
        properties.lists.iter().map(move |frame| {
            let handle = Handle { offset, bytes: u64::from(frame.bytes) };
            offset += handle.bytes;
            ListPlace { named: named.by_ref().take(frame.segments as usize).collect(), handle }
        })
    }

    /// The lists in a frame that was read.
    pub(super) fn lists_in(
        &self,
        place: &ListPlace,
        frame: &[u8],
    ) -> std::result::Result<Vec<Vec<u64>>, Corruption> {
        let counts = place.named.iter().map(|one| one.count);
        let payload = frame::open_plain(frame, self.uid(), place.handle.offset);
        let lists = payload.and_then(|payload| decode_lists(payload, counts));
        lists.map_err(|error| self.lists_damaged(place, error.what))
    }

    fn lists_damaged(&self, place: &ListPlace, what: &str) -> Corruption {
        let detail = format!("a list of the values that the table points to: {what}");
        Corruption::new(self.name(), place.handle.offset, detail)
    }
}
