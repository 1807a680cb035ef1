//! Goal: whenever a machine is lost with its disk, what was acknowledged as durable is found by
//! whoever goes on, exactly and in its order, and nothing else that is not before or after it.
//! Method: owners of one database, one after the other, on a store whose requests fail in every
//! way; each is lost at some change of a disk or of the store, in the middle of a take-over too, or
//! is taken over while it still writes. The log is in the store, or on a volume, which is all that
//! is left of a machine's disks; and it may change its place with each open. Sometimes only the
//! process is lost, or the power, and the machine goes on in its own directory. One thread writes
//! what a model knows, state by state; two more write keys of their own in their order, so that
//! several objects are under way. Some owners keep an archive, and whoever has only the store asks
//! it for states at random numbers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use terrace_base::{KeyRange, SeqNo, WallTime};
use terrace_env::{
    CrashPolicy, DiskImage, JobClass, ObjectFaults, ObjectImage, SeededRng, SharedEnv, SimEnv,
    SimOptions,
};

use super::worlds::draw_faults;
use crate::cloud::LogPoint;
use crate::options::{CloudOptions, Durability, Options, ValueLogOptions};
#[cfg(feature = "planted-bugs")]
use crate::store::tests::by_seed::hunt;
use crate::store::tests::by_seed::{Tally, each_seed};
use crate::store::tests::cloud::in_store;
use crate::store::tests::workload::{Change, Content, Model, batch_of, content};
use crate::store::tests::*;
use crate::store::{Follower, Snapshot, Store, StoreMoment, WriteOptions};
use crate::{Error, Result};

const SEEDS: u64 = 250;

/// What so many databases come to more than five times.
const EACH_OFTEN: [&str; 10] = [
    "archived", "away", "durable", "ended", "ingest", "left", "locked", "lost", "reopen", "usurped",
];
const URL: &str = "sim://store";
const VOLUME: &str = "/volume";
const KEYS: u64 = 40;

/// No database of these lives for so long.
const LONG: Duration = Duration::from_secs(500_000);

/// Keys of the threads beside begin with this, and their number.
const BESIDE: u8 = b'~';
const THREADS_BESIDE: usize = 2;

/// What was written, as far as anybody may find it.
#[derive(Clone, Debug)]
struct History {
    /// The states, the oldest first, of which one may be found; the newest may not be reached yet.
    states: Vec<Model>,
    /// Of each of them: the newest number before the change that led to it, and the newest one once
    /// that was made.
    numbers: Vec<(SeqNo, SeqNo)>,
    /// States that were lost with a machine, each with the newest number before it: the archive may
    /// have them still.
    lost: Vec<(SeqNo, Model)>,
    /// How many keys each thread beside has begun at most, whatever came of them.
    begun_most: [u64; THREADS_BESIDE],
    /// Older states than this one may not be found.
    durable: usize,
    /// Of each thread beside: how many keys it has begun, and how many are durable.
    beside: [(u64, u64); THREADS_BESIDE],
    /// An owner has said that each state can be had from this number on, and owners may not forget
    /// it so soon.
    archived_from: Option<SeqNo>,
    /// The database, once an owner has opened it: puts of one that never came to anything may
    /// arrive late, so that the store holds two.
    database: Option<u128>,
}

impl History {
    /// Whether nobody was promised anything.
    fn is_unpromised(&self) -> bool {
        self.durable == 0 && self.beside.iter().all(|(_, durable)| *durable == 0)
    }

    fn new() -> History {
        let beside = [(0, 0); THREADS_BESIDE];
        let (states, numbers) = (vec![Model::default()], vec![(SeqNo::ZERO, SeqNo::ZERO)]);
        History {
            states,
            numbers,
            lost: Vec::new(),
            begun_most: [0; THREADS_BESIDE],
            durable: 0,
            beside,
            archived_from: None,
            database: None,
        }
    }

    /// Takes in what whoever has only the store has found; panics if that may not be. Others will
    /// find the same until something else is promised.
    fn found(&mut self, (all, newest): (&Content, SeqNo), now: WallTime) {
        self.seen((all, newest), now);
        self.durable = self.states.len() - 1;
        self.beside = self.beside.map(|(begun, _)| (begun, begun));
    }

