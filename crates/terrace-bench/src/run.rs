#![allow(
    clippy::disallowed_types,
    reason = "the threads of a load wait for each other outside of any simulation"
)]

use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::clock::{self, Moment};
use crate::distribution::{Distribution, Zipfian};
use crate::options::{BenchOptions, OptionsError};
use crate::random::Random;
use crate::records::{Records, Values};
use crate::report::{Measured, Report};
use crate::store::{Store, StoreError};
use crate::threads;
use crate::workload::{self, Kind, Operations, ScanLength, Workload};

/// The length of a slot of throughput over time.
pub(crate) const SLOT: Duration = Duration::from_millis(100);

/// How many operations a thread takes at a time; one at a time if they begin by the clock.
const OPERATIONS_PER_CLAIM: u64 = 64;

/// How many records are looked for to tell whether they are all there.
const SAMPLES: u64 = 64;

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Loading the records that the workload needs.
    Load,
    /// The workload itself.
    Workload,
}

/// Is told how far a run is, and may end it.
pub trait Observer: Sync {
    /// `done` operations of this phase are done.
    fn progress(&self, phase: Phase, done: u64, total: u64);

    /// Whether the run should end now; its report is about what was done until then.
    fn should_stop(&self) -> bool {
        false
    }
}

/// Lets a run go on in silence.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn progress(&self, _phase: Phase, _done: u64, _total: u64) {}
}

/// Why there is no report.
#[derive(Debug)]
#[non_exhaustive]
pub enum BenchError {
    /// The run does not start.
    Options(OptionsError),
    /// The store failed.
    Store(StoreError),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Options(error) => error.fmt(f),
            BenchError::Store(error) => write!(f, "the store failed during the run: {error}"),
        }
    }
}

impl std::error::Error for BenchError {}

/// Runs a workload against a store, loading its records first unless the store holds them.
///
/// Errors: the options are refused, or the store failed.
pub fn run(
    store: &(impl Store + ?Sized),
    options: &BenchOptions,
    observer: &impl Observer,
) -> Result<Report, BenchError> {
    let workload = options.validate().map_err(BenchError::Options)?;
    let plan = Plan::new(options, workload);
    let mut load = None;
    if workload.needs_records && !holds_records(store, &plan).map_err(BenchError::Store)? {
        let workload = *workload::find("load").expect("load is a workload");
        let plan = Plan { rate: None, ..Plan::new(options, workload) };
        load = Some(run_phase(store, &plan, Phase::Load, observer)?);
    }
    let stopped = observer.should_stop() && load.is_some();
    let measured = if stopped {
        Measured::default()
    } else {
        run_phase(store, &plan, Phase::Workload, observer)?
    };
    Ok(Report::new(options, workload, load.as_ref(), &measured))
}

/// Everything that is fixed before a phase begins.
struct Plan {
    workload: Workload,
    records: Records,
    values: Values,
    zipfian: Zipfian,
    operations: u64,
    threads: u64,
    rate: Option<f64>,
    seed: u64,
}

impl Plan {
    fn new(options: &BenchOptions, workload: Workload) -> Plan {
        let (seed, bytes) = (options.seed, options.value_bytes);
        let mixed = options.value_mix.map(|mix| Values::mixed(seed, mix, options.key_bytes));
        Plan {
            workload,
            records: options.records(),
            values: mixed.unwrap_or_else(|| Values::new(seed, bytes)),
            zipfian: Zipfian::new(options.records),
            operations: match workload.operations {
                Operations::Asked => options.operations,
                Operations::OnePerRecord => options.records,
            },
            threads: options.threads,
            rate: options.rate,
            seed,
        }
    }
}

