//! Goal: keyspaces are made, dropped and made again, and batches span them, atomically at every
//! moment at which a machine may stop; nothing of a dropped one is ever seen in a later one, now or
//! through a snapshot. Method: random operations of the class `sync` on a simulated machine; the
//! disk of every moment is opened again, and holds what a model held before the operation that was
//! under way, or after it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::disallowed_types, reason = "what the test gathers is no part of the simulation")]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::{Content, Rows, content, open, rows};
use terrace::{Batch, Db, Keyspace, Snapshot};
use terrace_env::{CrashPolicy, DiskImage, SeededRng, SharedEnv, SimEnv, SimOptions};

const NAMES: [&str; 4] = ["default", "a", "b", "c"];
const KEYS: [&str; 3] = ["k1", "k2", "k3"];

/// A keyspace in the model: its rows, and which one of its name it is.
#[derive(Clone, Debug, Default)]
struct Modelled {
    made: u64,
    rows: Rows,
}

type Model = BTreeMap<String, Modelled>;

fn content_of(model: &Model) -> Content {
    model.iter().map(|(name, keyspace)| (name.clone(), keyspace.rows.clone())).collect()
}

/// Operations on a database, each followed by what the model says.
struct Run<'a> {
    env: &'a SharedEnv,
    rng: SeededRng,
    db: Db,
    model: Model,
    made: u64,
    snapshots: Vec<(Snapshot, Model)>,
    /// Handles of keyspaces that were dropped since the last opening.
    dropped: Vec<Keyspace>,
}

impl Run<'_> {
    fn keyspace(&mut self, name: &str) -> Keyspace {
        let made = &mut self.made;
        self.model.entry(name.to_string()).or_insert_with(|| {
            *made += 1;
            Modelled { made: *made, rows: Rows::new() }
        });
        self.db.keyspace(name).unwrap()
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.rng.below(NAMES.len() as u64) as usize]
    }

    /// One operation: the model first, so that a disk of a moment within it is judged by both.
    fn step(&mut self, number: u64, after: &Mutex<Vec<Content>>) {
        let name = self.name();
        let key = KEYS[self.rng.below(KEYS.len() as u64) as usize];
        let value = format!("{number}");
        let note = |model: &Model| after.lock().unwrap().push(content_of(model));
        match self.rng.below(12) {
            0..=3 => {
                // Making it is an operation of its own.
                let is_there = self.model.contains_key(name);
                if !is_there {
                    let mut next = self.model.clone();
                    next.insert(name.to_string(), Modelled::default());
                    note(&next);
                }
                let keyspace = self.keyspace(name);
                self.model.get_mut(name).unwrap().rows.insert(key.to_string(), value.clone());
                note(&self.model);
                keyspace.put(key, &value).unwrap();
            }
            4..=6 => {
                let names: Vec<_> = self.model.keys().cloned().collect();
                let mut batch = Batch::new();
                for name in &names {
                    let keyspace = self.keyspace(name);
                    batch.put(&keyspace, key, &value);
                    self.model.get_mut(name).unwrap().rows.insert(key.to_string(), value.clone());
                }
                note(&self.model);
                self.db.write(&batch).unwrap();
            }
            7 | 8 if name != "default" && self.model.contains_key(name) => {
                let handle = self.keyspace(name);
                self.model.remove(name);
                note(&self.model);
                assert!(self.db.drop_keyspace(name).unwrap());
                self.dropped.push(handle);
            }
            9 if self.model.contains_key(name) => {
                let keyspace = self.keyspace(name);
                self.model.get_mut(name).unwrap().rows.clear();
                note(&self.model);
                keyspace.clear().unwrap();
            }
            10 => {
                let snapshot = self.db.snapshot();
                self.snapshots.push((snapshot, self.model.clone()));
                self.db.admin().flush().unwrap();
            }
            11 if self.rng.below(3) == 0 => {
                self.snapshots.clear();
                self.dropped.clear();
                self.db.close().unwrap();
                self.db = open(self.env);
            }
            11 => {
                let keyspace = self.db.keyspace("default").unwrap();
                self.db.admin().compact(&keyspace, ..).unwrap();
            }
            _ => {}
        }
    }

    /// What is there, and what was, as the model has it.
    fn judge(&self) {
        assert_eq!(content(&self.db), content_of(&self.model));
        for handle in &self.dropped {
            assert!(handle.put("late", "").is_err(), "{handle:?} was dropped");
        }
        for (snapshot, then) in &self.snapshots {
            for (name, now) in &self.model {
                let seen = rows(&self.db.keyspace(name).unwrap().at(snapshot));
                let was_there = then.get(name).filter(|then| then.made == now.made);
                let wanted = was_there.map(|then| then.rows.clone()).unwrap_or_default();
                assert_eq!(seen, wanted, "{name} at {snapshot:?}");
            }
        }
    }
}

