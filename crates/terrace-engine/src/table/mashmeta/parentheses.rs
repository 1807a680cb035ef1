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
//! To find what closes an `(`, the sequence is divided into blocks of 512 bits, of which the depth
//! at the start and the least depth inside are known, and into groups of 64 blocks: one look at
//! the words of two blocks, and at the depths of at most two groups and as many as there are.

use terrace_base::CodecError;
use vers_vecs::BitVec;

use super::bits::{WORD_BITS, ones_at, padded, word_at};

const BLOCK_BITS: usize = 512;
const GROUP_BLOCKS: usize = 64;

/// The shape of a trie, open for search. Memory: a fifth more than its bits.
#[derive(Debug)]
pub(super) struct Parentheses {
    /// A one is an `(`. A word of zeros follows the last.
    bits: BitVec,
    count: usize,
    blocks: Vec<Block>,
    /// The least depth behind a parenthesis of each group of blocks.
    groups: Vec<i32>,
}

/// What is known of 512 parentheses.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The `(` less the `)` before it.
    depth: i32,
    /// How far below `depth` it goes behind one of its parentheses; at most 512.
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
        let groups = blocks.chunks(GROUP_BLOCKS);
        let least = |group: &[Block]| group.iter().map(|block| block.least()).min();
        let groups = groups.map(|group| least(group).unwrap_or(i32::MAX)).collect();
        let shape = Parentheses { bits, count, blocks, groups };
        // The trie ends at the first place below the depth of the start, which is the last of all.
        if shape.first_at_or_below(0, -1).map(|last| last + 1) != Some(count) {
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
        if index == 0 {
            return node + degree + 1;
        }
        self.close(node + degree - 1 - index) + 1
    }

    /// The `)` that closes the `(` at `open`.
    fn close(&self, open: usize) -> usize {
        let depth = self.depth(open);
        // Paired, as was checked.
        self.first_at_or_below(open + 1, depth).unwrap_or(self.count - 1)
    }

    /// The `(` less the `)` before a position.
    fn depth(&self, position: usize) -> i32 {
        let start = position / BLOCK_BITS * BLOCK_BITS;
        let ones: u32 = (start..position)
            .step_by(WORD_BITS)
            .map(|at| {
                let word = word_at(&self.bits, at);
                let rest = position - at;
                if rest < WORD_BITS {
                    (word & ((1 << rest) - 1)).count_ones()
                } else {
                    word.count_ones()
                }
            })
            .sum();
        let Some(block) = self.blocks.get(position / BLOCK_BITS) else { return -1 };
        block.depth + 2 * ones as i32 - (position - start) as i32
    }

    /// The first parenthesis at or after `from` behind which the depth is at most `target`.
    fn first_at_or_below(&self, from: usize, target: i32) -> Option<usize> {
        let block = from / BLOCK_BITS;
        let found = self.first_in_block(block, from, target);
        if found.is_some() {
            return found;
        }
        let group_end = ((block / GROUP_BLOCKS + 1) * GROUP_BLOCKS).min(self.blocks.len());
        let in_group = |blocks: std::ops::Range<usize>| {
            blocks.into_iter().find(|&block| self.blocks[block].least() <= target)
        };
        let block = in_group((block + 1).min(group_end)..group_end).or_else(|| {
            let later = group_end.div_ceil(GROUP_BLOCKS)..self.groups.len();
            let group = later.into_iter().find(|&group| self.groups[group] <= target)?;
            let start = group * GROUP_BLOCKS;
            in_group(start..(start + GROUP_BLOCKS).min(self.blocks.len()))
        })?;
        self.first_in_block(block, block * BLOCK_BITS, target)
    }

    fn first_in_block(&self, block: usize, from: usize, target: i32) -> Option<usize> {
        if self.blocks.get(block)?.least() > target {
            return None;
        }
        let end = ((block + 1) * BLOCK_BITS).min(self.count);
        let mut depth = self.depth(from);
        let mut at = from;
        while at < end {
            let mut word = word_at(&self.bits, at);
            for byte in 0..WORD_BITS / 8 {
                let step = STEPS[(word & 0xff) as usize];
                if depth + i32::from(step.least) <= target {
                    let at = at + byte * 8;
                    return first_in_byte(word, depth, target)
                        .map(|bit| at + bit)
                        .filter(|at| *at < end);
                }
                depth += i32::from(step.total);
                word >>= 8;
            }
            at += WORD_BITS;
        }
        None
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
            + self.groups.capacity() * size_of::<i32>()
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

/// The first of eight parentheses behind which the depth, from `depth` on, is at most `target`.
fn first_in_byte(byte: u64, mut depth: i32, target: i32) -> Option<usize> {
    for bit in 0..8 {
        depth += if byte >> bit & 1 == 1 { 1 } else { -1 };
        if depth <= target {
            return Some(bit);
        }
    }
    None
}

/// The least depth behind a parenthesis of `range`, whose start has depth 0.
fn exact_least(bits: &BitVec, range: std::ops::Range<usize>) -> i32 {
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
