//! A first sweep of errors: a reference workload runs once to count its calls of the environment,
//! and then once for each single call and each way in which it can fail.
//!
//! What must hold: no panic and no hang; what was acknowledged is there after the next open, what
//! was refused is not; after a failed sync, or a failed write to the log, nothing is acknowledged
//! until the range is opened again, and what had been acknowledged as synced survives a power cut;
//! after any other failure the range goes on by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use terrace_base::KeyRange;
use terrace_env::{
    CrashPolicy, DiskImage, Fault, FaultEffect, FaultEnv, FaultErrno, FaultPlan, Operation,
};

use crate::Error;
use crate::options::{Durability, L0Kind};
use crate::store::tests::*;
use crate::store::{GetOptions, IterOptions, Update};
use crate::version::Table;

/// How long, in virtual time, a run may take. A run without faults takes a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the client knows of a key that it wrote once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Acknowledged { synced: bool },
    Refused,
    Unknown,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Writes a number of new keys in one batch.
    Write {
        keys: usize,
        with_sync: bool,
    },
    /// Writes one new key if it is not there.
    Update,
    Flush,
    Compact,
    Settle,
    Reopen,
}

fn steps() -> Vec<Step> {
    let mut steps = Vec::new();
    for index in 0..60 {
        steps.push(Step::Write { keys: 1 + index % 3, with_sync: index % 5 == 4 });
        match index {
            20 => steps.push(Step::Flush),
            30 | 50 => steps.push(Step::Update),
            40 => steps.push(Step::Compact),
            45 => steps.push(Step::Reopen),
            55 => steps.push(Step::Settle),
            _ => {}
        }
    }
    steps.push(Step::Reopen);
    steps
}

fn options(durability: Durability, l0_kind: L0Kind) -> Options {
    let options = Options {
        durability,
        memtable_bytes: 16 << 10,
        log_segment_bytes: 8 << 10,
        log_bytes_max: 32 << 10,
        ..small()
    };
    if l0_kind.has_container() { in_pages(options, l0_kind, 64 << 10) } else { options }
}

fn key(index: usize) -> String {
    format!("key {:03}", index * 37 % 1000)
}

fn value(index: usize) -> String {
    format!("{index}/").repeat(60)
}

/// The disk after a power cut, and what the client knew then.
type Cut = (DiskImage, Vec<Fate>);

struct Run {
    env: SharedEnv,
    sim: Arc<SimEnv>,
    faults: Arc<FaultEnv>,
    options: Options,
    store: Option<Store>,
    fates: Vec<Fate>,
    /// How many of the injected faults have been looked at.
    seen: usize,
    cuts: Vec<Cut>,
}

/// What a fault means for a range that was open when it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consequence {
    None,
    GoesOn,
    Poisoned,
}

