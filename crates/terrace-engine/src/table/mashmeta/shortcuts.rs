//! Ways into the middle of a trie, so that a search does not begin at the root.
//!
//! ```text
//!  every so many keys     h e l l o              h u n d r e d
//!                           │ all keys between these two go through the node where they part: h
//!  a search for hunda     hello < hunda < hundred, so it begins there
//! ```
//!
//! The keys themselves are not kept, but the first eight bytes of each behind what all keys begin
//! with. Where these do not tell keys apart, a search begins at the root.

use terrace_base::{common_prefix_bytes, hint_of};

use super::MashMeta;

/// How many keys there are from one that leads into the trie to the next.
const KEYS_APART: usize = 512;

/// Where a search begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    pub(super) node: u32,
    /// Where the node's labels begin.
    pub(super) label_start: u32,
    /// The bytes that lead to the node, behind what all keys begin with.
    pub(super) depth: u32,
}

/// The ways into one trie. Memory: twenty bytes for each 512 keys.
#[derive(Debug, Default)]
pub(super) struct Shortcuts {
    /// The first bytes of the keys, ascending, as numbers in the same order.
    hints: Vec<u64>,
    /// The way between each key and the next.
    ways: Vec<Way>,
}

impl Shortcuts {
    /// Those of a trie that has none yet.
    pub(super) fn of(trie: &MashMeta) -> Shortcuts {
        let mut shortcuts = Shortcuts::default();
        let mut before: Option<Vec<u8>> = None;
        for leaf in trie.leaves().step_by(KEYS_APART) {
            let key = trie.key_of(leaf).split_off(trie.prefix.len());
            shortcuts.hints.push(u64::from_be_bytes(hint_of(&key)));
            if let Some(before) = before {
                shortcuts.ways.push(trie.way_to(leaf, common_prefix_bytes(&before, &key)));
            }
            before = Some(key);
        }
        shortcuts
    }

    /// Where the search for a key begins, given what of it comes behind what all keys begin with.
    #[inline]
    pub(super) fn begin(&self, rest: &[u8]) -> Way {
        let hint = u64::from_be_bytes(hint_of(rest));
        let at = self.hints.partition_point(|other| *other < hint);
        if at == 0 || self.hints.get(at).is_none_or(|above| *above == hint) {
            return Way::default();
        }
        self.ways[at - 1]
    }

    /// Bytes in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.hints.capacity() * size_of::<u64>() + self.ways.capacity() * size_of::<Way>()
    }
}
