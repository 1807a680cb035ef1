//! Crash enumeration: a workload runs once; at each of its changes of the disk the machine is
//! stopped, in every way that a disk may be left, and the range is opened on what is there.
//!
//! What must hold afterwards: the range holds the writes up to some point of the commit order and
//! none after it; nothing that had been acknowledged is missing (after a killed process: in every
//! class; after a lost machine: what was acknowledged as synced); everything checks clean; and
//! the range goes on taking writes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use terrace_base::{KeyRange, WallTime, hash_bytes};
use terrace_env::{CrashPolicy, DiskImage, JobClass, SeededRng, SharedEnv, SimEnv, SimOptions};

use crate::options::{Durability, L0Kind, L0Options, Options, Research, ValueLogOptions};
use crate::store::tests::workload::{Change, Model, batch_of, content};
use crate::store::tests::{in_pages, open, open_by, put, small};
use crate::store::{GetOptions, Item, Store, Update, WriteOptions};
use crate::{Error, Result, WriteBatch};

/// Every value but the shortest stands in the value log, and hardly any garbage is allowed.
const ALL_VALUES: ValueLogOptions = ValueLogOptions {
    large_bytes: 32,
    medium_bytes: usize::MAX,
    space_ratio_percent: 105,
    rewrites: true,
};

/// Each client of a workload writes the count of its batches under its own key, in every batch.
fn counter_key(client: usize) -> Vec<u8> {
    format!("~{client}").into_bytes()
}

/// What one client did, as the harness saw it. Lives outside the simulated disk.
#[derive(Clone, Debug, Default)]
struct History {
    /// The changes of each batch, in order.
    batches: Vec<Vec<Change>>,
    /// Number of batches that had been begun.
    begun: usize,
    /// Number of batches that had been acknowledged.
    acknowledged: usize,
    /// Number of batches that had been acknowledged as synced.
    synced: usize,
    /// For each batch, how many batches of each client this client knew to be acknowledged when
    /// it began.
    seen: Vec<Vec<usize>>,
}

type Histories = Arc<Mutex<Vec<History>>>;

fn lock(histories: &Histories) -> std::sync::MutexGuard<'_, Vec<History>> {
    histories.lock().expect("a harness thread panicked")
}

/// A moment at which the machine may stop.
struct Moment {
    index: u64,
    disk: DiskImage,
    torn: Option<DiskImage>,
    /// (begun, acknowledged, synced) of each client.
    counts: Vec<(usize, usize, usize)>,
}

struct Workload {
    name: &'static str,
    options: Options,
    mapped_logs: bool,
    clients: usize,
    batches: usize,
    value_bytes: usize,
    /// Of this number of batches one is written with its own sync.
    sync_every: usize,
    /// After each this number of batches the range is flushed, compacted, or closed and opened
    /// again.
    disturb_every: usize,
    conditional: bool,
    /// Whether each open may have the log go on elsewhere.
    moves_log: bool,
}

impl Workload {
    fn new(name: &'static str) -> Workload {
        Workload {
            name,
            options: Options {
                memtable_bytes: 16 << 10,
                log_segment_bytes: 4 << 10,
                log_bytes_max: 32 << 10,
                ..small()
            },
            mapped_logs: true,
            clients: 1,
            batches: 40,
            value_bytes: 120,
            sync_every: usize::MAX,
            disturb_every: usize::MAX,
            conditional: false,
            moves_log: false,
        }
    }