/// Whether a sample of the records is there, the first and the last in key order among them.
fn holds_records(store: &(impl Store + ?Sized), plan: &Plan) -> Result<bool, StoreError> {
    let count = plan.records.count();
    let mut random = Random::new(0, 0);
    let ends = [0, count - 1].map(|place| plan.records.slot_in_order(place));
    let sampled = (0..SAMPLES).map(|_| plan.records.slot(random.below(count)));
    let mut key = Vec::new();
    for slot in ends.into_iter().chain(sampled) {
        plan.records.write_key(slot, &mut key);
        if store.get(&key)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What the threads of a phase share.
struct Progress {
    claimed: AtomicU64,
    done: AtomicU64,
    inserted: AtomicU64,
    stop: AtomicBool,
    failure: Mutex<Option<StoreError>>,
}

fn run_phase(
    store: &(impl Store + ?Sized),
    plan: &Plan,
    phase: Phase,
    observer: &impl Observer,
) -> Result<Measured, BenchError> {
    let first_insert = if plan.workload.needs_records { plan.records.count() } else { 0 };
    let progress = Progress {
        claimed: AtomicU64::new(0),
        done: AtomicU64::new(0),
        inserted: AtomicU64::new(first_insert),
        stop: AtomicBool::new(false),
        failure: Mutex::new(None),
    };
    let (counters_before, delays_before) = (store.counters(), store.delays());
    let cloud_before = store.cloud_requests();
    let mut memory = MemoryWatch::default();
    let (cpu_before, start) = (clock::cpu_time(), Moment::now());
    let mut measured = Measured::default();
    let work = |thread| {
        let mut worker = Worker::new(store, plan, &progress, start, thread);
        let cpu_before = clock::thread_cpu_time();
        let outcome = worker.work();
        worker.measured.elapsed = Moment::now().since(start);
        worker.measured.thread_cpu = clock::thread_cpu_time().saturating_sub(cpu_before);
        if let Err(error) = outcome {
            progress.stop.store(true, Ordering::Relaxed);
            let mut failure = progress.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        }
        worker.measured
    };
    let watch = || {
        observer.progress(phase, progress.done.load(Ordering::Relaxed), plan.operations);
        if observer.should_stop() {
            progress.stop.store(true, Ordering::Relaxed);
        }
        memory.look(store);
    };
    for part in threads::run_all(plan.threads, work, watch) {
        measured.add(&part);
    }
    if let Some(error) = progress.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(BenchError::Store(error));
    }
    measured.cpu = clock::cpu_time().saturating_sub(cpu_before);
    measured.counters = counters_before.zip(store.counters());
    measured.delays = delays_before.zip(store.delays()).map(|(before, after)| after.since(&before));
    let cloud = cloud_before.zip(store.cloud_requests());
    measured.cloud = cloud.map(|(before, after)| after.since(&before));
    measured.memory = memory.most;
    measured.memory_peak_bytes = clock::memory_peak_bytes();
    Ok(measured)
}

/// Looks now and then how much memory there is and how much of it the store knows of.
#[derive(Default)]
struct MemoryWatch {
    looks: u32,
    /// The anonymous memory and the store's account at the look where they were furthest apart.
    most: Option<(u64, u64)>,
}

/// The store's account is asked at one look around in this number.
const LOOKS_PER_MEMORY_LOOK: u32 = 5;

impl MemoryWatch {
    fn look(&mut self, store: &(impl Store + ?Sized)) {
        self.looks += 1;
        if !self.looks.is_multiple_of(LOOKS_PER_MEMORY_LOOK) {
            return;
        }
        let Some(known) = store.memory_bytes() else { return };
        let Some(anonymous) = clock::anonymous_memory_bytes() else { return };
        if self
            .most
            .is_none_or(|(most, account)| most.abs_diff(account) < anonymous.abs_diff(known))
        {
            self.most = Some((anonymous, known));
        }
    }
}

/// One thread of a phase.
struct Worker<'a, S: ?Sized> {
    store: &'a S,
    plan: &'a Plan,
    progress: &'a Progress,
    start: Moment,
    random: Random,
    key: Vec<u8>,
    other_key: Vec<u8>,
    measured: Measured,
}

