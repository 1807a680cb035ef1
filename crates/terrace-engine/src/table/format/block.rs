//! A data block: entries of neighbouring keys, searchable where they lie.
//!
//! A get touches few cache lines and decodes one entry: the bytes in which the block's keys differ
//! stand side by side as *hints*, so that a binary search over one or two lines finds the entry.
//!
//! ```text
//!  ┌────────┬────────┬────────────────┬────────────────────┬─────────┬───┬─────────┐
//!  │ header │ prefix │ hints, n × 4|8 │ ends, n × 2|4      │ entry 0 │ … │ entry n │
//!  └────────┴────────┴────────────────┴────────────────────┴─────────┴───┴─────────┘
//!
//!  header, 16 bytes
//!   0 u32   n, how many entries; at least 1
//!   4 u32   bits 0-23 bytes of the prefix; bit 24: hints have 8 bytes, not 4;
//!           bit 25: ends have 4 bytes, not 2; all other bits zero
//!   8 u64   the least sequence number of the block
//!
//!  prefix   the bytes that all keys of the block begin with, stored once;
//!           what follows the prefix in a key is the key's suffix
//!  hint     the first 4 or 8 bytes of the suffix, big-endian, a shorter one padded with zeros
//!  end      where the entry ends, counted from the start of entry 0; the next begins there,
//!           and the last ends with the block
//!
//!  entry
//!   u8      bits 0-2 kind; bit 3: an expiry follows; bit 4: same key as the entry before, be it
//!           in this block or the last of the block before; bits 5-7 zero
//!   varint  sequence number minus the least one
//!   varint  expiry in milliseconds, at least 1; only if bit 3 is set
//!   varint  bytes of the suffix
//!   bytes   what of the suffix is not in the hint
//!   bytes   the value, up to the end of the entry
//! ```
//!
//! Entries are in internal order (key ascending, newest version first). The versions of one key may
//! go on in the next block. Equal hints do not mean equal keys.

use std::cmp::Ordering;
use std::ops::Range;

use terrace_base::limits::STORED_KEY_BYTES_MAX;
use terrace_base::{ByteReader, CodecError, EntryKind, Expiry, SeqNo, hint_of};

use super::BLOCK_BYTES_MAX;

mod walk;

pub use walk::KeyBuffer;

pub(super) const HEADER_BYTES: usize = 16;
const PREFIX_BYTES_MASK: u32 = (1 << 24) - 1;
pub(super) const WIDE_HINTS: u32 = 1 << 24;
pub(super) const WIDE_ENDS: u32 = 1 << 25;

const KIND_MASK: u8 = 0b111;
pub(super) const HAS_EXPIRY: u8 = 1 << 3;
pub(super) const SAME_KEY: u8 = 1 << 4;

fn error(offset: usize, what: &'static str) -> CodecError {
    CodecError { offset, what }
}

/// Reads a varint in its shortest form: nearly all have one to three bytes.
#[inline(always)]
fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    match *bytes.get(*at..)? {
        [a, ..] if a < 0x80 => {
            *at += 1;
            Some(u64::from(a))
        }
        [a, b, ..] if b < 0x80 && b != 0 => {
            *at += 2;
            Some(u64::from(u32::from(a & 0x7f) | u32::from(b) << 7))
        }
        [a, b, c, ..] if b >= 0x80 && c < 0x80 && c != 0 => {
            *at += 3;
            let low = u32::from(a & 0x7f) | u32::from(b & 0x7f) << 7;
            Some(u64::from(low | u32::from(c) << 14))
        }
        _ => long_varint(bytes, at),
    }
}

/// As [`varint`], for those that are long or wrong.
#[cold]
fn long_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut reader = ByteReader::new(bytes.get(*at..)?);
    let value = reader.varint().ok()?;
    *at += reader.offset();
    Some(value)
}

/// Where the parts of one decoded data block lie. The header is checked, the entries are not yet.
#[derive(Clone, Copy, Debug)]
pub struct BlockLayout {
    least: u64,
    block_bytes: u32,
    count: u32,
    hints_at: u32,
    ends_at: u32,
    entries_at: u32,
    has_wide_hints: bool,
    has_wide_ends: bool,
}