    /// Takes in what is there, up to the number `newest`; panics if that may not be.
    fn seen(&mut self, (all, newest): (&Content, SeqNo), now: WallTime) {
        let (beside, of_model) = apart(all);
        let is_it = |state: &Model| state.content(now) == of_model;
        let may_be = (self.durable..self.states.len()).rev();
        let found = may_be.into_iter().find(|index| is_it(&self.states[*index]));
        let Some(found) = found else {
            let earlier = self.states.iter().position(is_it);
            panic!(
                "found what is none of the states from {} to {}; state {earlier:?} looks like it",
                self.durable,
                self.states.len() - 1
            );
        };
        let before = self.numbers.drain(found + 1..).map(|(before, _)| before);
        self.lost.extend(before.zip(self.states.drain(found + 1..)));
        self.begun_most = std::array::from_fn(|n| self.begun_most[n].max(self.beside[n].0));
        // What a change came to that failed shows only now.
        self.numbers.iter_mut().for_each(|(_, after)| *after = newest.min(*after));
        for (thread, (begun, durable)) in self.beside.iter_mut().enumerate() {
            let count = count_beside(&beside, thread);
            assert!((*durable..=*begun).contains(&count), "{count} of {durable} to {begun}");
            *begun = count;
        }
    }
}

/// What the threads beside have written, and the rest.
fn apart(all: &Content) -> (Content, Content) {
    all.iter().cloned().partition(|(key, _)| key.first() == Some(&BESIDE))
}

/// How many keys of a thread are there; panics if one before them is missing.
fn count_beside(beside: &Content, thread: usize) -> u64 {
    let keys = || beside.iter().filter(|(key, _)| key[1] == b'0' + thread as u8);
    let count = keys().count() as u64;
    let expected: Vec<Vec<u8>> = (0..count).map(|n| beside_key(thread, n)).collect();
    assert!(keys().map(|(key, _)| key).eq(&expected), "thread {thread} left a gap");
    count
}

fn beside_key(thread: usize, number: u64) -> Vec<u8> {
    format!("~{thread}{number:08}").into_bytes()
}

type Shared = Arc<Mutex<History>>;

/// Where the log is that outlives a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogPlace {
    Store,
    Volume,
    /// Each open draws one.
    Either,
}

/// What is drawn for all owners of a database.
#[derive(Clone, Debug)]
struct Plan {
    value_log: Option<ValueLogOptions>,
    durability: Durability,
    /// How often the log goes to the store, where it goes there.
    interval: Duration,
    place: LogPlace,
    mirror: Duration,
    /// How far back the archive reaches of an owner that has one.
    archive: Duration,
    faults: ObjectFaults,
    delay_max: Duration,
    has_faults: bool,
    value_bytes: u64,
    durable_one_in: u32,
}

impl Plan {
    fn draw(random: &mut SeededRng) -> Plan {
        let large = ValueLogOptions { large_bytes: 60, ..ValueLogOptions::default() };
        Plan {
            value_log: random.one_in(3).then_some(large),
            durability: random.pick(&[
                Durability::Buffered,
                Durability::Buffered,
                Durability::Sync,
                Durability::Durable,
            ]),
            interval: Duration::from_millis(random.pick(&[1, 10, 200])),
            place: random.pick(&[LogPlace::Store, LogPlace::Volume, LogPlace::Either]),
            mirror: Duration::from_secs(random.pick(&[1, 5, 60, 600])),
            archive: Duration::from_secs(random.pick(&[60, 1_000, 1_000_000])),
            faults: draw_faults(random),
            delay_max: Duration::from_millis(random.pick(&[0, 5, 200])),
            has_faults: random.one_in(2),
            value_bytes: random.pick(&[20, 150, 900]),
            durable_one_in: random.pick(&[2, 5, 20]),
        }
    }

    fn options(&self, random: &mut SeededRng) -> Options {
        let options = Options {
            value_log: self.value_log,
            durability: self.durability,
            drange_boundaries: match random.one_in(2) {
                true => vec![b"k15".to_vec(), b"~1".to_vec()],
                false => Vec::new(),
            },
            ..small()
        };
        let options = in_store(options, random.pick(&[1, 2, 3]));
        let is_on_volume = match self.place {
            LogPlace::Store => false,
            LogPlace::Volume => true,
            LogPlace::Either => random.one_in(2),
        };
        let cloud = options.cloud.map(|cloud| CloudOptions {
            url: URL.to_string(),
            mirror: Some(self.mirror),
            log: (!is_on_volume).then_some(self.interval),
            archive: (!is_on_volume && random.one_in(2)).then_some(self.archive),
            take_over: true,
            ..cloud
        });
        let log_volume = is_on_volume.then(|| VOLUME.into());
        Options { cloud, log_volume, ..options }
    }
}