    fn all() -> Vec<Workload> {
        let base = Workload::new;
        let in_memory = |name, durability| {
            let log_path = Some(crate::store::tests::DIR.into());
            Workload {
                options: Options { log_path, durability, ..base(name).options },
                ..base(name)
            }
        };
        let class = |name, durability| Workload {
            options: Options { durability, ..base(name).options },
            ..base(name)
        };
        vec![
            base("buffered puts"),
            class("synced puts", Durability::Sync),
            class("puts synced at intervals", Durability::Interval(Duration::from_millis(1))),
            Workload { sync_every: 3, ..base("some writes synced") },
            Workload { mapped_logs: false, sync_every: 4, ..base("a log written by system calls") },
            Workload {
                value_bytes: 5000,
                batches: 16,
                sync_every: 2,
                ..base("records above a segment")
            },
            Workload { disturb_every: 8, sync_every: 5, ..base("flushes and compactions") },
            Workload { disturb_every: 5, value_bytes: 30, ..base("small rows") },
            Workload { conditional: true, sync_every: 3, ..base("conditional writes") },
            Workload { clients: 2, batches: 24, sync_every: 4, ..base("two clients") },
            Workload {
                clients: 2,
                batches: 20,
                disturb_every: 9,
                options: Options { durability: Durability::Sync, ..base("").options },
                ..base("two clients, synced, disturbed")
            },
            Workload {
                options: Options {
                    drange_boundaries: vec![b"k05".to_vec(), b"k15".to_vec()],
                    ..base("").options
                },
                clients: 2,
                batches: 20,
                sync_every: 4,
                ..base("three dranges")
            },
            Workload {
                options: in_pages(base("").options, L0Kind::Container, 64 << 10),
                sync_every: 3,
                disturb_every: 12,
                ..base("a triangle, disturbed")
            },
            Workload {
                options: in_pages(base("").options, L0Kind::Matrix, 128 << 10),
                value_bytes: 1500,
                sync_every: 2,
                ..base("a matrix of large values")
            },
            Workload {
                options: Options {
                    l0: L0Options::on_medium(crate::store::tests::DIR, 64 << 10),
                    research: Research { l0_cut_all: true, ..Research::default() },
                    ..base("").options
                },
                sync_every: 4,
                disturb_every: 7,
                ..base("rows in a directory of their own")
            },
            Workload {
                options: Options { value_log: Some(ALL_VALUES), ..base("").options },
                sync_every: 3,
                disturb_every: 6,
                ..base("a value log, disturbed")
            },
            Workload {
                options: Options {
                    value_log: Some(ALL_VALUES),
                    ..in_pages(base("").options, L0Kind::Container, 64 << 10)
                },
                value_bytes: 1500,
                sync_every: 2,
                disturb_every: 4,
                ..base("a value log under a triangle")
            },
            Workload {
                options: Options {
                    value_log: Some(ValueLogOptions {
                        large_bytes: 1000,
                        medium_bytes: 32,
                        ..ALL_VALUES
                    }),
                    ..base("").options
                },
                sync_every: 3,
                disturb_every: 6,
                ..base("medium values, disturbed")
            },
            Workload {
                options: Options {
                    value_log: Some(ValueLogOptions::every_value()),
                    ..base("").options
                },
                sync_every: 3,
                disturb_every: 6,
                ..base("a value log of every value, disturbed")
            },
            Workload { sync_every: 3, ..in_memory("a log in memory", Durability::Buffered) },
            Workload {
                clients: 2,
                batches: 20,
                disturb_every: 9,
                ..in_memory("a log in memory, two clients, synced, disturbed", Durability::Sync)
            },
            Workload {
                value_bytes: 5000,
                batches: 16,
                sync_every: 2,
                disturb_every: 6,
                ..in_memory("records above a segment in memory", Durability::Buffered)
            },
            Workload {
                sync_every: 3,
                disturb_every: 4,
                moves_log: true,
                ..in_memory("a log that moves", Durability::Buffered)
            },
        ]
    }

    /// Runs the workload and keeps every moment at which the disk changed.
    fn record(&self, seed: u64) -> (Vec<Moment>, Vec<History>) {
        let histories: Histories = Arc::new(Mutex::new(vec![History::default(); self.clients]));
        let moments: Arc<Mutex<Vec<Moment>>> = Arc::default();
        let (seen, kept) = (Arc::clone(&histories), Arc::clone(&moments));
        let sim = SimOptions {
            mapped_logs: self.mapped_logs,
            on_io: Some(Box::new(move |point| {
                let counts =
                    lock(&seen).iter().map(|h| (h.begun, h.acknowledged, h.synced)).collect();
                kept.lock().expect("one thread runs at a time").push(Moment {
                    index: point.index,
                    disk: point.disk.clone(),
                    torn: point.torn_disk(seed ^ point.index),
                    counts,
                });
            })),
            ..SimOptions::new(seed)
        };
        let run = Arc::clone(&histories);
        SimEnv::run(sim, |env| {
            let env: SharedEnv = env;
            self.run(&env, seed, &run).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        });
        let moments = std::mem::take(&mut *moments.lock().expect("the run ended"));
        let histories = lock(&histories).clone();
        (moments, histories)
    }

