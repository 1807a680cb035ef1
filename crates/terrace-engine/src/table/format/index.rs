//! The index: for each data block a separator, which lies at or above everything in that block and
//! below everything in the next.
//!
//! ```text
//!  varint  n, how many data blocks
//!  n times
//!   varint  bytes of the block's frame; the blocks lie back to back from the start of the file
//!   varint  0: the separator lies above every version of its key; else it is the place of the
//!           version with this sequence number, and the key goes on in the next block
//!   varint  bytes of the separator
//!   bytes   the separator
//! ```
//!
//! Separators are as short as they can be, save the last, which is the last key of the table.
//!
//! In memory the separators' distinguishing bytes are a static search tree whose nodes are cache
//! lines of eight hints: with 16 k blocks a search touches five lines, of which three are shared
//! by all searches, and the line beside the last, where the offsets of the same blocks stand. The
//! separators themselves are compared only where hints are equal.

use terrace_base::limits::STORED_KEY_BYTES_MAX;
use terrace_base::{
    ByteReader, CodecError, SeqNo, common_prefix_bytes, compare_internal, hint_of, put_bytes,
    put_varint,
};

use super::BLOCK_BYTES_MAX;
use super::footer::Handle;
use super::frame::TRAILER_BYTES;

/// The largest frame of a data block: the decoded size bounds the stored size too, since a block
/// that does not shrink is stored as it is.
pub(crate) const FRAME_BYTES_MAX: u64 = (BLOCK_BYTES_MAX + TRAILER_BYTES) as u64;

/// Writes an index.
#[derive(Debug, Default)]
pub struct IndexBuilder {
    entries: Vec<u8>,
    count: u64,
}

impl IndexBuilder {
    /// Adds the next block: the size of its frame, its separator, and the number of its last
    /// version if that version's key goes on in the next block.
    pub fn add(&mut self, frame_bytes: u64, separator: &[u8], goes_on_after: Option<SeqNo>) {
        put_varint(&mut self.entries, frame_bytes);
        put_varint(&mut self.entries, goes_on_after.map_or(0, |seqno| seqno.0));
        put_bytes(&mut self.entries, separator);
        self.count += 1;
    }

    /// How many blocks have been added.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// About how many bytes the index takes.
    #[must_use]
    pub fn estimated_bytes(&self) -> usize {
        self.entries.len() + 10
    }

    /// Appends the block.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.count);
        out.extend_from_slice(&self.entries);
    }
}

/// Puts the shortest key `s` with `last <= s < next` into `separator`.
///
/// # Panics
/// If `last < next` does not hold.
pub fn shortest_separator(last: &[u8], next: &[u8], separator: &mut Vec<u8>) {
    assert!(last < next, "keys ascend");
    separator.clear();
    let common = common_prefix_bytes(last, next);
    if last.len() == common {
        separator.extend_from_slice(last);
        return;
    }
    // Both have a byte at `common`, and that of `last` is smaller.
    let (low, high) = (last[common], next[common]);
    if low + 1 < high {
        separator.extend_from_slice(&last[..common]);
        separator.push(low + 1);
    } else if next.len() > common + 1 {
        separator.extend_from_slice(&next[..=common]);
    } else {
        // Only keys that begin as `last` does lie between: raise its first byte that can be.
        let rest = &last[common + 1..];
        let kept = rest.iter().position(|&byte| byte != 0xff).map_or(last.len(), |raised| {
            let raised = common + 1 + raised;
            if raised + 1 < last.len() { raised } else { last.len() }
        });
        separator.extend_from_slice(&last[..kept]);
        if kept < last.len() {
            separator.push(last[kept] + 1);
        }
    }
}

/// Eight hints, ascending, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Node([u64; 8]);

const NODE_HINTS: usize = 8;

impl Node {
    /// A node of at most eight hints.
    fn new(hints: &[u64]) -> Node {
        let mut node = Node([u64::MAX; NODE_HINTS]);
        node.0[..hints.len()].copy_from_slice(hints);
        node
    }

