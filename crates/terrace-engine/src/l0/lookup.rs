use terrace_base::{LevelNo, SeqNo};

use super::live_table::{FilterView, LiveTable};
use super::triangle::row::{RowReader, SearchTrail};
use crate::Result;
use crate::explain::{Asked, MyCounts, PagesSearch, StepAnswer, is_recording, note};
use crate::lookup_index::Bound;
use crate::table::{FilterBits, PinnedEntry, ReadMode, filter_hash};
use crate::version::{OpenTable, Table};

/// The search for one key at one read point, on its way down the tree.
#[derive(Debug)]
pub struct Lookup<'a> {
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
    /// What rows in pages told about where the key stands in older ones.
    trail: SearchTrail,
}

impl<'a> Lookup<'a> {
    /// A search that has met nothing yet.
    #[must_use]
    #[inline]
    pub fn new(key: &'a [u8], read_point: SeqNo, mode: ReadMode) -> Lookup<'a> {
        Lookup {
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
    pub fn within(self, bound: Bound) -> Lookup<'a> {
        Lookup { limit: bound.limit, hash: bound.hash, ..self }
    }

    /// Notes a range tombstone that covers the key.
    #[inline]
    pub fn cover(&mut self, seqno: Option<SeqNo>) {
        self.covering = self.covering.max(seqno);
    }

    /// Searches a table of L0, as [`Lookup::search`] does.
    #[inline]
    pub(super) fn search_live(&mut self, one: &LiveTable) -> Result<Option<PinnedEntry>> {
        // What is explained is told table by table.
        if !is_recording()
            && one.filter_view().is_some_and(|filter_view| self.is_denied(filter_view))
        {
            return Ok(None);
        }
        self.search(&one.table)
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
    pub fn search(&mut self, table: &Table) -> Result<Option<PinnedEntry>> {
        let meta = table.meta();
        if let Some(why) = self.excludes(table) {
            note(|notes| notes.excluded(self.level.0, meta.id, meta.entry_count, why));
            return Ok(None);
        }
        note(|notes| notes.table(self.level.0, meta.id, meta.entry_count));
        let reader = table.reader(self.mode)?;
        if table.meta().range_tombstone_count > 0 {
            let tombstones = reader.range_tombstones();
            let covering = tombstones.newest_covering(self.key, self.read_point);
            note(|notes| notes.covered(covering));
            self.cover(covering);
        }
        let filter = reader.filter();
        if let Some(filter) = filter {
            let hash = *self.hash.get_or_insert_with(|| filter_hash(self.key));
            if !filter.may_contain(hash) {
                note(|notes| notes.filtered_out());
                self.count(Asked::FilteredOut);
                return Ok(None);
            }
        }
        let found = match reader {
            OpenTable::Blocks(reader) => reader.get(self.key, self.read_point, self.mode)?,
            OpenTable::Row(row) => self.search_row(row)?,
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

    /// A row in pages is told by newer ones where to look, and tells older ones.
    fn search_row(&mut self, row: &RowReader) -> Result<Option<PinnedEntry>> {
        let within = self.trail.within(row.uid(), row.len());
        let index = row.lower_bound_within(self.key, within.clone())?;
        self.trail.note(row, index);
        note(|notes| notes.searched_pages(PagesSearch::new(&within, row.len())));
        row.get_at(index, self.key, self.read_point)
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
