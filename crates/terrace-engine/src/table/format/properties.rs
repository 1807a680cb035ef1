//! The properties of a table: what is known about it as a whole.
//!
//! ```text
//!  fields, tags ascending
//!   varint  tag × 2 + required
//!   varint  bytes of the body
//!   bytes   the body
//! ```
//!
//! A reader refuses the table if it meets a *required* field that it does not know (the writer
//! says that the table cannot be read rightly without it), and skips an unknown field that is not
//! required. The bodies, by tag; a number is a varint:
//!
//! | tag | required | body |
//! |---|---|---|
//! | 1 | yes | smallest user key: bytes |
//! | 2 | yes | largest user key: u8 1 if it is itself not in the table (the end of a range tombstone), else 0, then bytes |
//! | 3 | yes | least and greatest sequence number: two numbers; both 0 in an ingested table, whose entries count with the number that the manifest gives the table |
//! | 4 | no | entries, distinct keys, tombstones, merge operands, range tombstones: five numbers |
//! | 5 | no | raw key bytes, raw value bytes: two numbers |
//! | 6 | no | least and greatest expiry in milliseconds; left out if nothing expires |
//! | 7 | no | creation time in milliseconds: a number |
//! | 8 | no | data blocks, bytes of data blocks: two numbers |
//! | 10 | yes | values named, by segment: for each (epoch, counter, values, bytes), segments ascending; left out if there are none |
//! | 11 | no | frames of [`names`](super::names): for each (segments in it, bytes), in the order of field 10, whose segments are all there; left out if there are none |
//!
//! 9 was never written.

use terrace_base::limits::STORED_KEY_BYTES_MAX;
use terrace_base::{
    ByteReader, CodecError, Epoch, Expiry, FileId, KeyRange, SeqNo, WallTime, put_varint,
};

use super::frame::TRAILER_BYTES;
use super::names::{FRAME_BYTES_MIN, ListFrame};
use super::{FormatError, META_BYTES_MAX};
use crate::vlog::format::FILE_BYTES_END;
use crate::vlog::{NamedBytes, NamedSegments};

const SMALLEST: u64 = 1;
const LARGEST: u64 = 2;
const SEQNOS: u64 = 3;
const COUNTS: u64 = 4;
const RAW_BYTES: u64 = 5;
const EXPIRIES: u64 = 6;
const CREATED: u64 = 7;
const DATA: u64 = 8;
const NAMED: u64 = 10;
const LISTS: u64 = 11;

/// What is known about a table as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableProperties {
    /// How many entries, every version of every key counted, range tombstones not.
    pub entry_count: u64,
    /// How many distinct user keys.
    pub key_count: u64,
    /// How many of the entries are tombstones.
    pub tombstone_count: u64,
    /// How many of the entries are merge operands.
    pub merge_operand_count: u64,
    /// How many range tombstones.
    pub range_tombstone_count: u64,
    /// Bytes of the entries' user keys.
    pub raw_key_bytes: u64,
    /// Bytes of the entries' values.
    pub raw_value_bytes: u64,
    /// The least sequence number of an entry or range tombstone.
    pub least_seqno: SeqNo,
    /// The greatest sequence number of an entry or range tombstone.
    pub greatest_seqno: SeqNo,
    /// The earliest and the latest expiry of an entry, if any expires.
    pub expiries: Option<(Expiry, Expiry)>,
    /// The smallest user key of an entry, or start of a range tombstone.
    pub smallest: Vec<u8>,
    /// The largest user key of an entry, or end of a range tombstone.
    pub largest: Vec<u8>,
    /// Whether `largest` is the end of a range tombstone, and so not itself in the table.
    pub largest_is_exclusive: bool,
    /// When the table was built.
    pub created: WallTime,
    /// The values that pointers of this table name.
    pub named: NamedSegments,
    /// The frames that hold the lists of these values; none if the table has no lists, as those
    /// that were built before there were lists.
    pub lists: Vec<ListFrame>,
    /// How many data blocks.
    pub block_count: u64,
    /// Bytes of the data blocks in the file.
    pub data_bytes: u64,
}

