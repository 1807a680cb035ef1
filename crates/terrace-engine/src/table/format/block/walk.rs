//! Walking through a block: the neighbour of an entry, and its key, in as few instructions as
//! there is work.
//!
//! A search decodes one entry and has its key already. A walk decodes every entry and puts every
//! key together, and most entries are alike: a value without expiry whose numbers are short. Their
//! heads are taken apart from one word of eight bytes, and of their keys only what follows the
//! block's prefix is written, by moves of fixed lengths.

use terrace_base::{CodecError, EntryKind, SeqNo};

use super::{BlockEntry, BlockView, HEADER_BYTES};

/// The bytes of a usual entry's head at most: flags, three bytes of number, one of suffix.
const HEAD_BYTES: usize = size_of::<u64>();
/// How many bytes of a key behind its hint are moved at once.
const REST_BYTES: usize = 16;
/// How many bytes a [`KeyBuffer`] has behind its key, so that moves of a fixed length fit.
const SLACK_BYTES: usize = 8 + REST_BYTES;

/// A key that a walk puts together again and again in the same place.
#[derive(Debug, Default)]
pub struct KeyBuffer {
    /// The key, and at least [`SLACK_BYTES`] behind it, once there was a key.
    bytes: Vec<u8>,
    key_bytes: usize,
}

impl KeyBuffer {
    /// The key.
    #[must_use]
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.key_bytes]
    }

    /// Makes room for a key of so many bytes, and its slack.
    #[inline]
    fn reserve(&mut self, key_bytes: usize) {
        if self.bytes.len() < key_bytes + SLACK_BYTES {
            self.grow(key_bytes);
        }
    }

    #[cold]
    fn grow(&mut self, key_bytes: usize) {
        self.bytes.resize((key_bytes + SLACK_BYTES).next_multiple_of(64), 0);
    }
}

