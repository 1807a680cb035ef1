use std::sync::Arc;

use terrace_base::{CodecError, SeqNo};

use super::format::block::{BlockEntry, BlockLayout, BlockView, KeyBuffer};
use super::placed::ReadFor;
use super::reader::{ReadMode, TableReader};
use crate::{Error, Result};

/// An entry of the table, with the block that holds it.
#[derive(Clone)]
pub(super) struct BlockPlace {
    pub(super) block_index: usize,
    pub(super) block: Arc<[u8]>,
    pub(super) layout: BlockLayout,
    pub(super) entry_index: usize,
    pub(super) entry: BlockEntry,
}

impl BlockPlace {
    /// The first entry at or above (`key`, `seqno`) in internal order.
    pub(super) fn seek(
        reader: &TableReader,
        mode: ReadMode,
        key: &[u8],
        seqno: SeqNo,
    ) -> Result<Option<BlockPlace>> {
        let block_index = reader.index.seek(key, seqno);
        if block_index == reader.index.block_count() {
            return Ok(None);
        }
        let block = reader.block(block_index, mode, ReadFor::Walk)?;
        let damaged = |error: CodecError| reader.damaged_block(block_index, &error);
        let view = BlockView::parse(&block).map_err(damaged)?;
        let found = view.seek(key, seqno).map_err(damaged)?;
        if found.index == view.count() {
            return BlockPlace::first_of(reader, mode, block_index + 1);
        }
        let entry = match found.same_key {
            Some(entry) => entry,
            None => view.entry(found.index).map_err(damaged)?,
        };
        let (entry_index, layout) = (found.index, view.layout());
        Ok(Some(BlockPlace { block_index, block, layout, entry_index, entry }))
    }

    /// The first entry of a block, if there is such a block.
    pub(super) fn first_of(
        reader: &TableReader,
        mode: ReadMode,
        block_index: usize,
    ) -> Result<Option<BlockPlace>> {
        if block_index >= reader.index.block_count() {
            return Ok(None);
        }
        BlockPlace::in_block(reader, mode, block_index, |_| 0).map(Some)
    }

    /// The last entry before a block, if there is one.
    pub(super) fn last_before(
        reader: &TableReader,
        mode: ReadMode,
        block_index: usize,
    ) -> Result<Option<BlockPlace>> {
        match block_index.checked_sub(1) {
            None => Ok(None),
            Some(before) => BlockPlace::in_block(reader, mode, before, |count| count - 1).map(Some),
        }
    }

    pub(super) fn in_block(
        reader: &TableReader,
        mode: ReadMode,
        block_index: usize,
        choose: impl FnOnce(usize) -> usize,
    ) -> Result<BlockPlace> {
        let block = reader.block(block_index, mode, ReadFor::Walk)?;
        let damaged = |error: CodecError| reader.damaged_block(block_index, &error);
        let layout = BlockLayout::parse(&block).map_err(damaged)?;
        let entry_index = choose(layout.count());
        let entry = layout.view(&block).entry(entry_index).map_err(damaged)?;
        Ok(BlockPlace { block_index, block, layout, entry_index, entry })
    }

    #[inline]
    pub(super) fn view(&self) -> BlockView<'_> {
        self.layout.view(&self.block)
    }

    /// Decodes another entry of the same block.
    #[inline]
    pub(super) fn neighbour(&self, reader: &TableReader, entry_index: usize) -> Result<BlockEntry> {
        let decoded = self.view().entry(entry_index);
        decoded.map_err(|error| reader.damaged_block(self.block_index, &error))
    }

    /// Goes to the next entry; `false` at the end of the table, and then it has not moved.
    #[inline]
    pub(super) fn step_forward(&mut self, reader: &TableReader, mode: ReadMode) -> Result<bool> {
        let next = self.entry_index + 1;
        if next < self.layout.count() {
            self.entry = self.neighbour(reader, next)?;
            self.entry_index = next;
            return Ok(true);
        }
        match BlockPlace::first_of(reader, mode, self.block_index + 1)? {
            Some(next) => {
                *self = next;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Goes to the previous entry; `false` at the start of the table, and then it has not moved.
    #[inline]
    pub(super) fn step_back(&mut self, reader: &TableReader, mode: ReadMode) -> Result<bool> {
        if let Some(before) = self.entry_index.checked_sub(1) {
            self.entry = self.neighbour(reader, before)?;
            self.entry_index = before;
            return Ok(true);
        }
        match BlockPlace::last_before(reader, mode, self.block_index)? {
            Some(before) => {
                *self = before;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    pub(super) fn key_to(&self, key: &mut KeyBuffer) {
        self.view().key_to(self.entry_index, &self.entry, key);
    }

    pub(super) fn position(&self) -> (usize, usize) {
        (self.block_index, self.entry_index)
    }

    /// A search that ought to have gone on in one direction and did not: entries out of order.
    #[cold]
    pub(super) fn out_of_order(&self, reader: &TableReader) -> Error {
        reader.damaged_block(
            self.block_index,
            &CodecError { offset: 0, what: "entries or separators are out of order" },
        )
    }
}
