//! The bytes of an object of the log. All integers are little-endian.
//!
//! ```text
//! log/N, magic "terrclog"; the preamble, the database and the number as in every object
//!   40 epoch          8
//!   48 nonce         16   of the owner
//!   64 kind           1   1 a fence, 2 records, 3 a stone
//!   65 gathered       7   records: when they were read to go here, in milliseconds since 1970;
//!                         0 if it does not say. Otherwise zeros
//!   72 chain          8   records: the chain that they belong to
//!   80 base           8   records: the log position of the first one
//!   88 records            each as the local log has it, padding included, with a checksum
//!                         that begins with the chain and the record's position
//!    . checksum       4   of everything before it
//! ```
//! Records stand in the append order, without a gap.

use std::ops::Range;

use terrace_base::{CodecError, LogPosition, Preamble, PreambleError, WallTime};

use crate::cloud::format::{Author, author, begin, finish, number, open, zeros};
use crate::wal::format::{RECORD_ALIGNMENT, RECORD_HEADER_BYTES, RecordHeader};

const LOG: Preamble = Preamble { magic: *b"terrclog", version: 1 };

const RECORDS_AT: usize = 88;
const CHECKSUM_BYTES: usize = 4;
const GATHERED_BYTES: usize = 7;

/// An object of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogObject {
    /// Who wrote it.
    pub author: Author,
    /// What it holds.
    pub what: LogContent,
}

/// What an object of the log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogContent {
    /// The log belongs to its author from here on.
    Fence,
    /// What stood here came too late, and the number stays taken.
    Stone,
    /// Records.
    Records(LogRecords),
}

impl LogObject {
    /// Its records, if it holds any.
    #[must_use]
    pub fn records(self) -> Option<LogRecords> {
        match self.what {
            LogContent::Records(records) => Some(records),
            LogContent::Fence | LogContent::Stone => None,
        }
    }
}

/// The records of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecords {
    /// The chain that they belong to.
    pub chain: u64,
    /// The log position of the first one.
    pub base: LogPosition,
    /// Where the one after them will stand.
    pub end: LogPosition,
    /// When they were read to go here, by the owner's clock: all of them were written before. It
    /// never goes back from one object of an owner to the next.
    pub gathered: WallTime,
    /// The whole object.
    pub bytes: Vec<u8>,
}

/// One of them.
#[derive(Debug)]
pub struct StoredRecord {
    /// Its place in the append order.
    pub position: LogPosition,
    /// Where in the object it stands.
    pub offset: u64,
    /// Its header.
    pub header: RecordHeader,
    /// Where in the object its body stands.
    pub body: Range<usize>,
}

/// The records of an object on their way.
#[derive(Clone, Debug)]
pub struct LogPiece {
    /// The chain that they belong to.
    pub chain: u64,
    /// The log position of the first one.
    pub base: LogPosition,
    /// When they were read.
    gathered: WallTime,
    records: Vec<u8>,
}

impl LogPiece {
    /// None yet; they are read at `gathered`.
    #[must_use]
    pub fn new(chain: u64, base: LogPosition, gathered: WallTime) -> LogPiece {
        LogPiece { chain, base, gathered, records: Vec::new() }
    }

    /// Where the next record goes.
    #[must_use]
    pub fn end(&self) -> LogPosition {
        LogPosition(self.base.0 + self.records.len() as u64)
    }

    /// Bytes of the records.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.records.len() as u64
    }

    /// Adds the next record.
    pub fn push(&mut self, header: &RecordHeader, body: &[u8]) {
        let encoded = header.encode(u128::from(self.chain), self.end().0, &[body]);
        self.records.extend_from_slice(&encoded);
        self.records.extend_from_slice(body);
        self.records.resize(self.records.len().next_multiple_of(RECORD_ALIGNMENT), 0);
    }

    /// The object with this number that holds them.
    #[must_use]
    pub fn encode(&self, database: u128, at: u64, author: Author) -> Vec<u8> {
        let mut out = front(database, at, author, (2, self.gathered));
        out.extend_from_slice(&self.chain.to_le_bytes());
        out.extend_from_slice(&self.base.0.to_le_bytes());
        out.extend_from_slice(&self.records);
        finish(out, database, at)
    }
}

