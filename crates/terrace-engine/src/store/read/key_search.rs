//! The search for one key, from the newest row of L0 down to the last level.
//!
//! Memtables are asked by [`get.rs`](super::get); what they tell of range tombstones is noted here
//! too. What a table is, a file of blocks or a row in pages, concerns the search in one place only:
//! a row knows something of where the key stands in older rows ([`RowSearch`]).

use terrace_base::{LevelNo, SeqNo};

use crate::Result;
use crate::explain::{Asked, MyCounts, StepAnswer, is_recording, note};
use crate::l0::{FilterView, LiveRows, LiveTable, RowSearch, SearchTrail};
use crate::lookup_index::Bound;
use crate::table::{FilterBits, PinnedEntry, ReadMode, filter_hash};
use crate::version::{OpenTable, SpanHints, Table};

/// The search for one key at one read point, on its way down the tree.
#[derive(Debug)]
pub(in crate::store) struct KeySearch<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Entries above are not seen.
    pub read_point: SeqNo,
    /// Whether the search may wait for the disk.
    pub mode: ReadMode,
    /// The greatest number of a range tombstone met so far that covers the key.
    pub covering: Option<SeqNo>,
    /// The level that is being searched.
    pub level: LevelNo,
    /// Where is counted what tables say, if anywhere.
    pub counts: Option<MyCounts<'a>>,
    /// In memtables and L0 no version of the key reaches this number; see
    /// [`lookup_index`](crate::lookup_index).
    pub limit: SeqNo,
    /// The key's hash for filters, once the first of them was asked.
    hash: Option<u64>,
    /// The bits that it sets in them, once the first filter was asked.
    bits: Option<FilterBits>,
    /// What rows told about where the key stands in older ones.
    trail: SearchTrail,
}

impl<'a> KeySearch<'a> {
    /// A search that has met nothing yet.
    #[must_use]
    #[inline]
    pub fn new(key: &'a [u8], read_point: SeqNo, mode: ReadMode) -> KeySearch<'a> {
        KeySearch {
            key,
            read_point,
            mode,
            covering: None,
            level: LevelNo(0),
            counts: None,
            limit: SeqNo::MAX,
            hash: None,
            bits: None,
            trail: SearchTrail::default(),
        }
    }

    /// The same search, but memtables and rows that hold nothing below `bound` are skipped.
    #[must_use]
    #[inline]
    pub fn within(self, bound: Bound) -> KeySearch<'a> {
        KeySearch { limit: bound.limit, hash: bound.hash, ..self }
    }

    /// Notes a range tombstone that covers the key.
    #[inline]
    pub fn cover(&mut self, seqno: Option<SeqNo>) {
        self.covering = self.covering.max(seqno);
    }

