//! MashMeta: a table's keys as a succinct trie, which says in which block a key begins and whether
//! it is there at all.
//!
//! It stands in the place of index and filter in the tables of the object store: smaller than both
//! where keys share what they begin with, and without false positives, since every byte of every
//! key is in it. It is built while the table is written ([`MashMetaBuilder`]), and a table has the
//! usual index and filter instead where these are smaller.
//!
//! ```text
//!  block 0    hello hunda         (()()()())()((()(())()()))()(()))   parentheses
//!  block 1    hundred hunk        eu l l o n dkt ar e d e er          labels of the nodes
//!  block 2    huntee hunter       2, 2, 2                             marks: keys that begin
//! ```
//!
//! * `parentheses`: the shape of the trie; depth-first unary degrees.
//! * `labels`: by which byte keys go on.
//! * `builder`: from keys that ascend to both, in one pass.
//! * `shortcuts`: where searches begin.
//! * `format`: its bytes in the file.
//! * `bits`: bits in a row.
//!
//! *Source:* RocksMash (TACO 2022), section 3.3 and figure 8; the representation of the shape by
//! Benoit, Demaine, Munro, Raman, Raman and Rao (Algorithmica 2005). What is ours: what all keys
//! begin with stands beside the trie; labels are numbers of the table's own alphabet, or a bit for
//! each where that is shorter; marks are counts of keys.

mod bits;
mod builder;
mod format;
mod labels;
mod parentheses;
mod shortcuts;
#[cfg(test)]
mod tests;

use terrace_base::{CodecError, SeqNo};
use terrace_env::{PlantedBug, is_planted};
use vers_vecs::{BitVec, EliasFanoVec};

use self::bits::{WORD_BITS, ones_at, padded, word_at};
pub use self::builder::MashMetaBuilder;
use self::format::Parts;
use self::labels::{Alphabet, END, LABEL_WORDS, label_of};
use self::parentheses::{BLOCK_BITS, Parentheses};
use self::shortcuts::{Shortcuts, Way};
use super::format::footer::Handle;

/// The trie of a table, open for search. Any number of threads may search at once.
///
/// Memory: up to a third more than in the file. Cost of a search: for each byte of the key behind
/// what some 500 keys around it share, about 150 ns.
#[derive(Debug)]
pub struct MashMeta {
    prefix: Vec<u8>,
    shape: Parentheses,
    alphabet: Alphabet,
    labels: BitVec,
    /// The bits of the labels of all nodes that begin before each block of parentheses, as far as
    /// there are nodes with labels.
    label_starts: Vec<u32>,
    /// For each block the leaf of the first key that begins in it or behind it.
    marks: EliasFanoVec,
    /// Where each block begins, and where the last one ends.
    offsets: EliasFanoVec,
    key_count: u64,
    /// Blocks that end within a key, ascending, and the numbers of their last versions.
    goes_on_after: Vec<(u32, SeqNo)>,
    shortcuts: Shortcuts,
}

/// Where a key is, or would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    /// The leaf of the first key at or above; the count of parentheses if there is none.
    leaf: usize,
    /// Whether it is this very key.
    is_there: bool,
}

impl MashMeta {
    /// Decodes the trie of a table with this many bytes of data blocks.
    ///
    /// Cost and memory: linear in the payload. Errors: as a decoder's; also parentheses that are
    /// not those of one trie, labels out of order, and marks beyond the keys.
    pub fn decode(payload: &[u8], data_bytes: u64) -> Result<MashMeta, CodecError> {
        MashMeta::of(Parts::decode(payload, data_bytes)?)
    }

    fn of(parts: Parts) -> Result<MashMeta, CodecError> {
        let shape = Parentheses::new(parts.parentheses)?;
        let label_count = parts.labels.len();
        let labels = padded(parts.labels);
        let walked = walk(&shape, &parts.alphabet, &labels, label_count, &parts.blocks)?;
        let mut end = 0;
        let starts = parts.blocks.iter().map(|block| {
            end += block.frame_bytes;
            end
        });
        let offsets: Vec<u64> = std::iter::once(0).chain(starts).collect();
        let mut trie = MashMeta {
            prefix: parts.prefix,
            shape,
            alphabet: parts.alphabet,
            labels,
            label_starts: walked.label_starts,
            marks: EliasFanoVec::from_slice(&walked.marks),
            offsets: EliasFanoVec::from_slice(&offsets),
            key_count: walked.key_count,
            goes_on_after: parts.goes_on_after,
            shortcuts: Shortcuts::default(),
        };
        trie.shortcuts = Shortcuts::of(&trie);
        Ok(trie)
    }