fn front(database: u128, at: u64, author: Author, what: (u8, WallTime)) -> Vec<u8> {
    let (kind, gathered) = what;
    let mut out = begin(LOG, database, at);
    out.extend_from_slice(&author.epoch.0.to_le_bytes());
    out.extend_from_slice(&author.nonce.to_le_bytes());
    out.push(kind);
    out.extend_from_slice(&gathered.0.to_le_bytes()[..GATHERED_BYTES]);
    out
}

/// The bytes of a fence.
#[must_use]
pub fn encode_fence(database: u128, at: u64, author: Author) -> Vec<u8> {
    finish(front(database, at, author, (1, WallTime(0))), database, at)
}

/// The bytes of a stone in the place of what its author had left.
#[must_use]
pub fn encode_stone(database: u128, at: u64, author: Author) -> Vec<u8> {
    finish(front(database, at, author, (3, WallTime(0))), database, at)
}

/// The object that these bytes are.
///
/// Errors: they are not what was written at this number of this database; a record is damaged.
pub fn decode_log(database: u128, at: u64, bytes: Vec<u8>) -> Result<LogObject, PreambleError> {
    let mut reader = open(LOG, &bytes, database, at)?;
    let author = author(&mut reader)?;
    let kind = reader.u8()?;
    match kind {
        1 | 3 => {
            zeros(&mut reader, GATHERED_BYTES)?;
            reader.finish()?;
            let what = if kind == 1 { LogContent::Fence } else { LogContent::Stone };
            Ok(LogObject { author, what })
        }
        2 => {
            let mut gathered = [0; 8];
            gathered[..GATHERED_BYTES].copy_from_slice(reader.take(GATHERED_BYTES)?);
            let gathered = WallTime(u64::from_le_bytes(gathered));
            let (chain, base) = (number(&mut reader)?, LogPosition(number(&mut reader)?));
            let end = LogPosition(base.0 + reader.rest().len() as u64);
            let records = LogRecords { chain, base, end, gathered, bytes };
            records_in(&records.bytes, chain, base).try_for_each(|record| record.map(drop))?;
            Ok(LogObject { author, what: LogContent::Records(records) })
        }
        _ => Err(reader.error("no object of the log is like this").into()),
    }
}

/// The records in an object that was decoded, in their order; one that is damaged is the last.
/// `chain` and `base` are what it says.
pub fn records_in(
    object: &[u8],
    chain: u64,
    base: LogPosition,
) -> impl Iterator<Item = Result<StoredRecord, CodecError>> {
    let records = object.get(RECORDS_AT..object.len().saturating_sub(CHECKSUM_BYTES));
    let records = records.unwrap_or_default();
    let mut offset = 0;
    std::iter::from_fn(move || {
        let rest = records.get(offset..).filter(|rest| !rest.is_empty())?;
        let record = record_at(rest, chain, base, offset);
        offset = match &record {
            Ok(record) => offset + record.header.padded_bytes() as usize,
            Err(_) => records.len(),
        };
        Some(record)
    })
}

/// The record at the front of `rest`, which is `offset` bytes behind the first one.
fn record_at(
    rest: &[u8],
    chain: u64,
    base: LogPosition,
    offset: usize,
) -> Result<StoredRecord, CodecError> {
    let at = RECORDS_AT + offset;
    let position = LogPosition(base.0 + offset as u64);
    let (header, body) = RecordHeader::decode(rest, u128::from(chain), position.0)?;
    let padded = usize::try_from(header.padded_bytes()).unwrap_or(usize::MAX);
    let padding = rest.get(header.bytes as usize..padded);
    if padding.is_none_or(|padding| padding.iter().any(|byte| *byte != 0)) {
        return Err(CodecError { offset: at, what: "no padding behind a record" });
    }
    let begin = at + RECORD_HEADER_BYTES;
    Ok(StoredRecord { position, offset: at as u64, header, body: begin..begin + body.len() })
}

/// Whether a list shows a fence or a stone at this size: they are never collected.
#[must_use]
pub fn has_no_records_by_size(bytes: u64) -> bool {
    bytes < (RECORDS_AT + CHECKSUM_BYTES) as u64
}

#[cfg(test)]
mod tests {
    //! Goal: the bytes are those of the specimen, for ever, and nothing else is taken for them.

    use terrace_base::{Epoch, SeqNo};

    use super::*;
    use crate::tests::specimens;
    use crate::wal::format::RecordKind;

