//! The range tombstones of a table: deleted intervals, beside the entries.
//!
//! ```text
//!  varint  n, how many
//!  n times
//!   varint  sequence number
//!   varint  bytes of the start, and the start itself: the first deleted key
//!   varint  bytes of the end, and the end itself: the first key above that is not deleted
//! ```
//!
//! Ordered by start ascending, then by sequence number descending, then by end ascending. They may
//! overlap. A start is always below its end.

use terrace_base::limits::STORED_KEY_BYTES_MAX;
use terrace_base::{ByteReader, CodecError, SeqNo, put_bytes, put_varint};

/// Appends the count that a block begins with.
pub fn put_count(out: &mut Vec<u8>, count: usize) {
    put_varint(out, count as u64);
}

/// Appends one range tombstone; the caller keeps their order and the bounds on keys.
pub fn put_range_tombstone(out: &mut Vec<u8>, start: &[u8], end: &[u8], seqno: SeqNo) {
    put_varint(out, seqno.0);
    put_bytes(out, start);
    put_bytes(out, end);
}

/// One range tombstone, borrowed: start, end, sequence number.
pub type Decoded<'a> = (&'a [u8], &'a [u8], SeqNo);

/// Decodes a block. Allocates in proportion to its bytes. Errors: as a decoder's; also intervals
/// out of order or without keys.
pub fn decode(payload: &[u8]) -> Result<Vec<Decoded<'_>>, CodecError> {
    let mut reader = ByteReader::new(payload);
    let count = reader.varint_usize()?;
    // Each takes four bytes at least: three lengths and an end that is not empty.
    if count > reader.rest().len() / 4 {
        return Err(reader.error("more range tombstones than there is room for"));
    }
    let mut decoded: Vec<Decoded<'_>> = Vec::with_capacity(count);
    for _ in 0..count {
        let seqno = SeqNo(reader.varint()?);
        let (start, end) = (reader.bytes()?, reader.bytes()?);
        if start >= end || end.len() > STORED_KEY_BYTES_MAX || start.len() > STORED_KEY_BYTES_MAX {
            return Err(reader.error("a range tombstone that deletes no keys"));
        }
        let in_order = decoded.last().is_none_or(|(last_start, last_end, last_seqno)| {
            (*last_start).cmp(start).then(seqno.cmp(last_seqno)).then((*last_end).cmp(end)).is_le()
        });
        if !in_order {
            return Err(reader.error("range tombstones out of order"));
        }
        decoded.push((start, end, seqno));
    }
    reader.finish()?;
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(all: &[(&str, &str, u64)]) -> Vec<u8> {
        let mut out = Vec::new();
        put_count(&mut out, all.len());
        for (start, end, seqno) in all {
            put_range_tombstone(&mut out, start.as_bytes(), end.as_bytes(), SeqNo(*seqno));
        }
        out
    }

    #[test]
    fn range_tombstones_round_trip() {
        let fine = payload(&[("", "z", 4), ("a", "c", 9), ("a", "b", 7), ("a", "c", 7)]);
        let decoded = decode(&fine).unwrap();
        assert_eq!(decoded.len(), 4);
        assert_eq!(decoded[1], (&b"a"[..], &b"c"[..], SeqNo(9)));
        for bytes in 0..fine.len() {
            assert!(decode(&fine[..bytes]).is_err(), "cut to {bytes}");
        }
    }

    #[test]
    fn forged_range_tombstones_are_refused() {
        assert!(decode(&payload(&[("b", "c", 1), ("a", "c", 1)])).is_err(), "order of starts");
        assert!(decode(&payload(&[("a", "c", 1), ("a", "c", 2)])).is_err(), "order of numbers");
        assert!(decode(&payload(&[("a", "c", 1), ("a", "b", 1)])).is_err(), "order of ends");
        assert!(decode(&payload(&[("a", "a", 1)])).is_err(), "no keys");
        assert!(decode(&payload(&[("b", "a", 1)])).is_err(), "turned round");
        assert!(decode(&[0xff, 0xff, 0xff, 0xff, 0x0f]).is_err(), "a huge count");
        assert!(decode(&[0, 0]).is_err(), "left over");
    }
}
