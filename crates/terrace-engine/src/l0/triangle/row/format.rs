//! The bytes of a row, and nothing else: pure functions between bytes and values.
//!
//! A row lies in pages of the container, anywhere. Their order, and what they are, the head says;
//! the row is named by the number of the head's first page.
//!
//! ```text
//!   head       ┌──────┐  ┌──────┐              fixed fields, then the list of all other pages;
//!              │ next ──►│ next │              as many pages as the list needs
//!              └──────┘  └──────┘
//!   metadata   ┌──────────────────┬──────┐     elements, n × 16: one an entry, sorted
//!              │ elements         │ rest │     what is known about the row as a whole
//!              └──────────────────┴──────┘
//!   data       ┌─────────┬────────────┬────    entries back to back in internal order (key
//!              │ entry 0 │ entry 1    │ …      ascending, newest first), across borders of pages
//!              └─────────┴────────────┴────
//! ```
//!
//! Metadata and data each fill their pages; the end of the last one is zero. All integers are
//! little-endian unless their picture says otherwise; a varint is LEB128 in its shortest form. P is
//! the size of a page.
//!
//! ```text
//!  first head page                                another head page
//!    0  preamble  16   magic "terr.row"             0  u32  the next head page; 0: there is none
//!   16  u128  uid of the row                        4  u32  zero
//!   32  u32   P                                     8  list: goes on
//!   36  u32   n, how many entries                 P-4  u32  checksum over the uid, its place and
//!   40  u64   bytes of the metadata                         bytes 0 to P-4
//!   48  u64   bytes of the data
//!   56  u32   the next head page; 0: there is none
//!   60  u32   zero
//!   64  list: the metadata's pages in order, then the data's, each
//!             u32 number of the page, u32 checksum over the uid, its place and the whole page
//!  P-4  u32   checksum over the uid, its place and bytes 0 to P-4
//! ```
//!
//! The place of a page is where it would lie if the row had a file for itself: the data begins at
//! 0, the metadata at 2^40, the head at 2^41. A list fills its page before it goes on in the next;
//! what is left of the last page is zero.
//!
//! ```text
//!  element, 16 bytes
//!   0  8 × u8  the first bytes of what follows the row's prefix in the key, padded with zeros
//!   8  u32     where the entry begins in the data; it ends where the next begins
//!  12  u32     hint: bits 24-31 which predecessor, 0-23 an index in it; all bits set: none
//!
//!  rest of the metadata
//!   varint  the base: the number of the first entry; 0 if there is none
//!   varint  bytes of the prefix, and the prefix: what all keys of the row begin with
//!   varint  how many predecessors, and for each its uid, u128, the newest first
//!   groups of data pages, until there is one for each:
//!     varint  how many pages, at least 1
//!     varint  bytes of their fence, and the fence: keys of entries that begin before the first of
//!             these pages are at or below, of those that begin in them or later at or above
//!   varint  bytes of the largest key, and the key; only if there are entries
//!   varint  bytes of the range tombstones, and these, as a table has them; 0 if there are none
//!   varint  bytes of the properties, and these, as a table has them
//!   varint  bytes of the filter, and the filter, as a table has it; 0 if there is none
//!
//!  entry
//!   varint  bytes of the key, and the key
//!   u8      bits 0-2 kind; bit 3: an expiry follows; bit 4: same key as the entry before; 5-7 zero
//!   varint  number minus base, in zigzag: 0, -1, 1, -2 … are 0, 1, 2, 3 …
//!   varint  expiry in milliseconds, at least 1; only if bit 3 is set
//!   bytes   the value, up to the end of the entry
//! ```
//!
//! Version 1 ends with the properties: it has no filters.
//!
//! # Rules
//! 1. Nothing is trusted: whatever is decoded here is bounded by the bytes that are there. Forged
//!    bytes give an error.
//! 2. A value has one coding, and what is not used is zero, under a checksum like all else.

use std::ops::Range;

use terrace_base::limits::STORED_KEY_BYTES_MAX;
use terrace_base::{
    ByteReader, Checksum, CodecError, EntryKind, EntryRef, Expiry, PREAMBLE_BYTES, Preamble,
    PreambleError, SeqNo, TableUid, put_bytes, put_varint,
};