    /// How many data blocks there are; at least one.
    #[must_use]
    #[inline]
    pub fn block_count(&self) -> usize {
        self.marks.len()
    }

    /// How many keys there are.
    #[must_use]
    pub fn key_count(&self) -> u64 {
        self.key_count
    }

    /// Where a block lies; `block` is below [`MashMeta::block_count`].
    #[must_use]
    pub fn handle(&self, block: usize) -> Handle {
        let offset = self.offset(block);
        Handle { offset, bytes: self.offsets.get_unchecked(block + 1) - offset }
    }

    /// Where a block begins; `block` is below [`MashMeta::block_count`].
    #[must_use]
    #[inline]
    pub fn offset(&self, block: usize) -> u64 {
        self.offsets.get_unchecked(block)
    }

    /// The block that begins at an offset, if one does.
    #[must_use]
    pub fn block_at(&self, offset: u64) -> Option<usize> {
        let block = self.offsets.rank(offset) as usize;
        (block < self.block_count() && self.offset(block) == offset).then_some(block)
    }

    /// The last key that begins in a block or before it.
    #[must_use]
    pub fn last_key(&self, block: usize) -> Vec<u8> {
        let end = self.mark(block + 1);
        self.shape.leaf_before(end).map_or_else(Vec::new, |leaf| self.key_of(leaf))
    }

    /// The first key at or above `key`, if there is one.
    ///
    /// Cost: a search, and a walk down the trie.
    #[must_use]
    pub fn next_key(&self, key: &[u8]) -> Option<Vec<u8>> {
        let Found { leaf, is_there } = self.search(key);
        if is_there {
            return Some(key.to_vec());
        }
        (leaf < self.shape.count()).then(|| self.key_of(leaf))
    }

    /// The last key below `bound`, or the last of all if there is no bound; if there is one. Cost:
    /// as [`MashMeta::next_key`].
    #[must_use]
    pub fn key_below(&self, bound: Option<&[u8]>) -> Option<Vec<u8>> {
        let end = bound.map_or(self.shape.count(), |bound| self.search(bound).leaf);
        self.shape.leaf_before(end).map(|leaf| self.key_of(leaf))
    }

    /// All keys, ascending.
    ///
    /// Cost: a walk down the trie for each.
    pub fn keys(&self) -> impl Iterator<Item = Vec<u8>> {
        self.leaves().map(|leaf| self.key_of(leaf))
    }

    /// All leaves, ascending.
    fn leaves(&self) -> impl Iterator<Item = usize> {
        let first = self.shape.leaf_from(0);
        let next = |leaf: &usize| Some(self.shape.leaf_from(leaf + 1));
        std::iter::successors(Some(first), next).take_while(|leaf| *leaf < self.shape.count())
    }

    /// How many keys begin in a block.
    #[must_use]
    pub fn keys_begun_in(&self, block: usize) -> usize {
        let (start, end) = (self.mark(block), self.mark(block + 1));
        (start..end).filter(|at| self.shape.is_leaf(*at)).count()
    }

    /// If the last key of a block goes on in the next: the number of its last version here.
    #[must_use]
    pub fn goes_on_after(&self, block: usize) -> Option<SeqNo> {
        let found = self.goes_on_after.binary_search_by_key(&block, |(at, _)| *at as usize);
        found.ok().map(|found| self.goes_on_after[found].1)
    }

    /// The block that holds the first entry at or above (`key`, `seqno`) in internal order, unless
    /// all entries of `key` lie above `seqno`, when it may be the first of the next block; the
    /// count of blocks if there is none.
    #[must_use]
    pub fn seek(&self, key: &[u8], seqno: SeqNo) -> usize {
        let found = self.search(key);
        if found.leaf == self.shape.count() {
            self.block_count()
        } else {
            self.block_of(found, seqno)
        }
    }

    /// The only block that can hold the newest entry of `key` at or below `seqno`; none if the
    /// table has no entry of this key.
    #[must_use]
    pub fn find(&self, key: &[u8], seqno: SeqNo) -> Option<usize> {
        let found = self.search(key);
        found.is_there.then(|| self.block_of(found, seqno))
    }