impl Run {
    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open between the steps")
    }

    /// Opens the range; a fault may refuse that, but only once.
    fn open(&mut self) {
        let store = open(&self.env, &self.options).or_else(|error| {
            assert!(self.consequence() != Consequence::None, "no call failed, but: {error}");
            assert!(!error.is_corruption(), "a failed call is no damage: {error}");
            open(&self.env, &self.options)
        });
        self.store = Some(store.expect("nothing fails twice"));
        if self.consequence() == Consequence::Poisoned {
            // It may have met the background work that began with the open.
            self.env.sleep(Duration::from_secs(1));
            if self.store().inner.is_poisoned() {
                self.store = None;
                self.store = Some(open(&self.env, &self.options).expect("nothing fails twice"));
            }
        }
    }

    /// What the faults since the last look mean.
    fn consequence(&mut self) -> Consequence {
        let injected = self.faults.injected();
        let new = &injected[std::mem::replace(&mut self.seen, injected.len())..];
        let dooms = |operation: Operation, path: &Path| match operation {
            Operation::Sync | Operation::SyncDir => true,
            Operation::Write => path.extension().is_some_and(|extension| extension == "log"),
            _ => false,
        };
        match new {
            [] => Consequence::None,
            [fault] if dooms(fault.operation, &fault.path) => Consequence::Poisoned,
            _ => Consequence::GoesOn,
        }
    }

    fn write(&mut self, keys: usize, with_sync: bool) -> Result<()> {
        let mut batch = WriteBatch::new();
        let first = self.fates.len();
        for index in first..first + keys {
            batch.put(key(index).as_bytes(), value(index).as_bytes())?;
        }
        let durability = with_sync.then_some(Durability::Sync);
        let options = WriteOptions { durability, ..WriteOptions::default() };
        let outcome = self.store().write(&batch, &options);
        self.note(keys, with_sync, &outcome);
        outcome
    }

    fn update(&mut self) -> Result<()> {
        let index = self.fates.len();
        let (name, text) = (key(index), value(index));
        let outcome = self.store().update(&[name.as_bytes()], &WriteOptions::default(), |old| {
            assert_eq!(old, [None]);
            let mut batch = WriteBatch::new();
            batch.put(name.as_bytes(), text.as_bytes())?;
            Ok(Update::Write(batch))
        });
        self.note(1, false, &outcome);
        outcome
    }

    fn note(&mut self, keys: usize, with_sync: bool, outcome: &Result<()>) {
        let synced = with_sync || self.options.durability == Durability::Sync;
        let fate = match outcome {
            Ok(()) => Fate::Acknowledged { synced },
            Err(Error::Unknown(_)) => Fate::Unknown,
            Err(_) => Fate::Refused,
        };
        self.fates.extend(std::iter::repeat_n(fate, keys));
    }

    fn run(&mut self) {
        self.open();
        for step in steps() {
            let outcome = match step {
                Step::Write { keys, with_sync } => self.write(keys, with_sync),
                Step::Update => self.update(),
                Step::Flush => self.store().flush(),
                Step::Compact => self.store().compact(&KeyRange::all()),
                Step::Settle => {
                    self.store().settle();
                    Ok(())
                }
                Step::Reopen => {
                    let outcome = self.store().close();
                    self.store = None;
                    let failed = self.faults.injected();
                    let failed = failed.get(self.seen).map(|fault| fault.operation);
                    let is_sync = |failed| matches!(failed, Operation::Sync | Operation::SyncDir);
                    assert!(
                        outcome.is_err() || !failed.is_some_and(is_sync),
                        "a close without its sync is no clean one"
                    );
                    assert!(outcome.is_ok() || failed.is_some(), "no call failed: {outcome:?}");
                    self.consequence();
                    self.cut();
                    self.open();
                    continue;
                }
            };
            self.judge(step, &outcome);
        }
    }

    fn judge(&mut self, step: Step, outcome: &Result<()>) {
        // Background work finds out by itself, and says so.
        let consequence = self.consequence();
        if consequence != Consequence::None {
            self.env.sleep(Duration::from_secs(1));
        }
        match consequence {
            Consequence::None => assert!(outcome.is_ok(), "{step:?}, no call failed: {outcome:?}"),
            Consequence::GoesOn => {
                self.write(1, false).expect("a failure that endangers nothing passes");
                self.update().expect("conditional writes go on, too");
                self.store().flush().expect("flushes go on, too");
                self.store().compact(&KeyRange::all()).expect("compactions go on, too");
            }
            Consequence::Poisoned => {
                let refused = self.write(1, false).expect_err("a sync or a log write has failed");
                assert!(matches!(refused, Error::Poisoned(_)), "{refused}");
                let refused = self.update().expect_err("a sync or a log write has failed");
                assert!(matches!(refused, Error::Poisoned(_)), "{refused}");
                assert!(self.store().flush().is_err(), "nothing may be installed either");
                self.check_reads();
                self.cut();
                let closed = self.store().close().expect_err("there is no clean close now");
                assert!(matches!(closed, Error::Poisoned(_)), "{closed}");
                self.store = None;
                self.open();
            }
        }
    }

    /// Reads go on whatever happened.
    fn check_reads(&self) {
        for (index, fate) in self.fates.iter().enumerate() {
            if matches!(fate, Fate::Acknowledged { .. }) {
                let found = get(self.store(), &key(index)).expect("reading needs no write");
                assert_eq!(found, Some(value(index)));
            }
        }
    }

    fn cut(&mut self) {
        if self.seen > 0 {
            let disk = self.sim.disk().crash(CrashPolicy::SyncedOnly, 0);
            self.cuts.push((disk, self.fates.clone()));
        }
    }

    /// Everything once more, after the workload, without faults.
    fn check(&mut self) {
        self.check_reads();
        judge_content(self.store(), &self.fates, |_| true);
        let store = self.store.take().expect("it is open");
        store.settle();
        store.close().expect("nothing fails any more");
        drop(store);
        let store = open(&self.env, &self.options).expect("nothing fails any more");
        assert!(store.recovery().was_closed);
        judge_content(&store, &self.fates, |_| true);
        judge_files(&self.env, &store);
        assert!(self.env.now() < PATIENCE, "the run took {:?}", self.env.now());
    }
}

