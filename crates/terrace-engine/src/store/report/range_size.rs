//! About how much there is in an interval of keys.

use std::sync::Arc;

use terrace_base::{KeyRange, SeqNo};

use crate::Result;
use crate::iter::Cursor;
use crate::memtable::Memtable;
use crate::store::Store;
use crate::table::{ReadMode, TableMeta};

/// About how much there is in an interval of keys; see [`Store::range_size`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RangeSize {
    /// Bytes of tables, as they lie on the disk, and of the values that they name in value files.
    pub table_bytes: u64,
    /// Bytes of keys and values that are in memory and not in tables yet.
    pub memory_bytes: u64,
    /// Entries in both. A key counts once for each of its versions, deletions included.
    pub entry_count: u64,
}

/// Up to this many keys of a memtable are counted, and more are estimated.
const COUNTED_MAX: u64 = 256;

/// Into how many parts a memtable is divided for an estimate.
const PARTS: usize = 256;

impl Store {
    /// About how much there is in `range`: of tables it is right to a block at either end, of
    /// memtables to a part in some hundreds. What was overwritten or deleted counts until a
    /// compaction drops it. Nothing is read but the indexes of tables that are not open yet.
    ///
    /// Cost: a search in each table and memtable that reaches over an end of the interval.
    pub fn range_size(&self, range: &KeyRange) -> Result<RangeSize> {
        self.inner.check_open()?;
        let mut size = RangeSize::default();
        if range.is_empty() {
            return Ok(size);
        }
        let view = self.inner.view.load_full();
        for memtable in view.memtables() {
            size.add_memtable(&memtable, range)?;
        }
        for live in view.version.l0().live().iter().filter(|live| live.overlaps(range)) {
            live.table.reader(ReadMode::BLOCK)?;
            let meta = live.table.meta();
            size.add_table(live.bytes_within(range), meta);
        }
        let tables = view.version.runs().flat_map(|(_, run)| run.tables());
        for table in tables.filter(|table| table.span().overlaps(range)) {
            table.reader(ReadMode::BLOCK)?;
            let meta = table.meta();
            size.add_table(table.bytes_within(range), meta);
        }
        Ok(size)
    }
}

impl RangeSize {
    fn add_table(&mut self, bytes: u64, meta: &TableMeta) {
        self.table_bytes += bytes + share(meta.named.bytes(), bytes, meta.bytes);
        self.entry_count += share(meta.entry_count, bytes, meta.bytes);
    }

    fn add_memtable(&mut self, memtable: &Arc<Memtable>, range: &KeyRange) -> Result<()> {
        let keys = memtable.key_count();
        let within = keys_within(memtable, range)?.min(keys);
        let bytes = memtable.key_bytes() + memtable.value_bytes();
        self.memory_bytes += share(bytes, within, keys);
        self.entry_count += share(memtable.entry_count(), within, keys);
        Ok(())
    }
}

/// About how many keys of a memtable lie within `range`.
fn keys_within(memtable: &Arc<Memtable>, range: &KeyRange) -> Result<u64> {
    let mut cursor = memtable.cursor(SeqNo::MAX);
    let mut counted = 0;
    let mut stands = cursor.seek(range.start())?;
    while stands && cursor.entry().is_some_and(|entry| range.contains(entry.key)) {
        counted += 1;
        if counted == COUNTED_MAX {
            let division = memtable.dividing_keys(PARTS);
            let inside = division.iter().filter(|key| range.contains(key)).count() as u64;
            let estimate = share(memtable.key_count(), inside + 1, division.len() as u64 + 1);
            return Ok(estimate.max(counted));
        }
        stands = cursor.next()?;
    }
    Ok(counted)
}

/// As much of `whole` as `part` is of `parts`.
fn share(whole: u64, part: u64, parts: u64) -> u64 {
    let share = u128::from(whole) * u128::from(part) / u128::from(parts.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}