    /// Bytes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.prefix.capacity()
            + self.shape.memory_bytes()
            + self.alphabet.memory_bytes()
            + self.labels.heap_size()
            + self.label_starts.capacity() * size_of::<u32>()
            + self.marks.heap_size()
            + self.offsets.heap_size()
            + self.goes_on_after.capacity() * size_of::<(u32, SeqNo)>()
            + self.shortcuts.memory_bytes()
    }

    /// The leaf of the first key that begins in a block or behind it; the count of parentheses if
    /// there is none.
    fn mark(&self, block: usize) -> usize {
        self.marks.get(block).map_or(self.shape.count(), |mark| mark as usize)
    }

    /// The block of the first version at or below `seqno` of a key that was found.
    #[inline]
    fn block_of(&self, found: Found, seqno: SeqNo) -> usize {
        let is_off = is_planted(PlantedBug::MarkOffByOne);
        let behind = found.leaf as u64 + u64::from(!is_off);
        let mut block = (self.marks.rank(behind) as usize).saturating_sub(1);
        if self.goes_on_after.is_empty() || !found.is_there {
            return block;
        }
        let next = self.shape.leaf_from(found.leaf + 1);
        while self.mark(block + 1) == next
            && self.goes_on_after(block).is_some_and(|last| last > seqno)
        {
            block += 1;
        }
        block
    }

    fn search(&self, key: &[u8]) -> Found {
        let nowhere = Found { leaf: self.shape.count(), is_there: false };
        let Some(mut rest) = key.strip_prefix(self.prefix.as_slice()) else {
            let is_below = key < self.prefix.as_slice();
            return if is_below {
                Found { leaf: self.shape.leaf_from(0), ..nowhere }
            } else {
                nowhere
            };
        };
        let shape = &self.shape;
        let begin = self.shortcuts.begin(rest);
        let (mut node, mut label_start) = (begin.node as usize, begin.label_start as usize);
        rest = &rest[begin.depth as usize..];
        let mut degree = shape.degree(node);
        // The deepest node on the way that has children behind the one that was taken, and the
        // first of those.
        let mut behind: Option<(usize, usize, usize)> = None;
        loop {
            if degree == 0 {
                if rest.is_empty() {
                    return Found { leaf: node, is_there: true };
                }
                // The key that ends here lies below.
                break;
            }
            let label = rest.first().map_or(END, |byte| label_of(*byte));
            let (number, is_label) = self.alphabet.number(label);
            let (index, is_found) = self.alphabet.find(&self.labels, label_start, degree, number);
            if !(is_label && is_found) {
                if index < degree {
                    let child = shape.child(node, degree, index);
                    return Found { leaf: shape.leaf_from(child), is_there: false };
                }
                break;
            }
            if index + 1 < degree {
                behind = Some((node, degree, index + 1));
            }
            let child = shape.child(node, degree, index);
            if label == END {
                return Found { leaf: child, is_there: true };
            }
            rest = &rest[1..];
            let child_degree = shape.degree(child);
            if child_degree > 0 {
                label_start = self.label_start_of_child(child, node, label_start, degree);
            }
            (node, degree) = (child, child_degree);
        }
        behind.map_or(nowhere, |(node, degree, index)| {
            let child = shape.child(node, degree, index);
            Found { leaf: shape.leaf_from(child), is_there: false }
        })
    }

    /// Where the labels of a child begin, which has children itself, given where those of its
    /// parent do: they are counted from there, or from the last place up to which all were.
    #[inline]
    fn label_start_of_child(
        &self,
        child: usize,
        parent: usize,
        parent_start: usize,
        degree: usize,
    ) -> usize {
        let first = parent + degree + 1;
        let start = parent_start + self.alphabet.bits(degree);
        if child - first <= child % BLOCK_BITS {
            return start + self.label_bits_between(first, child);
        }
        let block = child / BLOCK_BITS;
        let mut at = block * BLOCK_BITS;
        let bits = self.shape.bits();
        if at > 0 && bits.get_bits_unchecked(at - 1, 1) == 1 {
            // The rest of a node that begins before.
            at += ones_at(bits, at) + 1;
        }
        self.label_starts[block] as usize + self.label_bits_between(at, child)
    }

    /// The bits of the labels of all nodes from the one at `first` to that at `end`, which does not
    /// count.
    ///
    /// A node's `(` stand in a row, so each row of ones is a node; rows inside a word are counted
    /// together.
    #[inline]
    fn label_bits_between(&self, first: usize, end: usize) -> usize {
        let bits = self.shape.bits();
        let (mut at, mut sum) = (first, 0);
        // The ones of a row that goes on in the next word.
        let mut row = 0;
        while at < end {
            let mut word = word_at(bits, at);
            if end - at < WORD_BITS {
                word &= (1 << (end - at)) - 1;
            }
            at += WORD_BITS;
            let low = word.trailing_ones() as usize;
            if low == WORD_BITS {
                row += low;
                continue;
            }
            if row + low > 0 {
                sum += self.alphabet.bits(row + low);
                word &= word + 1;
            }
            row = word.leading_ones() as usize;
            word &= u64::MAX >> row;
            sum += self.alphabet.bits_of_rows(word);
        }
        sum
    }

    /// The key of a leaf.
    fn key_of(&self, leaf: usize) -> Vec<u8> {
        let mut key = self.prefix.clone();
        self.walk_to(leaf, usize::MAX, |byte| key.push(byte));
        key
    }

    /// The node to which so many bytes lead, behind what all keys begin with, on the way to a leaf.
    fn way_to(&self, leaf: usize, depth: usize) -> Way {
        let (node, label_start) = self.walk_to(leaf, depth, |_| ());
        // A trie has fewer parentheses than 2^31, and a key fewer bytes.
        Way { node: node as u32, label_start: label_start as u32, depth: depth as u32 }
    }

    /// Walks from the root to a leaf, or until so many bytes were taken: the node, and where its
    /// labels begin if it has any.
    fn walk_to(&self, leaf: usize, depth: usize, mut take: impl FnMut(u8)) -> (usize, usize) {
        let (mut node, mut label_start) = (0, 0);
        let mut degree = self.shape.degree(node);
        let mut taken = 0;
        while degree > 0 && taken < depth {
            // The last child that begins at or before the leaf.
            let (mut low, mut high) = (0, degree);
            while low + 1 < high {
                let middle = low + (high - low) / 2;
                if self.shape.child(node, degree, middle) <= leaf {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            let number = self.alphabet.number_at(&self.labels, label_start, degree, low);
            let child = self.shape.child(node, degree, low);
            if let Some(byte) = self.alphabet.byte(number) {
                take(byte);
            }
            taken += 1;
            let child_degree = self.shape.degree(child);
            if child_degree > 0 {
                label_start = self.label_start_of_child(child, node, label_start, degree);
            }
            (node, degree) = (child, child_degree);
        }
        (node, label_start)
    }
}

/// What one walk over all nodes finds.
struct Walked {
    label_starts: Vec<u32>,
    marks: Vec<u64>,
    key_count: u64,
}

/// Walks over all nodes: counts their labels and the keys of the blocks, and checks both.
fn walk(
    shape: &Parentheses,
    alphabet: &Alphabet,
    labels: &BitVec,
    label_count: usize,
    blocks: &[format::BlockRow],
) -> Result<Walked, CodecError> {
    let error = |what| Err(CodecError { offset: 0, what });
    let bits = shape.bits();
    let mut label_starts = Vec::with_capacity(shape.count() / BLOCK_BITS + 1);
    let mut marks = Vec::with_capacity(blocks.len());
    let mut used = [0; LABEL_WORDS];
    let mut begun = blocks.iter().map(|block| block.begun);
    // The key at which the next block begins.
    let mut next_mark = 0u64;
    let (mut at, mut label_start, mut key_count) = (0, 0, 0u64);
    while at < shape.count() {
        let degree = ones_at(bits, at);
        if degree == 0 {
            let zeros = word_at(bits, at).trailing_zeros() as usize;
            let leaves = zeros.min(shape.count() - at);
            while marks.len() < blocks.len() && next_mark < key_count + leaves as u64 {
                marks.push((at as u64) + (next_mark - key_count));
                next_mark = next_mark.saturating_add(begun.next().unwrap_or(0));
            }
            key_count += leaves as u64;
            at += leaves;
            continue;
        }
        while label_starts.len() * BLOCK_BITS <= at {
            label_starts.push(label_start as u32);
        }
        let label_end = label_start + alphabet.bits(degree);
        if label_end > label_count {
            return error("more nodes than labels");
        }
        let Some(first) = alphabet.check(labels, label_start, degree, &mut used) else {
            return error("labels out of order, or beyond the alphabet");
        };
        let child = at + degree + 1;
        let has_end = alphabet.byte(first).is_none();
        if has_end && ones_at(bits, child) != 0 {
            return error("a key that goes on behind its end");
        }
        if degree == 1 && (at == 0 || has_end) {
            return error("a node that the trie could do without");
        }
        label_start = label_end;
        at = child;
    }
    if label_start != label_count {
        return error("more labels than nodes");
    }
    if !alphabet.is_used_up(&used) {
        return error("an alphabet with labels that no node has");
    }
    // What is left begins no key.
    let rest = marks.len()..blocks.len();
    if begun.clone().any(|begun| begun > 0) || next_mark != key_count {
        return error("the blocks do not begin the keys of the trie");
    }
    marks.extend(rest.map(|_| shape.count() as u64));
    Ok(Walked { label_starts, marks, key_count })
}
