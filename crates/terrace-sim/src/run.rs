//! Runs of the whole range in the simulation: a case goes in, a record comes out.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::{KeyRange, WallTime};
use terrace_engine::store::{Store, StoreStats};
use terrace_env::{
    FaultEnv, FaultPlan, InjectedFault, JobClass, Latch, SharedEnv, SimEnv, SimOptions,
};

use crate::client::Client;
use crate::library;
use crate::oracle::{Kind, Record, Recorder, Violation, What, number_the_rest};
use crate::setup::{Setup, Through};
use crate::storage::Storage;
use crate::workload::{Coverage, Operation, ParseError};

/// A run as data: everything that it depends on but for the disk that it starts with.
#[derive(Clone, Debug)]
pub struct Case {
    /// Decides what the lists leave open: whose turn it is, what is random.
    pub seed: u64,
    /// Options and machine.
    pub setup: Arc<Setup>,
    /// What each client does. A client that is the only one may open the range anew.
    pub clients: Vec<Vec<Operation>>,
}

impl Case {
    /// How many operations it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.clients.iter().map(Vec::len).sum()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        writeln!(f, "setup {}", self.setup)?;
        for operations in &self.clients {
            writeln!(f, "client")?;
            operations.iter().try_for_each(|operation| writeln!(f, "  {operation}"))?;
        }
        Ok(())
    }
}

impl FromStr for Case {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Case, ParseError> {
        let mut case = Case { seed: 0, setup: Arc::default(), clients: Vec::new() };
        for line in text.lines().map(str::trim) {
            let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
            match (verb, case.clients.last_mut()) {
                ("" | "#", _) => {}
                ("seed", None) => {
                    let wrong = |_| ParseError(format!("{rest:?} is no seed"));
                    case.seed = rest.parse().map_err(wrong)?;
                }
                ("setup", None) => case.setup = Arc::new(rest.parse()?),
                ("client", _) => case.clients.push(Vec::new()),
                (_, Some(operations)) => operations.push(line.parse()?),
                (_, None) => return Err(ParseError(format!("{line:?} stands before any client"))),
            }
        }
        Ok(case)
    }
}

/// What a run starts from and is watched by.
#[derive(Default)]
pub struct Scene {
    /// The disk, and the object stores.
    pub storage: Storage,
    /// The wall clock; the simulation's own start if none is given.
    pub wall_start: Option<WallTime>,
    /// Whether every moment at which the disk changes is kept.
    pub with_moments: bool,
    /// Calls that fail.
    pub faults: FaultPlan,
    /// Whether calls go through the layer that lets them fail even if none does.
    pub with_fault_layer: bool,
}

/// A moment at which the machine may stop: before one change of the disk.
#[derive(Clone, Debug)]
pub struct Moment {
    /// How many changes came before.
    pub index: u64,
    /// Virtual time.
    pub at: Duration,
    /// The change that is about to be made.
    pub what: String,
    /// The file or directory that the change is made to.
    pub path: PathBuf,
    /// The disk before it, and the object stores.
    pub storage: Storage,
    /// The same if the process dies in the middle of it, if that differs.
    pub torn: Option<Storage>,
}

/// What came of a run.
#[derive(Debug)]
pub struct Run {
    /// What the clients did and saw.
    pub record: Record,
    /// The moments, if they were wanted; the last one is after the run.
    pub moments: Vec<Moment>,
    /// A hash of everything that happened.
    pub trace_hash: u64,
    /// What the range had done by the end of the last opening, if it was open.
    pub stats: Option<StoreStats>,
    /// The disk after the run, and the object stores.
    pub storage: Storage,
    /// The faults that happened.
    pub injected: Vec<InjectedFault>,
    /// Calls that could have failed.
    pub calls: u64,
    /// Virtual time at the end.
    pub at: Duration,
    /// The wall clock at the start.
    pub wall_start: WallTime,
    /// The wall clock at the end.
    pub wall: WallTime,
}

/// The client number under which a run itself opens, reads and closes.
pub const MAIN: usize = usize::MAX;

/// Runs `main` in a simulation; a panic, a deadlock or a run without end is a violation.
pub fn simulate<T: Send>(
    options: SimOptions,
    main: impl FnOnce(Arc<SimEnv>) -> T + Send,
) -> Result<T, Violation> {
    catch_unwind(AssertUnwindSafe(|| SimEnv::run(options, main))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Violation::of_run(text.unwrap_or("a panic without a text"))
    })
}