impl<'a, S: Store + ?Sized> Worker<'a, S> {
    fn new(
        store: &'a S,
        plan: &'a Plan,
        progress: &'a Progress,
        start: Moment,
        thread: u64,
    ) -> Worker<'a, S> {
        let random = Random::new(plan.seed, thread);
        let measured = Measured::default();
        let (key, other_key) = (Vec::new(), Vec::new());
        Worker { store, plan, progress, start, random, key, other_key, measured }
    }

    fn work(&mut self) -> Result<(), StoreError> {
        let mut begun = Moment::now();
        loop {
            let claim = if self.plan.rate.is_some() { 1 } else { OPERATIONS_PER_CLAIM };
            let claimed = self.progress.claimed.fetch_add(claim, Ordering::Relaxed);
            let left = self.plan.operations.saturating_sub(claimed).min(claim);
            for number in claimed..claimed + left {
                if let Some(rate) = self.plan.rate {
                    begun = self.start.after(Duration::from_secs_f64(number as f64 / rate));
                    threads::wait_until(begun);
                }
                let kind = self.draw_kind();
                self.operate(kind)?;
                // The end of one operation is the beginning of the next: one look at the clock.
                let ended = Moment::now();
                self.measured.note(kind, ended.since(begun), ended.since(self.start));
                begun = ended;
            }
            self.progress.done.fetch_add(left, Ordering::Relaxed);
            if left < claim || self.progress.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }

    fn draw_kind(&mut self) -> Kind {
        let mix = self.plan.workload.mix;
        if let [(only, _)] = mix {
            return *only;
        }
        let mut drawn = self.random.below(100);
        for (kind, share) in mix {
            if drawn < u64::from(*share) {
                return *kind;
            }
            drawn -= u64::from(*share);
        }
        mix[0].0
    }

    fn operate(&mut self, kind: Kind) -> Result<(), StoreError> {
        let records = &self.plan.records;
        let slot = match kind {
            Kind::Insert => {
                let record = self.progress.inserted.fetch_add(1, Ordering::Relaxed);
                let in_order = self.plan.workload.in_order;
                if in_order { records.slot_in_order(record) } else { records.slot(record) }
            }
            Kind::Read if self.is_missing() => records.missing_slot(self.draw_slot()),
            _ => self.draw_slot(),
        };
        self.plan.records.write_key(slot, &mut self.key);
        match kind {
            Kind::Read => {
                let found = self.store.get(&self.key)?.is_some();
                self.measured.reads_not_found += u64::from(!found);
            }
            Kind::Scan => {
                let count = match self.plan.workload.scan {
                    ScanLength::Exactly(count) => count,
                    ScanLength::UpTo(most) => 1 + self.random.below(most),
                };
                self.measured.records_scanned += self.store.scan(&self.key, count)?;
            }
            Kind::Update | Kind::Insert => {
                let value = self.plan.values.next(&mut self.random);
                self.store.put(&self.key, value)?;
            }
            Kind::Modify => {
                let value = self.plan.values.next(&mut self.random);
                self.store.modify(&self.key, value)?;
            }
            Kind::Pair | Kind::Transact => self.write_two(kind)?,
        }
        Ok(())
    }

    fn write_two(&mut self, kind: Kind) -> Result<(), StoreError> {
        let slot = self.draw_slot();
        self.plan.records.write_key(slot, &mut self.other_key);
        let keys = [&self.key[..], &self.other_key[..]];
        let value = self.plan.values.next(&mut self.random);
        match kind {
            Kind::Transact => self.measured.conflicts += self.store.transact(keys, value)?,
            _ => self.store.write_pair(keys, value)?,
        }
        Ok(())
    }

    /// Whether the next read asks for a record that is not there.
    fn is_missing(&mut self) -> bool {
        let share = u64::from(self.plan.workload.missing_share);
        share > 0 && self.random.below(100) < share
    }

    fn draw_slot(&mut self) -> u64 {
        let records = &self.plan.records;
        // Inserts of other threads may be under way, at most one each.
        let inserted = self.progress.inserted.load(Ordering::Relaxed);
        let there = inserted.saturating_sub(self.plan.threads).max(records.count());
        match self.plan.workload.distribution {
            Distribution::Uniform => records.slot(self.random.below(there)),
            Distribution::Zipfian => records.slot(self.plan.zipfian.next(&mut self.random)),
            Distribution::ZipfianClustered => {
                records.slot_in_order(self.plan.zipfian.next(&mut self.random))
            }
            Distribution::Latest => {
                records.slot(there - 1 - self.plan.zipfian.next(&mut self.random))
            }
        }
    }
}

/// A histogram of latencies in nanoseconds, from 1 ns to about 5 minutes, to three digits.
pub(crate) fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 300_000_000_000, 3).expect("these bounds are fine")
}

#[cfg(test)]
mod tests {
    //! Goal: workloads do what their data says, the same for the same seed. Method: a map in
    //! memory as the store.

    use std::collections::BTreeMap;

    use super::*;
    use crate::store::Counters;

    #[derive(Default)]
    struct MapStore {
        map: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
        fails: bool,
    }