/// A decoded data block, borrowed, with its layout.
#[derive(Clone, Copy, Debug)]
pub struct BlockView<'a> {
    bytes: &'a [u8],
    layout: BlockLayout,
}

/// One entry of a block, without its key. The positions count from the start of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEntry {
    /// When it was written.
    pub seqno: SeqNo,
    /// When it turns into a tombstone.
    pub expiry: Option<Expiry>,
    suffix_bytes: u32,
    rest_at: u32,
    value_at: u32,
    value_end: u32,
    /// What it says.
    pub kind: EntryKind,
    /// Whether the entry before, in internal order, has the same key.
    pub same_key: bool,
}

impl BlockEntry {
    /// The value: an interval of the decoded block.
    #[must_use]
    #[inline]
    pub fn value<'a>(&self, block: &'a [u8]) -> &'a [u8] {
        &block[self.value_at as usize..self.value_end as usize]
    }

    /// Where the value lies in the decoded block.
    #[must_use]
    #[inline]
    pub fn value_place(&self) -> Range<u32> {
        self.value_at..self.value_end
    }
}

/// The outcome of [`BlockView::seek`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The first entry at or above the target; the count of entries if all lie below it.
    pub index: usize,
    /// That entry, if it has the very key that was looked for.
    pub same_key: Option<BlockEntry>,
}

impl BlockLayout {
    /// Checks the header of a decoded block. Cost: a few dozen instructions, one cache line.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<BlockLayout, CodecError> {
        let Some(&[a, b, c, d, e, f, g, h, ref least @ ..]) = bytes.first_chunk::<HEADER_BYTES>()
        else {
            return Err(error(0, "a block shorter than its header"));
        };
        let count = u32::from_le_bytes([a, b, c, d]);
        let bits = u32::from_le_bytes([e, f, g, h]);
        if count == 0 || bits & !(PREFIX_BYTES_MASK | WIDE_HINTS | WIDE_ENDS) != 0 {
            return Err(error(0, "a block without entries, or with reserved bits set"));
        }
        let has_wide_hints = bits & WIDE_HINTS != 0;
        let has_wide_ends = bits & WIDE_ENDS != 0;
        let prefix_bytes = u64::from(bits & PREFIX_BYTES_MASK);
        // At most 2^24 + 2^32 × 12: no overflow.
        let hints_at = HEADER_BYTES as u64 + prefix_bytes;
        let ends_at = hints_at + u64::from(count) * if has_wide_hints { 8 } else { 4 };
        let entries_at = ends_at + u64::from(count) * if has_wide_ends { 4 } else { 2 };
        let block_bytes = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        if entries_at > u64::from(block_bytes)
            || prefix_bytes > STORED_KEY_BYTES_MAX as u64
            || block_bytes > BLOCK_BYTES_MAX as u32
        {
            return Err(error(0, "more entries than the block has room for, or too long a prefix"));
        }
        Ok(BlockLayout {
            least: u64::from_le_bytes(*least),
            block_bytes,
            count,
            hints_at: hints_at as u32,
            ends_at: ends_at as u32,
            entries_at: entries_at as u32,
            has_wide_hints,
            has_wide_ends,
        })
    }

    /// How many entries there are; at least one.
    #[must_use]
    #[inline]
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// The block itself: the same bytes that the layout was parsed from.
    #[must_use]
    #[inline]
    pub fn view(self, bytes: &[u8]) -> BlockView<'_> {
        debug_assert_eq!(bytes.len(), self.block_bytes as usize, "the layout of another block");
        BlockView { bytes, layout: self }
    }
}

