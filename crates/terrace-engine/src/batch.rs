//! A write batch: entries that are written together or not at all.

use terrace_base::limits::{
    BATCH_BYTES_MAX, BATCH_ENTRIES_MAX, STORED_KEY_BYTES_MAX, VALUE_BYTES_MAX,
};
use terrace_base::{EntryKind, EntryRef, Expiry, SeqNo};

use crate::memtable::Memtable;
use crate::wal::format::{EntryReader, put_entry};
use crate::{Error, Result};

/// Entries that are written atomically: all of them are visible from one moment on, and a crash
/// keeps all or none. Later entries win over earlier ones for the same key.
///
/// Entries are kept in the coding of the log, so that a commit copies them once.
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    body: Vec<u8>,
    entry_count: u32,
    payload_bytes: usize,
    memtable_bytes: usize,
    has_range_tombstones: bool,
    has_operands: bool,
    longest_value: usize,
}

/// The most that an entry takes beside its key and value: kind, expiry and two lengths.
const ENTRY_HEADER_BYTES_MAX: usize = 1 + 10 + 3 + 4;

impl WriteBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// An empty batch that writes into the memory of `buffer`, whatever that holds.
    #[must_use]
    pub fn reusing(mut buffer: Vec<u8>) -> WriteBatch {
        buffer.clear();
        WriteBatch { body: buffer, ..WriteBatch::default() }
    }

    /// The batch's memory, for [`WriteBatch::reusing`].
    #[must_use]
    pub fn into_buffer(self) -> Vec<u8> {
        self.body
    }

    /// Sets `key` to `value`. Errors: `Invalid` if one of them is too long, or the batch would
    /// exceed its bounds of bytes or entries; the batch is as it was.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with_expiry(key, value, None)
    }

    /// Sets `key` to `value` until `expiry`.
    pub fn put_with_expiry(
        &mut self,
        key: &[u8],
        value: &[u8],
        expiry: Option<Expiry>,
    ) -> Result<()> {
        self.add(EntryKind::Value, key, value, expiry)
    }

    /// Deletes `key`.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.add(EntryKind::Tombstone, key, b"", None)
    }

    /// Deletes every key from `start` up to, not including, `end`. An empty interval adds nothing.
    pub fn delete_range(&mut self, start: &[u8], end: &[u8]) -> Result<()> {
        if end <= start {
            return Ok(());
        }
        check_key(end)?;
        self.add(EntryKind::RangeTombstone, start, end, None)?;
        self.has_range_tombstones = true;
        Ok(())
    }

    /// Merges `operand` into `key`: what that does to the value, the range's
    /// [`MergeOperator`](crate::merge::MergeOperator) says. A range without one refuses the batch.
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.add(EntryKind::MergeOperand, key, operand, None)?;
        self.has_operands = true;
        Ok(())
    }

    fn add(
        &mut self,
        kind: EntryKind,
        key: &[u8],
        value: &[u8],
        expiry: Option<Expiry>,
    ) -> Result<()> {
        check_key(key)?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::invalid(format!(
                "the value has {} bytes, at most {VALUE_BYTES_MAX} are allowed",
                value.len()
            )));
        }
        if self.len() >= BATCH_ENTRIES_MAX {
            return Err(Error::invalid(format!(
                "the batch would exceed {BATCH_ENTRIES_MAX} entries; split it"
            )));
        }
        let bytes = key.len() + value.len();
        if self.payload_bytes + bytes > BATCH_BYTES_MAX {
            return Err(Error::invalid(format!(
                "the batch would exceed {BATCH_BYTES_MAX} bytes; split it"
            )));
        }
        if self.body.is_empty() {
            // One entry is the common case: one allocation, of the right size.
            self.body.reserve_exact(bytes + ENTRY_HEADER_BYTES_MAX);
        }
        put_entry(&mut self.body, kind, false, expiry, key, value);
        self.entry_count += 1;
        self.payload_bytes += bytes;
        self.longest_value = self.longest_value.max(value.len());
        self.memtable_bytes += Memtable::space_for(key.len(), value.len());
        Ok(())
    }

    /// How many entries it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entry_count as usize
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entry_count == 0
    }

    /// Bytes of its longest value; an operand and the end of a deleted interval count as such.
    #[must_use]
    pub fn longest_value(&self) -> usize {
        self.longest_value
    }

    /// Bytes of keys and values.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Removes all entries and keeps the memory for the next ones.
    pub fn clear(&mut self) {
        self.body.clear();
        self.entry_count = 0;
        self.payload_bytes = 0;
        self.longest_value = 0;
        self.memtable_bytes = 0;
        self.has_range_tombstones = false;
        self.has_operands = false;
    }

    /// Removes all entries but the first `len`. Cost: that of adding those again.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.len() {
            return;
        }
        let whole = std::mem::take(self);
        let kept = whole.entries(SeqNo::ZERO).take(len);
        let added: Result<()> = kept.into_iter().try_for_each(|entry| match entry.kind {
            EntryKind::RangeTombstone => self.delete_range(entry.key, entry.value),
            EntryKind::MergeOperand => self.merge(entry.key, entry.value),
            kind => self.add(kind, entry.key, entry.value, entry.expiry),
        });
        added.expect("what fitted among more entries fits among fewer");
    }

    /// The entries in order, numbered from `first`.
    pub fn entries(&self, first: SeqNo) -> impl Iterator<Item = EntryRef<'_>> {
        let entries = EntryReader::new(&self.body, first);
        entries.map(|entry| entry.expect("a batch holds only entries that it encoded itself"))
    }

    /// The entries that were added when the batch had [`WriteBatch::body_bytes`] before, in order.
    pub fn entries_behind(&self, body_bytes: usize) -> impl Iterator<Item = EntryRef<'_>> {
        let entries = EntryReader::new(&self.body[body_bytes..], SeqNo::ZERO);
        entries.map(|entry| entry.expect("a batch holds only entries that it encoded itself"))
    }

    /// Bytes of all entries in the coding of the log.
    #[must_use]
    pub fn body_bytes(&self) -> usize {
        self.body.len()
    }

    /// Overwrites the first bytes of every key, and of every end of a range tombstone, with
    /// `prefix`: how a batch moves to another keyspace. All of them are at least as long.
    pub fn replace_prefix(&mut self, prefix: &[u8]) {
        let base = self.body.as_ptr() as usize;
        let mut places = Vec::with_capacity(self.len());
        for entry in self.entries(SeqNo::ZERO) {
            places.push(entry.key.as_ptr() as usize - base);
            if entry.kind == EntryKind::RangeTombstone {
                places.push(entry.value.as_ptr() as usize - base);
            }
        }
        for place in places {
            self.body[place..place + prefix.len()].copy_from_slice(prefix);
        }
    }

    /// Whether it deletes intervals.
    pub(crate) fn has_range_tombstones(&self) -> bool {
        self.has_range_tombstones
    }

    /// Whether it merges.
    pub(crate) fn has_operands(&self) -> bool {
        self.has_operands
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn memtable_bytes(&self) -> usize {
        self.memtable_bytes
    }
}

fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > STORED_KEY_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the key has {} bytes, at most {} are allowed",
            key.len(),
            terrace_base::limits::KEY_BYTES_MAX
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_batch_is_as_if_the_others_had_not_been_added() {
        let add: [fn(&mut WriteBatch) -> Result<()>; 5] = [
            |batch| batch.put_with_expiry(b"k", b"1", Some(Expiry::at(terrace_base::WallTime(9)))),
            |batch| batch.delete(b"k"),
            |batch| batch.put(b"l", b"2"),
            |batch| batch.merge(b"k", b"+"),
            |batch| batch.delete_range(b"a", b"b"),
        ];
        let of = |count: usize| {
            let mut batch = WriteBatch::new();
            add[..count].iter().for_each(|add| add(&mut batch).expect("short"));
            batch
        };
        for len in 0..=add.len() {
            let mut batch = of(add.len());
            batch.truncate(len);
            assert_eq!(format!("{batch:?}"), format!("{:?}", of(len)), "{len}");
        }
    }

    #[test]
    fn a_batch_numbers_its_entries_in_order() {
        let mut batch = WriteBatch::new();
        batch.put(b"k", b"1").expect("short");
        batch.delete(b"k").expect("short");
        batch.delete_range(b"b", b"a").expect("empty");
        batch.delete_range(b"a", b"b").expect("short");
        batch.merge(b"k", b"+").expect("short");
        let shown: Vec<_> = batch.entries(SeqNo(7)).map(|entry| format!("{entry:?}")).collect();
        let expected = [
            "\"k\"#7 Value \"1\"",
            "\"k\"#8 Tombstone \"\"",
            "\"a\"#9 RangeTombstone \"b\"",
            "\"k\"#10 MergeOperand \"+\"",
        ];
        assert_eq!(shown, expected);
        assert!(batch.has_operands());
        batch.clear();
        assert!(!batch.has_operands() && batch.is_empty() && batch.payload_bytes() == 0);
    }

    #[test]
    fn a_batch_moves_to_another_prefix() {
        let mut batch = WriteBatch::new();
        batch.put(b"aak", b"aav").expect("short");
        batch.delete_range(b"aa", b"ab").expect("short");
        batch.replace_prefix(b"zz");
        let shown: Vec<_> = batch.entries(SeqNo(1)).map(|entry| format!("{entry:?}")).collect();
        assert_eq!(shown, ["\"zzk\"#1 Value \"aav\"", "\"zz\"#2 RangeTombstone \"zz\""]);
    }

    #[test]
    fn what_is_too_long_is_refused_with_the_bound() {
        let mut batch = WriteBatch::new();
        let error = batch.put(&vec![0; STORED_KEY_BYTES_MAX + 1], b"").expect_err("too long");
        assert!(error.to_string().contains("at most 65536"), "{error}");
        let error = batch.put(b"", &vec![0; VALUE_BYTES_MAX + 1]).expect_err("too long");
        assert!(error.to_string().contains("at most 67108864"), "{error}");
        assert!(batch.is_empty());
    }

    /// Forty million deletions of the empty key are no payload, and were 12.8 GiB of reservations.
    #[test]
    fn entries_without_payload_are_bounded_too() {
        let mut batch = WriteBatch::new();
        for _ in 0..BATCH_ENTRIES_MAX {
            batch.delete(b"").expect("it is within the bound");
        }
        let error = batch.delete(b"").expect_err("there is one too many");
        assert!(error.to_string().contains("1048576 entries; split it"), "{error}");
        assert_eq!((batch.len(), batch.payload_bytes()), (BATCH_ENTRIES_MAX, 0));
        assert!(batch.memtable_bytes() < 512 << 20, "{} bytes", batch.memtable_bytes());
    }
}
