//! A scan, or a read of several keys, asks the object store for all that it will wait for, at once.
//!
//! # Why
//! Where a scan begins each level has a block that it must look into. One that is in no memory and
//! not near costs a request, and one level after the other costs as many times the time of one. So
//! a seek first begins to read, in each table that lies far, what a scan of usual length goes
//! through:
//!
//! ```text
//!   from                     until
//!   │ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ │       deepest level: blocks of as many keys as a scan shows
//!   │    ▪         ▪          │  ▪    upper levels: as far as that goes, and a block behind
//! ```
//! One that goes back asks the same way from the other end.
//!
//! What is read stands in tables (`placement/far/ahead.rs`) until the cursors come to it.
//!
//! *Differs* from RocksMash (TACO 2022), which reads cloud storage a block at a time.

use std::sync::Arc;

use smallvec::SmallVec;
use terrace_base::{KeyRange, SeqNo};

use crate::iter::{Direction, lesser_bound};
use crate::store::view::View;
use crate::table::{TableReader, filter_hash};
use crate::version::Table;

/// In how many tables of a level one after the other something is asked for.
const TABLES_MAX: usize = 4;

/// Begins to read in far tables what a scan comes to that goes through `range` from one of its ends
/// and shows about `keys` keys. Waits for nothing.
pub(super) fn ask_for_scan(view: &View, range: &KeyRange, keys: u64, direction: Direction) {
    let range = within_walk(view, range, keys, direction);
    let ask = |table: &Arc<Table>| {
        if let Some(reader) = blocks_of(table).filter(|reader| reader.is_far()) {
            reader.ask_for(reader.walk_within(&range, keys, direction), direction);
        }
    };
    for row in view.version.l0().content().rows_within(&range) {
        let within = row.tables().iter().filter(|live| live.overlaps(&range));
        within.for_each(|live| ask(&live.table));
    }
    for (_, run) in view.version.runs() {
        run.overlapping(&range).iter().for_each(ask);
    }
}

/// About the part of `range` that a walk over so many keys goes through.
fn within_walk(view: &View, range: &KeyRange, keys: u64, direction: Direction) -> KeyRange {
    let Some(reached) = end_of_walk(view, range, keys, direction) else { return range.clone() };
    match direction {
        Direction::Forward => {
            let end = lesser_bound(Some(&reached), range.end());
            KeyRange::new(range.start(), end.map(<[u8]>::to_vec))
        }
        Direction::Backward => {
            let start = range.start().max(&reached);
            KeyRange::new(start, range.end().map(<[u8]>::to_vec))
        }
    }
}

/// Where it ends, by the deepest level, which has most of the keys; `None` if only the interval
/// does.
fn end_of_walk(
    view: &View,
    range: &KeyRange,
    mut keys: u64,
    direction: Direction,
) -> Option<Vec<u8>> {
    let (_, deepest) = view.version.runs().rfind(|(_, run)| !run.is_empty())?;
    let tables = deepest.overlapping(range);
    let (sought, tables): (_, SmallVec<[&Arc<Table>; TABLES_MAX]>) = match direction {
        Direction::Forward => (Some(range.start()), tables.iter().take(TABLES_MAX).collect()),
        Direction::Backward => (range.end(), tables.iter().rev().take(TABLES_MAX).collect()),
    };
    for table in &tables {
        let reader = blocks_of(table)?;
        match reader.end_of_walk(sought, keys, direction) {
            Ok(end) => return Some(end),
            Err(rest) => keys = rest,
        }
    }
    let last = tables.last()?.span();
    match direction {
        Direction::Forward => last.end().map(<[u8]>::to_vec),
        Direction::Backward => Some(last.start().to_vec()),
    }
}

/// Begins to read the blocks in far tables that gets of `keys` look into which have found nothing
/// in memory. Waits for nothing.
pub(super) fn ask_for_keys(view: &View, keys: &[&[u8]]) {
    for (reader, block) in keys.iter().filter_map(|key| block_in_levels(view, key)) {
        if reader.is_far() {
            reader.ask_for(block..block + 1, Direction::Forward);
        }
    }
}

/// The first block below L0 that may have an entry of `key`, as far as tables are open: one that is
/// not has yet to be opened by a read.
pub(super) fn block_in_levels<'v>(view: &'v View, key: &[u8]) -> Option<(&'v TableReader, usize)> {
    let hash = filter_hash(key);
    let tables = view.version.runs().filter_map(|(_, run)| run.table_for(key));
    let readers = tables.filter_map(blocks_of).filter(|reader| reader.may_contain(hash));
    let mut places = readers.filter_map(|reader| {
        let block = reader.block_of(key, SeqNo::MAX)?;
        Some((reader, block))
    });
    places.next()
}

/// The table, if it is open, and a file of blocks. One that is not is opened by the seek.
fn blocks_of(table: &Arc<Table>) -> Option<&TableReader> {
    table.open_table()?.blocks()
}