/// How many bytes the block at the front of `bytes` takes by its own account: for finding blocks
/// where no index says where they lie. Nothing about it is verified.
#[must_use]
pub fn stored_bytes(bytes: &[u8]) -> Option<usize> {
    let mut reader = ByteReader::new(bytes);
    let count = reader.u32().ok()?;
    let bits = reader.u32().ok()?;
    if count == 0 || bits & !(PREFIX_BYTES_MASK | WIDE_HINTS | WIDE_ENDS) != 0 {
        return None;
    }
    let hint_bytes = if bits & WIDE_HINTS != 0 { 8 } else { 4 };
    let end_bytes: u64 = if bits & WIDE_ENDS != 0 { 4 } else { 2 };
    let hints_at = HEADER_BYTES as u64 + u64::from(bits & PREFIX_BYTES_MASK);
    let entries_at = hints_at + u64::from(count) * (hint_bytes + end_bytes);
    let last_end = bytes.get(usize::try_from(entries_at - end_bytes).ok()?..)?;
    let mut last_end = ByteReader::new(last_end);
    let entry_bytes = if end_bytes == 4 { last_end.u32() } else { last_end.u16().map(u32::from) };
    let block_bytes = entries_at + u64::from(entry_bytes.ok()?);
    usize::try_from(block_bytes).ok().filter(|&needed| needed <= bytes.len())
}