/// Whether the range holds what it should: `survives` says which acknowledgements count.
fn judge_content(store: &Store, fates: &[Fate], survives: impl Fn(bool) -> bool) {
    let mut found = BTreeMap::new();
    let mut iter = store.iter(IterOptions::default()).expect("no call fails");
    iter.seek_to_first().expect("no call fails");
    while let Some(entry) = iter.entry() {
        found.insert(entry.key.to_vec(), entry.value.to_vec());
        iter.next().expect("no call fails");
    }
    for (index, fate) in fates.iter().enumerate() {
        let item = store.get(key(index).as_bytes(), &GetOptions::default()).expect("no call fails");
        let item = item.map(|item| item.value);
        let scanned = found.remove(key(index).as_bytes());
        assert_eq!(item, scanned, "key {index}: a get and a scan differ");
        match (fate, item) {
            (Fate::Acknowledged { synced }, None) if survives(*synced) => {
                panic!("key {index} was acknowledged and is lost")
            }
            (Fate::Refused, Some(_)) => panic!("key {index} was refused and is there"),
            (_, Some(item)) => assert_eq!(item, value(index).into_bytes(), "key {index}"),
            (_, None) => {}
        }
    }
    assert!(found.is_empty(), "keys that nobody wrote: {found:?}");
    let report = store.check(&mut |_, _| ()).expect("no call fails");
    assert!(report.is_clean(), "{report}");
}

/// Whether the directory holds what the range needs and nothing else.
fn judge_files(env: &SharedEnv, store: &Store) {
    let names = env.fs().list(Path::new(DIR)).expect("no call fails");
    let names: Vec<String> = names.into_iter().map(|entry| entry.name).collect();
    let count = |suffix: &str| names.iter().filter(|name| name.ends_with(suffix)).count();
    let version = store.inner.versions.current();
    let is_file = |table: &&Arc<Table>| !table.meta().is_in_pages();
    let tables = version.tables().filter(is_file).count();
    assert_eq!(count(".table"), tables, "{names:?}");
    assert_eq!((count(".manifest"), count("CURRENT")), (1, 1), "{names:?}");
    assert_eq!(names.len(), tables + count(".log") + count(".rows") + 3, "{names:?}");
}

/// Runs the workload with one fault, judges what is left, and says what was called.
fn run(options: &Options, seed: u64, plan: FaultPlan) -> BTreeMap<Operation, u64> {
    let options = options.clone();
    let sim = SimOptions { steps_max: 2_000_000, ..SimOptions::new(seed) };
    let for_run = options.clone();
    let (counts, cuts) = SimEnv::run(sim, |sim| {
        let faults = FaultEnv::new(Arc::<SimEnv>::clone(&sim), plan);
        let mut run = Run {
            env: Arc::<FaultEnv>::clone(&faults),
            sim,
            faults,
            options: for_run,
            store: None,
            fates: Vec::new(),
            seen: 0,
            cuts: Vec::new(),
        };
        run.run();
        let counts = run.faults.counts();
        run.faults.set_plan(FaultPlan::default());
        run.check();
        (counts, std::mem::take(&mut run.cuts))
    });
    for (disk, fates) in cuts {
        // Another seed: the same one would draw the identities of the first run again.
        let sim = SimOptions { disk, ..SimOptions::new(seed + 1_000_000) };
        SimEnv::run(sim, |env| {
            let env: SharedEnv = env;
            let store = open(&env, &options).expect("a power cut is no damage");
            judge_content(&store, &fates, |synced| synced);
        });
    }
    counts
}

fn effects(operation: Operation) -> &'static [FaultEffect] {
    use FaultEffect::{Error, ShortWrite};
    use FaultErrno::{Again, Io, NoSpace, TooManyFiles};
    match operation {
        Operation::Write => &[Error(Io), ShortWrite(NoSpace)],
        Operation::Open => &[Error(Io), Error(TooManyFiles)],
        Operation::Spawn => &[Error(Again)],
        Operation::Read | Operation::Lock | Operation::List => &[Error(Io)],
        _ => &[Error(Io), Error(NoSpace)],
    }
}

/// Fails each call of each operation once, every `stride`-th of the frequent ones.
fn sweep(options: &Options, stride: u64) {
    let counts = run(options, 1, FaultPlan::default());
    let mut failed = Vec::new();
    for (operation, count) in counts {
        let stride = if count < 40 { 1 } else { stride };
        for nth in (1..=count).step_by(stride as usize) {
            for effect in effects(operation) {
                let fault = Fault::nth(operation, nth, *effect);
                let attempt = std::panic::catch_unwind(|| {
                    run(options, 1 + nth, FaultPlan::one(fault.clone()))
                });
                if attempt.is_err() {
                    failed.push(format!("{operation:?} {nth}: {effect:?}"));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}, {}: {failed:#?}", options.durability, options.l0_kind());
}

#[test]
fn any_single_call_may_fail_when_writes_are_buffered() {
    sweep(&options(Durability::Buffered, L0Kind::Plain), 1);
}

#[test]
fn any_single_call_may_fail_when_writes_are_synced() {
    sweep(&options(Durability::Sync, L0Kind::Plain), 1);
}

#[test]
fn any_single_call_may_fail_when_l0_lies_in_pages() {
    sweep(&options(Durability::Sync, L0Kind::Container), 1);
}