use super::fences::Fences;
use super::hints::Hint;
use crate::table::format::FormatError;

/// How many bytes an element has.
pub const ELEMENT_BYTES: usize = 16;
/// The most entries of a row: an index has 24 bits, and so has their count.
pub const ENTRIES_MAX: usize = (1 << 24) - 1;
/// The most bytes of data: where an entry begins has 32 bits.
pub const DATA_BYTES_MAX: u64 = 1 << 32;
/// The most predecessors that hints can tell apart; one value means that there is no hint.
pub const PREDECESSORS_MAX: usize = 255;

/// Where the checksums count the metadata from.
pub const METADATA_PLACE: u64 = 1 << 40;
/// Where the checksums count the head from.
pub const HEAD_PLACE: u64 = 1 << 41;

const PREAMBLE: Preamble = Preamble { magic: *b"terr.row", version: 2 };
const FIRST_LIST_AT: usize = 64;
const LIST_AT: usize = 8;
const LISTED_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 4;
/// A key of no bytes, flags, a number, no value.
const ENTRY_BYTES_MIN: u64 = 3;

const KIND_MASK: u8 = 0b111;
const HAS_EXPIRY: u8 = 1 << 3;
const SAME_KEY: u8 = 1 << 4;

fn error(offset: usize, what: &'static str) -> CodecError {
    CodecError { offset, what }
}

/// The checksum of a page at its place.
#[must_use]
pub fn page_checksum(uid: TableUid, place: u64, page: &[u8]) -> u32 {
    Checksum::at(uid.0, place).bytes(page).finish()
}

/// A page of metadata or data, as the head lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedPage {
    /// Its number in the container.
    pub number: u32,
    /// [`page_checksum`] of it.
    pub checksum: u32,
}

/// What the head says of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The row's own identity.
    pub uid: TableUid,
    /// How many entries.
    pub entry_count: u32,
    /// Bytes of the metadata.
    pub metadata_bytes: u64,
    /// Bytes of the data.
    pub data_bytes: u64,
}

impl Head {
    /// How many pages of `page_bytes` the metadata has, and how many the data.
    #[must_use]
    pub fn page_counts(&self, page_bytes: usize) -> (u64, u64) {
        let page_bytes = page_bytes as u64;
        (self.metadata_bytes.div_ceil(page_bytes), self.data_bytes.div_ceil(page_bytes))
    }

    /// How many pages a list of `listed` pages takes, and what of the list is in each.
    pub fn list_pages(
        listed: usize,
        page_bytes: usize,
    ) -> impl ExactSizeIterator<Item = Range<usize>> {
        let first = list_capacity(page_bytes, FIRST_LIST_AT);
        let other = list_capacity(page_bytes, LIST_AT);
        (0..1 + listed.saturating_sub(first).div_ceil(other)).map(move |page| {
            let start = if page == 0 { 0 } else { first + (page - 1) * other };
            start..listed.min(first + page * other)
        })
    }

