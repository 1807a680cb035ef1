//! Builds a trie from keys that ascend, in one pass.

use terrace_base::{SeqNo, common_prefix_bytes};
use vers_vecs::BitVec;

use super::bits::{WORD_BITS, ones_at, padded};
use super::format::{BlockRow, Parts};
use super::labels::{Alphabet, END, Label, label_of};

/// So many bytes say nothing yet about what a trie will take.
const GIVE_UP_BYTES: usize = 16 << 10;

/// Takes the keys of a table while it is written, and the blocks in which they begin.
///
/// Memory: two bits and two bytes for each node of the trie, which are the bytes by which each key
/// differs from the one before. Cost of a key: those bytes, and moving what was built below a
/// branch once for each branch above it.
///
/// ```text
///  keys so far   hello hunda hundred │ hunk          (the next)
///
///  open          0 "h"     children: e             built: the leaf of "hello"
///                2 "hun"   children:               the next key leaves "hundred" at 2
///                3 "hund"  children: a r           built: the leaves of "hunda" and "hundred";
///                                                  goes into "hun" as its child d
/// ```
#[derive(Debug, Default)]
pub struct MashMetaBuilder {
    /// The nodes along the last key that have more than one child, or may get one more.
    open: Vec<OpenNode>,
    /// Nodes that were closed, to be used again.
    spare: Vec<OpenNode>,
    last_key: Vec<u8>,
    key_count: u64,
    blocks: Vec<BlockRow>,
    /// Of the block that is being filled.
    begun: u64,
    goes_on_after: Vec<(u32, SeqNo)>,
}

/// A node whose last child may still change.
#[derive(Debug, Default)]
struct OpenNode {
    /// How many bytes of the last key lead to it.
    depth: usize,
    children: Vec<Label>,
    /// The nodes below, in order.
    below: Nodes,
}

/// Some nodes in the order of the trie.
#[derive(Debug, Default)]
struct Nodes {
    parentheses: BitVec,
    /// Of each node, those of its children.
    labels: Vec<Label>,
}

impl Nodes {
    /// Appends a node that has one child for each of the bytes: the first under the node, the next
    /// under that, and so on. What is appended next is the child of the last.
    fn push_chain(&mut self, bytes: &[u8]) {
        /// A `(` and a `)`, thirty-two times.
        const PAIRS: u64 = u64::MAX / 3;
        for chunk in bytes.chunks(WORD_BITS / 2) {
            let bits = 2 * chunk.len();
            let pairs = if bits < WORD_BITS { PAIRS & ((1 << bits) - 1) } else { PAIRS };
            self.parentheses.append_bits(pairs, bits);
            self.labels.extend(chunk.iter().map(|byte| label_of(*byte)));
        }
    }

    /// Appends the node itself: a leaf, if it has no children.
    fn push_node(&mut self, children: &[Label]) {
        let mut left = children.len();
        while left >= WORD_BITS {
            self.parentheses.append_bits(u64::MAX, WORD_BITS);
            left -= WORD_BITS;
        }
        self.parentheses.append_bits((1 << left) - 1, left + 1);
        self.labels.extend_from_slice(children);
    }

    fn extend(&mut self, other: &Nodes) {
        self.parentheses.extend_bitvec(&other.parentheses);
        self.labels.extend_from_slice(&other.labels);
    }

    fn clear(&mut self) {
        self.parentheses.drop_last(self.parentheses.len());
        self.labels.clear();
    }
}

impl MashMetaBuilder {
    /// Adds the next key.
    ///
    /// # Panics
    /// If it does not come after the one before.
    pub fn add(&mut self, key: &[u8]) {
        if self.key_count > 0 {
            assert!(self.last_key.as_slice() < key, "keys ascend");
            self.close_to(common_prefix_bytes(&self.last_key, key));
        }
        self.key_count += 1;
        self.begun += 1;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
    }

    /// Ends a block: the size of its frame, and the number of its last version if that version's
    /// key goes on in the next block. What is added next begins in the block after it.
    pub fn end_block(&mut self, frame_bytes: u64, goes_on_after: Option<SeqNo>) {
        if let Some(seqno) = goes_on_after {
            // No more blocks than fit a table.
            self.goes_on_after.push((self.blocks.len() as u32, seqno));
        }
        self.blocks.push(BlockRow { frame_bytes, begun: std::mem::take(&mut self.begun) });
    }

    /// Whether the trie of all keys may yet take fewer bytes than what takes `bytes` so far: it
    /// goes on if it takes at most twice as many now, with labels of four bits.
    #[must_use]
    pub fn may_become_smaller_than(&self, bytes: usize) -> bool {
        let nodes = self.open.iter().map(|node| &node.below);
        let own = nodes.map(|nodes| nodes.parentheses.len() / 8 + nodes.labels.len() / 2);
        own.sum::<usize>() <= GIVE_UP_BYTES + 2 * bytes
    }

    /// The bytes of the trie.
    ///
    /// # Panics
    /// If no key was added, or the last block was not ended.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let mut payload = Vec::new();
        self.into_parts().encode(&mut payload);
        payload
    }

    /// Closes the nodes below a depth: the last key stays open no further than that, where it has a
    /// node.
    fn close_to(&mut self, depth: usize) {
        let mut closed: Option<OpenNode> = None;
        loop {
            let above = self.open.last().map_or(depth, |node| node.depth.max(depth));
            if self.open.last().is_none_or(|node| node.depth < above) {
                let spare = self.spare.pop().unwrap_or_default();
                self.open.push(OpenNode { depth: above, ..spare });
            }
            let key = &self.last_key;
            let Some(parent) = self.open.last_mut() else { return };
            let end = closed.as_ref().map_or(key.len(), |node| node.depth);
            match key.get(above) {
                None => parent.children.push(END),
                Some(byte) => {
                    parent.children.push(label_of(*byte));
                    parent.below.push_chain(&key[above + 1..end]);
                }
            }
            match closed.take() {
                None => parent.below.push_node(&[]),
                Some(mut node) => {
                    parent.below.push_node(&node.children);
                    parent.below.extend(&node.below);
                    node.children.clear();
                    node.below.clear();
                    self.spare.push(node);
                }
            }
            if above == depth {
                return;
            }
            closed = self.open.pop();
        }
    }

    /// The parts of the trie.
    ///
    /// # Panics
    /// If no key was added, or the last block was not ended.
    pub(super) fn into_parts(mut self) -> Parts {
        assert!(self.key_count > 0 && self.begun == 0, "a trie of ended blocks");
        let mut nodes = Nodes::default();
        let root = self.open.first().map_or(self.last_key.len(), |root| root.depth);
        if self.open.is_empty() {
            nodes.push_node(&[]);
        } else {
            self.close_to(root);
            let root = self.open.swap_remove(0);
            nodes.push_node(&root.children);
            nodes.extend(&root.below);
        }
        let prefix = self.last_key[..root].to_vec();
        let alphabet = Alphabet::of(&nodes.labels);
        let mut labels = BitVec::new();
        let mut rest = nodes.labels.as_slice();
        let mut at = 0;
        let readable = padded(nodes.parentheses.clone());
        while at < nodes.parentheses.len() {
            let degree = ones_at(&readable, at);
            let (those, behind) = rest.split_at(degree);
            if degree > 0 {
                alphabet.put(&mut labels, those);
            }
            rest = behind;
            at += degree + 1;
        }
        Parts {
            blocks: self.blocks,
            goes_on_after: self.goes_on_after,
            prefix,
            alphabet,
            parentheses: nodes.parentheses,
            labels,
        }
    }
}
