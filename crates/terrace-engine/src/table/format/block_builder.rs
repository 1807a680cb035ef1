//! Writing a data block; its bytes are drawn in [`block`](super::block).

use terrace_base::limits::STORED_KEY_BYTES_MAX;
use terrace_base::{EntryRef, Expiry, common_prefix_bytes, hint_of, varint_bytes};

use super::block::{HAS_EXPIRY, HEADER_BYTES, SAME_KEY, WIDE_ENDS, WIDE_HINTS};

/// What an entry costs beside its key and value, roughly: for estimates.
const ENTRY_OVERHEAD_BYTES: usize = 7;

/// Keys that are gathered for one block before the common prefix is taken away, in bytes: bounds
/// the builder's memory where many long keys differ in their last bytes only.
const GATHERED_KEY_BYTES_MAX: usize = 2 * 1024 * 1024;

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
        self.fixed_bytes += 1;
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
        let end_bytes = if entry_bytes_max <= usize::from(u16::MAX) { 2 } else { 4 };

        let mut bits = self.prefix_bytes as u32;
        bits |= if hint_bytes == 8 { WIDE_HINTS } else { 0 };
        bits |= if end_bytes == 4 { WIDE_ENDS } else { 0 };
        let arrays_bytes = count * (hint_bytes + end_bytes);
        out.reserve(HEADER_BYTES + self.prefix_bytes + arrays_bytes + entry_bytes_max);
        out.extend_from_slice(&(count as u32).to_le_bytes());
        out.extend_from_slice(&bits.to_le_bytes());
        out.extend_from_slice(&self.least.to_le_bytes());
        out.extend_from_slice(&self.keys[..self.prefix_bytes]);
        let hints_at = out.len();
        let ends_at = hints_at + count * hint_bytes;
        let entries_at = hints_at + arrays_bytes;
        out.resize(entries_at, 0);

        let (mut key_start, mut value_start) = (0, 0);
        for (index, entry) in self.entries.iter().enumerate() {
            let suffix = &self.keys[key_start + self.prefix_bytes..entry.key_end as usize];
            let value = &self.values[value_start..entry.value_end as usize];
            (key_start, value_start) = (entry.key_end as usize, entry.value_end as usize);

            let hinted = suffix.len().min(hint_bytes);
            out[hints_at + index * hint_bytes..][..hinted].copy_from_slice(&suffix[..hinted]);
            let mut head = Head::default();
            head.byte(entry.flags);
            head.varint(entry.seqno - self.least);
            if entry.flags & HAS_EXPIRY != 0 {
                head.varint(entry.expiry);
            }
            head.varint(suffix.len() as u64);
            out.extend_from_slice(&head.bytes[..head.used]);
            out.extend_from_slice(&suffix[hinted..]);
            out.extend_from_slice(value);
            let end = ((out.len() - entries_at) as u32).to_le_bytes();
            let end = &end[..end_bytes];
            out[ends_at + index * end_bytes..][..end_bytes].copy_from_slice(end);
        }
        assert!(out.len() - entries_at <= entry_bytes_max, "the bound chose the width of the ends");
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

/// The fields before an entry's suffix: a byte, two varints of any size, and one that measures a
/// key within its bound: 1 + 10 + 10 + 3 bytes at most.
#[derive(Default)]
struct Head {
    bytes: [u8; 24],
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