    const DATABASE: u128 = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10;
    const AUTHOR: Author = Author { epoch: Epoch(7), nonce: 0xfeed };

    fn header(body: &[u8], seqno: u64) -> RecordHeader {
        RecordHeader {
            bytes: (RECORD_HEADER_BYTES + body.len()) as u32,
            first_seqno: SeqNo(seqno),
            durable: LogPosition(64),
            seqno_count: 1,
            entry_count: 1,
            kind: RecordKind::Batch,
        }
    }

    fn piece() -> LogPiece {
        gathered_at(WallTime(0))
    }

    fn gathered_at(gathered: WallTime) -> LogPiece {
        let mut piece = LogPiece::new(9, LogPosition(4096), gathered);
        for (seqno, body) in [(5, &b"one"[..]), (6, b""), (7, &[8; 300])] {
            piece.push(&header(body, seqno), body);
        }
        piece
    }

    fn objects() -> [Vec<u8>; 2] {
        [encode_fence(DATABASE, 1, AUTHOR), piece().encode(DATABASE, 2, AUTHOR)]
    }

    #[test]
    fn objects_are_the_specimens() {
        specimens::assert_as_ever("cloud/testdata/v1.log-objects", &objects().concat());
        let [fence, records] = objects();
        let fence_read = decode_log(DATABASE, 1, fence.clone()).unwrap();
        assert_eq!(fence_read, LogObject { author: AUTHOR, what: LogContent::Fence });
        assert!(has_no_records_by_size(fence.len() as u64));
        let stone = encode_stone(DATABASE, 3, AUTHOR);
        assert!(has_no_records_by_size(stone.len() as u64));
        let stone_read = decode_log(DATABASE, 3, stone).unwrap();
        assert_eq!(stone_read, LogObject { author: AUTHOR, what: LogContent::Stone });
        assert!(!has_no_records_by_size(records.len() as u64));
        let read = decode_log(DATABASE, 2, records).unwrap();
        let records = read.records().unwrap();
        assert_eq!((records.chain, records.base, records.end), (9, piece().base, piece().end()));
        let body = |record: Result<StoredRecord, CodecError>| {
            let record = record.unwrap();
            (record.header.first_seqno.0, records.bytes[record.body].to_vec())
        };
        let bodies: Vec<_> = records_in(&records.bytes, 9, records.base).map(body).collect();
        assert_eq!(bodies, [(5, b"one".to_vec()), (6, Vec::new()), (7, vec![8; 300])]);
    }

    #[test]
    fn records_say_when_they_were_gathered() {
        let at = WallTime(1_700_000_000_123);
        let bytes = gathered_at(at).encode(DATABASE, 2, AUTHOR);
        specimens::assert_as_ever("cloud/testdata/v1.log-objects-with-times", &bytes);
        let read = decode_log(DATABASE, 2, bytes).unwrap().records().unwrap();
        assert_eq!((read.gathered, read.end), (at, piece().end()));
        let earlier = decode_log(DATABASE, 2, piece().encode(DATABASE, 2, AUTHOR)).unwrap();
        assert_eq!(earlier.records().unwrap().gathered, WallTime(0));
    }

    #[test]
    fn what_is_cut_or_changed_is_refused() {
        for (number, whole) in (1..).zip(objects()) {
            for length in 0..whole.len() {
                assert!(decode_log(DATABASE, number, whole[..length].to_vec()).is_err());
            }
            for bit in 0..whole.len() * 8 {
                let mut changed = whole.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(decode_log(DATABASE, number, changed).is_err(), "{bit}");
            }
            assert!(decode_log(DATABASE, number + 1, whole.clone()).is_err());
            assert!(decode_log(DATABASE + 1, number, whole.clone()).is_err());
        }
    }

    /// What a hostile store says, with a checksum that fits: nothing panics.
    #[test]
    fn what_cannot_be_is_refused_under_a_good_checksum() {
        for (number, whole) in (1..).zip(objects()) {
            for byte in 40..whole.len() - 4 {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut changed = whole.clone();
                    changed.truncate(whole.len() - 4);
                    changed[byte] = value;
                    let _ = decode_log(DATABASE, number, finish(changed, DATABASE, number));
                }
            }
        }
        let mut cut = objects()[1].clone();
        cut.truncate(RECORDS_AT + 12);
        assert!(decode_log(DATABASE, 2, finish(cut, DATABASE, 2)).is_err());
    }
}