    /// The first head page: all of it.
    #[must_use]
    pub fn encode(&self, list: &[ListedPage], next: u32, page_bytes: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(page_bytes);
        out.extend_from_slice(&PREAMBLE.encode());
        out.extend_from_slice(&self.uid.0.to_le_bytes());
        out.extend_from_slice(&(page_bytes as u32).to_le_bytes());
        out.extend_from_slice(&self.entry_count.to_le_bytes());
        out.extend_from_slice(&self.metadata_bytes.to_le_bytes());
        out.extend_from_slice(&self.data_bytes.to_le_bytes());
        out.extend_from_slice(&next.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        assert_eq!(out.len(), FIRST_LIST_AT, "the picture above");
        seal_list(out, list, self.uid, HEAD_PLACE, page_bytes)
    }

    /// Decodes the first head page: the head, the part of the list that is in it, and the number of
    /// the next head page.
    ///
    /// Errors: [`FormatError::Damaged`] also if the row is one of pages of another size, or lists
    /// more than `pages_max` pages.
    pub fn decode(
        page: &[u8],
        pages_max: u64,
    ) -> Result<(Head, Vec<ListedPage>, u32), FormatError> {
        let mut reader = ByteReader::new(page);
        let mut preamble = ByteReader::new(reader.take(PREAMBLE_BYTES)?);
        if !page.starts_with(&PREAMBLE.magic) {
            return Err(error(0, "this is not the head of a row").into());
        }
        let uid = TableUid(reader.u128()?);
        check_page(page, uid, HEAD_PLACE)?;
        PREAMBLE.check(&mut preamble).map_err(|refused| match refused {
            PreambleError::Codec(error) => FormatError::Damaged(error),
            PreambleError::Unsupported => FormatError::Unsupported(refused.to_string()),
        })?;
        if reader.u32()? as usize != page.len() {
            return Err(error(32, "a row in pages of another size").into());
        }
        let entry_count = reader.u32()?;
        let (metadata_bytes, data_bytes) = (reader.u64()?, reader.u64()?);
        let head = Head { uid, entry_count, metadata_bytes, data_bytes };
        let (next, zero) = (reader.u32()?, reader.u32()?);
        if entry_count as usize > ENTRIES_MAX
            || data_bytes > DATA_BYTES_MAX
            || data_bytes < u64::from(entry_count) * ENTRY_BYTES_MIN
            || (data_bytes > 0 && entry_count == 0)
            || metadata_bytes < u64::from(entry_count) * ELEMENT_BYTES as u64
            || metadata_bytes > u64::from(u32::MAX)
            || zero != 0
        {
            return Err(error(36, "counts or sizes that cannot be").into());
        }
        let (metadata_pages, data_pages) = head.page_counts(page.len());
        let listed = metadata_pages + data_pages;
        if listed > pages_max {
            return Err(error(40, "more pages than there are").into());
        }
        let here = list_capacity(page.len(), FIRST_LIST_AT).min(listed as usize);
        let list = decode_list(page, FIRST_LIST_AT, here, listed as usize - here, next)?;
        Ok((head, list, next))
    }
}

/// Another head page with the number `index` among them, from 1: all of it.
#[must_use]
pub fn encode_list_page(
    uid: TableUid,
    index: usize,
    list: &[ListedPage],
    next: u32,
    page_bytes: usize,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(page_bytes);
    out.extend_from_slice(&next.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    seal_list(out, list, uid, head_place(index, page_bytes), page_bytes)
}

/// Decodes another head page, when the list has `missing` more pages: those in it, and the number
/// of the next head page.
pub fn decode_list_page(
    page: &[u8],
    uid: TableUid,
    index: usize,
    missing: usize,
) -> Result<(Vec<ListedPage>, u32), CodecError> {
    check_page(page, uid, head_place(index, page.len()))?;
    let mut reader = ByteReader::new(page);
    let (next, zero) = (reader.u32()?, reader.u32()?);
    if zero != 0 {
        return Err(error(4, "reserved bytes are not zero"));
    }
    let here = list_capacity(page.len(), LIST_AT).min(missing);
    Ok((decode_list(page, LIST_AT, here, missing - here, next)?, next))
}

fn head_place(index: usize, page_bytes: usize) -> u64 {
    HEAD_PLACE + index as u64 * page_bytes as u64
}

/// How many pages a list that begins at `at` can name.
fn list_capacity(page_bytes: usize, at: usize) -> usize {
    (page_bytes - at - CHECKSUM_BYTES) / LISTED_BYTES
}

fn seal_list(
    mut out: Vec<u8>,
    list: &[ListedPage],
    uid: TableUid,
    place: u64,
    page_bytes: usize,
) -> Vec<u8> {
    for listed in list {
        out.extend_from_slice(&listed.number.to_le_bytes());
        out.extend_from_slice(&listed.checksum.to_le_bytes());
    }
    assert!(out.len() <= page_bytes - CHECKSUM_BYTES, "the list fits its page");
    out.resize(page_bytes - CHECKSUM_BYTES, 0);
    let checksum = page_checksum(uid, place, &out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

fn check_page(page: &[u8], uid: TableUid, place: u64) -> Result<(), CodecError> {
    let Some((covered, stored)) = page.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(error(0, "a page shorter than its checksum"));
    };
    if page_checksum(uid, place, covered) != u32::from_le_bytes(*stored) {
        return Err(error(covered.len(), "the checksum of a head page does not fit"));
    }
    Ok(())
}

fn decode_list(
    page: &[u8],
    at: usize,
    here: usize,
    later: usize,
    next: u32,
) -> Result<Vec<ListedPage>, CodecError> {
    if (next == 0) != (later == 0) {
        return Err(error(at - 8, "the head has another number of pages than its list needs"));
    }
    let mut reader = ByteReader::new(&page[at..]);
    let mut list = Vec::with_capacity(here);
    for _ in 0..here {
        list.push(ListedPage { number: reader.u32()?, checksum: reader.u32()? });
    }
    let unused = &reader.rest()[..reader.rest().len() - CHECKSUM_BYTES];
    if unused.iter().any(|&byte| byte != 0) {
        return Err(error(at + here * LISTED_BYTES, "what the list leaves free is not zero"));
    }
    Ok(list)
}

/// One element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// The first bytes of what follows the prefix in the key, as a big-endian number.
    pub bytes: u64,
    /// Where the entry begins in the data.
    pub offset: u32,
    /// What is known about the next older row.
    pub hint: Hint,
}

impl Element {
    /// The stored form.
    #[must_use]
    pub fn encode(&self) -> [u8; ELEMENT_BYTES] {
        let mut out = [0; ELEMENT_BYTES];
        out[..8].copy_from_slice(&self.bytes.to_be_bytes());
        out[8..12].copy_from_slice(&self.offset.to_le_bytes());
        out[12..].copy_from_slice(&self.hint.to_stored().to_le_bytes());
        out
    }

    /// The inverse of [`Element::encode`].
    #[must_use]
    #[inline]
    pub fn decode(bytes: &[u8; ELEMENT_BYTES]) -> Element {
        let [a @ .., e, f, g, h, i, j, k, l] = *bytes;
        Element {
            bytes: u64::from_be_bytes(a),
            offset: u32::from_le_bytes([e, f, g, h]),
            hint: Hint::from_stored(u32::from_le_bytes([i, j, k, l])),
        }
    }
}

/// What the metadata holds behind the elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest<'a> {
    /// What numbers are counted from.
    pub base: SeqNo,
    /// What all keys begin with.
    pub prefix: &'a [u8],
    /// The rows that hints point into, newest first.
    pub predecessors: Vec<TableUid>,
    /// What keys are in which pages.
    pub fences: Fences,
    /// The range tombstones, encoded; empty if there are none.
    pub range_tombstones: &'a [u8],
    /// The properties, encoded.
    pub properties: &'a [u8],
    /// The filter, encoded; empty if there is none.
    pub filter: &'a [u8],
}

impl<'a> Rest<'a> {
    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.base.0);
        put_bytes(out, self.prefix);
        put_varint(out, self.predecessors.len() as u64);
        for uid in &self.predecessors {
            out.extend_from_slice(&uid.0.to_le_bytes());
        }
        self.fences.encode(out);
        put_bytes(out, self.range_tombstones);
        put_bytes(out, self.properties);
        put_bytes(out, self.filter);
    }

    /// Decodes what follows the elements of a row with `data_pages` pages of data. Allocates in
    /// proportion to the bytes and to these pages.
    pub fn decode(bytes: &'a [u8], data_pages: usize) -> Result<Rest<'a>, CodecError> {
        let mut reader = ByteReader::new(bytes);
        let base = SeqNo(reader.varint()?);
        let prefix = reader.bytes()?;
        let count = reader.varint_usize()?;
        if count > PREDECESSORS_MAX || prefix.len() > STORED_KEY_BYTES_MAX {
            return Err(reader.error("too many predecessors, or too long a prefix"));
        }
        let uids = (0..count).map(|_| Ok(TableUid(reader.u128()?)));
        let predecessors = uids.collect::<Result<_, CodecError>>()?;
        let fences = Fences::decode(&mut reader, data_pages)?;
        let range_tombstones = reader.bytes()?;
        let properties = reader.bytes()?;
        let filter = if reader.rest().is_empty() { &[] } else { reader.bytes()? };
        reader.finish()?;
        Ok(Rest { base, prefix, predecessors, fences, range_tombstones, properties, filter })
    }
}

