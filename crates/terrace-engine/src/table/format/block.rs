//! A data block: entries of neighbouring keys, searchable where they lie.
//!
//! A get touches few cache lines and decodes one entry: the bytes in which the block's keys differ
//! stand side by side as *hints*, so that a binary search over one or two lines finds the entry.
//!
//! ```text
//!  ┌────────┬────────┬────────────────┬────────────────────┬─────────┬───┬─────────┐
//!  │ header │ prefix │ hints, n × 4|8 │ offsets, n × 2|4   │ entry 0 │ … │ entry n │
//!  └────────┴────────┴────────────────┴────────────────────┴─────────┴───┴─────────┘
//!
//!  header, 16 bytes
//!   0 u32   n, how many entries; at least 1
//!   4 u32   bits 0-23 bytes of the prefix; bit 24: hints have 8 bytes, not 4;
//!           bit 25: offsets have 4 bytes, not 2; all other bits zero
//!   8 u64   the least sequence number of the block
//!
//!  prefix   the bytes that all keys of the block begin with, stored once;
//!           what follows the prefix in a key is the key's suffix
//!  hint     the first 4 or 8 bytes of the suffix, big-endian, a shorter one padded with zeros
//!  offset   where the entry begins, counted from the start of entry 0
//!
//!  entry
//!   u8      bits 0-2 kind; bit 3: an expiry follows; bit 4: same key as the entry before, be it
//!           in this block or the last of the block before; bits 5-7 zero
//!   varint  sequence number minus the least one
//!   varint  expiry in milliseconds, at least 1; only if bit 3 is set
//!   varint  bytes of the suffix
//!   varint  bytes of the value
//!   bytes   what of the suffix is not in the hint
//!   bytes   the value
//! ```
//!
//! Entries are in internal order (key ascending, newest version first) and lie back to back. The
//! versions of one key may go on in the next block. Equal hints do not mean equal keys.

use std::cmp::Ordering;

use terrace_base::limits::STORED_KEY_BYTES_MAX;
use terrace_base::{ByteReader, CodecError, EntryKind, EntryRef, Expiry, SeqNo, varint_bytes};

const HEADER_BYTES: usize = 16;
const PREFIX_BYTES_MASK: u32 = (1 << 24) - 1;
const WIDE_HINTS: u32 = 1 << 24;
const WIDE_OFFSETS: u32 = 1 << 25;

const KIND_MASK: u8 = 0b111;
const HAS_EXPIRY: u8 = 1 << 3;
const SAME_KEY: u8 = 1 << 4;

/// What an entry costs beside its key and value, roughly: for estimates.
const ENTRY_OVERHEAD_BYTES: usize = 9;

/// Keys that are gathered for one block before the common prefix is taken away, in bytes: bounds
/// the builder's memory where many long keys differ in their last bytes only.
const GATHERED_KEY_BYTES_MAX: usize = 2 * 1024 * 1024;

fn error(offset: usize, what: &'static str) -> CodecError {
    CodecError { offset, what }
}

/// Reads a varint that is most often one byte long.
#[inline]
fn short_varint(reader: &mut ByteReader<'_>) -> Result<u64, CodecError> {
    match reader.rest().first() {
        Some(&byte) if byte < 0x80 => {
            reader.take(1)?;
            Ok(u64::from(byte))
        }
        _ => reader.varint(),
    }
}

/// A decoded data block, borrowed: its header is checked, its entries are not yet.
#[derive(Clone, Copy, Debug)]
pub struct BlockView<'a> {
    bytes: &'a [u8],
    count: usize,
    least: u64,
    prefix: &'a [u8],
    hints: Hints<'a>,
    offsets: Offsets<'a>,
    entries_at: usize,
}