    impl Store for MapStore {
        fn get(&self, key: &[u8]) -> Result<Option<usize>, StoreError> {
            Ok(self.map.lock().unwrap().get(key).map(Vec::len))
        }
        fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
            if self.fails {
                return Err("planted".into());
            }
            self.map.lock().unwrap().insert(key.to_vec(), value.to_vec());
            Ok(())
        }
        fn scan(&self, start: &[u8], count: u64) -> Result<u64, StoreError> {
            let map = self.map.lock().unwrap();
            Ok(map.range(start.to_vec()..).take(usize::try_from(count)?).count() as u64)
        }
        fn write_pair(&self, keys: [&[u8]; 2], value: &[u8]) -> Result<(), StoreError> {
            keys.iter().try_for_each(|key| self.put(key, value))
        }
        fn transact(&self, keys: [&[u8]; 2], value: &[u8]) -> Result<u64, StoreError> {
            self.write_pair(keys, value).map(|()| 0)
        }
        fn counters(&self) -> Option<Counters> {
            let user_bytes = self.map.lock().unwrap().len() as u64 * 100;
            Some(Counters { user_bytes, written_bytes: user_bytes * 3 })
        }
    }

    fn options(workload: &str, threads: u64) -> BenchOptions {
        BenchOptions {
            workload: workload.to_owned(),
            records: 1000,
            operations: 2000,
            threads,
            value_bytes: 50,
            ..BenchOptions::default()
        }
    }

    #[test]
    fn every_workload_runs_its_operations() {
        for workload in workload::WORKLOADS {
            let store = MapStore::default();
            let report = run(&store, &options(workload.name, 3), &Silent).unwrap();
            let expected = match workload.operations {
                Operations::OnePerRecord => 1000,
                Operations::Asked => 2000,
            };
            assert_eq!(report.operations, expected, "{}", workload.name);
            assert_eq!(report.load_ops_per_s.is_some(), workload.needs_records);
            for (kind, share) in workload.mix {
                let found = report.kinds.iter().find(|part| part.kind == *kind).unwrap();
                let share_found = found.operations * 100 / report.operations;
                assert!(share_found.abs_diff(u64::from(*share)) <= 5, "{} {kind:?}", workload.name);
            }
            match workload.name {
                "d" => {}
                "readmissing" => assert_eq!(report.reads_not_found, 2000),
                name => assert_eq!(report.reads_not_found, 0, "{name}"),
            }
        }
    }

    #[test]
    fn options_change_what_a_workload_does() {
        let store = MapStore::default();
        let asked = BenchOptions { scan_count: Some(7), ..options("e", 2) };
        let report = run(&store, &asked, &Silent).unwrap();
        let scans = report.kinds.iter().find(|part| part.kind == Kind::Scan).unwrap().operations;
        assert!((scans * 7 - 100..=scans * 7).contains(&report.records_scanned));
        let half = BenchOptions { missing_share: Some(50), ..options("c", 2) };
        let missed = run(&store, &half, &Silent).unwrap().reads_not_found;
        assert!((900..1100).contains(&missed), "{missed}");
    }

    #[test]
    fn an_open_loop_counts_from_the_intended_start() {
        struct Slow(MapStore);
        impl Store for Slow {
            fn get(&self, key: &[u8]) -> Result<Option<usize>, StoreError> {
                std::thread::sleep(Duration::from_millis(1));
                self.0.get(key)
            }
            fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
                self.0.put(key, value)
            }
            fn scan(&self, start: &[u8], count: u64) -> Result<u64, StoreError> {
                self.0.scan(start, count)
            }
            fn counters(&self) -> Option<Counters> {
                None
            }
        }
        // Begun ten times as fast as they end, so the last one is some 90 ms late at the least.
        let asked =
            BenchOptions { rate: Some(10_000.0), records: 10, operations: 100, ..options("c", 1) };
        let report = run(&Slow(MapStore::default()), &asked, &Silent).unwrap();
        let json = serde_json::to_value(report).unwrap();
        assert!(json["max_us"].as_f64().unwrap() >= 80_000.0, "{json}");
    }

    #[test]
    fn records_that_are_there_are_not_loaded_again() {
        let store = MapStore::default();
        assert!(run(&store, &options("c", 1), &Silent).unwrap().load_ops_per_s.is_some());
        assert!(run(&store, &options("a", 1), &Silent).unwrap().load_ops_per_s.is_none());
        let more = BenchOptions { records: 2000, ..options("c", 1) };
        assert!(run(&store, &more, &Silent).unwrap().load_ops_per_s.is_some());
        assert_eq!(store.map.lock().unwrap().len(), 2000);
    }

    #[test]
    fn one_thread_with_one_seed_does_the_same_twice() {
        let contents = |seed| {
            let store = MapStore::default();
            let options = BenchOptions { seed, ..options("e", 1) };
            let report = run(&store, &options, &Silent).unwrap();
            (store.map.into_inner().unwrap(), report.records_scanned)
        };
        assert_eq!(contents(5), contents(5));
        assert_ne!(contents(5).1, contents(6).1);
    }

    #[test]
    fn a_failing_store_ends_the_run() {
        let store = MapStore { fails: true, ..MapStore::default() };
        let error = run(&store, &options("a", 4), &Silent).unwrap_err();
        assert_eq!(error.to_string(), "the store failed during the run: planted");
    }

    #[test]
    fn an_observer_may_end_the_run() {
        struct Stops;
        impl Observer for Stops {
            fn progress(&self, _phase: Phase, done: u64, total: u64) {
                assert!(done <= total);
            }
            fn should_stop(&self) -> bool {
                true
            }
        }
        let options = BenchOptions { operations: u64::MAX / 2, ..options("fillrandom", 2) };
        let report = run(&MapStore::default(), &options, &Stops).unwrap();
        assert!(report.operations < 100_000_000);
    }
}
