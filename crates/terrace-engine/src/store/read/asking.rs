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
//! What is read stands in tables (`placement/far/ahead.rs`) until the cursors come to it.
//!
//! *Differs* from RocksMash (TACO 2022), which reads cloud storage a block at a time.

use std::sync::Arc;

use terrace_base::{KeyRange, SeqNo};

use crate::store::view::View;
use crate::table::{TableReader, filter_hash};
use crate::version::{OpenTable, Table};

/// In how many tables of a level one after the other something is asked for.
const TABLES_MAX: usize = 4;

/// Begins to read in far tables what a scan comes to that shows about `keys` keys from `from` on,
/// all below `end`. Waits for nothing.
pub(super) fn ask_for_scan(view: &View, from: &[u8], end: Option<&[u8]>, keys: u64) {
    let walk_end = end_of_walk(view, from, keys);
    let until = [end, walk_end.as_deref()].into_iter().flatten().min();
    let range = KeyRange::new(from, until.map(<[u8]>::to_vec));
    for row in view.version.l0().content().rows_within(&range) {
        let within = row.tables().iter().filter(|live| live.overlaps(&range));
        within.for_each(|live| ask_in(&live.table, &range, keys));
    }
    for (_, run) in view.version.runs() {
        run.overlapping(&range).iter().for_each(|table| ask_in(table, &range, keys));
    }
}

/// About where a walk over so many keys ends, by the deepest level, which has most of them; `None`
/// if it goes on to the end.
fn end_of_walk(view: &View, from: &[u8], mut keys: u64) -> Option<Vec<u8>> {
    let (_, deepest) = view.version.runs().rfind(|(_, run)| !run.is_empty())?;
    let tables = &deepest.tables()[deepest.first_not_before(from)..];
    for table in tables.iter().take(TABLES_MAX) {
        let Some(reader) = blocks_of(table) else { return end_of(table) };
        match reader.end_of_walk(from, keys) {
            Ok(end) => return Some(end),
            Err(rest) => keys = rest,
        }
    }
    tables.get(TABLES_MAX - 1).and_then(end_of)
}

fn end_of(table: &Arc<Table>) -> Option<Vec<u8>> {
    table.span().end().map(<[u8]>::to_vec)
}

/// Asks for what a walk through `range` over at most `keys` keys reads of one table.
fn ask_in(table: &Arc<Table>, range: &KeyRange, keys: u64) {
    if let Some(reader) = blocks_of(table).filter(|reader| reader.is_far()) {
        reader.ask_for(reader.walk_within(range, keys));
    }
}

/// Begins to read the blocks in far tables that gets of `keys` look into which have found nothing
/// in memory. Waits for nothing.
pub(super) fn ask_for_keys(view: &View, keys: &[&[u8]]) {
    for key in keys {
        let hash = filter_hash(key);
        let tables = view.version.runs().filter_map(|(_, run)| run.table_for(key));
        let mut blocks = tables.filter_map(blocks_of).filter_map(|reader| {
            let block = reader.block_of(key, SeqNo::MAX).filter(|_| reader.may_contain(hash));
            block.map(|block| (reader, block))
        });
        if let Some((reader, block)) = blocks.next().filter(|(reader, _)| reader.is_far()) {
            reader.ask_for(block..block + 1);
        }
    }
}

/// The table, if it is open, and a file of blocks. One that is not is opened by the seek.
fn blocks_of(table: &Arc<Table>) -> Option<&TableReader> {
    match table.open_table() {
        Some(OpenTable::Blocks(reader)) => Some(reader),
        _ => None,
    }
}
