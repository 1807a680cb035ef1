//! Tests of whole rows: built, read in every way, given back, damaged, crashed.

mod crash;
mod damage;
mod forged;
mod golden;
mod model;
mod release;
mod rows;
mod space;

use std::path::Path;
use std::sync::Arc;

use terrace_base::{KeyRange, SeqNo, TableUid, WallTime};
use terrace_env::{Pmem, PmemRecorder, SeededRng};

use super::{BuiltRow, Predecessor, RowBuilder, RowLocation, RowReader};
use crate::iter::{Cursor, Stream};
use crate::l0::triangle::Pages;
use crate::range_tombstone::Fragments;
use crate::table::tests::{Deleted, Model, UID, check_cursor, random_key, random_model, target};

const DATABASE: u128 = 0xdb;
const CREATED: WallTime = WallTime(1_700_000_000_000);

/// A container in memory.
fn container(pages: u64, page_bytes: u64) -> (PmemRecorder, Arc<Pages>) {
    let recorder = PmemRecorder::new(pages * page_bytes);
    let pages = Pages::format(recorder.pmem(), path(), page_bytes, DATABASE).unwrap();
    (recorder, pages)
}

fn path() -> &'static Path {
    Path::new("l0.rows")
}

/// What a region holds, of which nothing is claimed.
fn content(pmem: &Pmem) -> Vec<u8> {
    pmem.claim(0, pmem.bytes()).unwrap().to_vec()
}

fn mount(content: &[u8]) -> crate::Result<Arc<Pages>> {
    Pages::mount(PmemRecorder::over(content).pmem(), path(), DATABASE)
}

fn tombstones(model: &Model) -> Fragments {
    Fragments::new(model.range_tombstones.iter().map(Deleted::as_ref))
}

/// Bits of filter for each key, where a test does not say otherwise.
const FILTER_BITS: u32 = 10;

fn build(
    pages: &Arc<Pages>,
    model: &Model,
    uid: TableUid,
    predecessors: Vec<Predecessor>,
) -> BuiltRow {
    build_with(FILTER_BITS, pages, model, uid, predecessors)
}

fn build_with(
    filter_bits_per_key: u32,
    pages: &Arc<Pages>,
    model: &Model,
    uid: TableUid,
    predecessors: Vec<Predecessor>,
) -> BuiltRow {
    let builder = RowBuilder::new(pages, uid, CREATED, predecessors);
    let mut builder = builder.with_filter(filter_bits_per_key);
    for entry in model.entries.values() {
        builder.add(entry.as_ref()).unwrap();
    }
    let estimate = builder.estimated_bytes();
    let built = builder.finish(&tombstones(model)).unwrap().unwrap();
    let actual = built.meta.bytes;
    if model.range_tombstones.is_empty() {
        let key_bytes = model.entries.keys().map(|(key, _)| key.len()).max().unwrap_or(0);
        let fences_bytes = 10 * built.meta.properties.block_count as usize;
        let slack = (2 * pages.page_bytes() + 6 * key_bytes + fences_bytes) as u64;
        assert!(actual <= estimate && estimate <= actual + slack, "{estimate} for {actual}");
    }
    built
}

/// As `table::tests::random_model`, with long values too; of a megabyte at most.
fn random_row(rng: &mut SeededRng) -> Model {
    let bytes = |model: &Model| -> usize {
        model.entries.values().map(|entry| entry.key.len() + entry.value.len() + 20).sum()
    };
    let mut model = random_model(rng);
    while bytes(&model) > 900_000 {
        model = random_model(rng);
    }
    if rng.one_in(3) {
        for number in 0..rng.index(6) + 1 {
            let key = random_key(rng, 3, number * 7);
            let value: Vec<u8> =
                (0..rng.pick(&[4000, 4096, 5000, 20_000])).map(|at| (at / 9) as u8).collect();
            model.put(&key, 2_000_000 + number as u64, &value);
        }
    }
    model
}

/// All that a stream shows.
fn streamed(row: &Arc<RowReader>, range: &KeyRange) -> Vec<terrace_base::Entry> {
    let mut stream = row.stream(range).unwrap();
    let mut all = Vec::new();
    while let Some(entry) = stream.entry() {
        all.push(entry.to_entry());
        stream.advance().unwrap();
    }
    all
}