impl TableProperties {
    /// Whether the interval of the table holds `key`.
    #[must_use]
    pub fn spans(&self, key: &[u8]) -> bool {
        self.smallest.as_slice() <= key
            && if self.largest_is_exclusive {
                key < self.largest.as_slice()
            } else {
                key <= self.largest.as_slice()
            }
    }

    /// Whether the table was ingested: built before its entries had a number. All of them bear
    /// zero, which no write ever gets, and count with the one number that whoever installed the
    /// table gave it (`greatest_seqno` in the manifest).
    #[must_use]
    pub fn is_unnumbered(&self) -> bool {
        self.greatest_seqno == SeqNo::ZERO && self.entry_count > 0
    }

    /// The smallest interval that holds all keys and range tombstones.
    #[must_use]
    pub fn bounds(&self) -> KeyRange {
        let mut end = self.largest.clone();
        if !self.largest_is_exclusive {
            end.push(0);
        }
        KeyRange::new(self.smallest.clone(), Some(end))
    }

    /// Appends the block.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut field = |tag: u64, required: bool, write: &dyn Fn(&mut Vec<u8>)| {
            let mut body = Vec::new();
            write(&mut body);
            put_varint(out, tag << 1 | u64::from(required));
            put_varint(out, body.len() as u64);
            out.extend_from_slice(&body);
        };
        let numbers = |numbers: &[u64]| {
            let numbers = numbers.to_vec();
            move |body: &mut Vec<u8>| numbers.iter().for_each(|number| put_varint(body, *number))
        };
        field(SMALLEST, true, &|body| body.extend_from_slice(&self.smallest));
        field(LARGEST, true, &|body| {
            body.push(u8::from(self.largest_is_exclusive));
            body.extend_from_slice(&self.largest);
        });
        field(SEQNOS, true, &numbers(&[self.least_seqno.0, self.greatest_seqno.0]));
        let counts = [
            self.entry_count,
            self.key_count,
            self.tombstone_count,
            self.merge_operand_count,
            self.range_tombstone_count,
        ];
        field(COUNTS, false, &numbers(&counts));
        field(RAW_BYTES, false, &numbers(&[self.raw_key_bytes, self.raw_value_bytes]));
        if let Some((least, greatest)) = self.expiries {
            field(EXPIRIES, false, &numbers(&[least.time().0, greatest.time().0]));
        }
        field(CREATED, false, &numbers(&[self.created.0]));
        field(DATA, false, &numbers(&[self.block_count, self.data_bytes]));
        if !self.named.is_empty() {
            field(NAMED, true, &|body| put_named(body, &self.named));
        }
        if !self.lists.is_empty() {
            let both = self.lists.iter().flat_map(|frame| [frame.segments, frame.bytes]);
            field(LISTS, false, &numbers(&both.map(u64::from).collect::<Vec<u64>>()));
        }
    }

    /// Decodes a block. Allocates in proportion to its bytes.
    ///
    /// Errors: [`FormatError::Unsupported`] for a required field that this version does not know;
    /// [`FormatError::Damaged`] for everything else.
    pub fn decode(payload: &[u8]) -> Result<TableProperties, FormatError> {
        let mut properties = TableProperties::default();
        let mut reader = ByteReader::new(payload);
        let mut seen = 0u64;
        let mut tag_before = 0;
        while !reader.is_empty() {
            let tag = reader.varint()?;
            let (tag, required) = (tag >> 1, tag & 1 == 1);
            if tag <= tag_before {
                return Err(reader.error("fields out of order").into());
            }
            tag_before = tag;
            let body_at = reader.offset();
            let mut body = ByteReader::new(reader.bytes()?);
            match properties.decode_field(tag, &mut body) {
                Ok(true) => seen |= 1 << tag,
                Ok(false) if required => {
                    return Err(FormatError::Unsupported(format!(
                        "the table has a property that this version must know and does not \
                         (field {tag})"
                    )));
                }
                Ok(false) => {}
                Err(mut error) => {
                    error.offset += body_at;
                    return Err(error.into());
                }
            }
        }
        for tag in [SMALLEST, LARGEST, SEQNOS] {
            if seen & 1 << tag == 0 {
                return Err(reader.error("a required field is missing").into());
            }
        }
        let listed: u64 = properties.lists.iter().map(|frame| u64::from(frame.segments)).sum();
        if listed > 0 && listed != properties.named.iter().count() as u64 {
            return Err(reader.error("lists of other segments than those that are named").into());
        }
        if properties.least_seqno > properties.greatest_seqno
            || properties.smallest > properties.largest
        {
            return Err(reader.error("bounds that are turned round").into());
        }
        Ok(properties)
    }

    /// Takes one field in; `false` if its tag is unknown.
    fn decode_field(&mut self, tag: u64, body: &mut ByteReader<'_>) -> Result<bool, CodecError> {
        match tag {
            SMALLEST => self.smallest = take_key(body)?,
            LARGEST => {
                self.largest_is_exclusive = match body.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(body.error("neither inclusive nor exclusive")),
                };
                self.largest = take_key(body)?;
            }
            SEQNOS => {
                self.least_seqno = SeqNo(body.varint()?);
                self.greatest_seqno = SeqNo(body.varint()?);
            }
            COUNTS => {
                self.entry_count = body.varint()?;
                self.key_count = body.varint()?;
                self.tombstone_count = body.varint()?;
                self.merge_operand_count = body.varint()?;
                self.range_tombstone_count = body.varint()?;
            }
            RAW_BYTES => {
                self.raw_key_bytes = body.varint()?;
                self.raw_value_bytes = body.varint()?;
            }
            EXPIRIES => {
                let least = Expiry::from_stored(body.varint()?);
                let greatest = Expiry::from_stored(body.varint()?);
                self.expiries = least.zip(greatest);
                if self.expiries.is_none_or(|(least, greatest)| least > greatest) {
                    return Err(body.error("expiries that cannot be"));
                }
            }
            CREATED => self.created = WallTime(body.varint()?),
            DATA => {
                self.block_count = body.varint()?;
                self.data_bytes = body.varint()?;
            }
            NAMED => self.named = take_named(body)?,
            LISTS => self.lists = take_lists(body)?,
            _ => return Ok(false),
        }
        body.finish()?;
        Ok(true)
    }
}