fn run(seed: u64, steps: u64, on_io: bool) -> (Vec<(usize, DiskImage)>, Vec<Content>) {
    let moments: Arc<Mutex<Vec<(usize, DiskImage)>>> = Arc::default();
    let after: Arc<Mutex<Vec<Content>>> = Arc::default();
    let (kept, counted) = (Arc::clone(&moments), Arc::clone(&after));
    let mut rng = SeededRng::stream(seed, 1);
    let watch = move |point: &terrace_env::IoPoint<'_>| {
        let known = counted.lock().unwrap().len();
        if known > 0 && rng.below(2) == 0 {
            kept.lock().unwrap().push((known, point.disk.clone()));
        }
    };
    let mut sim = SimOptions { steps_max: 4_000_000, ..SimOptions::new(seed) };
    if on_io {
        sim.on_io = Some(Box::new(watch));
    }
    let contents = Arc::clone(&after);
    SimEnv::run(sim, |env| {
        let env: SharedEnv = env;
        let db = open(&env);
        let model = Model::from([("default".to_string(), Modelled::default())]);
        contents.lock().unwrap().push(content_of(&model));
        let mut run = Run {
            env: &env,
            rng: SeededRng::new(seed),
            db,
            model,
            made: 0,
            snapshots: Vec::new(),
            dropped: Vec::new(),
        };
        for number in 0..steps {
            run.step(number, &contents);
            run.judge();
        }
        run.snapshots.clear();
        run.db.close().unwrap();
    });
    let moments = std::mem::take(&mut *moments.lock().unwrap());
    let contents = std::mem::take(&mut *after.lock().unwrap());
    (moments, contents)
}

#[test]
fn keyspaces_are_what_a_model_says_now_and_through_snapshots() {
    for seed in 0..40 {
        println!("seed {seed}");
        run(seed, 60, false);
    }
}

#[test]
fn a_crash_leaves_keyspaces_as_they_were_before_an_operation_or_after_it() {
    let mut judged = 0;
    for seed in 0..20 {
        println!("seed {seed}");
        let (moments, contents) = run(seed, 30, true);
        for (index, (known, moment)) in moments.iter().enumerate() {
            for policy in CrashPolicy::ALL {
                let disk = moment.crash(policy, index as u64);
                let sim = SimOptions { disk, ..SimOptions::new(index as u64) };
                SimEnv::run(sim, |env| {
                    let env: SharedEnv = env;
                    let db = open(&env);
                    let found = content(&db);
                    // The last that was noted was under way, or is done.
                    let candidates = &contents[known.saturating_sub(2)..*known];
                    assert!(
                        candidates.contains(&found),
                        "moment {index}, {policy:?}: {found:?} is none of {candidates:?}"
                    );
                    // It goes on, with numbers that nobody else has.
                    for name in ["new", "newer"] {
                        let keyspace = db.keyspace(name).unwrap();
                        assert!(keyspace.first().unwrap().is_none());
                        keyspace.put("k", name).unwrap();
                    }
                    let mut wanted = found;
                    for name in ["new", "newer"] {
                        let row = ("k".to_string(), name.to_string());
                        wanted.insert(name.to_string(), BTreeMap::from([row]));
                    }
                    assert_eq!(content(&db), wanted);
                    db.close().unwrap();
                });
                judged += 1;
            }
        }
    }
    assert!(judged > 1500, "{judged} disks");
}
