//! The bytes of a MashMeta, which is the frame that stands at the index's place.
//!
//! ```text
//!  u8      0, with which an index of separators would end
//!  varint  n, how many data blocks; at least one
//!  n times
//!   varint  bytes of the block's frame; the blocks lie back to back from the start of the file
//!   varint  how many keys begin in the block; one at least in the first
//!  varint  m, how many blocks end within a key
//!  m times, ascending
//!   varint  the block
//!   varint  the number of its last version; the key goes on in the next block
//!  varint  bytes of what all keys begin with
//!  bytes   what all keys begin with
//!  u8      1 if a key is the beginning of another, else 0       ┐ the alphabet of the labels
//!  u64 ×4  a bit for each byte that is a label, lowest first    ┘
//!  varint  p, how many parentheses
//!  bytes   ⌈p/8⌉: a one for each `(`, lowest bit first; zeros behind the last
//!  varint  q, bits of all labels
//!  bytes   ⌈q/8⌉: the labels of each node, in the order of the nodes
//! ```
//!
//! The keys that begin in each block are the marks: counted along the leaves of the trie, they say
//! in which block a key begins, as the square brackets of the paper do.

use terrace_base::limits::STORED_KEY_BYTES_MAX;
use terrace_base::{ByteReader, CodecError, SeqNo, put_bytes, put_varint};
use vers_vecs::BitVec;

use super::bits::{put_bits, read_bits};
use super::labels::Alphabet;
use crate::table::format::META_BYTES_MAX;
use crate::table::format::frame::TRAILER_BYTES;
use crate::table::format::index::FRAME_BYTES_MAX;

/// What no index of separators begins with that has any: the trie is told from it in a file that
/// has lost its footer.
const NO_SEPARATORS: u8 = 0;

/// A data block, as the trie knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockRow {
    /// Bytes of its frame.
    pub(super) frame_bytes: u64,
    /// How many keys begin in it.
    pub(super) begun: u64,
}

/// What the bytes say, before anything is worked out from it.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) blocks: Vec<BlockRow>,
    /// Blocks that end within a key, ascending, and the numbers of their last versions.
    pub(super) goes_on_after: Vec<(u32, SeqNo)>,
    pub(super) prefix: Vec<u8>,
    pub(super) alphabet: Alphabet,
    pub(super) parentheses: BitVec,
    pub(super) labels: BitVec,
}

impl Parts {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(NO_SEPARATORS);
        put_varint(out, self.blocks.len() as u64);
        for block in &self.blocks {
            put_varint(out, block.frame_bytes);
            put_varint(out, block.begun);
        }
        put_varint(out, self.goes_on_after.len() as u64);
        for (block, seqno) in &self.goes_on_after {
            put_varint(out, u64::from(*block));
            put_varint(out, seqno.0);
        }
        put_bytes(out, &self.prefix);
        self.alphabet.encode(out);
        put_bits(out, &self.parentheses);
        put_bits(out, &self.labels);
    }

    /// Errors: what does not have the form above; blocks that do not fill the data bytes. Whether
    /// parentheses and labels make a trie is not looked at.
    pub(super) fn decode(payload: &[u8], data_bytes: u64) -> Result<Parts, CodecError> {
        let mut reader = ByteReader::new(payload);
        if reader.u8()? != NO_SEPARATORS {
            return Err(CodecError { offset: 0, what: "this is an index of separators" });
        }
        let count = reader.varint_usize()?;
        if count == 0 || count > reader.rest().len() / 2 || payload.len() > META_BYTES_MAX {
            return Err(CodecError { offset: 0, what: "more blocks than the trie has room for" });
        }
        let mut blocks = Vec::with_capacity(count);
        let mut end = 0u64;
        for _ in 0..count {
            let (frame_bytes, begun) = (reader.varint()?, reader.varint()?);
            if frame_bytes <= TRAILER_BYTES as u64 || frame_bytes > FRAME_BYTES_MAX {
                return Err(reader.error("a block of impossible size"));
            }
            // At most 2^27 blocks of 2^27 bytes: no overflow.
            end += frame_bytes;
            blocks.push(BlockRow { frame_bytes, begun });
        }
        if end != data_bytes {
            return Err(CodecError { offset: 0, what: "the blocks do not fill the data bytes" });
        }
        let goes_on_after = read_goes_on_after(&mut reader, &blocks)?;
        let prefix = reader.bytes()?.to_vec();
        if prefix.len() > STORED_KEY_BYTES_MAX {
            return Err(reader.error("keys that begin with more than the longest key"));
        }
        let alphabet = Alphabet::decode(&mut reader)?;
        let parentheses = read_bits(&mut reader)?;
        let labels = read_bits(&mut reader)?;
        reader.finish()?;
        Ok(Parts { blocks, goes_on_after, prefix, alphabet, parentheses, labels })
    }
}

/// The blocks that end within a key, which are those before a block that begins none, and others.
fn read_goes_on_after(
    reader: &mut ByteReader<'_>,
    blocks: &[BlockRow],
) -> Result<Vec<(u32, SeqNo)>, CodecError> {
    let count = reader.varint_usize()?;
    if count > reader.rest().len() / 2 {
        return Err(reader.error("more blocks that end within a key than there is room for"));
    }
    let mut all: Vec<(u32, SeqNo)> = Vec::with_capacity(count);
    for _ in 0..count {
        let (block, seqno) = (reader.varint_usize()?, SeqNo(reader.varint()?));
        let before = all.last().copied();
        let is_behind = before.is_none_or(|(before, _)| (before as usize) < block);
        if !is_behind || block >= blocks.len() - 1 || seqno == SeqNo::ZERO {
            return Err(reader.error("blocks that end within a key out of order"));
        }
        let same_key =
            before.filter(|(at, _)| *at as usize + 1 == block && blocks[block].begun == 0);
        if same_key.is_some_and(|(_, before)| before <= seqno) {
            return Err(reader.error("versions of one key out of order"));
        }
        all.push((block as u32, seqno));
    }
    let mut ends_within = all.iter().map(|(block, _)| *block as usize).peekable();
    for (block, row) in blocks.iter().enumerate() {
        let follows = block > 0 && {
            while ends_within.next_if(|end| end + 1 < block).is_some() {}
            ends_within.peek().is_some_and(|end| end + 1 == block)
        };
        if row.begun == 0 && !follows {
            return Err(reader.error("a block that holds no key"));
        }
    }
    Ok(all)
}