/// What is left of a machine.
#[derive(Clone)]
struct Left {
    /// The directory that is left, if it is.
    dir: Option<String>,
    disk: DiskImage,
    objects: ObjectImage,
    history: History,
}

/// An owner at its work.
struct Owner<'a> {
    env: SharedEnv,
    sim: Arc<SimEnv>,
    plan: &'a Plan,
    random: &'a mut SeededRng,
    history: Shared,
    tally: &'a mut Tally,
    store: Store,
    dir: String,
    snapshots: Vec<Snapshot>,
    /// Nothing is written any more: an error has left open what is there.
    is_over: bool,
}

impl Owner<'_> {
    fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    fn changes(&mut self) -> Vec<Change> {
        let random = &mut *self.random;
        let key = |random: &mut SeededRng| format!("k{:02}", random.below(KEYS)).into_bytes();
        let count = 1 + random.below(12);
        (0..count)
            .map(|_| match random.below(12) {
                0 => Change::DeleteRange { start: key(random), end: key(random) },
                1 | 2 => Change::Delete { key: key(random) },
                3..6 => Change::Merge { key: key(random), operand: b"+".repeat(3) },
                _ => {
                    let bytes = random.below(self.plan.value_bytes) as usize;
                    let value = format!("{:016x}", random.next_u64()).repeat(bytes / 16 + 1);
                    Change::Put { key: key(random), value: value.into_bytes(), expiry: None }
                }
            })
            .collect()
    }

    /// Does something that makes the next state; `is_durable` says what its end promises.
    fn change(
        &mut self,
        changes: &[Change],
        is_durable: bool,
        act: impl FnOnce(&Store) -> Result<()>,
    ) {
        let before = self.newest();
        let index = {
            let mut history = self.history.lock().expect("one thread runs at a time");
            let mut next = history.states.last().expect("there is always one").clone();
            changes.iter().for_each(|change| next.apply(change));
            history.states.push(next);
            history.numbers.push((before, SeqNo(u64::MAX)));
            history.states.len() - 1
        };
        match act(&self.store) {
            Ok(()) => {
                let newest = self.newest();
                let mut history = self.history.lock().expect("one thread runs at a time");
                history.numbers[index].1 = newest;
                if is_durable {
                    history.durable = history.durable.max(index);
                    drop(history);
                    self.count("durable");
                }
            }
            Err(error) => {
                assert!(
                    matches!(error, Error::Io(_) | Error::Fenced(_) | Error::Unknown(_)),
                    "{error}"
                );
                self.is_over = true;
            }
        }
    }

    fn write(&mut self) {
        let changes = self.changes();
        let asks = self.random.one_in(self.plan.durable_one_in);
        let options = WriteOptions {
            durability: asks.then_some(Durability::Durable),
            ..WriteOptions::default()
        };
        let is_durable = asks || self.plan.durability == Durability::Durable;
        let batch = batch_of(&changes).expect("it is small");
        self.change(&changes, is_durable, |store| store.write(&batch, &options));
    }

    fn ingest(&mut self) {
        let mut entries = BTreeMap::new();
        for _ in 0..1 + self.random.below(10) {
            let key = format!("k{:02}", self.random.below(KEYS)).into_bytes();
            entries.insert(key, format!("ingested {}", self.random.below(1000)).into_bytes());
        }
        let put = |(key, value): (&Vec<u8>, &Vec<u8>)| Change::Put {
            key: key.clone(),
            value: value.clone(),
            expiry: None,
        };
        let changes: Vec<Change> = entries.iter().map(put).collect();
        self.change(&changes, false, |store| {
            let mut ingest = store.begin_ingest()?;
            for (key, value) in &entries {
                ingest.add(key, value, None)?;
            }
            ingest.finish().map(drop)
        });
        self.count("ingest");
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0..24 => self.write(),
            24..26 => self.ingest(),
            26..28 => self.try_to(|store| store.flush()),
            28..30 => self.try_to(|store| store.compact(&KeyRange::all())),
            30 => {
                let snapshot = self.store.snapshot();
                self.snapshots.push(snapshot);
            }
            31 => drop(self.snapshots.pop()),
            39 => self.look_back(),
            32..35 => {
                let pause = Duration::from_millis(self.random.pick(&[1, 100, 3_000, 20_000]));
                self.env.sleep(pause);
            }
            35 => self.store.settle(),
            36 => self.reopen(),
            37 => {
                let faults = self.plan.faults.clone();
                let is_on = self.random.one_in(2);
                let faults = if is_on { faults } else { ObjectFaults::default() };
                self.sim.set_object_faults(faults);
            }
            38 => {
                self.sim.set_objects_away(true);
                let changes = self.changes();
                let batch = batch_of(&changes).expect("it is small");
                // The class of the range may be one that waits for the store.
                if self.plan.durability != Durability::Durable {
                    let options = WriteOptions::default();
                    self.change(&changes, false, |store| store.write(&batch, &options));
                }
                self.env.sleep(Duration::from_secs(20));
                self.sim.set_objects_away(false);
                self.count("away");
            }
            _ => {}
        }
    }

    fn try_to(&mut self, act: impl FnOnce(&Store) -> Result<()>) {
        if let Err(error) = act(&self.store) {
            assert!(matches!(error, Error::Io(_) | Error::Fenced(_)), "{error}");
            self.is_over |= matches!(error, Error::Fenced(_));
        }
    }

    /// Ends the process, cleanly or not, and starts it again in the same directory.
    fn reopen(&mut self) {
        self.snapshots.clear();
        self.sim.set_object_faults(ObjectFaults::default());
        // What a close leaves open is decided by what is found.
        let _ = self.store.close();
        self.store = loop {
            let options = self.plan.options(self.random);
            let reopened = process(&self.env)
                .and_then(|process| Store::open(&process, Path::new(&self.dir), options));
            match reopened {
                Ok(store) => break store,
                Err(Error::Invalid(text)) if is_of_place(&text) => {}
                Err(error) => panic!("its own directory opens: {error}"),
            }
        };
        self.look(History::seen);
        self.look_back();
        self.count("reopen");
    }

    /// The newest number that readers see.
    fn newest(&self) -> SeqNo {
        self.store.snapshot().seqno()
    }

    /// Asks the archive for some state of before.
    fn look_back(&mut self) {
        self.sim.set_object_faults(ObjectFaults::default());
        let archive = self.store.stats().cloud.and_then(|cloud| cloud.archive);
        let since = archive.and_then(|archive| archive.since_number);
        if let Some(since) = since.filter(|_| self.plan.archive > LONG) {
            let mut history = self.history.lock().expect("one thread runs at a time");
            history.archived_from.get_or_insert(SeqNo(since));
        }
        let history = Arc::clone(&self.history);
        let known = || history.lock().expect("one thread runs at a time").clone();
        look_back(&self.env, self.random, self.tally, &known);
    }

    /// Takes in what is there.
    fn look(&mut self, take_in: impl FnOnce(&mut History, (&Content, SeqNo), WallTime)) {
        self.sim.set_object_faults(ObjectFaults::default());
        let found = content(&self.store).expect("an owner reads what it has");
        let (now, newest) = (self.env.wall_time(), self.newest());
        let mut history = self.history.lock().expect("one thread runs at a time");
        take_in(&mut history, (&found, newest), now);
    }
}

