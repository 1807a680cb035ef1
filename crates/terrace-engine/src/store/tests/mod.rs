//! Tests of whole ranges on the simulated environment.

mod bulk;
mod model;
mod open;
mod paths;
mod read;
mod review;
mod upkeep;
mod workload;
mod write;

use std::path::Path;
use std::sync::Arc;

use terrace_env::{SharedEnv, SimEnv, SimOptions};

use super::{Store, WriteOptions};
use crate::options::{L0Kind, Options, ProcessOptions};
use crate::process::Process;
use crate::table::{Compression, TableOptions};
use crate::{Result, WriteBatch};

/// Where the range of a test lies.
const DIR: &str = "/db";

/// Everything small, so that a few hundred writes reach every level.
fn small() -> Options {
    Options {
        memtable_bytes: 24 << 10,
        frozen_memtables_max: 2,
        log_segment_bytes: 16 << 10,
        log_bytes_max: 64 << 10,
        table_bytes: 8 << 10,
        table: TableOptions {
            block_bytes: 512,
            filter_bits_per_key: 10,
            compression: Compression::None,
        },
        l0_rows_per_cut: 2,
        l0_rows_slow: 4,
        l0_rows_stop: 8,
        level_bytes_base: 24 << 10,
        level_ratio: 3,
        cut_bytes: 12 << 10,
        merge_operator: Some("append".to_string()),
        ..Options::default()
    }
}

/// The same with L0 in a container of small pages.
fn in_pages(options: Options, kind: L0Kind, l0_bytes: u64) -> Options {
    Options { l0_kind: kind, l0_bytes, l0_path: Some(DIR.to_string()), ..options }
}

/// One or the other L0, in a container that runs over or does not.
fn draw_l0(options: Options, random: &mut Random) -> Options {
    let l0_bytes = [64 << 10, 256 << 10][random.below(2) as usize];
    match random.below(4) {
        0 | 1 => options,
        2 => in_pages(options, L0Kind::Triangle, l0_bytes),
        _ => in_pages(options, L0Kind::Matrix, l0_bytes),
    }
}

fn process(env: &SharedEnv) -> Result<Arc<Process>> {
    process_with(env, 0)
}

fn process_with(env: &SharedEnv, recovery_threads: usize) -> Result<Arc<Process>> {
    let cache_bytes = 64 << 10;
    let options = ProcessOptions { cache_bytes, recovery_threads, ..ProcessOptions::default() };
    Process::start(Arc::clone(env), &options)
}

fn open(env: &SharedEnv, options: &Options) -> Result<Store> {
    Store::open(&process(env)?, Path::new(DIR), options.clone())
}

/// As [`open`], but the log is replayed by so many threads.
fn open_by(env: &SharedEnv, options: &Options, recovery_threads: usize) -> Result<Store> {
    Store::open(&process_with(env, recovery_threads)?, Path::new(DIR), options.clone())
}

/// Runs `test` in a simulation.
fn simulate<T: Send>(seed: u64, test: impl FnOnce(&SharedEnv) -> T + Send) -> T {
    SimEnv::run(SimOptions::new(seed), |env| {
        let env: SharedEnv = env;
        test(&env)
    })
}

fn put(store: &Store, key: &str, value: &str) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(key.as_bytes(), value.as_bytes())?;
    store.write(&batch, &WriteOptions::default())
}

fn merge(store: &Store, key: &str, operand: &str) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.merge(key.as_bytes(), operand.as_bytes())?;
    store.write(&batch, &WriteOptions::default())
}

fn delete(store: &Store, key: &str) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.delete(key.as_bytes())?;
    store.write(&batch, &WriteOptions::default())
}

fn get(store: &Store, key: &str) -> Result<Option<String>> {
    let item = store.get(key.as_bytes(), &super::GetOptions::default())?;
    Ok(item.map(|item| String::from_utf8(item.value).expect("tests write text")))
}

/// A small deterministic source of random numbers (SplitMix64).
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}