/// One entry of the data; its positions count from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowEntry {
    /// When it was written.
    pub seqno: SeqNo,
    /// When it turns into a tombstone.
    pub expiry: Option<Expiry>,
    /// Offset at which its key begins.
    pub key_at: u32,
    /// Offset at which its key ends.
    pub key_end: u32,
    /// Where its value begins, which goes up to the end of the entry.
    pub value_at: u32,
    /// What it says.
    pub kind: EntryKind,
    /// Whether the entry before has the same key.
    pub same_key: bool,
}

impl RowEntry {
    /// Appends all of an entry but its value.
    pub fn encode_front(entry: EntryRef<'_>, base: SeqNo, same_key: bool, out: &mut Vec<u8>) {
        put_bytes(out, entry.key);
        let mut flags = entry.kind as u8;
        flags |= if entry.expiry.is_some() { HAS_EXPIRY } else { 0 };
        flags |= if same_key { SAME_KEY } else { 0 };
        out.push(flags);
        put_varint(out, zigzag(entry.seqno, base));
        if let Some(expiry) = entry.expiry {
            put_varint(out, expiry.time().0);
        }
    }

    /// Decodes the front of an entry. The bytes may go on behind it, or end with it.
    #[inline]
    pub fn decode(bytes: &[u8], base: SeqNo) -> Result<RowEntry, CodecError> {
        let mut reader = ByteReader::new(bytes);
        let key = decode_key(&mut reader)?;
        let flags = reader.u8()?;
        let kind = match EntryKind::from_stored(flags & KIND_MASK) {
            Some(EntryKind::RangeTombstone) | None => {
                return Err(reader.error("an entry of unknown kind"));
            }
            Some(kind) => kind,
        };
        if flags & !(KIND_MASK | HAS_EXPIRY | SAME_KEY) != 0 {
            return Err(reader.error("reserved bits of an entry are set"));
        }
        let seqno = unzigzag(reader.varint()?, base);
        let mut expiry = None;
        if flags & HAS_EXPIRY != 0 {
            expiry = Expiry::from_stored(reader.varint()?);
            if expiry.is_none() {
                return Err(reader.error("an expiry of zero"));
            }
        }
        // A front is shorter than a key and what surrounds it.
        let value_at = reader.offset() as u32;
        let (key_at, key_end) = (key.start as u32, key.end as u32);
        let same_key = flags & SAME_KEY != 0;
        Ok(RowEntry { seqno, expiry, key_at, key_end, value_at, kind, same_key })
    }

