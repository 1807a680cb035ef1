//! What a reader has begun to read of a table before it comes there, where each read costs a
//! request.

use std::ops::Range;

use smallvec::SmallVec;
use terrace_base::{KeyRange, SeqNo};

use super::reader::{TableReader, interval_of};
use super::store::ByteInterval;

impl TableReader {
    /// Whether it pays to ask for what will be read: it may lie where each read costs a request.
    #[must_use]
    #[inline]
    pub fn is_far(&self) -> bool {
        self.file.is_far()
    }

    /// The first key at or above `key`, if it is known without a look at its block: where a trie of
    /// all keys is. `None` if it is not known; `Some(None)` if there is no such key. No I/O.
    #[must_use]
    pub fn next_key(&self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        self.index.trie().map(|trie| trie.next_key(key))
    }

    /// The blocks that a walk through `range` over at most `keys` keys reads. None if it is known
    /// that there is no key in it. No I/O.
    #[must_use]
    pub fn walk_within(&self, range: &KeyRange, keys: u64) -> Range<usize> {
        let first = self.index.seek(range.start(), SeqNo::MAX);
        let is_outside = |key: Option<Vec<u8>>| key.is_none_or(|key| range.is_before(&key));
        if self.next_key(range.start()).is_some_and(is_outside) {
            return first..first;
        }
        let mut walk = self.walk_from(first, keys);
        if let Some(end) = range.end() {
            // The walk ends when it has seen what lies behind its last key.
            walk.end = walk.end.min(self.index.seek(end, SeqNo::MAX) + 1);
        }
        walk
    }

    /// The blocks of a walk over about `keys` keys from `first` on, as far as the table goes.
    fn walk_from(&self, first: usize, keys: u64) -> Range<usize> {
        first..first.saturating_add(self.blocks_of(keys)).min(self.index.block_count())
    }

    /// In how many blocks so many keys lie, of which the first may be the last of its block.
    fn blocks_of(&self, keys: u64) -> usize {
        let properties = self.properties();
        let behind = properties.block_count.saturating_mul(keys.saturating_sub(1));
        let blocks = behind.div_ceil(properties.key_count.max(1)).saturating_add(1);
        usize::try_from(blocks).unwrap_or(usize::MAX)
    }

    /// A key behind all that a walk over about `keys` keys comes to which begins at `key`; or, if the
    /// table ends before, how many it would still have to come to. No I/O.
    pub fn end_of_walk(&self, key: &[u8], keys: u64) -> Result<Vec<u8>, u64> {
        let walk = self.walk_from(self.index.seek(key, SeqNo::MAX), keys);
        if walk.end < self.index.block_count() {
            return Ok([&self.index.separator(walk.end - 1)[..], b"\0"].concat());
        }
        let blocks_in_all = self.properties().block_count.max(1);
        let walked = self.properties().key_count.saturating_mul(walk.len() as u64) / blocks_in_all;
        Err(keys.saturating_sub(walked))
    }

    /// Begins to read those of `blocks` that neither the block cache has nor the store keeps near,
    /// as far as the store can: whoever reads them then waits for them together. Waits for nothing.
    pub fn ask_for(&self, blocks: Range<usize>) {
        let missing = blocks.filter(|block| !self.slots.is_kept(*block));
        let intervals: SmallVec<[ByteInterval; 32]> =
            missing.map(|block| interval_of(self.index.handle(block))).collect();
        if !intervals.is_empty() {
            self.file.ask_for(&intervals);
        }
    }
}