    #[inline]
    fn count_below(&self, target: u64) -> usize {
        // No branch: three steps tell seven hints apart, and one more looks at the eighth.
        let below = |at: usize| usize::from(self.0[at & (NODE_HINTS - 1)] < target);
        let mut count = below(3) * 4;
        count += below(count + 1) * 2;
        count += below(count);
        count + below(count)
    }
}

/// The last hint of each node of a level: the level above.
fn greatest_of_each(hints: &[u64]) -> Vec<u64> {
    hints.chunks(NODE_HINTS).filter_map(|chunk| chunk.last().copied()).collect()
}

/// A leaf of the tree: eight hints, and beside them where the blocks begin: two neighbouring lines,
/// which the processor fetches together.
#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
struct Leaf {
    node: Node,
    offsets: [u64; NODE_HINTS],
}

/// An index in memory.
#[derive(Debug)]
pub struct Index {
    /// What all separators begin with.
    prefix: Vec<u8>,
    /// The lowest level of the search tree; unused places hold the greatest hint and the end of the
    /// data.
    leaves: Vec<Leaf>,
    /// The levels above it, from the lowest.
    nodes: Vec<Node>,
    /// Where each of them begins in `nodes`.
    levels: Vec<usize>,
    /// Where the last block ends.
    data_bytes: u64,
    separators: Vec<u8>,
    /// Where each separator ends in `separators`.
    ends: Vec<u32>,
    /// Separators inside a key: (block, number of its last version), ascending.
    goes_on_after: Vec<(u32, SeqNo)>,
}

impl Index {
    /// Decodes the index of a table with this many bytes of data blocks.
    ///
    /// Cost and memory: linear in the payload. Errors: as a decoder's; also separators out of
    /// order, and blocks that do not fill the data bytes.
    pub fn decode(payload: &[u8], data_bytes: u64) -> Result<Index, CodecError> {
        let mut reader = ByteReader::new(payload);
        let count = reader.varint_usize()?;
        // Each block takes three bytes at least, and the positions must fit 32 bits.
        if count > reader.rest().len() / 3 || payload.len() > super::META_BYTES_MAX {
            return Err(CodecError { offset: 0, what: "more blocks than the index has room for" });
        }
        let mut index = Index {
            prefix: Vec::new(),
            leaves: Vec::new(),
            nodes: Vec::new(),
            levels: Vec::new(),
            data_bytes,
            separators: Vec::with_capacity(reader.rest().len()),
            ends: Vec::with_capacity(count),
            goes_on_after: Vec::new(),
        };
        let mut end = 0u64;
        let mut before: Option<(&[u8], SeqNo)> = None;
        let mut offsets = Vec::with_capacity(count);
        for block in 0..count {
            let frame_bytes = reader.varint()?;
            if frame_bytes <= TRAILER_BYTES as u64 || frame_bytes > FRAME_BYTES_MAX {
                return Err(reader.error("a block of impossible size"));
            }
            // At most 2^28 blocks of 2^27 bytes: no overflow.
            offsets.push(end);
            end += frame_bytes;
            let seqno = SeqNo(reader.varint()?);
            let separator = reader.bytes()?;
            if separator.len() > STORED_KEY_BYTES_MAX {
                return Err(reader.error("a separator beyond the longest key"));
            }
            let before = before.replace((separator, seqno));
            if before.is_some_and(|(key, at)| compare_internal(key, at, separator, seqno).is_ge()) {
                return Err(reader.error("separators out of order"));
            }
            if seqno != SeqNo::ZERO {
                index.goes_on_after.push((block as u32, seqno));
            }
            index.separators.extend_from_slice(separator);
            index.ends.push(index.separators.len() as u32);
        }
        reader.finish()?;
        if end != data_bytes {
            return Err(CodecError { offset: 0, what: "the blocks do not fill the data bytes" });
        }
        index.separators.shrink_to_fit();
        index.plant_tree(&offsets);
        Ok(index)
    }