    /// Its key, from its bytes.
    #[must_use]
    #[inline]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.key_at as usize..self.key_end as usize]
    }

    /// All of it, from its bytes.
    #[must_use]
    #[inline]
    pub fn entry<'a>(&self, bytes: &'a [u8]) -> EntryRef<'a> {
        EntryRef {
            key: self.key(bytes),
            seqno: self.seqno,
            kind: self.kind,
            expiry: self.expiry,
            value: &bytes[self.value_at as usize..],
        }
    }
}

/// Reads the key at the front of an entry: where it lies.
#[inline]
pub fn decode_key(reader: &mut ByteReader<'_>) -> Result<Range<usize>, CodecError> {
    let key_bytes = reader.varint_usize()?;
    if key_bytes > STORED_KEY_BYTES_MAX {
        return Err(reader.error("a key beyond the longest one"));
    }
    let start = reader.offset();
    reader.take(key_bytes)?;
    Ok(start..start + key_bytes)
}

/// A number as its distance from the base. Any two numbers have one, since it wraps.
fn zigzag(seqno: SeqNo, base: SeqNo) -> u64 {
    let distance = seqno.0.wrapping_sub(base.0) as i64;
    (distance << 1 ^ distance >> 63) as u64
}

fn unzigzag(stored: u64, base: SeqNo) -> SeqNo {
    let distance = (stored >> 1) as i64 ^ -((stored & 1) as i64);
    SeqNo(base.0.wrapping_add(distance as u64))
}