/// Asks the archive in the store for the state at some number, and panics if it is another one.
fn look_back(
    env: &SharedEnv,
    random: &mut SeededRng,
    tally: &mut Tally,
    known: &dyn Fn() -> History,
) {
    let history = known();
    let newest = history.numbers.last().map_or(SeqNo::ZERO, |(_, after)| *after);
    let asked = SeqNo(random.below(newest.0.saturating_add(2)));
    let is_promised = history.archived_from.is_some_and(|from| asked >= from);
    let moment = StoreMoment::Archived(LogPoint::Number(asked));
    let reader = process(env)
        .and_then(|process| Follower::open_store(&process, URL, history.database, moment, small()));
    let reader = match reader {
        Ok(reader) => reader,
        // There is no archive yet, or it reaches back less far.
        Err(Error::Invalid(_) | Error::Outdated(_)) if !is_promised => {
            return *tally.entry("not archived").or_default() += 1;
        }
        Err(error) => panic!("the archive does not have number {}: {error}", asked.0),
    };
    let reached = reader.store().snapshot().seqno();
    assert!(reached <= asked, "asked for {}, and got {}", asked.0, reached.0);
    let found = content(reader.store()).expect("it is read");
    let (beside, of_model) = apart(&found);
    let numbers = || history.numbers.iter();
    let first = numbers().rposition(|(_, after)| *after <= reached).unwrap_or(0);
    let last = numbers().position(|(before, _)| *before >= reached);
    let last = last.unwrap_or(history.states.len()).max(first + 1);
    let is_it = |state: &Model| state.content(env.wall_time()) == of_model;
    let is_lost = |(before, state): &(SeqNo, Model)| *before < reached && is_it(state);
    assert!(
        history.states[first..last].iter().any(is_it) || history.lost.iter().any(is_lost),
        "at number {} the archive has none of the states from {first} to {last}",
        reached.0
    );
    // They have gone on meanwhile.
    let known = known();
    for (thread, (begun, _)) in known.beside.iter().enumerate() {
        let most = known.begun_most[thread].max(*begun);
        assert!(count_beside(&beside, thread) <= most, "thread {thread}");
    }
    *tally.entry("archived").or_default() += 1;
}

