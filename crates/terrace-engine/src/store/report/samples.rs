//! Who reads and writes how much, by the first bytes of keys: estimates from the operations that
//! are timed anyway, one in [`SAMPLE_EVERY`].
//!
//! # Why
//! Keyspaces are prefixes of keys, and a program wants to know which of them is busy. A counter for
//! each would be a cache line more on the way of each get; a look at the keys that are timed costs
//! the others nothing.

use std::collections::BTreeMap;

use terrace_base::{EntryKind, SeqNo};
use terrace_env::Latch;

use crate::WriteBatch;
use crate::explain::{OperationKind, SAMPLE_EVERY};
use crate::store::Store;
use crate::store::report::slow::SCAN_WEIGHT;

/// How many bytes of a key tell where it belongs.
pub const PREFIX_BYTES: usize = 2;

type Prefix = [u8; PREFIX_BYTES];

/// About how much was read and written among keys that begin alike.
///
/// The figures are estimates from the operations that are timed: of each thread one in about
/// [`SAMPLE_EVERY`]. The estimate of `n` operations is off by about the square root of 1,024 `n`:
/// by 10 % of 100,000, by 3 % of a million. A few hundred operations are often not seen at all, and
/// a thread that ends after fewer than 512 adds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct UsageStats {
    /// Keys read one by one.
    pub get_count: u64,
    /// Iterators.
    pub scan_count: u64,
    /// Keys that iterators showed.
    pub scanned_count: u64,
    /// Values put by plain writes, batches and transactions.
    pub put_count: u64,
    /// Operands merged.
    pub merge_count: u64,
    /// Keys and intervals deleted.
    pub delete_count: u64,
    /// Keys of conditional writes.
    pub update_count: u64,
    /// Bytes of keys, as they are stored, and values of puts, merges and deletes.
    pub write_bytes: u64,
}

/// The estimates of a range, by prefix.
#[derive(Debug, Default)]
pub struct Samples(Latch<BTreeMap<Prefix, UsageStats>>);

impl Samples {
    fn note(&self, key: &[u8], change: impl FnOnce(&mut UsageStats)) {
        if let Some(prefix) = key.first_chunk() {
            change(self.0.lock().entry(*prefix).or_default());
        }
    }

    /// A get or a scan was timed.
    pub fn read(&self, kind: OperationKind, key: &[u8], shown: u64) {
        let gets = u64::from(SAMPLE_EVERY);
        let scans = gets / u64::from(SCAN_WEIGHT);
        self.note(key, |usage| match kind {
            OperationKind::Get => usage.get_count += gets,
            OperationKind::Scan => {
                usage.scan_count += scans;
                usage.scanned_count += scans * shown;
            }
            // Its entries say more: see `wrote` and `updated`.
            OperationKind::Write => {}
        });
    }

    /// The write of a batch was timed.
    #[cold]
    pub fn wrote(&self, batch: &WriteBatch) {
        let weight = u64::from(SAMPLE_EVERY);
        for entry in batch.entries(SeqNo::ZERO) {
            self.note(entry.key, |usage| {
                match entry.kind {
                    EntryKind::Value | EntryKind::ValuePointer => usage.put_count += weight,
                    EntryKind::MergeOperand => usage.merge_count += weight,
                    EntryKind::Tombstone | EntryKind::RangeTombstone => {
                        usage.delete_count += weight;
                    }
                }
                let bytes = (entry.key.len() + entry.value.len()) as u64;
                usage.write_bytes += weight * bytes;
            });
        }
    }

    /// A conditional write was timed.
    #[cold]
    pub fn updated(&self, keys: &[&[u8]]) {
        for key in keys {
            self.note(key, |usage| usage.update_count += u64::from(SAMPLE_EVERY));
        }
    }
}

impl Store {
    /// About how much was read and written among the keys that begin with `prefix`, since the open.
    #[must_use]
    pub fn usage(&self, prefix: [u8; PREFIX_BYTES]) -> UsageStats {
        self.inner.meters.samples.0.lock().get(&prefix).copied().unwrap_or_default()
    }
}
