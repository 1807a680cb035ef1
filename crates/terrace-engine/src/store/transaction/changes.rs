//! The look for what was written since a transaction read.

use std::sync::Arc;

use terrace_base::{KeyRange, SeqNo};

use super::conflict::Conflict;
use super::read_set::ReadSet;
use crate::Result;
use crate::iter::Cursor;
use crate::memtable::Memtable;
use crate::range_tombstone::Fragments;
use crate::store::read::key_search::KeySearch;
use crate::store::view::{DrangeView, View};
use crate::table::ReadMode;
use crate::version::Table;

/// A look through a view for entries with a number above `since`.
pub(super) struct Look<'a> {
    pub view: &'a View,
    pub since: SeqNo,
    pub mode: ReadMode,
}

impl Look<'_> {
    /// The first change that is found of what was read, keys before intervals.
    ///
    /// Errors: those of reading tables.
    pub fn first_change(&self, reads: &ReadSet, ranges: &[KeyRange]) -> Result<Option<Conflict>> {
        for key in reads.keys() {
            let seqno = self.newest_of(key)?;
            if seqno > self.since {
                return Ok(Some(Conflict { key: key.to_vec(), seqno }));
            }
        }
        for range in ranges {
            if let Some(change) = self.change_in(range)? {
                return Ok(Some(change));
            }
        }
        Ok(None)
    }

    fn is_written_since(&self, memtable: &Memtable) -> bool {
        memtable.greatest_seqno() > Some(self.since)
    }

    fn is_newer(&self, table: &Table) -> bool {
        table.meta().greatest_seqno > self.since
    }

    /// Whether any table may hold what is looked for.
    fn has_newer_tables(&self) -> bool {
        self.view.version.greatest_seqno() > self.since
    }

    /// The greatest number of an entry of `key`, or of a range tombstone over it, in what was
    /// written since; zero if there is nothing.
    fn newest_of(&self, key: &[u8]) -> Result<SeqNo> {
        let mut newest = None;
        for memtable in self.view.drange_for(key).memtables() {
            if self.is_written_since(memtable) {
                newest = newest.max(memtable.newest(key).map(|entry| entry.seqno));
                newest = newest.max(memtable.newest_covering(key, SeqNo::MAX));
            }
        }
        let newest = newest.unwrap_or(SeqNo::ZERO);
        if newest > self.since || !self.has_newer_tables() {
            return Ok(newest);
        }
        self.newest_in_tables(key)
    }

    #[cold]
    fn newest_in_tables(&self, key: &[u8]) -> Result<SeqNo> {
        let version = &self.view.version;
        let rows = version.l0().content().live_at(key).iter().map(|live| &live.table);
        let levels = version.runs().filter_map(|(_, run)| run.table_for(key));
        for table in rows.chain(levels).filter(|table| self.is_newer(table)) {
            let mut search = KeySearch::new(key, SeqNo::MAX, self.mode);
            let found = search.in_table(table)?.map(|found| found.entry(key).seqno);
            let newest = found.max(search.covering).unwrap_or(SeqNo::ZERO);
            if newest > self.since {
                return Ok(newest);
            }
        }
        Ok(SeqNo::ZERO)
    }

    /// A change of a key of `range`, if there is one.
    fn change_in(&self, range: &KeyRange) -> Result<Option<Conflict>> {
        let first = self.view.boundaries.index_of(range.start());
        let dranges = self.view.dranges[first..].iter();
        for drange in dranges.take_while(|drange| !range.is_before(drange.keys.start())) {
            if let Some(change) = self.change_in_drange(drange, range)? {
                return Ok(Some(change));
            }
        }
        if self.has_newer_tables() { self.change_in_tables(range) } else { Ok(None) }
    }

    fn change_in_drange(&self, drange: &DrangeView, range: &KeyRange) -> Result<Option<Conflict>> {
        // Some memtables hold keys of other dranges, too.
        let part = drange.keys.intersection(range);
        for memtable in drange.memtables().filter(|memtable| self.is_written_since(memtable)) {
            if memtable.has_range_tombstones()
                && let Some(change) = self.deletion_in(&memtable.range_tombstones(), &part)
            {
                return Ok(Some(change));
            }
            let mut cursor = Arc::clone(memtable).cursor(SeqNo::MAX);
            if let Some(change) = self.entry_in(&mut cursor, &part)? {
                return Ok(Some(change));
            }
        }
        Ok(None)
    }

    #[cold]
    fn change_in_tables(&self, range: &KeyRange) -> Result<Option<Conflict>> {
        let version = &self.view.version;
        let rows = version.l0().live().iter().filter(|live| live.overlaps(range));
        for live in rows.filter(|live| self.is_newer(&live.table)) {
            let mut cursor = live.cursor(SeqNo::MAX, self.mode)?;
            if let Some(change) = self.entry_in(&mut cursor, range)? {
                return Ok(Some(change));
            }
        }
        let levels = version.runs().flat_map(|(_, run)| run.overlapping(range));
        for table in levels.filter(|table| self.is_newer(table)) {
            let mut cursor = table.cursor(SeqNo::MAX, self.mode)?;
            if let Some(change) = self.entry_in(cursor.as_mut(), range)? {
                return Ok(Some(change));
            }
        }
        for live in version.tables_with_range_tombstones() {
            if !self.is_newer(&live.table) || !live.overlaps(range) {
                continue;
            }
            let tombstones = live.table.reader(self.mode)?.range_tombstones();
            for part in live.parts() {
                let part = part.intersection(range);
                if let Some(change) = self.deletion_in(tombstones, &part) {
                    return Ok(Some(change));
                }
            }
        }
        Ok(None)
    }

    /// The first key of `range` whose newest entry at the cursor's read point is newer.
    fn entry_in(&self, cursor: &mut dyn Cursor, range: &KeyRange) -> Result<Option<Conflict>> {
        let mut stands = cursor.seek(range.start())?;
        while stands && let Some(entry) = cursor.entry() {
            if range.is_before(entry.key) {
                break;
            }
            if entry.seqno > self.since {
                return Ok(Some(Conflict { key: entry.key.to_vec(), seqno: entry.seqno }));
            }
            stands = cursor.next()?;
        }
        Ok(None)
    }

    /// A newer deletion of keys of `range`.
    fn deletion_in(&self, tombstones: &Fragments, range: &KeyRange) -> Option<Conflict> {
        let mut newer = tombstones.iter().filter(|tombstone| tombstone.seqno > self.since);
        let change = newer.find(|tombstone| {
            KeyRange::new(tombstone.start, Some(tombstone.end.to_vec())).overlaps(range)
        })?;
        let key = change.start.max(range.start()).to_vec();
        Some(Conflict { key, seqno: change.seqno })
    }
}
