//! The shape of a trie: one sequence of parentheses, in which nodes are found by counting.
//!
//! ```text
//!  node       as many `(` as it has children, then `)`
//!  trie       its nodes, parents before children, in the order of the keys
//!
//!  position    0  1  2   3   4  5  6  7   8  9 10  11  12 13  14 15
//!              (  (  )   )   (  (  (  )   (  (  )   )   )  …
//!              └─ root   └─ its first child, a leaf
//! ```
//!
//! A node is known by the position where it begins. Its first child begins behind its `)`; child
//! `i` begins behind the parenthesis that closes the `i`-th `(` from the right. The `(` that the
//! literature writes before the root, so that all are paired, is not there.
//!
//! To find what closes an `(`, the sequence is divided into blocks, of which the depth at the start
//! and the least depth inside are known; so is the least depth of groups of blocks, and of groups
//! of groups: a search looks at words of two blocks at most, and up and down the groups between.

use std::ops::Range;

use terrace_base::CodecError;
use vers_vecs::BitVec;

use super::bits::{WORD_BITS, ones_at, padded, word_at};

/// What is counted is counted up to every so manieth parenthesis.
pub(super) const BLOCK_BITS: usize = 256;
/// How many blocks, or groups, make a group.
const GROUP: usize = 32;

/// The shape of a trie, open for search. Memory: a quarter more than its bits.
#[derive(Debug)]
pub(super) struct Parentheses {
    /// A one is an `(`. A word of zeros follows the last.
    bits: BitVec,
    count: usize,
    blocks: Vec<Block>,
    /// The least depth behind a parenthesis of each group of blocks, of each group of these, and
    /// so on up to a group of all.
    groups: Vec<Vec<i32>>,
}

/// What is known of a block.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The `(` less the `)` before it.
    depth: i32,
    /// How far below `depth` it goes behind one of its parentheses.
    dip: i16,
}

impl Block {
    fn least(self) -> i32 {
        self.depth - i32::from(self.dip)
    }
}

impl Parentheses {
    /// Errors: if they are not those of one trie.
    pub(super) fn new(bits: BitVec) -> Result<Parentheses, CodecError> {
        let count = bits.len();
        if i32::try_from(count).is_err() {
            return Err(error("more parentheses than can be counted"));
        }
        let bits = padded(bits);
        let mut blocks = Vec::with_capacity(count.div_ceil(BLOCK_BITS));
        let mut depth = 0i32;
        for start in (0..count).step_by(BLOCK_BITS) {
            let end = (start + BLOCK_BITS).min(count);
            let (mut inside, mut least) = (0i32, 0i32);
            for at in (start..end).step_by(WORD_BITS) {
                let word = word_at(&bits, at);
                let bytes = (end - at).min(WORD_BITS).div_ceil(8);
                for byte in &word.to_le_bytes()[..bytes] {
                    let step = STEPS[usize::from(*byte)];
                    least = least.min(inside + i32::from(step.least));
                    inside += i32::from(step.total);
                }
            }
            // Behind the last parenthesis stand zeros, which are no parentheses.
            let spare = (end - start).next_multiple_of(8) - (end - start);
            let inside = inside + spare as i32;
            let dip = if spare == 0 { least } else { exact_least(&bits, start..end) };
            blocks.push(Block { depth, dip: -dip as i16 });
            depth += inside;
        }
        let mut groups = Vec::new();
        let mut least: Vec<i32> = blocks.iter().map(|block| block.least()).collect();
        while least.len() > 1 {
            let least_of = |group: &[i32]| group.iter().copied().min().unwrap_or(i32::MAX);
            least = least.chunks(GROUP).map(least_of).collect();
            groups.push(least.clone());
        }
        let shape = Parentheses { bits, count, blocks, groups };
        // The trie ends at the first place below the depth of the start, which is the last of all.
        if shape.fall(0, 1).map(|last| last + 1) != Some(count) {
            return Err(error("the parentheses are not those of one trie"));
        }
        Ok(shape)
    }

    /// How many parentheses: twice the nodes less one.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The bits, a one for each `(`; zeros follow.
    pub(super) fn bits(&self) -> &BitVec {
        &self.bits
    }

    /// How many children a node has.
    #[inline]
    pub(super) fn degree(&self, node: usize) -> usize {
        ones_at(&self.bits, node)
    }

    /// Where child `index` of a node begins, which has `degree` of them, and more than `index`.
    #[inline]
    pub(super) fn child(&self, node: usize, degree: usize, index: usize) -> usize {
        let first = node + degree + 1;
        if index < WORD_BITS && word_at(&self.bits, first) & ((1 << index) - 1) == 0 {
            // All children before it are leaves.
            return first + index;
        }
        // Paired, as was checked.
        self.fall(first, index as i32).map_or(self.count, |last| last + 1)
    }

    /// The first parenthesis from `from` on behind which the depth is `by` less than before `from`.
    fn fall(&self, from: usize, by: i32) -> Option<usize> {
        let block = from / BLOCK_BITS;
        let left = match self.fall_in_block(block, from, by) {
            Ok(found) => return Some(found),
            Err(left) => left,
        };
        let next = block + 1;
        let target = self.blocks.get(next)?.depth - left;
        let block = self.first_block_at_or_below(next, target)?;
        self.fall_in_block(block, block * BLOCK_BITS, self.blocks[block].depth - target).ok()
    }

