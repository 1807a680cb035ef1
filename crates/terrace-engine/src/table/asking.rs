//! What a reader has begun to read of a table before it comes there, where each read costs a
//! request.

use std::ops::Range;

use terrace_base::{KeyRange, SeqNo};

use super::reader::{TableReader, interval_of};
use super::store::ByteInterval;
use crate::iter::Direction;

impl TableReader {
    /// Whether it pays to ask for what will be read: it may lie where each read costs a request.
    #[must_use]
    #[inline]
    pub fn is_far(&self) -> bool {
        self.file.is_far()
    }

    /// The key nearest to `sought` at which a cursor would stand that comes from there, if that is
    /// known without a look at its block: where a trie of all keys is. `None` if it is not known;
    /// `Some(None)` if there is no such key. Forward it is the first at or above `sought`, backward
    /// the last below it, or the last of all. No I/O.
    #[must_use]
    pub fn nearest_key(
        &self,
        sought: Option<&[u8]>,
        direction: Direction,
    ) -> Option<Option<Vec<u8>>> {
        self.index.trie().map(|trie| match direction {
            Direction::Forward => trie.next_key(sought.unwrap_or_default()),
            Direction::Backward => trie.key_below(sought),
        })
    }

    /// The blocks that a walk through `range` from one of its ends over at most `keys` keys reads.
    /// None if it is known that there is no key in it. No I/O.
    #[must_use]
    pub fn walk_within(&self, range: &KeyRange, keys: u64, direction: Direction) -> Range<usize> {
        let sought = match direction {
            Direction::Forward => Some(range.start()),
            Direction::Backward => range.end(),
        };
        let is_outside = |key: Option<Vec<u8>>| key.is_none_or(|key| !range.contains(&key));
        if self.nearest_key(sought, direction).is_some_and(is_outside) {
            return 0..0;
        }
        let walk = self.walk_from(sought, keys, direction);
        // The walk ends when it has seen what lies beyond its last key.
        let (first, end) = (self.block_at(Some(range.start())), self.block_at(range.end()) + 1);
        walk.start.max(first.saturating_sub(1))..walk.end.min(end)
    }

    /// Where a walk over about `keys` keys ends which begins at `sought`: a key that bounds it; or,
    /// if the table ends before, how many it would still have to come to. No I/O.
    pub fn end_of_walk(
        &self,
        sought: Option<&[u8]>,
        keys: u64,
        direction: Direction,
    ) -> Result<Vec<u8>, u64> {
        let walk = self.walk_from(sought, keys, direction);
        match direction {
            Direction::Forward if walk.end < self.index.block_count() => {
                return Ok([&self.index.separator(walk.end - 1)[..], b"\0"].concat());
            }
            Direction::Backward if walk.start > 0 => {
                return Ok(self.index.separator(walk.start - 1).into_owned());
            }
            Direction::Forward | Direction::Backward => {}
        }
        let blocks_in_all = self.properties().block_count.max(1);
        let walked = self.properties().key_count.saturating_mul(walk.len() as u64) / blocks_in_all;
        Err(keys.saturating_sub(walked))
    }

    /// The blocks of a walk over about `keys` keys, as far as the table goes. One that goes back
    /// looks at what it was told to stay below, and begins before that.
    fn walk_from(&self, sought: Option<&[u8]>, keys: u64, direction: Direction) -> Range<usize> {
        let (count, blocks) = (self.index.block_count(), self.blocks_of(keys));
        match direction {
            Direction::Forward => {
                let first = self.block_at(sought.or(Some(b"")));
                first..first.saturating_add(blocks).min(count)
            }
            Direction::Backward => {
                let end = self.block_at(sought).saturating_add(1).min(count);
                end.saturating_sub(blocks.saturating_add(1))..end
            }
        }
    }

    /// The block of the first entry at or above a key; the count of blocks if there is none, or no
    /// key.
    fn block_at(&self, key: Option<&[u8]>) -> usize {
        key.map_or(self.index.block_count(), |key| self.index.seek(key, SeqNo::MAX))
    }

    /// In how many blocks so many keys lie, of which the first may be the last of its block.
    fn blocks_of(&self, keys: u64) -> usize {
        let properties = self.properties();
        let behind = properties.block_count.saturating_mul(keys.saturating_sub(1));
        let blocks = behind.div_ceil(properties.key_count.max(1)).saturating_add(1);
        usize::try_from(blocks).unwrap_or(usize::MAX)
    }

    /// Begins to read what a walk through `blocks` in this direction will probably come to and is
    /// neither in the block cache nor near: with one request, as far as that goes. Nothing if all
    /// of the first half is there: half of such walks end before the rest. Waits for nothing.
    pub fn ask_for(&self, blocks: Range<usize>, direction: Direction) {
        let is_missing = |block: &usize| {
            let handle = self.index.handle(*block);
            !self.slots.is_kept(*block) && !self.file.is_near(interval_of(handle))
        };
        let half = blocks.len().div_ceil(2);
        let (near_end, far_end) = match direction {
            Direction::Forward => {
                let first = blocks.clone().take(half).find(is_missing);
                (first, first.and_then(|first| (first..blocks.end).rfind(is_missing)))
            }
            Direction::Backward => {
                let last = blocks.clone().rev().take(half).find(is_missing);
                (last, last.and_then(|last| (blocks.start..=last).find(is_missing)))
            }
        };
        let (Some(one), Some(other)) = (near_end, far_end) else { return };
        let (start, end) = (self.index.offset(one.min(other)), self.end_of(one.max(other)));
        let bytes_max = self.file.piece_bytes();
        let (start, end) = match direction {
            Direction::Forward => (start, end.min(start + bytes_max)),
            Direction::Backward => (start.max(end.saturating_sub(bytes_max)), end),
        };
        self.file.ask_for(ByteInterval { offset: start, bytes: (end - start) as usize });
    }

    /// Where a block ends.
    fn end_of(&self, block: usize) -> u64 {
        let handle = self.index.handle(block);
        handle.offset + handle.bytes
    }
}
