//! A block of a table, and where those around it lie: for a store that reads more than it is asked
//! for, and has to know what it has got then.

use std::ops::Range;

use terrace_base::TableUid;

use super::block_index::BlockIndex;
use super::format::frame;
use super::reader::{TableReader, interval_of};
use super::store::ByteInterval;

/// What a block is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFor {
    /// One key, whose neighbours nobody has asked for.
    Key,
    /// A walk, which may go on behind it.
    Walk,
}

/// A block of a table, and its neighbours.
#[derive(Clone, Copy, Debug)]
pub struct PlacedBlock<'t> {
    index: &'t BlockIndex,
    block: usize,
    uid: TableUid,
    read_for: ReadFor,
}

impl<'t> PlacedBlock<'t> {
    /// `block` is below the count of blocks.
    pub(super) fn new(table: &'t TableReader, block: usize, read_for: ReadFor) -> PlacedBlock<'t> {
        PlacedBlock { index: &table.index, block, uid: table.uid(), read_for }
    }

    /// Whether somebody goes through the table.
    #[must_use]
    pub fn is_walked_to(&self) -> bool {
        self.read_for == ReadFor::Walk
    }

    /// Where the block lies, with what surrounds it.
    #[must_use]
    pub fn interval(&self) -> ByteInterval {
        interval_of(self.index.handle(self.block))
    }

    /// The block and those around it that lie in `range` as a whole: ascending, each beginning
    /// where the one before it ends. Cost: a step for each.
    #[must_use]
    pub fn around(&self, range: &Range<u64>) -> Vec<ByteInterval> {
        let before = (0..self.block).rev();
        let first = before.take_while(|block| self.index.offset(*block) >= range.start).last();
        let behind = self.block + 1..self.index.block_count();
        let is_in = |block: &usize| {
            let handle = self.index.handle(*block);
            handle.offset + handle.bytes <= range.end
        };
        let last = behind.take_while(is_in).last();
        let blocks = first.unwrap_or(self.block)..=last.unwrap_or(self.block);
        blocks.map(|block| interval_of(self.index.handle(block))).collect()
    }

    /// How to tell whether bytes are a block of this table.
    #[must_use]
    pub fn seal(&self) -> BlockSeal {
        BlockSeal(self.uid)
    }
}

/// Tells blocks of a table from other bytes.
#[derive(Clone, Copy, Debug)]
pub struct BlockSeal(TableUid);

impl BlockSeal {
    /// Whether `bytes` are what the table has at `offset`, by their checksum.
    #[must_use]
    pub fn fits(&self, offset: u64, bytes: &[u8]) -> bool {
        frame::open(bytes, self.0, offset).is_ok()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what lies around a block is all that lies in an interval as a whole. Method: each
    //! block of tables with separators and with a trie, beside a filter over all blocks.

    use super::*;
    use crate::table::tests::{Model, build, open, options};
    use crate::table::{Compression, TableOptions};

    fn check(options: &TableOptions) {
        let mut model = Model::default();
        for number in 0..500_u64 {
            let value = vec![number as u8; 20 + (number % 7) as usize * 30];
            model.put(format!("key{number:05}").as_bytes(), number + 1, &value);
        }
        let (_, bytes) = build(&model, TableUid(7), options);
        let table = open(bytes.clone(), 0).unwrap();
        assert_eq!(table.has_trie(), options.trie);
        let all: Vec<ByteInterval> =
            (0..table.index.block_count()).map(|b| interval_of(table.index.handle(b))).collect();
        assert!(all.len() > 50);
        let end = |block: &ByteInterval| block.offset + block.bytes as u64;
        for (block, own) in all.iter().enumerate() {
            let placed = PlacedBlock::new(&table, block, ReadFor::Key);
            assert_eq!(placed.interval(), *own);
            for piece in [1, 1000, 3000, 1 << 20] {
                let start = own.offset / piece * piece;
                let range = start..start + piece;
                let is_in = |other: &&ByteInterval| {
                    *other == own || (other.offset >= range.start && end(other) <= range.end)
                };
                let expected: Vec<ByteInterval> = all.iter().filter(is_in).copied().collect();
                assert_eq!(placed.around(&range), expected, "{block} {range:?}");
            }
            let at = own.offset as usize;
            let mut frame = bytes[at..at + own.bytes].to_vec();
            assert!(placed.seal().fits(own.offset, &frame));
            assert!(!placed.seal().fits(own.offset + 1, &frame), "another place");
            assert!(!BlockSeal(TableUid(8)).fits(own.offset, &frame), "another table");
            frame[own.bytes / 2] ^= 1;
            assert!(!placed.seal().fits(own.offset, &frame) && !placed.seal().fits(0, &[]));
        }
    }

    #[test]
    fn what_lies_around_a_block_is_found_by_either_index() {
        let separators = options(500, Compression::None);
        check(&separators);
        check(&TableOptions { trie: true, ..separators });
    }
}