    /// The first block at or after `from` that reaches a depth: up along the groups to the first
    /// that does, and down in it.
    fn first_block_at_or_below(&self, from: usize, target: i32) -> Option<usize> {
        let (mut level, mut at) = (0, from);
        let mut found = loop {
            let end = (at + 1).next_multiple_of(GROUP).min(self.count_at(level));
            if let Some(found) = (at..end).find(|&at| self.least_at(level, at) <= target) {
                break found;
            }
            at = end.div_ceil(GROUP);
            level += 1;
            if level > self.groups.len() {
                return None;
            }
        };
        while level > 0 {
            level -= 1;
            let first = found * GROUP;
            let end = (first + GROUP).min(self.count_at(level));
            found = (first..end).find(|&at| self.least_at(level, at) <= target)?;
        }
        Some(found)
    }

    /// How many blocks there are, or groups of a level above them.
    fn count_at(&self, level: usize) -> usize {
        level.checked_sub(1).map_or(self.blocks.len(), |above| self.groups[above].len())
    }

    /// The least depth in a block, or in a group of a level above.
    #[inline]
    fn least_at(&self, level: usize, at: usize) -> i32 {
        level.checked_sub(1).map_or_else(|| self.blocks[at].least(), |above| self.groups[above][at])
    }

    /// As [`Parentheses::fall`], within a block; else by how much less the depth must still become
    /// behind its end.
    #[inline]
    fn fall_in_block(&self, block: usize, from: usize, by: i32) -> Result<usize, i32> {
        let end = ((block + 1) * BLOCK_BITS).min(self.count);
        let (mut at, mut left) = (from, by);
        while at < end {
            let mut word = word_at(&self.bits, at);
            let bits = (end - at).min(WORD_BITS);
            if bits < WORD_BITS {
                // What stands behind the end counts as `(`, and is taken off again.
                word |= u64::MAX << bits;
            }
            let ones = word.count_ones() as i32;
            if WORD_BITS as i32 - ones >= left {
                for byte in 0..WORD_BITS / 8 {
                    let step = STEPS[(word >> (8 * byte)) as usize & 0xff];
                    if left + i32::from(step.least) <= 0 {
                        return Ok(at + byte * 8 + fall_in_byte(word >> (8 * byte), left));
                    }
                    left += i32::from(step.total);
                }
            } else {
                left += 2 * ones - WORD_BITS as i32;
            }
            left -= (WORD_BITS - bits) as i32;
            at += bits;
        }
        Err(left)
    }

    /// The first leaf that begins at or after the node at `node`.
    pub(super) fn leaf_from(&self, node: usize) -> usize {
        let mut at = node;
        // A `)` behind a `)` is a leaf, and so is one at which a node begins.
        let mut behind_close = 1u64;
        while at < self.count {
            let zeros = !word_at(&self.bits, at);
            let leaves = zeros & (zeros << 1 | behind_close);
            if leaves != 0 {
                return at + leaves.trailing_zeros() as usize;
            }
            behind_close = zeros >> (WORD_BITS - 1);
            at += WORD_BITS;
        }
        self.count
    }

    /// The last leaf that begins before a position, if there is one.
    pub(super) fn leaf_before(&self, position: usize) -> Option<usize> {
        (0..position).rev().find(|&at| self.is_leaf(at))
    }

    /// Whether a leaf begins at a position.
    pub(super) fn is_leaf(&self, position: usize) -> bool {
        let is_close = |at: usize| self.bits.get_bits_unchecked(at, 1) == 0;
        is_close(position) && (position == 0 || is_close(position - 1))
    }

    /// Bytes in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bits.heap_size()
            + self.blocks.capacity() * size_of::<Block>()
            + self.groups.iter().map(|group| group.capacity() * size_of::<i32>()).sum::<usize>()
    }
}

/// What eight parentheses do to the depth.
#[derive(Clone, Copy)]
struct Step {
    total: i8,
    /// The least depth behind one of them.
    least: i8,
}

const STEPS: [Step; 256] = {
    let mut steps = [Step { total: 0, least: 8 }; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut depth, mut bit) = (0i8, 0);
        while bit < 8 {
            depth += if byte >> bit & 1 == 1 { 1 } else { -1 };
            if depth < steps[byte].least {
                steps[byte].least = depth;
            }
            bit += 1;
        }
        steps[byte].total = depth;
        byte += 1;
    }
    steps
};

/// The first of eight parentheses behind which the depth is less by `by`, which it is behind one.
fn fall_in_byte(byte: u64, mut by: i32) -> usize {
    for bit in 0..8 {
        by += if byte >> bit & 1 == 1 { 1 } else { -1 };
        if by == 0 {
            return bit;
        }
    }
    8
}

/// The least depth behind a parenthesis of `range`, whose start has depth 0.
fn exact_least(bits: &BitVec, range: Range<usize>) -> i32 {
    let (mut depth, mut least) = (0, 0);
    for at in range {
        depth += if bits.get_bits_unchecked(at, 1) == 1 { 1 } else { -1 };
        least = least.min(depth);
    }
    least
}

fn error(what: &'static str) -> CodecError {
    CodecError { offset: 0, what }
}
