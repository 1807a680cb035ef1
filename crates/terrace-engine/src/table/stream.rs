use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use terrace_base::{CodecError, EntryRef, KeyRange, SeqNo};

use super::compression::decompress;
use super::format::block::{BlockEntry, BlockLayout, BlockView};
use super::format::frame::{self, Compression};
use super::format::{BLOCK_BYTES_MAX, FormatError};
use super::reader::{TableReader, entry_ref};
use super::store::{ByteInterval, ReadTicket};
use crate::iter::Stream;
use crate::{Error, Result};

/// A [`Stream`] over one table; see [`TableReader::stream`].
///
/// Memory: two intervals of [`TableFile::piece_bytes`](super::TableFile::piece_bytes) (or of one
/// larger block) and a decoded block. The next interval is being read while this one is consumed,
/// if the store can do that.
pub struct TableStream {
    pieces: Pieces,
    /// In the first block, where to begin; in the last, where to end.
    range: KeyRange,
    blocks_end: usize,
    block: OpenBlock,
    layout: Option<BlockLayout>,
    entry_index: usize,
    entry_end: usize,
    entry: Option<BlockEntry>,
    key: Vec<u8>,
    /// Of an ingested table: the number of every entry.
    number: Option<SeqNo>,
}

impl TableStream {
    pub(super) fn new(reader: Arc<TableReader>, range: Option<&KeyRange>) -> Result<TableStream> {
        let range = range.cloned().unwrap_or_else(KeyRange::all);
        let index = &reader.index;
        let blocks_start = index.seek(range.start(), SeqNo::MAX);
        let blocks_end = match range.end() {
            // The block where the end lies is the last that can hold keys below it.
            Some(end) => index.block_count().min(index.seek(end, SeqNo::MAX) + 1),
            None => index.block_count(),
        };
        let blocks = if range.is_empty() { 0..0 } else { blocks_start..blocks_end };
        let mut stream = TableStream {
            number: reader.number,
            pieces: Pieces::new(reader, blocks),
            range,
            blocks_end,
            block: OpenBlock::default(),
            layout: None,
            entry_index: 0,
            entry_end: 0,
            entry: None,
            key: Vec::new(),
        };
        stream.next_block()?;
        if let Some(view) = stream.view() {
            let found = view.seek(stream.range.start(), SeqNo::MAX);
            stream.entry_index = found.map_err(|error| stream.damaged(&error))?.index;
            stream.settle()?;
        }
        Ok(stream)
    }

    #[inline]
    fn view(&self) -> Option<BlockView<'_>> {
        self.layout.map(|layout| layout.view(self.block.bytes(&self.pieces)))
    }

    #[cold]
    fn damaged(&self, error: &CodecError) -> Error {
        self.pieces.damaged(self.block.index, error)
    }

    /// Goes to the start of the next block; `false` if there is none.
    fn next_block(&mut self) -> Result<bool> {
        self.entry = None;
        self.layout = None;
        self.entry_index = 0;
        self.entry_end = 0;
        if !self.pieces.next_block(&mut self.block)? {
            return Ok(false);
        }
        let opened = BlockView::parse(self.block.bytes(&self.pieces)).and_then(|view| {
            let entry_end = match self.range.end() {
                Some(end) if self.block.index + 1 == self.blocks_end => {
                    view.seek(end, SeqNo::MAX)?.index
                }
                _ => view.count(),
            };
            Ok((view.layout(), entry_end))
        });
        let (layout, entry_end) = opened.map_err(|error| self.damaged(&error))?;
        self.layout = Some(layout);
        self.entry_end = entry_end;
        self.key.clear();
        Ok(true)
    }

    /// Stands on the entry with the present index, or on the first of the next block if this one
    /// is used up.
    #[inline]
    fn settle(&mut self) -> Result<()> {
        self.entry = None;
        while self.entry_index >= self.entry_end {
            if !self.next_block()? {
                return Ok(());
            }
        }
        let Some(layout) = self.layout else { return Ok(()) };
        let view = layout.view(self.block.bytes(&self.pieces));
        let entry = view.entry(self.entry_index).map_err(|error| self.damaged(&error))?;
        if self.key.is_empty() {
            view.key_into(self.entry_index, &entry, &mut self.key);
        } else {
            view.next_key_into(self.entry_index, &entry, &mut self.key);
        }
        self.entry = Some(entry);
        Ok(())
    }
}

impl Stream for TableStream {
    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        let entry = self.entry.as_ref()?;
        let found = entry_ref(&self.key, entry, self.block.bytes(&self.pieces));
        Some(EntryRef { seqno: self.number.unwrap_or(found.seqno), ..found })
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        assert!(self.entry.is_some(), "the stream stands on an entry");
        self.entry_index += 1;
        self.settle()
    }
}

impl fmt::Debug for TableStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableStream").field("entry", &self.entry()).finish_non_exhaustive()
    }
}