impl<'a> BlockView<'a> {
    /// Checks the header of a decoded block.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<BlockView<'a>, CodecError> {
        Ok(BlockLayout::parse(bytes)?.view(bytes))
    }

    /// Where its parts lie.
    #[must_use]
    #[inline]
    pub fn layout(&self) -> BlockLayout {
        self.layout
    }

    /// How many entries there are; at least one.
    #[must_use]
    #[inline]
    pub fn count(&self) -> usize {
        self.layout.count()
    }

    #[inline]
    fn prefix(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..self.layout.hints_at as usize]
    }

    /// The hints, which the caller knows to have this width.
    #[inline]
    fn hints<const BYTES: usize>(&self) -> &'a [[u8; BYTES]] {
        let BlockLayout { hints_at, ends_at, .. } = self.layout;
        self.bytes[hints_at as usize..ends_at as usize].as_chunks().0
    }

    #[inline]
    fn hint_bytes(&self) -> usize {
        if self.layout.has_wide_hints { 8 } else { 4 }
    }

    /// Where an entry ends, counted from the start of the block.
    #[inline]
    fn entry_end(&self, index: usize) -> usize {
        let BlockLayout { ends_at, entries_at, .. } = self.layout;
        let ends = &self.bytes[ends_at as usize..entries_at as usize];
        let end = if self.layout.has_wide_ends {
            u32::from_le_bytes(ends.as_chunks().0[index])
        } else {
            u32::from(u16::from_le_bytes(ends.as_chunks().0[index]))
        };
        (entries_at as usize).saturating_add(end as usize)
    }

    /// Decodes the entry with this index, which lies below [`BlockView::count`].
    #[inline(always)]
    pub fn entry(&self, index: usize) -> Result<BlockEntry, CodecError> {
        let start = match index {
            0 => self.layout.entries_at as usize,
            _ => self.entry_end(index - 1),
        };
        self.entry_from(start, index)
    }

    /// As [`BlockView::entry`], for the entry that comes after `before`, which was decoded from
    /// this block too.
    #[inline(always)]
    pub fn entry_after(&self, before: &BlockEntry, index: usize) -> Result<BlockEntry, CodecError> {
        self.entry_from(before.value_end as usize, index)
    }

    #[inline(always)]
    fn entry_from(&self, start: usize, index: usize) -> Result<BlockEntry, CodecError> {
        let end = self.entry_end(index);
        let cut = || error(start, "an entry that does not decode");
        // What lies behind the entry is out of sight.
        let bytes = self.bytes.get(..end).ok_or_else(cut)?;
        let flags = *bytes.get(start).ok_or_else(cut)?;
        let kind = match EntryKind::from_stored(flags & KIND_MASK) {
            Some(EntryKind::RangeTombstone) | None => {
                return Err(error(start, "an entry of unknown kind"));
            }
            Some(kind) => kind,
        };
        let mut at = start + 1;
        let delta = varint(bytes, &mut at).ok_or_else(cut)?;
        let seqno = self.layout.least.checked_add(delta).ok_or_else(cut)?;
        let mut expiry = None;
        if flags & !(KIND_MASK | SAME_KEY) != 0 {
            if flags & !(KIND_MASK | SAME_KEY | HAS_EXPIRY) != 0 {
                return Err(error(start, "reserved bits of an entry are set"));
            }
            expiry = Expiry::from_stored(varint(bytes, &mut at).ok_or_else(cut)?);
            if expiry.is_none() {
                return Err(error(start, "an expiry of zero"));
            }
        }
        let suffix_bytes = varint(bytes, &mut at).ok_or_else(cut)?;
        if suffix_bytes > STORED_KEY_BYTES_MAX as u64 {
            return Err(error(start, "a key beyond the longest one"));
        }
        let value_at = at + (suffix_bytes as usize).saturating_sub(self.hint_bytes());
        if value_at > end {
            return Err(cut());
        }
        // Blocks are shorter than 4 GiB, and all of these lie inside.
        Ok(BlockEntry {
            kind,
            same_key: flags & SAME_KEY != 0,
            seqno: SeqNo(seqno),
            expiry,
            suffix_bytes: suffix_bytes as u32,
            rest_at: at as u32,
            value_at: value_at as u32,
            value_end: end as u32,
        })
    }

    /// Puts the key of an entry, which was decoded from this index of this block, into `key`.
    #[inline]
    pub fn key_into(&self, index: usize, entry: &BlockEntry, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(self.prefix());
        self.suffix_onto(index, entry, key);
    }

    /// As [`BlockView::key_into`], if `key` holds a key of this same block.
    #[inline]
    pub fn next_key_into(&self, index: usize, entry: &BlockEntry, key: &mut Vec<u8>) {
        key.truncate(self.layout.hints_at as usize - HEADER_BYTES);
        self.suffix_onto(index, entry, key);
    }

    #[inline]
    fn suffix_onto(&self, index: usize, entry: &BlockEntry, key: &mut Vec<u8>) {
        // A whole hint is copied by one move, and what is not of the suffix is cut off again.
        let key_bytes = key.len() + entry.suffix_bytes as usize;
        if self.layout.has_wide_hints {
            key.extend_from_slice(&self.hints::<8>()[index]);
        } else {
            key.extend_from_slice(&self.hints::<4>()[index]);
        }
        key.truncate(key_bytes);
        if entry.rest_at < entry.value_at {
            key.extend_from_slice(&self.bytes[entry.rest_at as usize..entry.value_at as usize]);
        }
    }

    /// The first entry at or above (`key`, `seqno`) in internal order.
    ///
    /// Cost: a search over the hints, and then one entry decoded for each doubling of the entries
    /// that share the target's hint: most often one or none.
    #[inline]
    pub fn seek(&self, key: &[u8], seqno: SeqNo) -> Result<Found, CodecError> {
        let prefix = self.prefix();
        let Some(suffix) = key.strip_prefix(prefix) else {
            let index = if key < prefix { 0 } else { self.count() };
            return Ok(Found { index, same_key: None });
        };
        let (first, count) = if self.layout.has_wide_hints {
            let hints = self.hints::<8>();
            let target = u64::from_be_bytes(hint_of(suffix));
            let first = hints.partition_point(|hint| u64::from_be_bytes(*hint) < target);
            (first, count_leading(&hints[first..], |hint| u64::from_be_bytes(*hint) == target))
        } else {
            let hints = self.hints::<4>();
            let target = u32::from_be_bytes(hint_of(suffix));
            let first = hints.partition_point(|hint| u32::from_be_bytes(*hint) < target);
            (first, count_leading(&hints[first..], |hint| u32::from_be_bytes(*hint) == target))
        };
        self.seek_among(first, count, suffix, seqno)
    }

    /// Finishes a search among `count` entries from `first` that share the target's hint.
    #[inline]
    fn seek_among(
        &self,
        first: usize,
        count: usize,
        suffix: &[u8],
        seqno: SeqNo,
    ) -> Result<Found, CodecError> {
        let (mut low, mut high) = (first, first + count);
        let mut same_key = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = self.entry(middle)?;
            let by_key = self.compare_suffix(&entry, suffix);
            // The newer version sorts first.
            if by_key.then_with(|| seqno.cmp(&entry.seqno)) == Ordering::Less {
                low = middle + 1;
            } else {
                high = middle;
                same_key = (by_key == Ordering::Equal).then_some(entry);
            }
        }
        Ok(Found { index: low, same_key })
    }

    /// Compares the suffix of an entry to one with the same hint.
    #[inline]
    fn compare_suffix(&self, entry: &BlockEntry, suffix: &[u8]) -> Ordering {
        let hint_bytes = self.hint_bytes();
        let entry_bytes = entry.suffix_bytes as usize;
        if entry_bytes.min(suffix.len()) < hint_bytes {
            // One of them ends inside the hint, and what the other has there are zeros: it is a
            // prefix of the other.
            entry_bytes.cmp(&suffix.len())
        } else {
            let rest = &self.bytes[entry.rest_at as usize..entry.value_at as usize];
            rest.cmp(&suffix[hint_bytes..])
        }
    }

    /// Checks what no reader needs to check: that the last entry ends with the block, that keys
    /// keep their bound, and that the padding of short hints is zero. Cost: decodes every entry.
    pub fn check_layout(&self) -> Result<(), CodecError> {
        let mut least = u64::MAX;
        for index in 0..self.count() {
            let entry = self.entry(index)?;
            let at = entry.rest_at as usize;
            let suffix_bytes = entry.suffix_bytes as usize;
            if self.prefix().len() + suffix_bytes > STORED_KEY_BYTES_MAX {
                return Err(error(at, "a key beyond the longest one"));
            }
            let hint_bytes = self.hint_bytes();
            let hint = &self.bytes[self.layout.hints_at as usize + index * hint_bytes..];
            let hint = &hint[..hint_bytes];
            if hint[suffix_bytes.min(hint_bytes)..].iter().any(|&byte| byte != 0) {
                return Err(error(at, "the padding of a hint is not zero"));
            }
            least = least.min(entry.seqno.0);
        }
        if self.entry_end(self.count() - 1) != self.bytes.len() {
            return Err(error(self.bytes.len(), "the last entry does not end with the block"));
        }
        if least != self.layout.least {
            return Err(error(8, "the least sequence number is not that of an entry"));
        }
        Ok(())
    }
}