/// Writes keys in their order, some of them durably.
fn write_beside(store: &Store, history: &Shared, thread: usize, seed: u64, is_over: &AtomicBool) {
    let mut random = SeededRng::stream(seed, 90 + thread as u64);
    for _ in 0..random.below(100) {
        let number = {
            let mut history = history.lock().expect("one thread runs at a time");
            let number = history.beside[thread].0;
            history.beside[thread].0 += 1;
            number
        };
        let change =
            Change::Put { key: beside_key(thread, number), value: vec![7; 100], expiry: None };
        let asks = random.one_in(2);
        let options = WriteOptions {
            durability: asks.then_some(Durability::Durable),
            ..WriteOptions::default()
        };
        let written = store.write(&batch_of(&[change]).expect("it is small"), &options);
        if written.is_err() || is_over.load(Ordering::SeqCst) {
            return;
        }
        if asks {
            let mut history = history.lock().expect("one thread runs at a time");
            history.beside[thread].1 = history.beside[thread].1.max(number + 1);
        }
    }
}

/// Opens the database in `dir`, on what is left of the machines before; `None` if the owner was
/// lost before its first moment was fed, when it had promised nothing.
fn open(
    env: &SharedEnv,
    sim: &SimEnv,
    plan: &Plan,
    random: &mut SeededRng,
    dir: &str,
    (history, may_fail): (&History, bool),
) -> Option<Store> {
    if plan.has_faults && may_fail {
        sim.set_object_faults(plan.faults.clone());
    }
    for _ in 0..20 {
        let mut options = plan.options(random);
        options.cloud.as_mut().expect("it has a store").database = history.database;
        let opened =
            process(env).and_then(|process| Store::open(&process, Path::new(dir), options));
        match opened {
            Ok(store) => return Some(store),
            Err(Error::Io(_)) => sim.set_object_faults(ObjectFaults::default()),
            // Its owner has written on meanwhile, and let go of what was being read.
            Err(Error::Fenced(text) | Error::Outdated(text)) if text.contains("try again") => {}
            Err(Error::Unsupported(_)) if history.is_unpromised() => return None,
            Err(Error::Invalid(text))
                if history.is_unpromised() && text.contains("several databases") =>
            {
                return None;
            }
            // Another draw has the log where this one misses it.
            Err(Error::Invalid(text)) if plan.place == LogPlace::Either && is_of_place(&text) => {}
            Err(error) => panic!("{dir} cannot be opened: {error}"),
        }
    }
    panic!("{dir} cannot be opened: somebody else always comes first");
}

/// Whether the log lies where the options of an open do not have it.
fn is_of_place(refusal: &str) -> bool {
    ["--log-volume", "cloud.log needs"].iter().any(|text| refusal.contains(text))
}

