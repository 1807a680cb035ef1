//! A block of a table, and where those around it lie: for a store that reads more than it is asked
//! for, and has to know what it has got then.

use std::ops::Range;

use terrace_base::TableUid;

use super::block_index::BlockIndex;
use super::format::frame;
use super::reader::{TableReader, interval_of};
use super::store::ByteInterval;

/// A block of a table, and its neighbours.
#[derive(Clone, Copy, Debug)]
pub struct PlacedBlock<'t> {
    index: &'t BlockIndex,
    block: usize,
    uid: TableUid,
}

impl<'t> PlacedBlock<'t> {
    /// `block` is below the count of blocks.
    pub(super) fn new(table: &'t TableReader, block: usize) -> PlacedBlock<'t> {
        PlacedBlock { index: &table.index, block, uid: table.uid() }
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