/// How many elements at the start of `sorted` satisfy `holds`, which holds for a prefix of it: in
/// most searches none or one.
#[inline]
fn count_leading<T>(sorted: &[T], holds: impl Fn(&T) -> bool) -> usize {
    match sorted {
        [first, ..] if !holds(first) => 0,
        [_, second, ..] if !holds(second) => 1,
        _ => sorted.partition_point(holds),
    }
}

#[cfg(test)]
mod tests {
    use super::super::block_builder::BlockBuilder;
    use super::*;
    use terrace_base::{Entry, compare_internal, put_varint};

    fn entry(key: &[u8], seqno: u64, value: &[u8]) -> Entry {
        Entry {
            key: key.to_vec(),
            seqno: SeqNo(seqno),
            kind: EntryKind::Value,
            expiry: None,
            value: value.to_vec(),
        }
    }

    fn build(entries: &[Entry]) -> Vec<u8> {
        let mut builder = BlockBuilder::default();
        let mut last: Option<&Entry> = None;
        for entry in entries {
            let same_key = last.is_some_and(|last| last.key == entry.key);
            assert!(builder.try_add(entry.as_ref(), same_key, usize::MAX));
            last = Some(entry);
        }
        let mut out = Vec::new();
        builder.finish(&mut out);
        assert!(builder.is_empty());
        out
    }

    fn decode(block: &[u8]) -> Vec<Entry> {
        let view = BlockView::parse(block).unwrap();
        view.check_layout().unwrap();
        let mut key = Vec::new();
        (0..view.count())
            .map(|index| {
                let decoded = view.entry(index).unwrap();
                if index % 2 == 0 {
                    view.key_into(index, &decoded, &mut key);
                } else {
                    view.next_key_into(index, &decoded, &mut key);
                }
                Entry {
                    key: key.clone(),
                    seqno: decoded.seqno,
                    kind: decoded.kind,
                    expiry: decoded.expiry,
                    value: decoded.value(block).to_vec(),
                }
            })
            .collect()
    }

