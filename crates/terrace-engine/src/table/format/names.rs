//! The names of the values that a table points to: what a rewrite of value files asks each table
//! for.
//!
//! ```text
//!  frames, each with the lists of some segments that the table names, all in their order
//!   u8      0, the form of what follows
//!   for each segment
//!    varint  the offset in the least name
//!    varint  for each further one: by how much its offset is above the one before
//! ```
//!
//! A list has as many names as the [`properties`](super::properties) count for its segment. They
//! also say how many segments each frame has and how long it is, so that one segment's list is one
//! read. A frame has at most 4 KiB of lists, or one longer list: where a table names little of many
//! segments, a frame for each would take more than the names. The frames lie back to back between
//! range tombstones and properties.
//!
//! A name says where a value was first written, and no more: its key, its number and its length
//! stand beside the value.

use terrace_base::{ByteReader, CodecError, FileId, put_varint};

use super::frame::TRAILER_BYTES;
use crate::vlog::ValueName;
use crate::vlog::format::FILE_BYTES_END;

/// What a frame of lists begins with: no other part of a table that may stand here begins so.
const FORM: u8 = 0;

/// Lists go into one frame up to this many bytes.
const FRAME_LISTS_BYTES: usize = 4096;

/// The least frame: a list of one name.
pub const FRAME_BYTES_MIN: usize = 2 + TRAILER_BYTES;

/// A frame of lists, as the properties describe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListFrame {
    /// How many segments have their list in it: one at the least.
    pub segments: u32,
    /// Its bytes, the trailer included.
    pub bytes: u32,
}

/// The payloads of frames that hold these lists, each with how many there are in it. The offsets of
/// each list ascend.
///
/// # Panics
/// If they do not.
#[must_use]
pub fn encode_lists(lists: &[(FileId, Vec<u64>)]) -> Vec<(u32, Vec<u8>)> {
    let mut frames: Vec<(u32, Vec<u8>)> = Vec::new();
    let mut list = Vec::new();
    for (_, offsets) in lists {
        list.clear();
        put_list(&mut list, offsets);
        match frames.last_mut() {
            Some((segments, frame)) if frame.len() + list.len() <= FRAME_LISTS_BYTES => {
                *segments += 1;
                frame.extend_from_slice(&list);
            }
            _ => frames.push((1, [&[FORM], &list[..]].concat())),
        }
    }
    frames
}

fn put_list(out: &mut Vec<u8>, offsets: &[u64]) {
    let mut before = 0;
    for offset in offsets {
        assert!(before <= *offset, "offsets ascend");
        put_varint(out, offset - before);
        before = *offset;
    }
}

/// The lists in a frame that has as many of them as there are `counts`, each of as many names: the
/// offsets of each ascend. Allocates in proportion to the bytes.
///
/// Errors: it is no frame of lists, or one of another number of names, or one is beyond any file.
pub fn decode_lists(
    payload: &[u8],
    counts: impl IntoIterator<Item = u64>,
) -> Result<Vec<Vec<u64>>, CodecError> {
    let mut reader = ByteReader::new(payload);
    if reader.u8()? != FORM {
        return Err(CodecError { offset: 0, what: "no list of values" });
    }
    let mut lists = Vec::new();
    for count in counts {
        lists.push(take_list(&mut reader, count)?);
    }
    match reader.is_empty() {
        true => Ok(lists),
        false => Err(reader.error("lists of more values than the table names")),
    }
}

fn take_list(reader: &mut ByteReader<'_>, count: u64) -> Result<Vec<u64>, CodecError> {
    // Each takes a byte at least.
    if count > reader.rest().len() as u64 {
        return Err(reader.error("a list of fewer values than the table names"));
    }
    let mut offsets = Vec::with_capacity(count as usize);
    let mut before = 0u64;
    for _ in 0..count {
        let above = reader.varint()?;
        let offset = before.checked_add(above).filter(|offset| *offset < FILE_BYTES_END);
        before = offset.ok_or_else(|| reader.error("a value's offset is beyond any file"))?;
        offsets.push(before);
    }
    Ok(offsets)
}

/// Whether a payload has the form of lists of some names.
#[must_use]
pub fn are_lists(payload: &[u8]) -> bool {
    let mut reader = ByteReader::new(payload);
    if reader.u8() != Ok(FORM) || reader.is_empty() {
        return false;
    }
    while !reader.is_empty() {
        if !reader.varint().is_ok_and(|above| above < FILE_BYTES_END) {
            return false;
        }
    }
    true
}

/// Names, gathered in any order: by segment, each segment's offsets in any order.
///
/// Memory: 8 to 16 bytes a name, and a few words a segment.
#[derive(Debug, Default)]
pub struct NameLists {
    /// Segments ascend.
    lists: Vec<(FileId, Vec<u64>)>,
    /// Where the last name went: the next one is often of the same segment.
    last: usize,
    count: u64,
}

