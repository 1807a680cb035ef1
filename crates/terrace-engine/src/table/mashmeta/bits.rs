//! Bits in a row, read a word at a time from anywhere.

use terrace_base::{ByteReader, CodecError, put_varint};
use vers_vecs::BitVec;

pub(super) const WORD_BITS: usize = 64;

/// The same with words of zeros behind it, so that a whole word can be read from each of its
/// places, the end among them.
pub(super) fn padded(mut bits: BitVec) -> BitVec {
    bits.append_bits(0, WORD_BITS);
    bits.append_bits(0, WORD_BITS);
    bits
}

/// The word that begins at a bit of what was [`padded`].
#[inline]
pub(super) fn word_at(bits: &BitVec, position: usize) -> u64 {
    bits.get_bits_unchecked(position, WORD_BITS)
}

/// How many ones stand in a row from a bit on of what was [`padded`].
#[inline]
pub(super) fn ones_at(bits: &BitVec, position: usize) -> usize {
    let mut at = position;
    loop {
        let ones = word_at(bits, at).trailing_ones() as usize;
        at += ones;
        if ones < WORD_BITS {
            return at - position;
        }
    }
}

/// Appends the count of the bits as a varint, and the bits, lowest first, in as few bytes as hold
/// them.
pub(super) fn put_bits(out: &mut Vec<u8>, bits: &BitVec) {
    put_varint(out, bits.len() as u64);
    let start = out.len();
    for word in bits.iter_limbs() {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.truncate(start + bits.len().div_ceil(8));
}

/// Reads what [`put_bits`] wrote. Errors: more bits than there are bytes for, or ones behind the
/// last.
pub(super) fn read_bits(reader: &mut ByteReader<'_>) -> Result<BitVec, CodecError> {
    let count = reader.varint_usize()?;
    if count.div_ceil(8) > reader.rest().len() {
        return Err(reader.error("more bits than there is room for"));
    }
    let bytes = reader.take(count.div_ceil(8))?;
    if count % 8 != 0 && bytes.last().is_some_and(|last| last >> (count % 8) != 0) {
        return Err(reader.error("bits behind the last"));
    }
    let mut bits = BitVec::with_capacity(count + 2 * WORD_BITS);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        bits.append_bits(u64::from_le_bytes(word), (count - bits.len()).min(WORD_BITS));
    }
    Ok(bits)
}