/// A verified and decoded block of [`Pieces`].
#[derive(Debug, Default)]
pub(super) struct OpenBlock {
    pub(super) index: usize,
    /// The block, if it was compressed.
    plain: Vec<u8>,
    /// Else where it lies in the piece.
    in_piece: Option<Range<usize>>,
}

impl OpenBlock {
    #[inline]
    pub(super) fn bytes<'a>(&'a self, pieces: &'a Pieces) -> &'a [u8] {
        match &self.in_piece {
            Some(range) => &pieces.piece[range.clone()],
            None => &self.plain,
        }
    }
}

/// Reads consecutive data blocks in large pieces, one piece ahead.
pub(super) struct Pieces {
    reader: Arc<TableReader>,
    /// The blocks that no piece has been asked for yet.
    blocks: Range<usize>,
    ahead: Option<(ReadTicket, ByteInterval, Range<usize>)>,
    pub(super) piece: Vec<u8>,
    piece_offset: u64,
    piece_blocks: Range<usize>,
}

impl Pieces {
    pub(super) fn new(reader: Arc<TableReader>, blocks: Range<usize>) -> Pieces {
        Pieces {
            reader,
            blocks,
            ahead: None,
            piece: Vec::new(),
            piece_offset: 0,
            piece_blocks: 0..0,
        }
    }

    /// Starts reading the next piece.
    fn ask(&mut self) {
        if self.blocks.is_empty() {
            return;
        }
        let (index, piece_bytes) = (&self.reader.index, self.reader.file.piece_bytes());
        let start = index.handle(self.blocks.start).offset;
        let mut end_block = self.blocks.start;
        let mut bytes = 0;
        while end_block < self.blocks.end {
            let handle = index.handle(end_block);
            let with_block = handle.offset + handle.bytes - start;
            if end_block > self.blocks.start && with_block > piece_bytes {
                break;
            }
            bytes = with_block;
            end_block += 1;
        }
        let interval = ByteInterval { offset: start, bytes: bytes as usize };
        let ticket = self.reader.file.read(&[interval]);
        self.ahead = Some((ticket, interval, self.blocks.start..end_block));
        self.blocks.start = end_block;
    }

    /// Takes the next piece; `false` if there is none.
    pub(super) fn next_piece(&mut self) -> Result<bool> {
        if self.ahead.is_none() {
            self.ask();
        }
        let Some((ticket, interval, blocks)) = self.ahead.take() else { return Ok(false) };
        self.piece_blocks = 0..0;
        let piece = ticket.wait()?.pop().filter(|piece| piece.len() == interval.bytes);
        let piece = piece.ok_or_else(|| interval.too_short(&self.reader.name()))?;
        self.reader.file.give_back(std::mem::replace(&mut self.piece, piece));
        self.piece_offset = interval.offset;
        self.piece_blocks = blocks;
        self.ask();
        Ok(true)
    }

    /// Verifies and decodes the next block; `false` if there is none.
    fn next_block(&mut self, block: &mut OpenBlock) -> Result<bool> {
        if self.piece_blocks.is_empty() && !self.next_piece()? {
            return Ok(false);
        }
        self.next_block_in_piece(block)
    }

    /// As [`Pieces::next_block`], but does not go on to the next piece.
    pub(super) fn next_block_in_piece(&mut self, block: &mut OpenBlock) -> Result<bool> {
        let Some(block_index) = self.piece_blocks.next() else { return Ok(false) };
        let handle = self.reader.index.handle(block_index);
        let start = (handle.offset - self.piece_offset) as usize;
        let frame = &self.piece[start..start + handle.bytes as usize];
        let opened = frame::open(frame, self.reader.uid(), handle.offset)
            .map_err(FormatError::from)
            .and_then(|(compression, payload)| open_into(compression, payload, start, block));
        opened.map_err(|error| self.reader.unreadable(handle.offset, error))?;
        block.index = block_index;
        Ok(true)
    }

    #[cold]
    fn damaged(&self, block_index: usize, error: &CodecError) -> Error {
        self.reader.damaged_block(block_index, error)
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        let file = &self.reader.file;
        file.give_back(std::mem::take(&mut self.piece));
        // What is still being read is not waited for.
        let ahead = self.ahead.take().and_then(|(ticket, ..)| ticket.if_ready());
        ahead.into_iter().flatten().for_each(|buffer| file.give_back(buffer));
    }
}

fn open_into(
    compression: Compression,
    payload: &[u8],
    start: usize,
    block: &mut OpenBlock,
) -> std::result::Result<(), FormatError> {
    if compression == Compression::None {
        block.in_piece = Some(start..start + payload.len());
        return Ok(());
    }
    let (bytes, compressed) = frame::split_compressed(payload, BLOCK_BYTES_MAX)?;
    block.in_piece = None;
    block.plain.resize(bytes, 0);
    decompress(compression, compressed, &mut block.plain)
}