    #[test]
    fn the_bytes_are_those_of_the_picture() {
        let mut entries = [
            entry(b"user1-long-name", 70, b"one"),
            entry(b"user1-long-name", 7, b""),
            entry(b"user2", 300, b"two"),
        ];
        entries[1].kind = EntryKind::Tombstone;
        entries[2].expiry = Expiry::from_stored(200);
        let expected: Vec<u8> = [
            &[3, 0, 0, 0][..],
            &[4, 0, 0, 0],
            &[7, 0, 0, 0, 0, 0, 0, 0],
            b"user",
            b"1-lo1-lo2\0\0\0",
            &[13, 0, 23, 0, 32, 0],
            &[1, 63, 11],
            b"ng-name",
            b"one",
            &[2 | SAME_KEY, 0, 11],
            b"ng-name",
            &[1 | HAS_EXPIRY, 0xa5, 2, 0xc8, 1, 1],
            b"two",
        ]
        .concat();
        let block = build(&entries);
        assert_eq!(block, expected);
        assert_eq!(decode(&block), entries);
    }

    #[test]
    fn varints_are_read_in_their_shortest_form_only() {
        let mut values = vec![0, 1, u64::MAX];
        values.extend((0..64).flat_map(|bit| [1u64 << bit, (1u64 << bit) - 1]));
        for value in values {
            let mut bytes = vec![0xff];
            put_varint(&mut bytes, value);
            for behind in [&[][..], &[0], &[0xff, 0xff, 0xff]] {
                let bytes = [&bytes[..], behind].concat();
                let mut at = 1;
                assert_eq!(varint(&bytes, &mut at), Some(value));
                assert_eq!(at, bytes.len() - behind.len());
            }
            for cut in 1..bytes.len() {
                assert_eq!(varint(&bytes[..cut], &mut 1), None, "{value} cut to {cut}");
            }
        }
        for bad in [&[0x80, 0][..], &[0x80, 0x80, 0], &[0x80, 0x80, 0x80, 0], &[0xff; 11]] {
            assert_eq!(varint(bad, &mut 0), None, "{bad:?}");
        }
    }

    #[test]
    fn every_shape_round_trips() {
        let long = vec![b'k'; 3000];
        let mut wide_numbers = [entry(b"a", u64::MAX, b"x"), entry(b"b", 0, b"y")];
        wide_numbers[0].expiry = Expiry::from_stored(u64::MAX);
        let large = entry(b"large", 1, &vec![3; 70_000]);
        let shapes = [
            vec![entry(b"", 1, b"")],
            vec![entry(b"", 9, b"new"), entry(b"", 1, b"old")],
            vec![entry(&long, 5, b"a"), entry(&[&long[..], b"x"].concat(), 4, b"b")],
            vec![
                entry(b"abcd", 1, b""),
                entry(b"abcd\0", 1, b""),
                entry(b"abcd\0\0\0\0\0", 1, b""),
            ],
            vec![large.clone(), entry(b"larger", 2, b"behind 64 KiB")],
            (0..300).map(|number| entry(format!("{number:09}").as_bytes(), 8, b"v")).collect(),
            (0..300).rev().map(|seqno| entry(b"one key", seqno, b"v")).collect(),
            wide_numbers.to_vec(),
        ];
        for shape in shapes {
            assert_eq!(decode(&build(&shape)), shape);
        }
    }

    #[test]
    fn hints_are_as_narrow_as_they_can_be() {
        let wide = |entries: &[Entry]| BlockView::parse(&build(entries)).unwrap().hint_bytes() == 8;
        assert!(!wide(&[entry(b"p-1111-x", 1, b""), entry(b"p-1112-x", 1, b"")]));
        assert!(wide(&[
            entry(b"p-1111-x", 1, b""),
            entry(b"p-1111-y", 1, b""),
            entry(b"p-2", 1, b""),
        ]));
        assert!(!wide(&[entry(b"p", 3, b""), entry(b"p", 2, b""), entry(b"p", 1, b"")]));
    }

