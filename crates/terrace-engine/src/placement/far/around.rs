//! What comes with a block that a read has to ask the store for, while there is room near for more.
//!
//! ```text
//!   table     │ · · · · │ · · ▪ · │ · · · · │   pieces of 64 KiB, whatever is read of them
//!   request             └ · · ▪ · ┘             all blocks that lie in that piece as a whole
//!   near                  ∘ ∘ ▪ ∘               ▪ was asked for; ∘ into empty slots only
//! ```
//! A request costs the time of a megabyte. So an empty cache that is filled a block at a time stays
//! empty for long, while what is worth keeping costs hardly more. Once it is full, a neighbour is
//! worth less than what would go for it, and a read asks for its block alone.
//!
//! *Differs* from RocksMash (TACO 2022), section 3.2, where a miss brings a block. Whole tables, as
//! Mutant keeps them, fill a cache sooner still, and displace what is read.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::file::Piece;
use crate::cache::persistent::DataCache;
use crate::table::{BlockSeal, ByteInterval};

/// Bytes of a piece.
pub const AROUND_BYTES: u64 = 64 << 10;

/// At most so many pieces are on their way at once: a quarter of a megabyte, which holds up what
/// else is on its way by a sixth of what a request takes. Other reads ask for their block alone
/// meanwhile.
const PIECES_MAX: usize = 4;

/// The piece in which a block begins.
pub(super) fn piece_of(block: ByteInterval) -> Range<u64> {
    let start = block.offset / AROUND_BYTES * AROUND_BYTES;
    start..start + AROUND_BYTES
}

/// A block on its way, and those that come with it.
#[derive(Debug)]
pub(super) struct Around {
    /// Ascending, each beginning where the one before it ends; the one that was asked for too.
    pub blocks: Vec<ByteInterval>,
    /// The place of the piece, if it was asked for because of this.
    pub under_way: Option<PieceUnderWay>,
}

impl Around {
    /// What to ask for; `None` if the blocks come with what is read anyway.
    pub fn to_ask_for(&self) -> Option<Range<u64>> {
        self.under_way.as_ref()?;
        let (first, last) = (self.blocks.first()?, self.blocks.last()?);
        Some(first.offset..last.offset + last.bytes as u64)
    }
}

/// What blocks of a table are kept near as, and how they are told from other bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptAs {
    pub table: u128,
    pub seal: BlockSeal,
}

impl KeptAs {
    /// Keeps the block that was asked for, at the cost of others. What has come and is no block is
    /// not kept: whoever reads it says so, and the next one asks the store again.
    pub fn keep(&self, near: &DataCache, offset: u64, bytes: &[u8]) -> bool {
        let fits = self.seal.fits(offset, bytes);
        if fits {
            near.admit(self.table, offset, bytes);
        }
        fits
    }

    /// Keeps what has come with the block at `asked`, as far as there is room; how many blocks
    /// that are at most.
    pub fn keep_around(
        &self,
        near: &DataCache,
        asked: ByteInterval,
        around: &Around,
        piece: &Piece,
    ) -> u64 {
        let others = around.blocks.iter().filter(|block| **block != asked);
        let come = others.filter_map(|block| Some((block.offset, piece.slice(*block)?)));
        let blocks = come.filter(|(offset, bytes)| self.seal.fits(*offset, bytes));
        blocks.map(|(offset, bytes)| near.admit_neighbour(self.table, offset, bytes)).count() as u64
    }
}

/// How many pieces are on their way.
#[derive(Clone, Debug, Default)]
pub(super) struct PiecesUnderWay(Arc<AtomicUsize>);

impl PiecesUnderWay {
    /// One more, if there are not many.
    pub fn begin(&self) -> Option<PieceUnderWay> {
        let more = |count: usize| (count < PIECES_MAX).then_some(count + 1);
        // Order: relaxed; it guards nothing.
        let counted = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.is_ok().then(|| PieceUnderWay(self.clone()))
    }
}

/// A piece on its way, for as long as this lives.
#[derive(Debug)]
pub(super) struct PieceUnderWay(PiecesUnderWay);

impl Drop for PieceUnderWay {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_belongs_to_the_piece_in_which_it_begins() {
        let piece = |offset: u64| piece_of(ByteInterval { offset, bytes: 4096 });
        assert_eq!(piece(0), 0..AROUND_BYTES);
        assert_eq!(piece(AROUND_BYTES - 1), 0..AROUND_BYTES);
        assert_eq!(piece(3 * AROUND_BYTES), 3 * AROUND_BYTES..4 * AROUND_BYTES);
    }

    #[test]
    fn few_pieces_are_on_their_way() {
        let under_way = PiecesUnderWay::default();
        let mut pieces: Vec<_> = (0..PIECES_MAX).map(|_| under_way.begin().unwrap()).collect();
        assert!(under_way.begin().is_none());
        pieces.pop();
        assert!(under_way.begin().is_some());
    }
}
