//! What lives of a segment of the log: its records are gone through, from the first to the last one
//! that holds a value that is wanted.
//!
//! ```text
//!   header │ record │ record … key═value … │ record │ … key═value … key═value │ record …
//!            stepped over    ▲ wanted        stepped over  ▲ wanted             not read
//! ```
//! A record that holds no wanted value is stepped over by its length, which is not checked then:
//! most damage to what is dead keeps nobody up. Damage does where a wanted value is in the same
//! record, or behind a wrong length: what follows that is no record, and nothing is believed that
//! is not in a record whose checksum fits its place. The segment stays as it is then.

use std::cmp::Reverse;
use std::ops::Range;

use terrace_base::{CodecError, Corruption, SeqNo};

use super::ValueFile;
use crate::table::ByteInterval;
use crate::wal::format::{
    BatchBody, RECORD_HEADER_BYTES, RecordHeader, RecordKind, SEGMENT_HEADER_BYTES,
};
use crate::{Error, Result};

/// What is read at once, at least.
const READ_BYTES: u64 = 256 << 10;

/// How many records go by between two looks whether the work is cancelled.
const RECORDS_PER_LOOK: usize = 64;

/// A value that was found in a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogValue {
    /// Of its name.
    pub(super) offset: u64,
    /// The number of its entry.
    pub(super) seqno: SeqNo,
    /// Where its key begins in what was gathered; the value stands behind it.
    at: u64,
    key_bytes: u32,
    value_bytes: u32,
}

impl LogValue {
    /// Where its key and its value stand in what was gathered.
    pub(super) fn places(&self) -> (Range<usize>, Range<usize>) {
        let from = self.at as usize;
        let key_end = from + self.key_bytes as usize;
        (from..key_end, key_end..key_end + self.value_bytes as usize)
    }

    /// By key; of one key the newest first.
    pub(super) fn order_in<'a>(&self, bytes: &'a [u8]) -> (&'a [u8], Reverse<SeqNo>) {
        (&bytes[self.places().0], Reverse(self.seqno))
    }
}

/// The wanted values of a segment, keys and values one behind the other in `bytes`.
#[derive(Debug, Default)]
pub(super) struct LogValues {
    pub(super) found: Vec<LogValue>,
    pub(super) bytes: Vec<u8>,
}

impl LogValues {
    /// Gathers those with these offsets, which ascend, each once.
    ///
    /// Cost: reads the segment up to the last of them; memory for all of them.
    /// Errors: `Corruption` if one is not there, or its record is damaged; `Closed` if the work is
    /// cancelled; what reading gives.
    pub(super) fn gather(
        file: &ValueFile,
        offsets: &[u64],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<LogValues> {
        let mut values = LogValues::default();
        values.found.reserve(offsets.len());
        let mut records = Records { file, window: Vec::new(), window_at: 0 };
        let (mut at, mut wanted, mut count) = (SEGMENT_HEADER_BYTES, offsets, 0usize);
        while let Some(next) = wanted.first() {
            let length = records.length(at)?;
            let end = at + length;
            if *next < at {
                return Err(records.damage(at, NOT_THERE)?);
            }
            if *next < end {
                let here = wanted.partition_point(|offset| *offset < end);
                values.take(&mut records, at, length, &wanted[..here])?;
                wanted = &wanted[here..];
            }
            at = end;
            count += 1;
            if count.is_multiple_of(RECORDS_PER_LOOK) && is_cancelled() {
                return Err(Error::Closed);
            }
        }
        Ok(values)
    }

    /// Takes the wanted values of one record, which ascend.
    fn take(
        &mut self,
        records: &mut Records<'_>,
        at: u64,
        length: u64,
        wanted: &[u64],
    ) -> Result<()> {
        let identity = records.file.meta().uid.0;
        match self.take_of(records.bytes(at, length)?, identity, at, wanted) {
            Ok(None) => Ok(()),
            Ok(Some(missing)) => Err(records.damage(missing, NOT_THERE)?),
            Err(error) => Err(records.damage(at, error.what)?),
        }
    }

    /// The same of the stored bytes of the record; the first wanted value that it has not.
    fn take_of(
        &mut self,
        stored: &[u8],
        identity: u128,
        at: u64,
        wanted: &[u64],
    ) -> std::result::Result<Option<u64>, CodecError> {
        let (header, body) = RecordHeader::decode(stored, identity, at)?;
        let mut left = wanted.iter().copied().peekable();
        if header.kind != RecordKind::Batch {
            return Ok(left.next());
        }
        for entry in BatchBody::decode(&header, body)?.entries() {
            let (_, entry) = entry?;
            if left.peek().is_none() {
                break;
            }
            // An entry borrows from the record, so that its key tells where it stands.
            let offset = at + (entry.key.as_ptr() as usize - stored.as_ptr() as usize) as u64;
            if left.next_if_eq(&offset).is_none() {
                continue;
            }
            self.found.push(LogValue {
                offset,
                seqno: entry.seqno,
                at: self.bytes.len() as u64,
                key_bytes: entry.key.len() as u32,
                value_bytes: entry.value.len() as u32,
            });
            self.bytes.extend_from_slice(entry.key);
            self.bytes.extend_from_slice(entry.value);
        }
        Ok(left.next())
    }
}

/// Why a name leads nowhere.
const NOT_THERE: &str = "a table names a value here, and no key stands in its place";

/// The records of a segment, read as they are come to.
struct Records<'a> {
    file: &'a ValueFile,
    window: Vec<u8>,
    window_at: u64,
}

impl Records<'_> {
    /// How long the record at `at` says it is. Errors: `Corruption` if that cannot be.
    fn length(&mut self, at: u64) -> Result<u64> {
        let left = self.file.meta().bytes.saturating_sub(at);
        if left < RECORD_HEADER_BYTES as u64 {
            return Err(self.damage(at, "the log segment ends before a value that is named")?);
        }
        let length = RecordHeader::padded_length_in(self.bytes(at, RECORD_HEADER_BYTES as u64)?);
        if length < RECORD_HEADER_BYTES as u64 || length > left {
            return Err(self.damage(at, "a record's length is out of bounds")?);
        }
        Ok(length)
    }

    /// This stretch of the segment, which ends before the segment does.
    fn bytes(&mut self, at: u64, bytes: u64) -> Result<&[u8]> {
        let window_end = self.window_at + self.window.len() as u64;
        if at < self.window_at || at + bytes > window_end {
            let left = self.file.meta().bytes.saturating_sub(at);
            let interval =
                ByteInterval { offset: at, bytes: READ_BYTES.max(bytes).min(left) as usize };
            self.window = self.file.read_raw(interval)?;
            self.window_at = at;
        }
        let from = (at - self.window_at) as usize;
        Ok(&self.window[from..from + bytes as usize])
    }

    fn damage(&self, at: u64, what: &str) -> Result<Error> {
        Ok(Corruption::new(self.file.name()?, at, what).into())
    }
}