/// Lets one owner work until it is lost; what is left, `None` if that is nothing.
fn round(
    plan: &Plan,
    random: &mut SeededRng,
    tally: &mut Tally,
    left: Left,
    (number, steps): (u64, u64),
    sim: SimOptions,
) -> Option<Left> {
    let history: Shared = Arc::new(Mutex::new(left.history));
    let lost: Arc<Mutex<Option<Left>>> = Arc::default();
    let (kept_dir, new_dir) = (left.dir, format!("/machine{number}"));
    let dir = kept_dir.clone().unwrap_or_else(|| new_dir.clone());
    let most = 64 << random.below(8);
    let lost_at = if random.one_in(3) { u64::MAX } else { random.below(most) };
    let (known, at_loss) = (Arc::clone(&history), Arc::clone(&lost));
    let sim = SimOptions {
        disk: left.disk,
        objects: left.objects,
        switch_one_in: random.pick(&[2, 4, 16]),
        steps_max: 4_000_000,
        object_delay_max: plan.delay_max,
        linger_max: Duration::from_secs(24 * 3600),
        on_io: Some(Box::new(move |point| {
            if point.index == lost_at {
                let history = known.lock().expect("one thread runs at a time").clone();
                let (disk, objects) = (point.disk.clone(), point.objects.clone());
                let left = Left { dir: None, disk, objects, history };
                *at_loss.lock().expect("as above") = Some(left);
            }
        })),
        ..sim
    };
    let is_lost = {
        let lost = Arc::clone(&lost);
        move || lost.lock().expect("one thread runs at a time").is_some()
    };
    let ended = SimEnv::run(sim, |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let dir = kept_dir.clone().unwrap_or_else(|| new_dir.clone());
        env.fs().create_dir_all(Path::new(VOLUME)).expect("there is room");
        let known = history.lock().expect("one thread runs at a time").clone();
        let store = open(&env, &sim, plan, random, &dir, (&known, true))?;
        let mut owner = Owner {
            env: SharedEnv::clone(&env),
            sim: Arc::clone(&sim),
            plan,
            random: &mut *random,
            history: Arc::clone(&history),
            tally: &mut *tally,
            store,
            dir,
            snapshots: Vec::new(),
            is_over: false,
        };
        let database = owner.store.inner.versions.current().database();
        owner.history.lock().expect("one thread runs at a time").database = Some(database);
        // What only this directory has may be lost with it yet.
        let take_in = if kept_dir.is_some() { History::seen } else { History::found };
        owner.look(take_in);
        owner.look_back();
        if plan.has_faults {
            sim.set_object_faults(plan.faults.clone());
        }
        let is_over = Arc::new(AtomicBool::new(false));
        // A process that ends waits for those who write in it, so only some do.
        let has_beside = owner.random.one_in(2);
        for thread in (0..THREADS_BESIDE).filter(|_| has_beside) {
            let (store, history) = (owner.store.clone(), Arc::clone(&history));
            let is_over = Arc::clone(&is_over);
            let seed = owner.random.next_u64();
            let job = Box::new(move || {
                write_beside(&store, &history, thread, seed, &is_over);
            });
            env.spawn(JobClass::Client, "beside", job).expect("a simulation has threads");
        }
        for _ in 0..steps {
            if is_lost() || owner.is_over {
                break;
            }
            owner.step();
        }
        sim.set_object_faults(ObjectFaults::default());
        if !is_lost() && !owner.is_over && owner.random.one_in(3) {
            usurp(&mut owner, number);
        }
        is_over.store(true, Ordering::SeqCst);
        let left = Left {
            dir: None,
            disk: sim.disk(),
            objects: sim.object_image(),
            history: history.lock().expect("one thread runs at a time").clone(),
        };
        drop(owner);
        Some(left)
    });
    let lost = lost.lock().expect("the run has ended").take();
    *tally.entry(if lost.is_some() { "lost" } else { "ended" }).or_default() += 1;
    let mut left = lost.or(ended)?;
    let (policy, seed) = (random.pick(&CrashPolicy::ALL), random.next_u64());
    left.disk = left.disk.crash(policy, seed);
    if random.one_in(3) {
        left.dir = Some(dir);
        *tally.entry("left").or_default() += 1;
    } else {
        // The disk is lost with the machine, but for the volume.
        left.disk = left.disk.below(Path::new(VOLUME));
    }
    Some(left)
}