    /// The newest entry for the key in L0, searched from the newest row on in those that are live
    /// there. Range tombstones met on the way are noted.
    #[inline]
    pub fn in_rows(&mut self, rows: &LiveRows) -> Result<Option<PinnedEntry>> {
        if is_recording() {
            return self.in_each_row(rows);
        }
        let live = rows.live_at(self.key);
        if let Some(hints) = rows.hints() {
            return self.in_divided_rows(live, hints);
        }
        // To work out the bits of a key pays for several filters. One is asked by the hash alone.
        if let [one] = live {
            return self.in_table(&one.table);
        }
        for one in live {
            if let Some(entry) = self.in_live_table(one)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// As [`KeySearch::in_rows`], where rows have several tables: those that do not reach the key
    /// are left out by the first bytes of where they begin and end.
    #[inline(never)]
    fn in_divided_rows(
        &mut self,
        live: &[LiveTable],
        hints: &SpanHints,
    ) -> Result<Option<PinnedEntry>> {
        for index in hints.may_hold(self.key) {
            // The tables of rows that are consumed at the key stand behind all others.
            let Some(one) = live.get(index) else { break };
            if let Some(entry) = self.in_live_table(one)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// As [`KeySearch::in_rows`]; what is explained is told table by table.
    #[cold]
    fn in_each_row(&mut self, rows: &LiveRows) -> Result<Option<PinnedEntry>> {
        for one in rows.live_at(self.key) {
            if let Some(entry) = self.in_table(&one.table)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Searches a table of L0, as [`KeySearch::in_table`] does.
    #[inline]
    fn in_live_table(&mut self, one: &LiveTable) -> Result<Option<PinnedEntry>> {
        let Some(filter_view) = one.filter_view() else { return self.in_table(&one.table) };
        if self.is_denied(filter_view) {
            return Ok(None);
        }
        self.in_table_asked(&one.table, true)
    }

    /// Whether a table has no entry for the key that counts. It is counted if its filter says so,
    /// also of a key that lies outside of the table's.
    #[inline]
    fn is_denied(&mut self, filter_view: &FilterView) -> bool {
        if filter_view.least_seqno >= self.limit || filter_view.least_seqno > self.read_point {
            return true;
        }
        let probes = filter_view.filter.probes();
        let bits = match &self.bits {
            Some(bits) if bits.probes() == probes => bits,
            _ => {
                let hash = *self.hash.get_or_insert_with(|| filter_hash(self.key));
                self.bits.insert(FilterBits::new(hash, probes))
            }
        };
        let is_denied = !filter_view.filter.may_contain_bits(bits);
        if is_denied {
            self.count(Asked::FilteredOut);
        }
        is_denied
    }

    /// Searches one table: notes its range tombstones, asks its filter, then looks for the key.
    #[inline]
    pub fn in_table(&mut self, table: &Table) -> Result<Option<PinnedEntry>> {
        self.in_table_asked(table, false)
    }

    /// As [`KeySearch::in_table`]; `is_admitted`: its filter was asked already, and may have the
    /// key.
    #[inline]
    fn in_table_asked(&mut self, table: &Table, is_admitted: bool) -> Result<Option<PinnedEntry>> {
        let meta = table.meta();
        if let Some(why) = self.excludes(table) {
            note(|notes| notes.excluded(self.level.0, meta, why));
            return Ok(None);
        }
        note(|notes| notes.table(self.level.0, meta));
        let reader = table.reader(self.mode)?;
        if table.meta().range_tombstone_count > 0 {
            let tombstones = reader.range_tombstones();
            let covering = tombstones.newest_covering(self.key, self.read_point);
            note(|notes| notes.covered(covering));
            self.cover(covering);
        }
        let filter = reader.filter();
        if let Some(filter) = filter.filter(|_| !is_admitted) {
            let hash = *self.hash.get_or_insert_with(|| filter_hash(self.key));
            if !filter.may_contain(hash) {
                note(|notes| notes.filtered_out());
                self.count(Asked::FilteredOut);
                return Ok(None);
            }
        }
        let found = match reader {
            OpenTable::Blocks(reader) => match reader.block_of(self.key, self.read_point) {
                Some(block) => reader.get_in(block, self.key, self.read_point, self.mode)?,
                None if reader.has_trie() => {
                    note(|notes| notes.not_in_trie());
                    self.count(Asked::FilteredOut);
                    return Ok(None);
                }
                None => None,
            },
            OpenTable::Row(row) => row.search_key(self.key, self.read_point, &mut self.trail)?,
        };
        note(|notes| {
            let entry = found.as_ref().map(|pinned| pinned.entry(self.key));
            notes.searched(filter.is_some(), entry);
        });
        self.count(match (&found, filter.is_some()) {
            (Some(_), _) => Asked::Found,
            (None, true) => Asked::FalsePositive,
            (None, false) => Asked::Missing,
        });
        Ok(found)
    }

    /// Why a table need not be searched, if it need not.
    #[inline]
    fn excludes(&self, table: &Table) -> Option<StepAnswer> {
        let meta = table.meta();
        let least_seqno = meta.least_seqno.0;
        if !table.span().contains(self.key) {
            return Some(StepAnswer::OutsideKeys);
        }
        if meta.least_seqno > self.read_point {
            return Some(StepAnswer::TooNew { least_seqno });
        }
        // The index knows nothing of range tombstones.
        let is_indexed = self.level == LevelNo(0) && meta.range_tombstone_count == 0;
        (is_indexed && meta.least_seqno >= self.limit).then_some(StepAnswer::NotIndexed)
    }

    #[inline]
    fn count(&self, what: Asked) {
        if let Some(counts) = self.counts {
            counts.asked(self.level, what);
        }
    }
}