    fn run(&self, env: &SharedEnv, seed: u64, histories: &Histories) -> Result<()> {
        let mut store = open(env, &self.options)?;
        if self.clients == 1 {
            let mut random = SeededRng::new(seed);
            for batch in 0..self.batches {
                self.write(&store, 0, batch, &mut random, histories)?;
                if batch % self.disturb_every == self.disturb_every - 1 {
                    store = self.disturb(env, store, &mut random)?;
                }
            }
            return Ok(());
        }
        std::thread::scope(|_| {
            let clients: Vec<_> = (0..self.clients)
                .map(|client| {
                    let (store, histories) = (store.clone(), Arc::clone(histories));
                    let this = self.for_thread();
                    let job = Box::new(move || {
                        let mut random = SeededRng::new(seed ^ (client as u64 + 1) << 32);
                        for batch in 0..this.batches {
                            let written =
                                this.write(&store, client, batch, &mut random, &histories);
                            written.expect("the disk is large enough");
                            if batch % this.disturb_every == this.disturb_every - 1 {
                                store.flush().expect("the disk is large enough");
                            }
                        }
                    });
                    env.spawn(JobClass::Client, &client.to_string(), job)
                })
                .collect();
            clients.into_iter().for_each(|client| assert!(client.expect("simulated").join()));
        });
        store.close()
    }

    fn for_thread(&self) -> Workload {
        Workload { options: self.options.clone(), name: self.name, ..*self }
    }

    /// The options of one open, which this number chooses.
    fn options_by(&self, choice: u64) -> Options {
        let mut options = self.options.clone();
        if self.moves_log && choice.is_multiple_of(2) {
            options.log_path = None;
            options.log_volume = choice.is_multiple_of(4).then(|| crate::store::tests::DIR.into());
        }
        options
    }

    fn disturb(&self, env: &SharedEnv, store: Store, random: &mut SeededRng) -> Result<Store> {
        match random.below(4) {
            0 => store.flush()?,
            1 => store.compact(&KeyRange::all())?,
            2 => {
                store.close()?;
                drop(store);
                return open(env, &self.options_by(random.next_u64()));
            }
            _ => {
                drop(store);
                return open(env, &self.options_by(random.next_u64()));
            }
        }
        Ok(store)
    }

    /// Writes the next batch of a client and keeps its history.
    fn write(
        &self,
        store: &Store,
        client: usize,
        index: usize,
        random: &mut SeededRng,
        histories: &Histories,
    ) -> Result<()> {
        let changes = self.changes(client, index, random);
        {
            let mut histories = lock(histories);
            let seen = histories.iter().map(|history| history.acknowledged).collect();
            let history = &mut histories[client];
            history.seen.push(seen);
            history.batches.push(changes.clone());
            history.begun += 1;
        }
        let with_sync = index % self.sync_every == self.sync_every - 1;
        let options = WriteOptions {
            durability: with_sync.then_some(Durability::Sync),
            ..WriteOptions::default()
        };
        let batch = batch_of(&changes)?;
        if self.conditional {
            conditional(store, client, index, &options, &batch)?;
        } else {
            store.write(&batch, &options)?;
        }
        let history = &mut lock(histories)[client];
        history.acknowledged = index + 1;
        if with_sync || self.options.durability == Durability::Sync {
            history.synced = index + 1;
        }
        Ok(())
    }

    /// Each client has its own keys, so that the outcome does not depend on the order of clients.
    fn changes(&self, client: usize, index: usize, random: &mut SeededRng) -> Vec<Change> {
        let key =
            |random: &mut SeededRng| format!("k{:02}/{client}", random.below(20)).into_bytes();
        let mut changes = vec![Change::Put {
            key: counter_key(client),
            value: (index as u64 + 1).to_le_bytes().to_vec(),
            expiry: None,
        }];
        for _ in 0..=random.below(3) {
            let change = match random.below(8) {
                0 => Change::Delete { key: key(random) },
                2 | 3 => Change::Merge { key: key(random), operand: vec![b'+', index as u8] },
                1 if self.clients == 1 => {
                    let (a, b) = (key(random), key(random));
                    Change::DeleteRange { start: a.clone().min(b.clone()), end: a.max(b) }
                }
                _ => {
                    let bytes = 1 + random.below(self.value_bytes as u64) as usize;
                    Change::Put { key: key(random), value: vec![index as u8; bytes], expiry: None }
                }
            };
            changes.push(change);
        }
        changes
    }
}

