//! Ranges to be damaged: small, but with every kind of file and several levels.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::KeyRange;
use terrace_engine::options::{L0Options, Options, ProcessOptions, ValueLogOptions};
use terrace_engine::process::Process;
use terrace_engine::store::{Store, WriteOptions};
use terrace_engine::table::{Compression, TableOptions};
use terrace_engine::{Error, Result};
use terrace_env::{CrashPolicy, DiskImage, SeededRng, SharedEnv, SimEnv, SimOptions};

use crate::history::{History, Op};

/// Where the range lies on its disk.
pub const DIR: &str = "/db";

/// How a specimen's life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Closed cleanly: every byte of it can be judged.
    Closed,
    /// Killed: everything that was written is there.
    Killed,
}

/// Where a specimen lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// All in files.
    Disk,
    /// The log and the rows of L0 in persistent memory: in mapped segments, and in the pages of a
    /// container.
    Memory,
}

/// A range on a disk, and what was written to it.
#[derive(Clone, Debug)]
pub struct Specimen {
    /// What it was made from.
    pub seed: u64,
    /// How it ended.
    pub ending: Ending,
    /// Where it lies.
    pub medium: Medium,
    /// The disk at the end.
    pub disk: DiskImage,
    /// The disk at moments before, oldest first.
    pub earlier: Vec<DiskImage>,
    /// What was written.
    pub history: History,
    /// The options it was written with.
    pub options: Options,
}

/// Options under which a few hundred writes reach several levels; which compression, how large
/// blocks are, how many dranges there are and whether large values stand apart is up to `random`.
#[must_use]
pub fn small_options(random: &mut SeededRng) -> Options {
    let compressions = [Compression::None, Compression::Lz4, Compression::Zstd];
    let boundaries: [&[&[u8]]; 2] = [&[], &[b"k04", b"k09"]];
    let value_log = |large_bytes, space_ratio_percent| {
        Some(ValueLogOptions { large_bytes, space_ratio_percent, ..ValueLogOptions::default() })
    };
    // The second one writes files anew as soon as there is garbage.
    let value_logs = [None, value_log(150, 130), value_log(40, 105)];
    Options {
        memtable_bytes: 16 << 10,
        frozen_memtables_max: 2,
        log_segment_bytes: [4 << 10, 8 << 10, 16 << 10][random.index(3)],
        log_bytes_max: 64 << 10,
        table_bytes: [4 << 10, 8 << 10][random.index(2)],
        table: TableOptions {
            block_bytes: [256, 512, 1024][random.index(3)],
            filter_bits_per_key: [0, 10, 10][random.index(3)],
            compression: compressions[random.index(3)],
            trie: false,
        },
        l0_rows_per_cut: 2,
        l0_rows_slow: 6,
        l0_rows_stop: 12,
        level_bytes_base: 16 << 10,
        level_ratio: 3,
        cut_bytes: 12 << 10,
        drange_boundaries: boundaries[random.index(2)].iter().map(|key| key.to_vec()).collect(),
        value_log: value_logs[random.index(3)],
        ..Options::default()
    }
}

/// The same for a range in `dir` that lies on this medium. A container has room for a few rows, in
/// small pages.
#[must_use]
pub fn on(medium: Medium, dir: &str, options: Options) -> Options {
    match medium {
        Medium::Disk => options,
        Medium::Memory => Options {
            l0: L0Options::container(dir, 128 << 10),
            log_path: Some(dir.into()),
            ..options
        },
    }
}

/// Opens the range of a specimen's disk.
///
/// Errors: the store's.
pub fn open(env: &SharedEnv, dir: &Path, options: &Options) -> Result<Store> {
    Store::open(&process(env)?, dir, options.clone())
}

/// A process for one small range.
///
/// Errors: the engine's.
pub fn process(env: &SharedEnv) -> Result<Arc<Process>> {
    let options = ProcessOptions {
        cache_bytes: 64 << 10,
        compaction_threads: 1,
        ..ProcessOptions::default()
    };
    Process::start(Arc::clone(env), &options)
}

/// Draws the next step of a history. Keys are few, so that they are overwritten and deleted.
#[must_use]
pub fn draw_step(random: &mut SeededRng, number: usize) -> Vec<Op> {
    let key = |random: &mut SeededRng| format!("k{:03}", random.below(140)).into_bytes();
    let count = if random.one_in(4) { 1 + random.index(6) } else { 1 };
    let mut step = Vec::new();
    for at in 0..count {
        step.push(match random.below(20) {
            0..=2 => Op::Delete(key(random)),
            3 => {
                let (a, b) = (key(random), key(random));
                // A short interval, and never an empty one.
                let mut end = a.clone();
                end.push(b'~');
                if b > a && random.one_in(3) {
                    Op::DeleteRange(a, b)
                } else {
                    Op::DeleteRange(a, end)
                }
            }
            _ => {
                let length = [0, 20, 60, 200, 900][random.index(5)];
                let letter = (b'a' + random.below(20) as u8) as char;
                let filler: String = std::iter::repeat_n(letter, length).collect();
                Op::Put(key(random), format!("{number}.{at}:{filler}").into_bytes())
            }
        });
    }
    step
}

impl Specimen {
    /// Makes a specimen. The same arguments give the same one.
    ///
    /// Errors: none on a disk that is whole.
    pub fn build(seed: u64, ending: Ending, medium: Medium) -> Result<Specimen> {
        let mut random = SeededRng::stream(seed, 11);
        let options = on(medium, DIR, small_options(&mut random));
        let sim = SimOptions { try_read_miss_one_in: 0, ..SimOptions::new(seed) };
        SimEnv::run(sim, |sim| {
            let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
            let mut history = History::default();
            let mut earlier = Vec::new();
            let mut store = open(&env, Path::new(DIR), &options)?;
            let step_count = 60 + random.index(160);
            for number in 0..step_count {
                let step = draw_step(&mut random, number);
                store.write(&History::batch(&step)?, &WriteOptions::default())?;
                history.steps.push(step);
                match random.below(120) {
                    0..=2 => store.flush()?,
                    3 => store.compact(&KeyRange::all())?,
                    4 => {
                        store.close()?;
                        drop(store);
                        store = open(&env, Path::new(DIR), &options)?;
                    }
                    5..=7 => earlier.push(sim.disk().crash(CrashPolicy::ProcessKill, 0)),
                    _ => {}
                }
            }
            let disk = match ending {
                Ending::Closed => {
                    store.close()?;
                    drop(store);
                    sim.disk().crash(CrashPolicy::SyncedOnly, 0)
                }
                Ending::Killed => {
                    let disk = sim.disk().crash(CrashPolicy::ProcessKill, 0);
                    drop(store);
                    disk
                }
            };
            Ok::<_, Error>(Specimen { seed, ending, medium, disk, earlier, history, options })
        })
    }

    /// The files of the range, but for the lock, with their sizes.
    #[must_use]
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        files_of(&self.disk)
    }
}

/// The files of a range, but for the lock, with their sizes.
#[must_use]
pub fn files_of(disk: &DiskImage) -> Vec<(PathBuf, u64)> {
    let files = disk.files().into_iter();
    files.filter(|(path, bytes)| path.starts_with(DIR) && *bytes > 0).collect()
}