    fn plant_tree(&mut self, offsets: &[u64]) {
        let count = self.block_count();
        if count == 0 {
            return;
        }
        let (first, last) = (self.separator(0), self.separator(count - 1));
        // The separators ascend, so what the outermost have in common, all have.
        self.prefix = first[..common_prefix_bytes(first, last)].to_vec();
        let hints: Vec<u64> = (0..count)
            .map(|block| u64::from_be_bytes(hint_of(&self.separator(block)[self.prefix.len()..])))
            .collect();
        let leaves = hints.chunks(NODE_HINTS).zip(offsets.chunks(NODE_HINTS));
        self.leaves = leaves
            .map(|(hints, starts)| {
                let mut offsets = [self.data_bytes; NODE_HINTS];
                offsets[..starts.len()].copy_from_slice(starts);
                Leaf { node: Node::new(hints), offsets }
            })
            .collect();
        let mut greatest = greatest_of_each(&hints);
        while greatest.len() > 1 {
            self.levels.push(self.nodes.len());
            self.nodes.extend(greatest.chunks(NODE_HINTS).map(Node::new));
            greatest = greatest_of_each(&greatest);
        }
    }

    /// How many data blocks there are.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.ends.len()
    }

    /// Where a block lies; `block` is below [`Index::block_count`].
    #[must_use]
    #[inline]
    pub fn handle(&self, block: usize) -> Handle {
        let offset = self.offset(block);
        let end =
            if block + 1 < self.block_count() { self.offset(block + 1) } else { self.data_bytes };
        Handle { offset, bytes: end - offset }
    }

    /// Where a block begins; `block` is below [`Index::block_count`].
    #[must_use]
    #[inline]
    pub fn offset(&self, block: usize) -> u64 {
        self.leaves[block / NODE_HINTS].offsets[block % NODE_HINTS]
    }

    /// The block that begins at an offset, if one does.
    #[must_use]
    pub fn block_at(&self, offset: u64) -> Option<usize> {
        let (mut first, mut end) = (0, self.block_count());
        while first < end {
            let middle = first + (end - first) / 2;
            if self.offset(middle) < offset {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
        (first < self.block_count() && self.offset(first) == offset).then_some(first)
    }

    /// The key of a block's separator.
    #[must_use]
    pub fn separator(&self, block: usize) -> &[u8] {
        let start = if block == 0 { 0 } else { self.ends[block - 1] as usize };
        &self.separators[start..self.ends[block] as usize]
    }

    /// If the last key of a block goes on in the next: the number of its last version here.
    #[must_use]
    pub fn goes_on_after(&self, block: usize) -> Option<SeqNo> {
        let found = self.goes_on_after.binary_search_by_key(&block, |(at, _)| *at as usize);
        found.ok().map(|found| self.goes_on_after[found].1)
    }

    /// The only block that can hold the first entry at or above (`key`, `seqno`) in internal
    /// order, unless all of its entries lie below, when it is the first of the next block; the
    /// count of blocks if there is none. An entry of exactly this key is in that block or nowhere.
    #[must_use]
    #[inline]
    pub fn seek(&self, key: &[u8], seqno: SeqNo) -> usize {
        let Some(suffix) = key.strip_prefix(self.prefix.as_slice()) else {
            return if key < self.prefix.as_slice() { 0 } else { self.block_count() };
        };
        let target = u64::from_be_bytes(hint_of(suffix));
        // A target above all hints leads past the end of a level, and from there past the end of
        // each level below, whatever stands there.
        let mut place = 0;
        for &level in self.levels.iter().rev() {
            let Some(node) = self.nodes.get(level + place) else {
                return self.block_count();
            };
            place = place * NODE_HINTS + node.count_below(target);
        }
        let Some(leaf) = self.leaves.get(place) else {
            return self.block_count();
        };
        place = place * NODE_HINTS + leaf.node.count_below(target);
        if place >= self.block_count() || self.hint(place) != target {
            return place.min(self.block_count());
        }
        self.seek_among(place, target, key, seqno)
    }

    #[inline]
    fn hint(&self, block: usize) -> u64 {
        self.leaves[block / NODE_HINTS].node.0[block % NODE_HINTS]
    }

    /// Finishes a search among the separators from `first` that share the target's hint.
    fn seek_among(&self, first: usize, target: u64, key: &[u8], seqno: SeqNo) -> usize {
        let (mut low, mut high) = (first, first + 1);
        if high < self.block_count() && self.hint(high) == target {
            high = self.block_count();
        }
        while low < high {
            let middle = low + (high - low) / 2;
            let below = || {
                let last = self.goes_on_after(middle).unwrap_or(SeqNo::ZERO);
                compare_internal(self.separator(middle), last, key, seqno).is_lt()
            };
            if self.hint(middle) == target && below() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Bytes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.prefix.capacity()
            + self.leaves.capacity() * size_of::<Leaf>()
            + self.nodes.capacity() * size_of::<Node>()
            + self.levels.capacity() * size_of::<usize>()
            + self.separators.capacity()
            + self.ends.capacity() * size_of::<u32>()
            + self.goes_on_after.capacity() * size_of::<(u32, SeqNo)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index_of(blocks: &[(&[u8], Option<u64>)]) -> Index {
        let mut builder = IndexBuilder::default();
        for (separator, seqno) in blocks {
            builder.add(100, separator, seqno.map(SeqNo));
        }
        let mut payload = Vec::new();
        builder.encode(&mut payload);
        Index::decode(&payload, 100 * blocks.len() as u64).unwrap()
    }

    #[test]
    fn a_separator_is_short_and_lies_between() {
        for (last, next, expected) in [
            ("", "a", ""),
            ("abc", "abcd", "abc"),
            ("abc", "b", "ac"),
            ("abc", "bcd", "b"),
            ("abc", "x", "b"),
            ("ab", "b", "ab"),
            ("abcdef", "abd", "abce"),
            ("ab\x7dff", "ac", "ab~"),
            ("same-prefix-1234", "same-prefix-9", "same-prefix-2"),
        ] {
            let mut separator = Vec::new();
            shortest_separator(last.as_bytes(), next.as_bytes(), &mut separator);
            assert_eq!(String::from_utf8(separator).unwrap(), expected, "{last:?} {next:?}");
        }
        let mut separator = Vec::new();
        shortest_separator(b"a\xff\xff\xff", b"b", &mut separator);
        assert_eq!(separator, b"a\xff\xff\xff");
        shortest_separator(b"a\xff\x01\x01", b"b", &mut separator);
        assert_eq!(separator, b"a\xff\x02");
    }

    #[test]
    fn separators_of_all_short_keys_lie_between() {
        let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
        for length in 1..=3u32 {
            for number in 0..3u32.pow(length) {
                let digits =
                    (0..length).map(|at| [0, 1, 0xff][(number / 3u32.pow(at) % 3) as usize]);
                keys.push(digits.collect());
            }
        }
        keys.sort();
        let mut separator = Vec::new();
        for (at, last) in keys.iter().enumerate() {
            for next in &keys[at + 1..] {
                shortest_separator(last, next, &mut separator);
                assert!(*last <= separator && separator < *next, "{last:?} {next:?}");
                assert!(separator.len() <= last.len());
            }
        }
    }

    #[test]
    fn a_search_agrees_with_a_walk_at_every_size() {
        for count in (0..70usize).chain([511, 512, 513, 4095, 4096, 4097]) {
            for shared in ["", "a long prefix which no hint can see past "] {
                let keys: Vec<String> =
                    (0..count).map(|number| format!("{shared}{:06}", number * 2)).collect();
                let blocks: Vec<(&[u8], Option<u64>)> =
                    keys.iter().map(|key| (key.as_bytes(), None)).collect();
                let index = index_of(&blocks);
                for number in 0..=count * 2 + 1 {
                    let target = format!("{shared}{number:06}");
                    let expected = number.div_ceil(2).min(count);
                    let found = index.seek(target.as_bytes(), SeqNo(5));
                    assert_eq!(found, expected, "{target} of {count}");
                }
                assert_eq!(index.seek(b"", SeqNo::MAX), 0);
                assert_eq!(index.seek(b"zzz", SeqNo::MAX), count);
            }
        }
    }

    #[test]
    fn keys_with_equal_hints_and_keys_over_many_blocks_are_told_apart() {
        let index = index_of(&[
            (b"aaaaaaaa", None),
            (b"aaaaaaaa\0", None),
            (b"aaaaaaaa\0\0b", Some(90)),
            (b"aaaaaaaa\0\0b", Some(50)),
            (b"aaaaaaaa\0\0b", None),
            (b"b", None),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff", None),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff", None),
        ]);
        for (key, seqno, expected) in [
            (&b"aaaaaaaa"[..], 7, 0),
            (b"aaaaaaaa\0", 7, 1),
            (b"aaaaaaaa\0\0", 7, 2),
            (b"aaaaaaaa\0\0b", u64::MAX, 2),
            (b"aaaaaaaa\0\0b", 90, 2),
            (b"aaaaaaaa\0\0b", 89, 3),
            (b"aaaaaaaa\0\0b", 50, 3),
            (b"aaaaaaaa\0\0b", 49, 4),
            (b"aaaaaaaa\0\0b", 0, 4),
            (b"aaaaaaaa\0\0c", 0, 5),
            (b"b", 0, 5),
            (b"ba", 0, 6),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff", 0, 6),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff", 0, 7),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\0", 0, 8),
        ] {
            assert_eq!(index.seek(key, SeqNo(seqno)), expected, "{key:?} {seqno}");
        }
        assert_eq!(index.goes_on_after(2), Some(SeqNo(90)));
        assert_eq!(index.goes_on_after(4), None);
        assert_eq!(index.handle(3), Handle { offset: 300, bytes: 100 });
    }

    #[test]
    fn forged_indexes_are_refused() {
        let payload = |blocks: &[(u64, &[u8], u64)]| {
            let mut builder = IndexBuilder::default();
            for (bytes, separator, seqno) in blocks {
                builder.add(*bytes, separator, Some(SeqNo(*seqno)));
            }
            let mut payload = Vec::new();
            builder.encode(&mut payload);
            payload
        };
        let fine = payload(&[(10, b"a", 0), (20, b"b", 0)]);
        assert!(Index::decode(&fine, 30).is_ok());
        assert!(Index::decode(&fine, 31).is_err(), "other data bytes");
        assert!(Index::decode(&[&fine[..], &[0]].concat(), 30).is_err(), "left over");
        for bytes in 0..fine.len() {
            assert!(Index::decode(&fine[..bytes], 30).is_err(), "cut to {bytes}");
        }
        assert!(Index::decode(&payload(&[(10, b"b", 0), (20, b"a", 0)]), 30).is_err(), "order");
        assert!(Index::decode(&payload(&[(10, b"a", 0), (20, b"a", 0)]), 30).is_err(), "equal");
        assert!(Index::decode(&payload(&[(10, b"a", 4), (20, b"a", 5)]), 30).is_err(), "newer");
        assert!(Index::decode(&payload(&[(10, b"a", 5), (20, b"a", 4)]), 30).is_ok());
        assert!(Index::decode(&payload(&[(5, b"a", 0)]), 5).is_err(), "an empty block");
        assert!(Index::decode(&payload(&[(1 << 40, b"a", 0)]), 1 << 40).is_err(), "a huge block");
        let mut huge_count = Vec::new();
        put_varint(&mut huge_count, u64::MAX);
        assert!(Index::decode(&huge_count, 0).is_err(), "a huge count");
    }
}
