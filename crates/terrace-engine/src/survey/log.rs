use std::ops::Range;

use terrace_base::{FileId, PreambleError};

use super::Gap;
use crate::wal::format::{RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader, next_record};

/// What is left of a log segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentSurvey {
    /// What the name says.
    pub id: FileId,
    /// The two headers, or what is wrong with them. A file that was prepared and never begun has
    /// two that are not its own.
    pub headers: [Result<SegmentHeader, PreambleError>; 2],
    /// What stands in the places of the identity in both.
    pub identities: [u128; 2],
    /// Bytes of the file.
    pub bytes: u64,
}

impl SegmentSurvey {
    /// Surveys a segment file of `file_bytes` bytes whose name says `id`: its first and its last
    /// bytes, [`SEGMENT_HEADER_BYTES`] of each if the file has them.
    #[must_use]
    pub fn read(id: FileId, file_bytes: u64, first: &[u8], last: &[u8]) -> SegmentSurvey {
        let second_offset = SegmentHeader::second_offset(file_bytes);
        let mut headers = [(first, 0), (last, second_offset)]
            .map(|(bytes, offset)| SegmentHeader::decode(bytes, offset));
        if let [Ok(first), Ok(second)] = &mut headers
            && second.is_cut_of(first, file_bytes)
        {
            first.segment_bytes = file_bytes;
        }
        let identities = [first, last].map(SegmentHeader::identity_in);
        SegmentSurvey { id, headers, identities, bytes: file_bytes }
    }

    /// As [`SegmentSurvey::read`], of a whole file in memory.
    #[must_use]
    pub fn of_file(id: FileId, bytes: &[u8]) -> SegmentSurvey {
        let file_bytes = bytes.len() as u64;
        let last = &bytes[SegmentHeader::second_offset(file_bytes) as usize..];
        SegmentSurvey::read(id, file_bytes, bytes, last)
    }

    /// The header of this use of the file: the first good one that names this id.
    #[must_use]
    pub fn header(&self) -> Option<&SegmentHeader> {
        self.headers.iter().flatten().find(|header| header.file_id == self.id)
    }

    /// Any good header, whatever id it names: of this use of the file, or of a former one, or of
    /// the segment that had its name before somebody renamed it.
    #[must_use]
    pub fn own_header(&self) -> Option<&SegmentHeader> {
        self.header().or_else(|| self.headers.iter().flatten().next())
    }

    /// Which of the two headers are not what was written, if the segment was begun. Both say the
    /// same: one that only names the same id is that of another database, whose ids are the same.
    pub fn damaged_headers(&self) -> impl Iterator<Item = (u64, String)> + '_ {
        let second = SegmentHeader::second_offset(self.bytes);
        let begun = self.header();
        let offsets = [0, second].into_iter().zip(&self.headers);
        offsets.filter(move |_| begun.is_some()).filter_map(move |(offset, header)| match header {
            Ok(header) if Some(header) == begun => None,
            Ok(header) if header.file_id == self.id => {
                Some((offset, "a header of another segment of this id".to_string()))
            }
            Ok(header) => Some((offset, format!("a header of segment {}", header.file_id))),
            Err(error) => Some((offset, error.to_string())),
        })
    }

    /// Where this file proves that a part of it is gone, and how: it is shorter than it was made,
    /// or a block that held one of the headers is another one. What stood in that part is unknown,
    /// so an end of the log in this segment is no torn tail.
    ///
    /// No crash does that: a file has its size before it is begun, and both headers are durable
    /// once the segment is known to have been begun durably, which `is_synced` says. A header that
    /// only rotted still has its identity, and proves nothing of other bytes.
    #[must_use]
    pub fn lost_part(&self, is_synced: bool) -> Option<(u64, String)> {
        let header = self.header()?;
        if self.bytes < header.segment_bytes {
            let text =
                format!("the file has {} bytes instead of {}", self.bytes, header.segment_bytes);
            return Some((self.bytes, text));
        }
        if !is_synced || self.bytes > header.segment_bytes {
            return None;
        }
        let offsets = [0, SegmentHeader::second_offset(self.bytes)].into_iter();
        let mut places = offsets.zip(self.identities);
        let (offset, _) = places.find(|(_, identity)| *identity != header.identity)?;
        Some((offset, "the block of one of the two headers is not the one that was written".into()))
    }

    /// Whether a later version wrote it.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        self.headers.iter().any(|header| matches!(header, Err(PreambleError::Unsupported)))
    }

    /// Where records may stand.
    #[must_use]
    pub fn record_offsets(&self) -> Range<u64> {
        let end = SegmentHeader::second_offset(self.bytes);
        SEGMENT_HEADER_BYTES..end.max(SEGMENT_HEADER_BYTES)
    }

    /// Whether it is the first segment of an open, which synced the log before it up to its base.
    #[must_use]
    pub fn begins_an_epoch(&self) -> bool {
        let before = self.header().and_then(|header| header.predecessor);
        before.is_some_and(|before| before.epoch < self.id.epoch)
    }
}

/// The segments that form the log from `first` on: each names the one before it as its predecessor;
/// if several name the same, the youngest counts. A segment that is missing ends the chain.
#[must_use]
pub fn chain(segments: &[SegmentSurvey], first: FileId) -> Vec<&SegmentSurvey> {
    let mut chain = Vec::new();
    let mut current = segments.iter().find(|segment| segment.id == first);
    while let Some(segment) = current.filter(|segment| segment.header().is_some()) {
        chain.push(segment);
        let successors = segments.iter().filter(|next| {
            next.id > segment.id
                && next.header().is_some_and(|header| header.predecessor == Some(segment.id))
        });
        current = successors.max_by_key(|next| next.id);
    }
    chain
}

/// What stands in a segment, front to back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A good record.
    Record {
        /// Where it begins.
        offset: u64,
        /// Its header.
        header: RecordHeader,
        /// Its body.
        body: &'a [u8],
    },
    /// Bytes that are no record. The last piece is one if the segment is not full: there most
    /// often nothing was ever written.
    Gap(Gap),
}

/// The pieces of a segment; see [`Piece`].
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    bytes: &'a [u8],
    identity: u128,
    offset: u64,
    end: u64,
}

impl<'a> Pieces<'a> {
    /// The pieces of the segment with these bytes and this identity within `offsets`, which begin
    /// where a record may begin.
    #[must_use]
    pub fn new(bytes: &'a [u8], identity: u128, offsets: Range<u64>) -> Pieces<'a> {
        let end = offsets.end.min(bytes.len() as u64);
        Pieces { bytes, identity, offset: offsets.start, end }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if self.offset >= self.end {
            return None;
        }
        let offset = self.offset;
        let within = &self.bytes[..self.end as usize];
        match RecordHeader::decode(&within[offset as usize..], self.identity, offset) {
            Ok((header, body)) => {
                self.offset += header.padded_bytes();
                Some(Piece::Record { offset, header, body })
            }
            Err(error) => {
                let found = next_record(within, self.identity, offset);
                self.offset = found.map_or(self.end, |(at, _)| at);
                let what = error.what.to_string();
                Some(Piece::Gap(Gap { offset, end: self.offset, what }))
            }
        }
    }
}