impl NameLists {
    /// Adds a name. Cost: O(log segments), but for the first one of a segment.
    pub fn add(&mut self, name: ValueName) {
        self.count += 1;
        if let Some((segment, offsets)) = self.lists.get_mut(self.last)
            && *segment == name.segment
        {
            offsets.push(name.offset);
            return;
        }
        self.last = match self.lists.binary_search_by_key(&name.segment, |(segment, _)| *segment) {
            Ok(index) => {
                self.lists[index].1.push(name.offset);
                index
            }
            Err(index) => {
                self.lists.insert(index, (name.segment, vec![name.offset]));
                index
            }
        };
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// About how many bytes the lists take in a table: offsets of one segment are mostly between
    /// 128 bytes and 2 MiB apart.
    #[must_use]
    pub fn estimated_bytes(&self) -> usize {
        self.count as usize * 3 + self.lists.len()
    }

    /// The list of each segment, ascending.
    #[must_use]
    pub fn into_sorted(mut self) -> Vec<(FileId, Vec<u64>)> {
        self.lists.iter_mut().for_each(|(_, offsets)| offsets.sort_unstable());
        self.lists
    }
}

#[cfg(test)]
mod tests {
    use terrace_base::Epoch;

    use super::*;

    fn id(counter: u64) -> FileId {
        FileId { epoch: Epoch(1), counter }
    }

    /// The payload of the one frame that these lists take.
    fn encoded(lists: &[&[u64]]) -> Vec<u8> {
        let owned: Vec<_> = (1..).map(id).zip(lists.iter().map(|list| list.to_vec())).collect();
        let mut frames = encode_lists(&owned);
        assert_eq!(frames.len(), 1, "they are short");
        let (segments, payload) = frames.remove(0);
        assert_eq!(segments as usize, lists.len());
        payload
    }

    #[test]
    fn lists_are_read_back_and_have_as_many_names_as_were_written() {
        let all = [&[64][..], &[0, 0, 5], &[64, 1100, 2136, 1 << 40, FILE_BYTES_END - 1]];
        for lists in [&all[..1], &all[1..2], &all[..], &all[1..]] {
            let stored = encoded(lists);
            let counts: Vec<u64> = lists.iter().map(|list| list.len() as u64).collect();
            let read = decode_lists(&stored, counts.clone());
            assert_eq!(read, Ok(lists.iter().map(|list| list.to_vec()).collect()));
            assert!(are_lists(&stored));
            for wrong in [-1, 1, i64::MAX] {
                let mut counts = counts.clone();
                let last = counts.last_mut().expect("there is one");
                *last = last.wrapping_add_signed(wrong);
                assert!(decode_lists(&stored, counts).is_err(), "{wrong} more");
            }
            for cut in 0..stored.len() {
                assert!(decode_lists(&stored[..cut], counts.clone()).is_err(), "cut to {cut}");
            }
        }
        let stored = encoded(&[&[64, 1100, 3148], &[7]]);
        assert_eq!(stored, [0, 64, 0x8c, 8, 0x80, 16, 7], "as ever");
    }

    #[test]
    fn short_lists_share_a_frame_and_a_long_one_has_its_own() {
        let long: Vec<u64> = (0..10_000).map(|index| index * 300).collect();
        let of = |counter: u64| match counter {
            50 => (id(counter), long.clone()),
            _ => (id(counter), vec![1 << 20, 1 << 21]),
        };
        let lists: Vec<_> = (1..2000).map(of).collect();
        let frames = encode_lists(&lists);
        let segments: Vec<u32> = frames.iter().map(|(segments, _)| *segments).collect();
        assert_eq!(segments[..2], [49, 1], "the long one stands alone");
        assert_eq!(segments.iter().sum::<u32>(), 1999);
        assert!(frames.len() < 10, "{segments:?}");
        let mut from = 0;
        for (segments, payload) in &frames {
            let here = &lists[from..from + *segments as usize];
            assert!(payload.len() <= FRAME_LISTS_BYTES || *segments == 1);
            let read = decode_lists(payload, here.iter().map(|(_, all)| all.len() as u64));
            assert!(read.expect("as written").iter().eq(here.iter().map(|(_, all)| all)));
            from += here.len();
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut beyond = encoded(&[&[FILE_BYTES_END - 1]]);
        beyond.push(1);
        assert!(decode_lists(&beyond, [2]).is_err());
        let mut sum = encoded(&[&[5]]);
        put_varint(&mut sum, u64::MAX);
        assert!(decode_lists(&sum, [2]).is_err());
        assert!(decode_lists(&[1, 5], [1]).is_err(), "another form");
        for wrong in [&[0][..], &[1, 5], &[0, 0x80], &[]] {
            assert!(!are_lists(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn names_come_out_by_segment_and_in_order() {
        let mut lists = NameLists::default();
        assert!(lists.is_empty() && lists.estimated_bytes() == 0);
        for (counter, offset) in [(7, 100), (7, 64), (3, 9), (9, 1), (3, 9), (7, 80)] {
            lists.add(ValueName { segment: id(counter), offset });
        }
        let sorted: Vec<_> =
            lists.into_sorted().into_iter().map(|(one, all)| (one.counter, all)).collect();
        assert_eq!(sorted, [(3, vec![9, 9]), (7, vec![64, 80, 100]), (9, vec![1])]);
    }
}