/// Writes `batch` only if the client's counter is what it should be, and says so.
fn conditional(
    store: &Store,
    client: usize,
    index: usize,
    options: &WriteOptions,
    batch: &WriteBatch,
) -> Result<()> {
    store.update(&[&counter_key(client)], options, |old| {
        assert_eq!(count_in(old[0].as_ref()), index);
        Ok(Update::Write(batch.clone()))
    })
}

fn count_in(item: Option<&Item>) -> usize {
    item.map_or(0, |item| {
        let mut word = [0; 8];
        word.copy_from_slice(&item.value);
        u64::from_le_bytes(word) as usize
    })
}

/// Opens the range on a crashed disk and judges what is there. Returns the disk changes that the
/// recovery made, for crashes during recovery.
fn judge(
    workload: &Workload,
    histories: &[History],
    moment: &Moment,
    disk: DiskImage,
    survives: impl Fn(&(usize, usize, usize)) -> usize + Sync,
    context: &str,
) -> Vec<DiskImage> {
    let images: Arc<Mutex<Vec<DiskImage>>> = Arc::default();
    let kept = Arc::clone(&images);
    // Later changes belong to the writes after the recovery.
    let is_open = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&is_open);
    let sim = SimOptions {
        disk,
        mapped_logs: workload.mapped_logs,
        on_io: Some(Box::new(move |point| {
            if !is_over.load(Ordering::Relaxed) {
                kept.lock().expect("one thread runs at a time").push(point.disk.clone());
            }
        })),
        // A seed of its own: another run's would draw the identities of that run again.
        ..SimOptions::new(hash_bytes(moment.index, context.as_bytes()))
    };
    SimEnv::run(sim, |env| {
        let env: SharedEnv = env;
        let outcome = judge_open(&env, workload, histories, moment, &survives, &is_open);
        if let Err(error) = outcome {
            panic!("{context}: {error}");
        }
    });
    std::mem::take(&mut *images.lock().expect("the run ended"))
}

fn judge_open(
    env: &SharedEnv,
    workload: &Workload,
    histories: &[History],
    moment: &Moment,
    survives: &dyn Fn(&(usize, usize, usize)) -> usize,
    is_open: &AtomicBool,
) -> Result<()> {
    let threads = [1, 2, 4][moment.index as usize % 3];
    let store = open_by(env, &workload.options_by(moment.index), threads)?;
    is_open.store(true, Ordering::Relaxed);
    let mut counts = Vec::new();
    let mut expected = Model::default();
    for (client, history) in histories.iter().enumerate() {
        let item = store.get(&counter_key(client), &GetOptions::default())?;
        let count = count_in(item.as_ref());
        let (begun, _, _) = moment.counts[client];
        assert!(count <= begun, "client {client}: {count} batches of {begun} begun");
        let least = survives(&moment.counts[client]);
        assert!(count >= least, "client {client}: {count} batches, {least} were acknowledged");
        history.batches[..count].iter().flatten().for_each(|change| expected.apply(change));
        counts.push(count);
    }
    for (client, history) in histories.iter().enumerate() {
        // A batch that was begun after another was acknowledged comes after it in the order.
        if let Some(seen) = counts[client].checked_sub(1).map(|last| &history.seen[last]) {
            assert!(
                counts.iter().zip(seen).all(|(count, seen)| count >= seen),
                "client {client} is there with {counts:?}, but it had seen {seen:?}"
            );
        }
    }
    let expected = expected.content(WallTime(0));
    assert_eq!(content(&store)?, expected, "the state is not that after {counts:?} batches");
    let report = store.check(&mut |_, _| ())?;
    assert!(report.is_clean(), "{report}");
    put(&store, "after", "the crash")?;
    store.close()?;
    drop(store);
    let store = open(env, &workload.options_by(moment.index / 2))?;
    assert!(store.recovery().was_closed, "{:?}", store.recovery());
    let item = store.get(b"after", &GetOptions::default())?;
    assert_eq!(item.map(|item| item.value), Some(b"the crash".to_vec()));
    Ok(())
}

fn survives_kill(counts: &(usize, usize, usize)) -> usize {
    counts.1
}

fn survives_power_cut(counts: &(usize, usize, usize)) -> usize {
    counts.2
}

