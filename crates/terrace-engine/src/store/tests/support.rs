//! What the tests of whole ranges share: options, machines on which calls fail or the process dies,
//! and short words for reads and writes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use terrace_env::{
    CrashPolicy, DiskImage, FaultEnv, FaultPlan, SeededRng, SharedEnv, SimEnv, SimOptions,
};

use crate::l0::{PlainL0, PlainOptions};
use crate::options::{
    Durability, FormatOptions, L0Kind, L0Medium, L0Options, Options, ProcessOptions, Research,
    ValueLogOptions,
};
use crate::process::Process;
use crate::store::{GetOptions, Store, WriteOptions};
use crate::table::{Compression, ReadMode, TableOptions, TableShape};
use crate::version::Version;
use crate::wal::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::{Result, WriteBatch};

/// Where the range of a test lies.
pub const DIR: &str = "/db";

/// Everything small, so that a few hundred writes reach every level.
pub fn small() -> Options {
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
            trie: false,
        },
        l0_rows_per_cut: 2,
        l0_rows_slow: 4,
        l0_rows_stop: 8,
        level_bytes_base: 24 << 10,
        level_ratio: 3,
        cut_bytes: 12 << 10,
        format: FormatOptions { merge_operator: Some("append".to_string()) },
        ..Options::default()
    }
}

/// As `small`, but nothing is compacted by itself.
pub fn lazy() -> Options {
    let mut options =
        Options { l0_rows_per_cut: 100, l0_rows_slow: 100, l0_rows_stop: 101, ..small() };
    options.research.rest = Some(Duration::MAX);
    options
}

/// The version as a range would have it whose plain L0 is due with `rows_per_cut` rows. The range
/// itself goes on with the L0 that it was opened with. Its tables are open.
pub fn due_with_rows(store: &Store, rows_per_cut: usize) -> Result<Version> {
    let inner = &store.inner;
    let options = PlainOptions {
        rows_per_cut,
        rows_slow: 60,
        rows_stop: 80,
        room: None,
        takes_all: false,
        shape: TableShape { table_bytes: u64::MAX, table: small().table },
    };
    let tables = Arc::clone(&inner.context.opener.store);
    let l0 = PlainL0::new(&inner.env, tables, Arc::clone(&inner.ids), options);
    let same = inner.versions.current().to_snapshot();
    let version = Version::empty(&l0).apply(&same, &inner.context).expect("it fits");
    version.tables().try_for_each(|table| table.reader(ReadMode::BLOCK).map(|_| ()))?;
    Ok(version)
}

/// The same with L0 in a container of small pages.
pub fn in_pages(options: Options, kind: L0Kind, l0_bytes: u64) -> Options {
    of_kind(options, kind, DIR, l0_bytes)
}

/// The same with an L0 of this kind, which takes this many bytes on a medium.
pub fn of_kind(options: Options, kind: L0Kind, medium: &str, bytes: u64) -> Options {
    let l0 = match kind {
        L0Kind::Plain => L0Options::on_medium(medium, bytes),
        L0Kind::Container | L0Kind::Matrix => L0Options::container(medium, bytes),
        L0Kind::PmemMemtable => L0Options::PLAIN,
    };
    let research = Research {
        l0_matrix: kind == L0Kind::Matrix,
        pmem_memtables: (kind == L0Kind::PmemMemtable)
            .then(|| L0Medium { path: medium.into(), bytes }),
        ..options.research
    };
    Options { l0, research, ..options }
}

/// One or the other L0, in a container that runs over or does not.
pub fn draw_l0(options: Options, random: &mut SeededRng) -> Options {
    let l0_bytes = [64 << 10, 256 << 10][random.below(2) as usize];
    match random.below(4) {
        0 | 1 => options,
        2 => in_pages(options, L0Kind::Container, l0_bytes),
        _ => in_pages(options, L0Kind::Matrix, l0_bytes),
    }
}

/// No value log, or one that takes some of the values, all but the shortest, or all of them; with
/// medium values or without.
pub fn draw_value_log(random: &mut SeededRng) -> Option<ValueLogOptions> {
    let large_bytes = [32, 64, 200][random.below(3) as usize];
    let space_ratio_percent = [105, 130, 200][random.below(3) as usize];
    let values = random.one_in(2).then_some(ValueLogOptions {
        large_bytes,
        space_ratio_percent,
        ..ValueLogOptions::default()
    });
    // Drawn apart, so that seeds keep what else they draw.
    let mut apart = SeededRng::new(random.clone().next_u64());
    values.map(|values| match apart.below(5) {
        0 | 1 => values,
        2 => ValueLogOptions { large_bytes: 0, ..values },
        _ => ValueLogOptions { medium_bytes: 32, large_bytes: values.large_bytes * 4, ..values },
    })
}

pub fn process(env: &SharedEnv) -> Result<Arc<Process>> {
    process_with(env, 0)
}

pub fn process_with(env: &SharedEnv, recovery_threads: usize) -> Result<Arc<Process>> {
    let cache_bytes = 64 << 10;
    let options = ProcessOptions { cache_bytes, recovery_threads, ..ProcessOptions::default() };
    Process::start(Arc::clone(env), &options)
}

pub fn open(env: &SharedEnv, options: &Options) -> Result<Store> {
    Store::open(&process(env)?, Path::new(DIR), options.clone())
}

/// As [`open`], but the log is replayed by `recovery_threads` threads.
pub fn open_by(env: &SharedEnv, options: &Options, recovery_threads: usize) -> Result<Store> {
    Store::open(&process_with(env, recovery_threads)?, Path::new(DIR), options.clone())
}