fn take_key(body: &mut ByteReader<'_>) -> Result<Vec<u8>, CodecError> {
    let key = body.rest();
    if key.len() > STORED_KEY_BYTES_MAX {
        return Err(body.error("a key beyond the longest one"));
    }
    Ok(body.take(key.len())?.to_vec())
}

/// Frames of lists of names: some, each of a size that can be.
fn take_lists(body: &mut ByteReader<'_>) -> Result<Vec<ListFrame>, CodecError> {
    let mut lists = Vec::new();
    while !body.is_empty() {
        let (segments, bytes) = (body.varint_usize()?, body.varint_usize()?);
        let is_sized = (FRAME_BYTES_MIN..=META_BYTES_MAX + TRAILER_BYTES).contains(&bytes);
        if segments == 0 || segments > bytes || !is_sized {
            return Err(body.error("a frame of lists that cannot be"));
        }
        lists.push(ListFrame { segments: segments as u32, bytes: bytes as u32 });
    }
    match lists.is_empty() {
        true => Err(body.error("no frame of lists")),
        false => Ok(lists),
    }
}

/// Appends what a table names, as the manifest stores it too.
pub(crate) fn put_named(out: &mut Vec<u8>, named: &NamedSegments) {
    for one in named.iter() {
        put_varint(out, one.segment.epoch.0);
        put_varint(out, one.segment.counter);
        put_varint(out, one.count);
        put_varint(out, one.bytes);
    }
}