#[derive(Clone, Copy, Debug)]
enum Hints<'a> {
    Four(&'a [[u8; 4]]),
    Eight(&'a [[u8; 8]]),
}

#[derive(Clone, Copy, Debug)]
enum Offsets<'a> {
    Two(&'a [[u8; 2]]),
    Four(&'a [[u8; 4]]),
}

/// One entry of a block, without its key. The positions count from the start of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEntry {
    /// What it says.
    pub kind: EntryKind,
    /// Whether the entry before, in internal order, has the same key.
    pub same_key: bool,
    /// When it was written.
    pub seqno: SeqNo,
    /// When it turns into a tombstone.
    pub expiry: Option<Expiry>,
    suffix_bytes: u32,
    rest_at: u32,
    value_at: u32,
    value_end: u32,
}

impl BlockEntry {
    /// The value: an interval of the decoded block.
    #[must_use]
    pub fn value<'a>(&self, block: &'a [u8]) -> &'a [u8] {
        &block[self.value_at as usize..self.value_end as usize]
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

impl<'a> BlockView<'a> {
    /// Checks the header of a decoded block. Cost: a few dozen instructions, one cache line.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<BlockView<'a>, CodecError> {
        let mut reader = ByteReader::new(bytes);
        let count = reader.u32()? as usize;
        let bits = reader.u32()?;
        let least = reader.u64()?;
        if count == 0 {
            return Err(error(0, "a block without entries"));
        }
        if bits & !(PREFIX_BYTES_MASK | WIDE_HINTS | WIDE_OFFSETS) != 0 {
            return Err(error(4, "reserved bits of a block are set"));
        }
        let prefix = reader.take((bits & PREFIX_BYTES_MASK) as usize)?;
        let too_many = || error(0, "more entries than the block has room for");
        let mut array = |width: usize| {
            count.checked_mul(width).and_then(|bytes| reader.take(bytes).ok()).ok_or_else(too_many)
        };
        let hints = if bits & WIDE_HINTS == 0 {
            Hints::Four(array(4)?.as_chunks().0)
        } else {
            Hints::Eight(array(8)?.as_chunks().0)
        };
        let offsets = if bits & WIDE_OFFSETS == 0 {
            Offsets::Two(array(2)?.as_chunks().0)
        } else {
            Offsets::Four(array(4)?.as_chunks().0)
        };
        Ok(BlockView { bytes, count, least, prefix, hints, offsets, entries_at: reader.offset() })
    }

    /// How many entries there are; at least one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    fn hint_bytes(&self) -> usize {
        match self.hints {
            Hints::Four(_) => 4,
            Hints::Eight(_) => 8,
        }
    }

    fn hint(&self, index: usize) -> &'a [u8] {
        match self.hints {
            Hints::Four(hints) => &hints[index],
            Hints::Eight(hints) => &hints[index],
        }
    }

    fn entry_at(&self, index: usize) -> usize {
        let offset = match self.offsets {
            Offsets::Two(offsets) => usize::from(u16::from_le_bytes(offsets[index])),
            Offsets::Four(offsets) => u32::from_le_bytes(offsets[index]) as usize,
        };
        self.entries_at + offset
    }

    /// Decodes the entry with this index, which lies below [`BlockView::count`].
    #[inline]
    pub fn entry(&self, index: usize) -> Result<BlockEntry, CodecError> {
        let start = self.entry_at(index);
        let Some(bytes) = self.bytes.get(start..) else {
            return Err(error(start, "an entry lies beyond its block"));
        };
        let mut reader = ByteReader::new(bytes);
        let at = |mut codec_error: CodecError| {
            codec_error.offset += start;
            codec_error
        };
        let flags = reader.u8().map_err(at)?;
        if flags & !(KIND_MASK | HAS_EXPIRY | SAME_KEY) != 0 {
            return Err(error(start, "reserved bits of an entry are set"));
        }
        let kind = match EntryKind::from_stored(flags & KIND_MASK) {
            Some(EntryKind::RangeTombstone) | None => {
                return Err(error(start, "an entry of unknown kind"));
            }
            Some(kind) => kind,
        };
        let delta = short_varint(&mut reader).map_err(at)?;
        let Some(seqno) = self.least.checked_add(delta) else {
            return Err(error(start, "a sequence number beyond 64 bits"));
        };
        let mut expiry = None;
        if flags & HAS_EXPIRY != 0 {
            expiry = Expiry::from_stored(reader.varint().map_err(at)?);
            if expiry.is_none() {
                return Err(error(start, "an expiry of zero"));
            }
        }
        let suffix_bytes = short_varint(&mut reader).map_err(at)?;
        let value_bytes = short_varint(&mut reader).map_err(at)?;
        if suffix_bytes > (STORED_KEY_BYTES_MAX as u64).saturating_sub(self.prefix.len() as u64) {
            return Err(error(start, "a key beyond the longest one"));
        }
        let rest_at = start + reader.offset();
        // Both are small: the suffix was checked, and the block is shorter than 4 GiB.
        let value_at = rest_at + (suffix_bytes as usize).saturating_sub(self.hint_bytes());
        if value_at > self.bytes.len() || value_bytes > (self.bytes.len() - value_at) as u64 {
            return Err(error(start, "an entry reaches beyond its block"));
        }
        Ok(BlockEntry {
            kind,
            same_key: flags & SAME_KEY != 0,
            seqno: SeqNo(seqno),
            expiry,
            suffix_bytes: suffix_bytes as u32,
            rest_at: rest_at as u32,
            value_at: value_at as u32,
            value_end: (value_at + value_bytes as usize) as u32,
        })
    }

    /// Puts the key of an entry, which was decoded from this index of this block, into `key`.
    #[inline]
    pub fn key_into(&self, index: usize, entry: &BlockEntry, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(self.prefix);
        let hint = self.hint(index);
        key.extend_from_slice(&hint[..hint.len().min(entry.suffix_bytes as usize)]);
        key.extend_from_slice(&self.bytes[entry.rest_at as usize..entry.value_at as usize]);
    }

    /// The first entry at or above (`key`, `seqno`) in internal order.
    ///
    /// Cost: a search over the hints, and then one entry decoded for each doubling of the entries
    /// that share the target's hint: most often one or none.
    #[inline]
    pub fn seek(&self, key: &[u8], seqno: SeqNo) -> Result<Found, CodecError> {
        let common = key.len().min(self.prefix.len());
        match key[..common].cmp(&self.prefix[..common]) {
            Ordering::Less => return Ok(Found { index: 0, same_key: None }),
            Ordering::Greater => return Ok(Found { index: self.count, same_key: None }),
            Ordering::Equal if common < self.prefix.len() => {
                return Ok(Found { index: 0, same_key: None });
            }
            Ordering::Equal => {}
        }
        let suffix = &key[common..];
        match self.hints {
            Hints::Four(hints) => {
                let target = u32::from_be_bytes(hint_of(suffix));
                let index = hints.partition_point(|hint| u32::from_be_bytes(*hint) < target);
                let equal = |hint: &[u8; 4]| u32::from_be_bytes(*hint) == target;
                self.seek_among(index, count_leading(&hints[index..], equal), suffix, seqno)
            }
            Hints::Eight(hints) => {
                let target = u64::from_be_bytes(hint_of(suffix));
                let index = hints.partition_point(|hint| u64::from_be_bytes(*hint) < target);
                let equal = |hint: &[u8; 8]| u64::from_be_bytes(*hint) == target;
                self.seek_among(index, count_leading(&hints[index..], equal), suffix, seqno)
            }
        }
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

    /// Checks what no reader needs to check: that the entries lie back to back up to the end of
    /// the block, and that the padding of short hints is zero. Cost: decodes every entry.
    pub fn check_layout(&self) -> Result<(), CodecError> {
        let mut end = self.entries_at;
        let mut least = u64::MAX;
        for index in 0..self.count {
            if self.entry_at(index) != end {
                return Err(error(end, "entries do not lie back to back"));
            }
            let entry = self.entry(index)?;
            let hint = self.hint(index);
            let used = hint.len().min(entry.suffix_bytes as usize);
            if hint[used..].iter().any(|&byte| byte != 0) {
                return Err(error(end, "the padding of a hint is not zero"));
            }
            least = least.min(entry.seqno.0);
            end = entry.value_end as usize;
        }
        if end != self.bytes.len() {
            return Err(error(end, "bytes are left over behind the last entry"));
        }
        if least != self.least {
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

/// The first bytes of a suffix, padded with zeros.
#[inline]
pub(super) fn hint_of<const BYTES: usize>(suffix: &[u8]) -> [u8; BYTES] {
    match suffix.first_chunk() {
        Some(chunk) => *chunk,
        None => {
            let mut padded = [0; BYTES];
            padded[..suffix.len()].copy_from_slice(suffix);
            padded
        }
    }
}

/// How many bytes `a` and `b` have in common from their start.
#[must_use]
pub(super) fn common_prefix_bytes(a: &[u8], b: &[u8]) -> usize {
    let (a_words, _) = a.as_chunks::<8>();
    let (b_words, _) = b.as_chunks::<8>();
    let words = a_words.iter().zip(b_words).take_while(|(a, b)| a == b).count() * 8;
    let rest = a[words..].iter().zip(&b[words..]).take_while(|(a, b)| a == b).count();
    words + rest
}

/// Gathers entries and writes them as one block. Its buffers are used again for the next block.
#[derive(Debug, Default)]
pub struct BlockBuilder {
    keys: Vec<u8>,
    values: Vec<u8>,
    entries: Vec<Gathered>,
    prefix_bytes: usize,
    least: u64,
    greatest: u64,
    /// Bytes of the entries but for suffixes, values and sequence numbers.
    fixed_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Gathered {
    seqno: u64,
    expiry: u64,
    key_end: u32,
    value_end: u32,
    flags: u8,
}

impl BlockBuilder {
    /// Whether no entry has been gathered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many entries have been gathered.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// About how large the block would be, in bytes.
    #[must_use]
    pub fn estimated_bytes(&self) -> usize {
        self.estimate(self.entries.len(), self.keys.len() + self.values.len(), self.prefix_bytes)
    }

    fn estimate(&self, count: usize, raw_bytes: usize, prefix_bytes: usize) -> usize {
        let shared = prefix_bytes * count.saturating_sub(1);
        HEADER_BYTES + raw_bytes.saturating_sub(shared) + count * ENTRY_OVERHEAD_BYTES
    }

    /// Gathers the next entry, unless the block has entries already and would outgrow
    /// `target_bytes` by it; then `false`. `same_key`: the entry before, be it in this block or
    /// the one before, has the same key. The caller keeps internal order and the bounds on keys
    /// and values.
    pub fn try_add(&mut self, entry: EntryRef<'_>, same_key: bool, target_bytes: usize) -> bool {
        let prefix_bytes = if self.entries.is_empty() {
            self.least = entry.seqno.0;
            self.greatest = entry.seqno.0;
            entry.key.len()
        } else {
            let prefix_bytes = if same_key {
                self.prefix_bytes
            } else {
                common_prefix_bytes(&self.keys[..self.prefix_bytes], entry.key)
            };
            let raw_bytes = self.keys.len() + self.values.len();
            let raw_bytes = raw_bytes + entry.key.len() + entry.value.len();
            if self.estimate(self.entries.len() + 1, raw_bytes, prefix_bytes) > target_bytes
                || self.keys.len() > GATHERED_KEY_BYTES_MAX
            {
                return false;
            }
            prefix_bytes
        };
        self.prefix_bytes = prefix_bytes;
        self.least = self.least.min(entry.seqno.0);
        self.greatest = self.greatest.max(entry.seqno.0);
        self.keys.extend_from_slice(entry.key);
        self.values.extend_from_slice(entry.value);
        let expiry = Expiry::to_stored(entry.expiry);
        let mut flags = entry.kind as u8;
        self.fixed_bytes += 1 + varint_bytes(entry.value.len() as u64);
        if expiry != 0 {
            flags |= HAS_EXPIRY;
            self.fixed_bytes += varint_bytes(expiry);
        }
        if same_key {
            flags |= SAME_KEY;
        }
        self.entries.push(Gathered {
            seqno: entry.seqno.0,
            expiry,
            key_end: self.keys.len() as u32,
            value_end: self.values.len() as u32,
            flags,
        });
        true
    }

    /// Whether every two neighbouring keys that differ already differ in a hint of four bytes.
    fn short_hints_suffice(&self) -> bool {
        let mut start = 0;
        let mut last = None;
        self.entries.iter().all(|entry| {
            let suffix = &self.keys[start + self.prefix_bytes..entry.key_end as usize];
            start = entry.key_end as usize;
            let hint = u32::from_be_bytes(hint_of(suffix));
            let before = last.replace(hint);
            entry.flags & SAME_KEY != 0 || before != Some(hint)
        })
    }

    /// Appends the block to `out` and begins anew. At least one entry has been gathered.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        assert!(!self.entries.is_empty(), "a block holds at least one entry");
        let count = self.entries.len();
        let hint_bytes = if self.short_hints_suffice() { 4 } else { 8 };
        let suffix_bytes_sum = self.keys.len() - count * self.prefix_bytes;
        let seqno_bytes = varint_bytes(self.greatest - self.least);
        let key_length_bytes = varint_bytes(STORED_KEY_BYTES_MAX as u64);
        let entry_bytes_max = self.fixed_bytes
            + count * (seqno_bytes + key_length_bytes)
            + suffix_bytes_sum
            + self.values.len();
        let offset_bytes = if entry_bytes_max <= usize::from(u16::MAX) { 2 } else { 4 };

        let mut bits = self.prefix_bytes as u32;
        bits |= if hint_bytes == 8 { WIDE_HINTS } else { 0 };
        bits |= if offset_bytes == 4 { WIDE_OFFSETS } else { 0 };
        let arrays_bytes = count * (hint_bytes + offset_bytes);
        out.reserve(HEADER_BYTES + self.prefix_bytes + arrays_bytes + entry_bytes_max);
        out.extend_from_slice(&(count as u32).to_le_bytes());
        out.extend_from_slice(&bits.to_le_bytes());
        out.extend_from_slice(&self.least.to_le_bytes());
        out.extend_from_slice(&self.keys[..self.prefix_bytes]);
        let hints_at = out.len();
        let offsets_at = hints_at + count * hint_bytes;
        let entries_at = hints_at + arrays_bytes;
        out.resize(entries_at, 0);

        let (mut key_start, mut value_start) = (0, 0);
        for (index, entry) in self.entries.iter().enumerate() {
            let suffix = &self.keys[key_start + self.prefix_bytes..entry.key_end as usize];
            let value = &self.values[value_start..entry.value_end as usize];
            (key_start, value_start) = (entry.key_end as usize, entry.value_end as usize);

            let offset = (out.len() - entries_at) as u32;
            let hinted = suffix.len().min(hint_bytes);
            out[hints_at + index * hint_bytes..][..hinted].copy_from_slice(&suffix[..hinted]);
            out[offsets_at + index * offset_bytes..][..offset_bytes]
                .copy_from_slice(&offset.to_le_bytes()[..offset_bytes]);

            let mut head = Head::default();
            head.byte(entry.flags);
            head.varint(entry.seqno - self.least);
            if entry.flags & HAS_EXPIRY != 0 {
                head.varint(entry.expiry);
            }
            head.varint(suffix.len() as u64);
            head.varint(value.len() as u64);
            out.extend_from_slice(&head.bytes[..head.used]);
            out.extend_from_slice(&suffix[hinted..]);
            out.extend_from_slice(value);
        }
        assert!(out.len() - entries_at <= entry_bytes_max, "the bound chose the offsets' width");
        self.clear();
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.entries.clear();
        self.fixed_bytes = 0;
        // One huge value must not hold its memory for the rest of the table.
        self.values.shrink_to(super::BLOCK_TARGET_BYTES_MAX);
    }
}

/// The fields before an entry's suffix: a byte and four varints, of which two measure a key and a
/// value within their bounds, so 1 + 10 + 10 + 5 + 5 bytes at most.
#[derive(Default)]
struct Head {
    bytes: [u8; 32],
    used: usize,
}

impl Head {
    fn byte(&mut self, byte: u8) {
        self.bytes[self.used] = byte;
        self.used += 1;
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }
}