/// Runs a case: opens the range, lets the clients work, reads everything, closes.
pub fn run(case: &Case, scene: Scene) -> Result<Run, Violation> {
    let moments: Arc<Latch<Vec<Moment>>> = Arc::default();
    let kept = Arc::clone(&moments);
    let seed = case.seed;
    let mut options = case.setup.sim(seed, scene.storage);
    options.wall_start = scene.wall_start.unwrap_or(options.wall_start);
    let wall_start = options.wall_start;
    if scene.with_moments {
        options.on_io = Some(Box::new(move |point| {
            kept.lock().push(Moment {
                index: point.index,
                at: point.now,
                what: format!("{:?} of {}", point.operation, point.path.display()),
                path: point.path.to_path_buf(),
                torn: point
                    .torn_disk(seed ^ point.index)
                    .map(|disk| Storage { disk, objects: point.objects.clone() }),
                storage: Storage { disk: point.disk.clone(), objects: point.objects.clone() },
            });
        }));
    }
    let has_faults = scene.with_fault_layer || !scene.faults.faults.is_empty();
    let mut done = simulate(options, |sim| {
        let faults = has_faults.then(|| FaultEnv::new(Arc::<SimEnv>::clone(&sim), scene.faults));
        let env: SharedEnv = match &faults {
            Some(faults) => Arc::<FaultEnv>::clone(faults),
            None => Arc::<SimEnv>::clone(&sim),
        };
        let record: Arc<Latch<Record>> = Arc::default();
        let recorder = Recorder::new(Arc::clone(&sim), Arc::clone(&record));
        let stats = match case.setup.through {
            Through::Engine => live(case, &env, &recorder),
            Through::Library => {
                library::live(case, &env, &recorder);
                None
            }
        };
        let record = std::mem::take(&mut *record.lock());
        Run {
            record,
            moments: Vec::new(),
            trace_hash: sim.trace_hash(),
            stats,
            storage: Storage::of(&sim),
            injected: faults.as_ref().map(|faults| faults.injected()).unwrap_or_default(),
            calls: faults.as_ref().map_or(0, |faults| faults.calls()),
            at: sim.virtual_time(),
            wall_start,
            wall: env.wall_time(),
        }
    })?;
    number_the_rest(&mut done.record)?;
    done.moments = std::mem::take(&mut *moments.lock());
    if scene.with_moments {
        done.moments.push(Moment {
            index: done.moments.last().map_or(0, |last| last.index + 1),
            at: done.at,
            what: "the end".to_string(),
            path: PathBuf::new(),
            storage: done.storage.clone(),
            torn: None,
        });
    }
    Ok(done)
}

/// The life of a range: from its opening to its close.
fn live(case: &Case, env: &SharedEnv, recorder: &Recorder) -> Option<StoreStats> {
    let store = open(case, env, recorder)?;
    let mut store = match case.clients.as_slice() {
        [only] => {
            let client = Client::new(env, &case.setup, recorder.clone(), 0, store);
            let mut client = client.alone();
            // A client whose range cannot be opened again has nothing left to do.
            let _ = only.iter().all(|operation| client.act(operation));
            client.into_store()
        }
        _ => {
            race(case, env, recorder, &store);
            Some(store)
        }
    };
    let stats = store.as_ref().map(Store::stats);
    let watched = store.clone()?;
    let mut last = Client::new(env, &case.setup, recorder.clone(), MAIN, store.take()?);
    last.act(&Operation::Settle);
    last.act(&Operation::Check);
    last.act(&Operation::Scan {
        within: KeyRange::all(),
        backward: false,
        limit: u32::MAX,
        at: None,
    });
    let strays = watched.stray_block_count();
    assert_eq!(strays, 0, "evicted blocks are kept beside the block cache");
    drop(watched);
    last.close();
    stats
}

fn open(case: &Case, env: &SharedEnv, recorder: &Recorder) -> Option<Store> {
    let id = recorder.begin(MAIN, 0, What::Begun);
    let opened = case.setup.open(env);
    let what = match &opened {
        Ok(store) => What::Opened { seqno: store.snapshot().seqno().0 },
        Err(error) => What::Failed { error: Kind::of(error), text: error.to_string() },
    };
    recorder.end(id, |begun| *begun = what);
    opened.ok()
}

/// Lets the clients work at once, each on a thread of its own.
fn race(case: &Case, env: &SharedEnv, recorder: &Recorder, store: &Store) {
    let threads: Vec<_> = case
        .clients
        .iter()
        .enumerate()
        .map(|(number, operations)| {
            let operations = operations.clone();
            let mut client = Client::new(env, &case.setup, recorder.clone(), number, store.clone());
            let job = Box::new(move || {
                let _ = operations.iter().all(|operation| client.act(operation));
            });
            env.spawn(JobClass::Client, &number.to_string(), job)
        })
        .collect();
    for thread in threads.into_iter().flatten() {
        // A panic ends the simulation, and is reported by it.
        let _ = thread.join();
    }
}

/// What a run reaches whose tables lie in an object store from L1 on, from L2 on, and so on.
pub const FAR: [&str; 6] = [
    "objects from L1 on",
    "objects from L2 on",
    "objects from L3 on",
    "objects from L4 on",
    "objects from L5 on",
    "objects in L6",
];

/// Counts what the last opening of a run's range did by itself.
pub fn cover(done: &Run, coverage: &mut Coverage) {
    let Some(stats) = &done.stats else { return };
    coverage.add("flush", stats.flush_count);
    coverage.add("compaction", stats.compaction_count);
    coverage.add("table moved down", stats.move_count);
    coverage.add("cut that left a part of a row", stats.l0_consumed_count);
    coverage.add("entry dropped by a compaction", stats.dropped_entry_count);
    coverage.add("writer made to wait", stats.stalls.stall_count);
    let deep = stats.levels.iter().any(|level| level.level >= 2 && level.table_count > 0);
    coverage.reach_if(deep, "level 2 or deeper");
    if let Some(cloud) = stats.cloud.as_ref().filter(|cloud| cloud.table_count > 0) {
        coverage.reach(FAR[usize::from(cloud.first_level) - 1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_reads_back_as_it_was_printed() {
        let text = "seed 7\nsetup class=sync\nclient\n  put a 1#1\n  flush\nclient\n  get a\n";
        let case: Case = text.parse().expect("well formed");
        assert_eq!((case.to_string(), case.len()), (text.to_string(), 3));
        assert!("put a 1#1".parse::<Case>().is_err());
        assert!("client\nfly".parse::<Case>().is_err());
    }
}