/// The inverse of [`put_named`]: all of `body` is what one table names, which is something.
pub(crate) fn take_named(body: &mut ByteReader<'_>) -> Result<NamedSegments, CodecError> {
    let mut named = Vec::new();
    while !body.is_empty() {
        let segment = FileId { epoch: Epoch(body.varint()?), counter: body.varint()? };
        let (count, bytes) = (body.varint()?, body.varint()?);
        if bytes >= FILE_BYTES_END {
            return Err(body.error("a table names more of a segment than there can be"));
        }
        named.push(NamedBytes { segment, count, bytes });
    }
    match NamedSegments::new(named) {
        Some(named) if !named.is_empty() => Ok(named),
        _ => Err(body.error("what a table names of segments cannot be")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(counter: u64, bytes: u64) -> NamedBytes {
        NamedBytes { segment: FileId { epoch: Epoch(1), counter }, count: 2, bytes }
    }

    fn frame(segments: u32, bytes: u32) -> ListFrame {
        ListFrame { segments, bytes }
    }

    fn properties() -> TableProperties {
        TableProperties {
            entry_count: 12,
            key_count: 10,
            tombstone_count: 3,
            merge_operand_count: 1,
            range_tombstone_count: 2,
            raw_key_bytes: 120,
            raw_value_bytes: 4000,
            least_seqno: SeqNo(7),
            greatest_seqno: SeqNo(900),
            expiries: Expiry::from_stored(5).zip(Expiry::from_stored(6)),
            smallest: b"a".to_vec(),
            largest: b"zebra".to_vec(),
            largest_is_exclusive: true,
            created: WallTime(1_700_000_000_000),
            named: NamedSegments::new(vec![named(3, 100), named(9, 2)]).expect("they ascend"),
            lists: vec![frame(1, 7), frame(1, 300)],
            block_count: 2,
            data_bytes: 4200,
        }
    }

    fn encoded(properties: &TableProperties) -> Vec<u8> {
        let mut out = Vec::new();
        properties.encode(&mut out);
        out
    }

    #[test]
    fn properties_round_trip() {
        for properties in [properties(), TableProperties::default()] {
            assert_eq!(TableProperties::decode(&encoded(&properties)), Ok(properties));
        }
    }

    #[test]
    fn lists_are_those_of_the_segments_that_are_named() {
        let of = |lists| TableProperties { lists, ..properties() };
        let none_named = TableProperties { named: NamedSegments::default(), ..properties() };
        let wrong = [
            of(vec![frame(1, 7)]),
            of(vec![frame(3, 30)]),
            of(vec![frame(2, 7), frame(1, 7)]),
            of(vec![frame(1, 7), frame(1, 6)]),
            of(vec![frame(0, 7), frame(2, 7)]),
            none_named,
        ];
        for wrong in wrong {
            let outcome = TableProperties::decode(&encoded(&wrong));
            assert!(matches!(outcome, Err(FormatError::Damaged(_))), "{:?}", wrong.lists);
        }
        for right in [vec![frame(2, 9)], Vec::new()] {
            assert_eq!(TableProperties::decode(&encoded(&of(right.clone()))), Ok(of(right)));
        }
    }

    #[test]
    fn a_cut_block_is_damaged_or_lacks_only_what_is_not_required() {
        let whole = encoded(&properties());
        for bytes in 0..whole.len() {
            if let Ok(decoded) = TableProperties::decode(&whole[..bytes]) {
                assert_eq!(decoded.largest, properties().largest);
                assert_eq!(decoded.least_seqno, properties().least_seqno);
            }
        }
        assert!(TableProperties::decode(&[]).is_err());
    }

    #[test]
    fn unknown_fields_are_skipped_or_refused_as_they_say() {
        let mut unknown = encoded(&properties());
        put_varint(&mut unknown, 200 << 1);
        unknown.extend_from_slice(&[2, 0xde, 0xad]);
        assert_eq!(TableProperties::decode(&unknown), Ok(properties()));
        let mut required = encoded(&properties());
        put_varint(&mut required, 200 << 1 | 1);
        required.extend_from_slice(&[2, 0xde, 0xad]);
        let outcome = TableProperties::decode(&required);
        assert!(matches!(outcome, Err(FormatError::Unsupported(_))), "{outcome:?}");
        let mut twice = encoded(&properties());
        put_varint(&mut twice, CREATED << 1);
        twice.extend_from_slice(&[1, 7]);
        assert!(matches!(TableProperties::decode(&twice), Err(FormatError::Damaged(_))));
    }

    #[test]
    fn an_exclusive_end_is_not_in_the_table() {
        let mut properties = properties();
        assert!(properties.spans(b"a") && properties.spans(b"zebr") && !properties.spans(b"zebra"));
        properties.largest_is_exclusive = false;
        assert!(
            properties.spans(b"zebra") && !properties.spans(b"zebraa") && !properties.spans(b"")
        );
    }
}