impl BlockView<'_> {
    /// Puts the key of an entry, which was decoded from this index of this block, into `key`.
    pub fn key_to(&self, index: usize, entry: &BlockEntry, key: &mut KeyBuffer) {
        let prefix = self.prefix();
        key.reserve(prefix.len());
        key.bytes[..prefix.len()].copy_from_slice(prefix);
        self.next_key_to(index, entry, key);
    }

    /// As [`BlockView::key_to`], if `key` holds a key of this same block.
    #[inline(always)]
    pub fn next_key_to(&self, index: usize, entry: &BlockEntry, key: &mut KeyBuffer) {
        let suffix_at = self.layout.hints_at as usize - HEADER_BYTES;
        let key_bytes = suffix_at + entry.suffix_bytes as usize;
        key.reserve(key_bytes);
        // A whole hint is moved, and what is not of the suffix does not count.
        let rest_to = if self.layout.has_wide_hints {
            key.bytes[suffix_at..suffix_at + 8].copy_from_slice(&self.hints::<8>()[index]);
            suffix_at + 8
        } else {
            key.bytes[suffix_at..suffix_at + 4].copy_from_slice(&self.hints::<4>()[index]);
            suffix_at + 4
        };
        key.key_bytes = key_bytes;
        if key_bytes > rest_to {
            let (rest_at, rest_end) = (entry.rest_at as usize, entry.value_at as usize);
            let rest = self.bytes[rest_at..].first_chunk::<REST_BYTES>();
            match rest.filter(|_| key_bytes - rest_to <= REST_BYTES) {
                Some(rest) => key.bytes[rest_to..rest_to + REST_BYTES].copy_from_slice(rest),
                None => {
                    key.bytes[rest_to..key_bytes].copy_from_slice(&self.bytes[rest_at..rest_end])
                }
            }
        }
    }

    /// As [`BlockView::entry_after`], fast where the entry is a usual one: a value without expiry,
    /// of another key than the one before, whose numbers are short.
    #[inline]
    pub fn walk_after(&self, before: &BlockEntry, index: usize) -> Result<BlockEntry, CodecError> {
        match self.usual_after(before, index) {
            Some(entry) => Ok(entry),
            None => self.unusual_entry(before.value_end as usize, index),
        }
    }

    /// The same, if the entry is a usual one and decodes.
    #[inline]
    pub fn usual_after(&self, before: &BlockEntry, index: usize) -> Option<BlockEntry> {
        self.usual_entry(before.value_end as usize, self.entry_end(index))
    }

    #[inline(never)]
    fn unusual_entry(&self, start: usize, index: usize) -> Result<BlockEntry, CodecError> {
        self.entry_from(start, index)
    }

    /// The entry from `start` to `end`, if it is a usual one and decodes.
    #[inline(always)]
    fn usual_entry(&self, start: usize, end: usize) -> Option<BlockEntry> {
        let head = self.bytes.get(start..)?.first_chunk::<HEAD_BYTES>()?;
        let head = u64::from_le_bytes(*head);
        if head & 0xff != EntryKind::Value as u64 {
            return None;
        }
        // The number less the least one, in up to three bytes of seven bits, in its shortest form.
        let number = head >> 8;
        let (delta, delta_bytes) = if number & 0x80 == 0 {
            (number & 0x7f, 1)
        } else if number & 0x8000 == 0 {
            (number & 0x7f | number >> 1 & 0x3f80, 2)
        } else {
            (number & 0x7f | number >> 1 & 0x3f80 | number >> 2 & 0x1f_c000, 3)
        };
        let is_short = number & 0x80_8080 != 0x80_8080;
        let is_shortest = delta_bytes == 1 || delta >> (7 * (delta_bytes - 1)) != 0;
        let suffix_bytes = number >> (8 * delta_bytes) & 0xff;
        if !is_short || !is_shortest || suffix_bytes >= 0x80 {
            return None;
        }
        let hint_bytes = self.hint_bytes();
        let rest_at = start + 2 + delta_bytes;
        let value_at = rest_at + (suffix_bytes as usize).saturating_sub(hint_bytes);
        if value_at > end || end > self.bytes.len() {
            return None;
        }
        // Blocks are shorter than 4 GiB, and all of these lie inside.
        Some(BlockEntry {
            kind: EntryKind::Value,
            same_key: false,
            seqno: SeqNo(self.layout.least.checked_add(delta)?),
            expiry: None,
            suffix_bytes: suffix_bytes as u32,
            rest_at: rest_at as u32,
            value_at: value_at as u32,
            value_end: end as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a walk decodes what `entry` decodes, or says the same error, and puts the same keys
    //! together. Method: random entries of all shapes, then random damage to their blocks.

    use terrace_base::{Entry, Expiry, compare_internal};
    use terrace_env::SeededRng;

    use super::super::super::block_builder::BlockBuilder;
    use super::*;
    use crate::table::tests::random_key;

    fn random_block(rng: &mut SeededRng) -> Vec<u8> {
        let shape = rng.index(6);
        let number_bits = rng.index(40) as u32;
        let mut entries: Vec<Entry> = (0..1 + rng.index(60))
            .map(|_| {
                let number = rng.index(50);
                Entry {
                    key: random_key(rng, shape, number),
                    seqno: SeqNo(1000 + (rng.next_u64() & ((1 << number_bits) - 1))),
                    kind: if rng.one_in(6) { EntryKind::Tombstone } else { EntryKind::Value },
                    expiry: Expiry::from_stored(rng.below(5).saturating_sub(3)),
                    value: vec![7; rng.index(40)],
                }
            })
            .collect();
        entries.sort_by(|a, b| compare_internal(&a.key, a.seqno, &b.key, b.seqno));
        entries.dedup_by(|a, b| (&a.key, a.seqno) == (&b.key, b.seqno));
        let mut builder = BlockBuilder::default();
        let mut last: Option<&Entry> = None;
        for entry in &entries {
            let same_key = last.is_some_and(|last| last.key == entry.key);
            assert!(builder.try_add(entry.as_ref(), same_key, usize::MAX));
            last = Some(entry);
        }
        let mut block = Vec::new();
        builder.finish(&mut block);
        block
    }

    /// Walks, and compares every step with [`BlockView::entry_after`] and [`BlockView::key_into`].
    /// How many steps were usual ones.
    fn compare(block: &[u8], context: &str) -> usize {
        let Ok(view) = BlockView::parse(block) else { return 0 };
        let (mut key, mut expected_key) = (KeyBuffer::default(), Vec::new());
        let Ok(mut entry) = view.entry(0) else { return 0 };
        view.key_to(0, &entry, &mut key);
        let mut usual = 0;
        for index in 1..view.count() {
            let expected = view.entry_after(&entry, index);
            let walked = view.walk_after(&entry, index);
            assert_eq!(walked, expected, "{context}, entry {index}");
            let start = entry.value_end as usize;
            usual += usize::from(view.usual_entry(start, view.entry_end(index)).is_some());
            let Ok(next) = walked else { return usual };
            view.key_into(index, &next, &mut expected_key);
            view.next_key_to(index, &next, &mut key);
            assert_eq!(key.key(), expected_key, "{context}, entry {index}");
            entry = next;
        }
        usual
    }

    #[test]
    fn a_walk_decodes_what_a_search_decodes() {
        let mut usual = 0;
        for seed in 0..2_000 {
            let block = random_block(&mut SeededRng::new(seed));
            usual += compare(&block, &format!("seed {seed}"));
        }
        assert!(usual > 5_000, "{usual} entries were usual ones");
    }

    #[test]
    fn a_walk_through_a_damaged_block_says_what_a_search_says() {
        for seed in 0..20_000 {
            let mut rng = SeededRng::new(seed);
            let mut block = random_block(&mut rng);
            for _ in 0..1 + rng.index(4) {
                let at = rng.index(block.len());
                block[at] = if rng.one_in(2) { 0x80 } else { rng.next_u64() as u8 };
            }
            compare(&block, &format!("seed {seed}"));
        }
    }
}
