//! In which block a key is: by separators, or by a trie of all keys.

use std::borrow::Cow;

use terrace_base::{CodecError, SeqNo};

use super::format::footer::{Footer, Handle};
use super::format::index::Index;
use super::mashmeta::MashMeta;

/// What of a table says in which of its blocks a key is.
#[derive(Debug)]
pub(crate) enum BlockIndex {
    /// A separator a block; whether a key is there at all, the filter knows, or the block.
    Separators(Index),
    /// Every key: one that is not in it is not in the table.
    Trie(Box<MashMeta>),
}

impl BlockIndex {
    /// Decodes what stands at the index's place. Errors: as a decoder's.
    pub(crate) fn decode(payload: &[u8], footer: &Footer) -> Result<BlockIndex, CodecError> {
        if footer.has_trie {
            let trie = MashMeta::decode(payload, footer.data_bytes)?;
            return Ok(BlockIndex::Trie(Box::new(trie)));
        }
        Index::decode(payload, footer.data_bytes).map(BlockIndex::Separators)
    }

    /// The same, of a table whose footer is lost.
    pub(crate) fn decode_either(payload: &[u8], data_bytes: u64) -> Result<BlockIndex, CodecError> {
        match Index::decode(payload, data_bytes) {
            Ok(index) => Ok(BlockIndex::Separators(index)),
            Err(error) => match MashMeta::decode(payload, data_bytes) {
                Ok(trie) => Ok(BlockIndex::Trie(Box::new(trie))),
                Err(_) => Err(error),
            },
        }
    }

    /// The trie, if it is one.
    pub(crate) fn trie(&self) -> Option<&MashMeta> {
        match self {
            BlockIndex::Separators(_) => None,
            BlockIndex::Trie(trie) => Some(trie),
        }
    }

    #[inline]
    pub(crate) fn block_count(&self) -> usize {
        match self {
            BlockIndex::Separators(index) => index.block_count(),
            BlockIndex::Trie(trie) => trie.block_count(),
        }
    }

    /// Where a block lies; `block` is below [`BlockIndex::block_count`].
    #[inline]
    pub(crate) fn handle(&self, block: usize) -> Handle {
        match self {
            BlockIndex::Separators(index) => index.handle(block),
            BlockIndex::Trie(trie) => trie.handle(block),
        }
    }

    /// Where a block begins; `block` is below [`BlockIndex::block_count`].
    #[inline]
    pub(crate) fn offset(&self, block: usize) -> u64 {
        match self {
            BlockIndex::Separators(index) => index.offset(block),
            BlockIndex::Trie(trie) => trie.offset(block),
        }
    }

    /// The block that begins at an offset, if one does.
    pub(crate) fn block_at(&self, offset: u64) -> Option<usize> {
        match self {
            BlockIndex::Separators(index) => index.block_at(offset),
            BlockIndex::Trie(trie) => trie.block_at(offset),
        }
    }

    /// A key at or above everything in a block and below everything in the next, but for a key that
    /// goes on there. Of a trie it is the last key that begins in the block or before it.
    pub(crate) fn separator(&self, block: usize) -> Cow<'_, [u8]> {
        match self {
            BlockIndex::Separators(index) => Cow::Borrowed(index.separator(block)),
            BlockIndex::Trie(trie) => Cow::Owned(trie.last_key(block)),
        }
    }

    /// If the last key of a block goes on in the next: the number of its last version here.
    pub(crate) fn goes_on_after(&self, block: usize) -> Option<SeqNo> {
        match self {
            BlockIndex::Separators(index) => index.goes_on_after(block),
            BlockIndex::Trie(trie) => trie.goes_on_after(block),
        }
    }

    /// The only block that can hold the first entry at or above (`key`, `seqno`) in internal order,
    /// unless all of its entries lie below, when it is the first of the next block; the count of
    /// blocks if there is none.
    #[inline]
    pub(crate) fn seek(&self, key: &[u8], seqno: SeqNo) -> usize {
        match self {
            BlockIndex::Separators(index) => index.seek(key, seqno),
            BlockIndex::Trie(trie) => trie.seek(key, seqno),
        }
    }

    /// The only block that can hold the newest entry of `key` at or below `seqno`; none if it is
    /// known that there is none.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], seqno: SeqNo) -> Option<usize> {
        match self {
            BlockIndex::Separators(index) => {
                let block = index.seek(key, seqno);
                (block < index.block_count()).then_some(block)
            }
            BlockIndex::Trie(trie) => trie.find(key, seqno),
        }
    }

    /// Bytes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            BlockIndex::Separators(index) => index.memory_bytes(),
            BlockIndex::Trie(trie) => size_of::<MashMeta>() + trie.memory_bytes(),
        }
    }
}
