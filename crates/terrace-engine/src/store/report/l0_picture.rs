//! What is left of the rows of L0, slice by slice. Pure.
//!
//! ```text
//!   keys        k05    k11    k17    k23         slices of about equal bytes as rows were written
//!   row 9   ├──────────────────────────────┤
//!   row 8   ░░░░░░░├───────────────────────┤     a cell is a row in a slice: nothing of it there,
//!   row 7   ░░░░░░░░░░░░░░├────────┤             all consumed, or a share that is live
//! ```

use std::sync::Arc;

use terrace_base::KeyRange;

use crate::l0::{LiveTable, Row};
use crate::version::Table;

/// Keys of each table that are looked at for a division.
const SAMPLES_PER_TABLE: usize = 128;

/// The keys at which L0 is divided into at most `count` slices that about equally many bytes were
/// written into: ascending, the first one empty. Tables that are not open divide nothing.
pub(in crate::store) fn divide(tables: &[Arc<Table>], count: usize) -> Vec<Vec<u8>> {
    let samples = tables.iter().flat_map(|table| table.samples(SAMPLES_PER_TABLE));
    let mut samples: Vec<(Vec<u8>, u64)> = samples.collect();
    samples.sort_unstable();
    let all: u64 = samples.iter().map(|(_, bytes)| bytes).sum();
    let (mut starts, mut before) = (vec![Vec::new()], 0);
    for (key, bytes) in samples {
        before += bytes;
        // What comes up to the key is in the slices that end with it.
        let is_due = before * count as u64 >= all * starts.len() as u64 && before < all;
        if is_due && starts.len() < count && starts.last().is_some_and(|last| *last < key) {
            starts.push(key);
        }
    }
    starts
}

/// The intervals that begin at these keys.
pub(super) fn slices_from(starts: &[Vec<u8>]) -> Vec<KeyRange> {
    let ends = starts.iter().skip(1).cloned().map(Some).chain([None]);
    starts.iter().zip(ends).map(|(start, end)| KeyRange::new(start.clone(), end)).collect()
}

/// What share of what was written of `row` in each slice is live, from 0 to 1; `None` where nothing
/// was. `live` has at least what is live of the row.
pub(super) fn cells(row: &Row, live: &[LiveTable], slices: &[KeyRange]) -> Vec<Option<f64>> {
    let own: Vec<&LiveTable> = live.iter().filter(|one| one.row == row.meta.id).collect();
    slices.iter().map(|slice| cell(row, &own, slice)).collect()
}

fn cell(row: &Row, live: &[&LiveTable], slice: &KeyRange) -> Option<f64> {
    let tables = row.tables.iter().filter(|table| table.span().overlaps(slice));
    let tables: Vec<&Arc<Table>> = tables.collect();
    if tables.is_empty() {
        return None;
    }
    let parts_of = |table: &Arc<Table>| {
        let of_table = live.iter().find(|one| Arc::ptr_eq(&one.table, table));
        let parts = of_table.map_or(&[][..], |one| one.parts());
        let shared = parts.iter().map(|part| part.intersection(slice));
        shared.filter(|part| !part.is_empty()).collect::<Vec<_>>()
    };
    let whole = |table: &Arc<Table>| table.span().intersection(slice);
    if tables.iter().all(|table| parts_of(table).is_empty()) {
        return Some(0.0);
    }
    if tables.iter().all(|table| parts_of(table) == [whole(table)]) {
        return Some(1.0);
    }
    let written: u64 = tables.iter().map(|table| table.bytes_within(&whole(table))).sum();
    let left: u64 = tables
        .iter()
        .flat_map(|table| parts_of(table).into_iter().map(|part| table.bytes_within(&part)))
        .sum();
    // Bytes are told to a page or a block: less than one of them is some.
    Some(if written == 0 { 0.5 } else { (left as f64 / written as f64).clamp(0.01, 0.99) })
}