/// Every moment of a workload in every policy; how many states were judged.
fn enumerate(workload: &Workload, seed: u64) -> u64 {
    let (moments, histories) = workload.record(seed);
    let mut states = 0;
    for moment in &moments {
        let context = |how: &str| {
            format!("{}, seed {seed}, change {} of the disk, {how}", workload.name, moment.index)
        };
        for policy in CrashPolicy::ALL {
            let disk = moment.disk.crash(policy, seed ^ moment.index);
            let context = context(&format!("{policy:?}"));
            let survives = match policy {
                CrashPolicy::ProcessKill => survives_kill,
                _ => survives_power_cut,
            };
            let recovery = judge(workload, &histories, moment, disk, survives, &context);
            states += 1;
            // Now and then the recovery is stopped too, and the recovery after it.
            if (seed ^ moment.index).is_multiple_of(29) && policy != CrashPolicy::ProcessKill {
                states += again(workload, &histories, moment, recovery, seed, 2, &context);
            }
        }
        if let Some(torn) = &moment.torn {
            let disk = torn.crash(CrashPolicy::ProcessKill, 0);
            judge(workload, &histories, moment, disk, survives_kill, &context("torn write"));
            states += 1;
        }
    }
    states
}

/// Stops a recovery at some of its changes of the disk, `depth` deep.
fn again(
    workload: &Workload,
    histories: &[History],
    moment: &Moment,
    recovery: Vec<DiskImage>,
    seed: u64,
    depth: u32,
    context: &str,
) -> u64 {
    let mut states = 0;
    let mut random = SeededRng::new(seed ^ moment.index ^ u64::from(depth));
    for (index, image) in recovery.into_iter().enumerate() {
        if depth < 2 && !random.one_in(4) {
            continue;
        }
        let context = format!("{context}, change {index} of recovery at depth {depth}");
        let disk = image.crash(CrashPolicy::Sectors, random.next_u64());
        let next = judge(workload, histories, moment, disk, survives_power_cut, &context);
        states += 1;
        if depth > 0 && random.one_in(8) {
            states += again(workload, histories, moment, next, seed, depth - 1, &context);
        }
    }
    states
}

#[test]
fn a_crash_at_any_change_of_the_disk_loses_nothing_that_was_promised() {
    let mut states = 0;
    for (index, workload) in Workload::all().iter().enumerate() {
        states += enumerate(workload, index as u64);
    }
    println!("{states} crash states");
    assert!(states >= 3000, "{states} crash states are too few to mean anything");
}

#[test]
fn the_harness_notices_a_lost_write() {
    let workload = Workload::new("positive control");
    let (moments, histories) = workload.record(1);
    // Buffered writes do not survive a power cut: promise that they do, and be refuted.
    let middle = &moments[moments.len() / 2];
    assert!(middle.counts[0].1 > middle.counts[0].2, "nothing was at risk");
    let disk = middle.disk.crash(CrashPolicy::SyncedOnly, 0);
    let lost = std::panic::catch_unwind(|| {
        judge(&workload, &histories, middle, disk, survives_kill, "positive control")
    });
    assert!(lost.is_err(), "a lost write went unnoticed");
}

#[test]
fn damage_below_what_was_durable_is_told_from_a_torn_tail() {
    let workload = class_sync();
    let (moments, _) = workload.record(3);
    let image = moments.last().expect("it wrote").disk.crash(CrashPolicy::ProcessKill, 0);
    let logs: Vec<_> = image
        .files()
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|e| e == "log"))
        .collect();
    let mut refused = 0;
    for (path, _) in &logs {
        let mut damaged = image.clone();
        damaged.write(path, 128 + 40, &[0xa5]).expect("inside the file");
        let sim = SimOptions { disk: damaged, ..SimOptions::new(1) };
        let outcome = SimEnv::run(sim, |env| {
            let env: SharedEnv = env;
            open(&env, &workload.options).map(|_| ())
        });
        match outcome {
            Err(Error::Corruption(corruption)) => {
                assert!(
                    corruption.file.ends_with(path.file_name().expect("a file")),
                    "{corruption}"
                );
                refused += 1;
            }
            Err(error) => panic!("{error}"),
            Ok(()) => {}
        }
    }
    assert!(refused > 0, "no segment that counted was damaged");
}

fn class_sync() -> Workload {
    let workload = Workload::new("synced");
    Workload { options: Options { durability: Durability::Sync, ..workload.options }, ..workload }
}