/// Somebody else takes the database over while its owner writes.
fn usurp(owner: &mut Owner<'_>, number: u64) {
    let dir = format!("/usurper{number}");
    let (env, sim) = (SharedEnv::clone(&owner.env), Arc::clone(&owner.sim));
    let known = owner.history.lock().expect("one thread runs at a time").clone();
    if owner.plan.place == LogPlace::Either {
        return;
    }
    if owner.plan.place == LogPlace::Volume {
        let mut options = owner.plan.options(owner.random);
        options.cloud.as_mut().expect("it has a store").database = known.database;
        let opened =
            process(&env).and_then(|process| Store::open(&process, Path::new(&dir), options));
        match opened.map(drop) {
            Err(Error::Locked(_)) => owner.count("locked"),
            // It was not fed yet.
            Err(Error::Unsupported(_) | Error::Invalid(_)) if known.is_unpromised() => {}
            opened => panic!("its owner has the volume: {opened:?}"),
        }
        return owner.write();
    }
    let known = (&known, false);
    let Some(taker) = open(&env, &sim, owner.plan, owner.random, &dir, known) else { return };
    let found = content(&taker).expect("an owner reads what it has");
    let (now, newest) = (env.wall_time(), taker.snapshot().seqno());
    owner.history.lock().expect("one thread runs at a time").found((&found, newest), now);
    owner.count("usurped");
    owner.is_over = true;
    if owner.random.one_in(2) {
        return;
    }
    let batch = batch_of(&[Change::Delete { key: b"k00".to_vec() }]).expect("it is small");
    let options = WriteOptions { durability: Some(Durability::Durable), ..WriteOptions::default() };
    let refused = owner.store.write(&batch, &options);
    assert!(
        matches!(refused, Err(Error::Fenced(_) | Error::Unknown(_))),
        "who was taken over has promised something: {refused:?}"
    );
}

/// Runs the database of this seed; what was done in it.
fn world(seed: u64, sim: impl Fn(u64) -> SimOptions) -> Tally {
    let mut random = SeededRng::stream(seed, 72);
    let plan = Plan::draw(&mut random);
    let mut tally = Tally::new();
    let (disk, objects) = (DiskImage::new(), ObjectImage::new());
    let mut left = Left { dir: None, disk, objects, history: History::new() };
    let rounds = 2 + random.below(3);
    for number in 0..rounds {
        let steps = random.pick(&[5, 20, 60]);
        let sim = sim(random.next_u64());
        match round(&plan, &mut random, &mut tally, left, (number, steps), sim) {
            Some(then) => left = then,
            None => {
                *tally.entry("lost before its first moment").or_default() += 1;
                return tally;
            }
        }
    }
    // Only what the store has, once more.
    let disk = left.disk.below(Path::new(VOLUME));
    let sim = SimOptions { objects: left.objects, disk, ..sim(random.next_u64()) };
    let mut history = left.history;
    SimEnv::run(sim, |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let known = history.clone();
        let opened = open(&env, &sim, &plan, &mut random, "/last", (&known, false));
        let Some(store) = opened else { return };
        let (found, newest) = (content(&store).expect("it is read"), store.snapshot().seqno());
        history.found((&found, newest), env.wall_time());
        for _ in 0..3 {
            look_back(&env, &mut random, &mut tally, &|| history.clone());
        }
    });
    tally
}

#[test]
fn what_is_durable_outlives_any_machine() {
    let total = each_seed("databases", SEEDS, |seed| world(seed, SimOptions::new));
    total.assert_done(&EACH_OFTEN, 5, SEEDS);
}

/// Goal: the databases are not blind. Method: bugs are planted, one at a time, and each must be
/// found by one of a thousand databases.
#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_of_logs_that_outlive_the_machine_are_found() {
    use terrace_env::PlantedBug;

    let bugs = PlantedBug::OF_STORE_LOG.iter().chain(PlantedBug::OF_VOLUME_LOG);
    hunt("databases", 1000, bugs, |seed, bug| {
        world(seed, |seed| SimOptions { planted: vec![bug], ..SimOptions::new(seed) })
    });
}