    #[test]
    fn a_search_agrees_with_a_walk() {
        // All keys of three letters and less, behind a prefix, with one to three versions.
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for length in 0..=3u32 {
            for number in 0..3usize.pow(length) {
                let digits = (0..length).map(|at| [0, 1, 0xff][number / 3usize.pow(at) % 3]);
                keys.push([&b"px"[..], &digits.collect::<Vec<u8>>()].concat());
            }
        }
        keys.sort();
        let mut targets = keys.clone();
        targets.extend([b"".to_vec(), b"p".to_vec(), b"pw".to_vec(), b"py".to_vec()]);
        targets.extend(keys.iter().map(|key| [&key[..], &[0, 0, 0, 0, 0, 0, 1]].concat()));
        // With a long key among them the hints are wide.
        for tail in [&[][..], &[0, 0, 0, 0, 0, 0, 0, 0, 0]] {
            let mut entries = Vec::new();
            for (at, key) in keys.iter().enumerate().filter(|(at, _)| at % 5 != 4) {
                let key = if at % 2 == 0 { [&key[..], tail].concat() } else { key.clone() };
                for seqno in (0..1 + at as u64 % 3).rev() {
                    entries.push(entry(&key, seqno * 10 + 5, b"value"));
                }
            }
            entries.sort_by(|a, b| compare_internal(&a.key, a.seqno, &b.key, b.seqno));
            entries.dedup_by(|a, b| (&a.key, a.seqno) == (&b.key, b.seqno));
            let block = build(&entries);
            let view = BlockView::parse(&block).unwrap();
            targets.extend(entries.iter().map(|entry| entry.key.clone()));
            for target in &targets {
                for seqno in [0, 4, 5, 14, 15, 16, 24, u64::MAX].map(SeqNo) {
                    let expected = entries.partition_point(|entry| {
                        compare_internal(&entry.key, entry.seqno, target, seqno).is_lt()
                    });
                    let found = view.seek(target, seqno).unwrap();
                    assert_eq!(found.index, expected, "{target:?} {seqno:?}");
                    let same = entries.get(expected).filter(|entry| entry.key == *target);
                    assert_eq!(found.same_key.map(|entry| entry.seqno), same.map(|e| e.seqno));
                }
            }
        }
    }

    #[test]
    fn a_block_is_full_at_its_target_and_takes_at_least_one_entry() {
        let mut builder = BlockBuilder::default();
        let large = entry(b"large", 1, &[0; 5000]);
        assert!(builder.try_add(large.as_ref(), false, 1000), "the first always fits");
        assert!(!builder.try_add(entry(b"next", 1, b"").as_ref(), false, 1000));
        let mut out = Vec::new();
        builder.finish(&mut out);
        let mut added = 0;
        while builder.try_add(
            entry(format!("a common prefix {added:06}").as_bytes(), 1, &[0; 20]).as_ref(),
            false,
            1000,
        ) {
            added += 1;
        }
        let estimate = builder.estimated_bytes();
        out.clear();
        builder.finish(&mut out);
        assert!(out.len() <= 1000 && out.len() > 900, "{} bytes", out.len());
        assert!(estimate.abs_diff(out.len()) < 100, "{estimate} for {}", out.len());
    }

    #[test]
    fn hostile_blocks_give_errors_and_never_panics() {
        let entries: Vec<Entry> =
            (0..20).map(|number| entry(format!("key{number:03}").as_bytes(), 8, b"v")).collect();
        let intact = build(&entries);
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize
        };
        for round in 0..30_000 {
            let mut block = intact.clone();
            if round % 3 == 0 {
                block.truncate(next() % block.len());
            }
            for _ in 0..1 + next() % 4 {
                if !block.is_empty() {
                    let at = next() % block.len().min(if round % 2 == 0 { 20 } else { 1000 });
                    block[at] = next() as u8;
                }
            }
            let Ok(view) = BlockView::parse(&block) else { continue };
            let _ = view.check_layout();
            let mut key = Vec::new();
            for index in 0..view.count() {
                if let Ok(entry) = view.entry(index) {
                    view.key_into(index, &entry, &mut key);
                    let _ = entry.value(&block);
                }
            }
            for target in [&b""[..], b"key", b"key005", b"key0055", b"kez", b"\xff"] {
                if let Ok(found) = view.seek(target, SeqNo(8)) {
                    assert!(found.index <= view.count());
                }
            }
        }
    }
}