/// Runs `test` in a simulation.
pub fn simulate<T: Send>(seed: u64, test: impl FnOnce(&SharedEnv) -> T + Send) -> T {
    SimEnv::run(SimOptions::new(seed), |env| {
        let env: SharedEnv = env;
        test(&env)
    })
}

/// Runs `test` in a simulation whose calls fail by plan.
pub fn with_faults<T: Send>(
    seed: u64,
    test: impl FnOnce(&Arc<SimEnv>, &Arc<FaultEnv>, &SharedEnv) -> T + Send,
) -> T {
    let sim = SimOptions { steps_max: 4_000_000, ..SimOptions::new(seed) };
    SimEnv::run(sim, |sim| {
        let faults = FaultEnv::new(Arc::<SimEnv>::clone(&sim), FaultPlan::default());
        let env: SharedEnv = Arc::<FaultEnv>::clone(&faults);
        test(&sim, &faults, &env)
    })
}

/// What `run` leaves when the process dies at its end.
pub fn killed(seed: u64, run: impl FnOnce(&SharedEnv) -> Result<Store> + Send) -> DiskImage {
    killed_on(DiskImage::new(), seed, run)
}

/// As [`killed`], on a disk that holds something.
pub fn killed_on(
    disk: DiskImage,
    seed: u64,
    run: impl FnOnce(&SharedEnv) -> Result<Store> + Send,
) -> DiskImage {
    SimEnv::run(SimOptions { disk, ..SimOptions::new(seed) }, |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let store = run(&env).expect("the disk is whole and large enough");
        let disk = sim.disk().crash(CrashPolicy::ProcessKill, 0);
        drop(store);
        disk
    })
}

/// Says during what the disk of each moment is kept; see [`with_moments`].
#[derive(Clone, Default)]
pub struct Watch(Arc<Mutex<bool>>);

impl Watch {
    pub fn during<T>(&self, run: impl FnOnce() -> T) -> T {
        *self.0.lock().unwrap() = true;
        let made = run();
        *self.0.lock().unwrap() = false;
        made
    }
}

/// What `run` makes in a simulation, and the disks before each change of the disk that was made
/// while it was watched: whole, and with a write torn.
pub fn with_moments<T: Send>(
    seed: u64,
    run: impl FnOnce(&SharedEnv, &Watch) -> T + Send,
) -> (T, Vec<DiskImage>) {
    let moments: Arc<Mutex<Vec<DiskImage>>> = Arc::default();
    let (kept, watch) = (Arc::clone(&moments), Watch::default());
    let watched = watch.clone();
    let sim = SimOptions {
        on_io: Some(Box::new(move |point| {
            if *watched.0.lock().unwrap() {
                let mut kept = kept.lock().unwrap();
                kept.push(point.disk.clone());
                kept.extend(point.torn_disk(point.index));
            }
        })),
        ..SimOptions::new(seed)
    };
    let made = SimEnv::run(sim, |env| {
        let env: SharedEnv = env;
        run(&env, &watch)
    });
    let moments = std::mem::take(&mut *moments.lock().unwrap());
    (made, moments)
}

/// Runs `test` on a disk that a crash left.
pub fn after_crash<T: Send>(disk: DiskImage, test: impl FnOnce(&SharedEnv) -> T + Send) -> T {
    SimEnv::run(SimOptions { disk, ..SimOptions::new(1) }, |env| {
        let env: SharedEnv = env;
        test(&env)
    })
}

pub fn put(store: &Store, key: &str, value: &str) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(key.as_bytes(), value.as_bytes())?;
    store.write(&batch, &WriteOptions::default())
}

pub fn put_synced(store: &Store, key: &str, value: &str) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(key.as_bytes(), value.as_bytes())?;
    let options = WriteOptions { durability: Some(Durability::Sync), ..WriteOptions::default() };
    store.write(&batch, &options)
}

pub fn merge(store: &Store, key: &str, operand: &str) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.merge(key.as_bytes(), operand.as_bytes())?;
    store.write(&batch, &WriteOptions::default())
}

pub fn delete(store: &Store, key: &str) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.delete(key.as_bytes())?;
    store.write(&batch, &WriteOptions::default())
}

pub fn delete_range(store: &Store, start: &str, end: &str) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.delete_range(start.as_bytes(), end.as_bytes())?;
    store.write(&batch, &WriteOptions::default())
}

pub fn get(store: &Store, key: &str) -> Result<Option<String>> {
    let item = store.get(key.as_bytes(), &GetOptions::default())?;
    Ok(item.map(|item| String::from_utf8(item.value).expect("tests write text")))
}

pub fn files_with(env: &SharedEnv, suffix: &str) -> Vec<(String, u64)> {
    let entries = env.fs().list(Path::new(DIR)).expect("the directory is there");
    let entries = entries.into_iter().filter(|entry| entry.name.ends_with(suffix));
    entries.map(|entry| (entry.name, entry.bytes)).collect()
}

/// The segments that were begun, oldest first.
pub fn segments_of(disk: &DiskImage) -> Vec<(PathBuf, SegmentHeader)> {
    let files = disk.files().into_iter().map(|(path, _)| path);
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .filter_map(|path| {
            let bytes = disk.read(&path).expect("listed");
            let header = SegmentHeader::decode(&bytes[..SEGMENT_HEADER_BYTES as usize], 0).ok()?;
            path.ends_with(format!("{}.log", header.file_id)).then_some((path, header))
        })
        .collect()
}
