//! Goal: an explanation says what the read did, and its verdict is the read's answer. Method:
//! small trees with every case, drawn; and random trees, where the verdict is compared with `get`
//! and with a model.

use std::fmt::Write as _;
use std::time::Duration;

use terrace_base::{Expiry, KeyRange, LevelNo, WallTime};
use terrace_env::{SeededRng, SharedEnv};

use crate::explain::{GetExplanation, Verdict};
use crate::options::{L0Options, Options};
use crate::store::tests::workload::{Model, Shape};
use crate::store::tests::{delete, open, put, simulate, small};
use crate::store::{GetOptions, Item, Snapshot, Store, WriteOptions};
use crate::table::Compression;
use crate::tests::specimens::assert_as_drawn;
use crate::{Result, WriteBatch};

/// One case: lines of words, each a step; see the head of the file of cases.
struct Case<'a> {
    env: &'a SharedEnv,
    options: Options,
    store: Option<Store>,
    snapshot: Option<Snapshot>,
    drawn: String,
}

impl Case<'_> {
    fn store(&mut self) -> Result<Store> {
        if self.store.is_none() {
            self.store = Some(open(self.env, &self.options)?);
        }
        Ok(self.store.clone().expect("it was just opened"))
    }

    fn draw(&mut self, explanation: impl std::fmt::Display) {
        let _ = writeln!(self.drawn, "{explanation}");
    }

    fn step(&mut self, line: &str) -> Result<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let bound = |word: &str| if word == "-" { Vec::new() } else { word.as_bytes().to_vec() };
        let end = |word: &str| (word != "+").then(|| word.as_bytes().to_vec());
        match words.as_slice() {
            ["with", options @ ..] => options.iter().for_each(|word| self.option(word)),
            ["put", key, value] => put(&self.store()?, key, value)?,
            ["put", key, value, "until", ms] => {
                let at = Expiry::at(WallTime(ms.parse().expect("a moment in ms")));
                let mut batch = WriteBatch::new();
                batch.put_with_expiry(key.as_bytes(), value.as_bytes(), Some(at))?;
                self.store()?.write(&batch, &WriteOptions::default())?;
            }
            ["fill", from, to, bytes] => {
                let number = |word: &str| word.parse::<u32>().expect("a number");
                let value = "v".repeat(number(bytes) as usize);
                for key in number(from)..number(to) {
                    put(&self.store()?, &format!("k{key:04}"), &value)?;
                }
            }
            ["delete", key] => delete(&self.store()?, key)?,
            ["delete", start, end] => {
                let mut batch = WriteBatch::new();
                batch.delete_range(start.as_bytes(), end.as_bytes())?;
                self.store()?.write(&batch, &WriteOptions::default())?;
            }
            ["flush"] => self.store()?.flush()?,
            ["cut", key] => {
                let range = KeyRange::new(*key, Some(format!("{key}\0").into_bytes()));
                self.store()?.inner.force(LevelNo(0), &range)?;
            }
            ["l0"] => {
                let picture = self.store()?.l0()?.to_string();
                self.drawn += &picture;
            }
            ["compact"] => self.store()?.compact(&KeyRange::all())?,
            ["settle"] => self.store()?.settle(),
            ["snapshot"] => self.snapshot = Some(self.store()?.snapshot()),
            ["reopen"] => {
                self.store()?.close()?;
                self.store = None;
            }
            ["get", key] => {
                let explanation = self.store()?.explain_get(key.as_bytes())?;
                self.draw(explanation);
            }
            ["get", key, "then"] => {
                let snapshot = self.snapshot.clone().expect("the case takes a snapshot");
                self.draw(snapshot.explain_get(key.as_bytes())?);
            }
            ["scan", from, to, limit, rest @ ..] => {
                let range = KeyRange::new(bound(from), end(to));
                let limit = limit.parse().expect("a limit");
                let reverse = rest.contains(&"back");
                let explanation = match (rest.contains(&"then"), &self.snapshot) {
                    (true, Some(snapshot)) => snapshot.explain_scan(range, limit, reverse)?,
                    _ => self.store()?.explain_scan(range, limit, reverse)?,
                };
                self.draw(explanation);
            }
            _ => panic!("what is '{line}'?"),
        }
        Ok(())
    }

    fn option(&mut self, word: &str) {
        match word.split_once('=').expect("an option is name=value") {
            ("filter", bits) => {
                self.options.table.filter_bits_per_key = bits.parse().expect("bits per key");
            }
            ("drange", boundary) => {
                self.options.drange_boundaries.push(boundary.as_bytes().to_vec());
            }
            ("l0", kind) => {
                self.options.l0 = L0Options::container("/memory", 256 << 10);
                self.options.research.l0_matrix = match kind {
                    "container" => false,
                    "matrix" => true,
                    _ => panic!("no case has the L0 {kind}"),
                };
                self.env.fs().create_dir_all("/memory".as_ref()).expect("a new disk");
            }
            ("room", kib) => {
                let bytes = kib.parse::<u64>().expect("KiB") << 10;
                self.options.l0 = L0Options::container("/memory", bytes);
            }
            ("cut", bytes) => self.options.cut_bytes = bytes.parse().expect("bytes of a cut"),
            ("compression", "lz4") => self.options.table.compression = Compression::Lz4,
            _ => panic!("what is '{word}'?"),
        }
    }
}

/// No compaction but by hand.
fn quiet() -> Options {
    Options { l0_rows_per_cut: 20, l0_rows_slow: 30, l0_rows_stop: 40, ..small() }
}

fn drawn(steps: &str) -> String {
    simulate(1, |env| {
        let mut case =
            Case { env, options: quiet(), store: None, snapshot: None, drawn: String::new() };
        for line in steps.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            case.step(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        case.drawn
    })
}

/// The drawings of the file are those that there are now, and fit a page.
fn look_as_drawn(name: &str) {
    assert_as_drawn(name, |steps| {
        let drawn = drawn(steps);
        let width = drawn.lines().map(|line| line.chars().count()).max();
        assert!(width <= Some(100), "a line has {width:?} columns");
        drawn
    });
}

#[test]
fn explanations_look_as_drawn() {
    look_as_drawn("store/testdata/explain.txt");
}

/// The same steps, with pictures of L0.
#[test]
fn l0_looks_as_drawn() {
    look_as_drawn("store/testdata/l0.txt");
}

/// The verdict says what the read of the same moment returned.
fn agree(explained: &GetExplanation, read: Option<&Item>) {
    match (&explained.verdict, read) {
        (Verdict::Present { seqno, expiry_ms, value_bytes }, Some(item)) => {
            assert_eq!(*seqno, item.seqno.0, "{explained}");
            assert_eq!(*expiry_ms, item.expiry.map(|expiry| expiry.time().0), "{explained}");
            assert_eq!(*value_bytes, item.value.len() as u64, "{explained}");
        }
        (Verdict::Merged { seqno, value_bytes }, Some(item)) => {
            assert_eq!(*seqno, item.seqno.0, "{explained}");
            assert_eq!(*value_bytes, item.value.len() as u64, "{explained}");
        }
        (Verdict::Present { .. } | Verdict::Merged { .. }, None) | (_, Some(_)) => {
            panic!("{explained}: {read:?}")
        }
        (_, None) => {}
    }
}

struct Run {
    random: SeededRng,
    shape: Shape,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
}

impl Run {
    fn write(&mut self, env: &SharedEnv, store: &Store) -> Result<()> {
        let now = env.wall_time();
        let count = self.random.below(4) + 1;
        self.model.write(store, &self.shape.changes(&mut self.random, now, count))
    }

    fn check_key(&mut self, env: &SharedEnv, store: &Store) -> Result<()> {
        let key = self.shape.key(&mut self.random);
        let now = env.wall_time();
        let which = self.random.below(self.snapshots.len() as u64 + 1) as usize;
        let (explained, read, model) = match self.snapshots.get(which) {
            Some((snapshot, model)) => {
                (snapshot.explain_get(&key)?, snapshot.get(&key, &GetOptions::default())?, model)
            }
            None => {
                (store.explain_get(&key)?, store.get(&key, &GetOptions::default())?, &self.model)
            }
        };
        let blocks: usize = explained.steps.iter().map(|step| step.blocks.len()).sum();
        assert_eq!(explained.totals.blocks(), blocks as u64, "{explained}");
        // Time may pass while others work.
        if env.wall_time() == now {
            agree(&explained, read.as_ref());
            let expected = model.get(&key, now).map(|value| value.len() as u64);
            let found = match explained.verdict {
                Verdict::Present { value_bytes, .. } | Verdict::Merged { value_bytes, .. } => {
                    Some(value_bytes)
                }
                _ => None,
            };
            assert_eq!(found, expected, "{explained}");
        }
        Ok(())
    }

    fn check_scan(&mut self, env: &SharedEnv, store: &Store) -> Result<()> {
        let (a, b) = (self.shape.key(&mut self.random), self.shape.key(&mut self.random));
        let range = KeyRange::new(a.clone().min(b.clone()), Some(a.max(b)));
        let limit = if self.random.one_in(2) { u64::MAX } else { self.random.below(20) };
        let reverse = self.random.one_in(2);
        let now = env.wall_time();
        let which = self.random.below(self.snapshots.len() as u64 + 1) as usize;
        let (explained, model) = match self.snapshots.get(which) {
            Some((snapshot, model)) => {
                (snapshot.explain_scan(range.clone(), limit, reverse)?, model)
            }
            None => (store.explain_scan(range.clone(), limit, reverse)?, &self.model),
        };
        let blocks = explained.levels.iter().map(|level| level.cached_blocks + level.file_blocks);
        assert_eq!(explained.totals.blocks(), blocks.sum::<u64>(), "{explained}");
        assert_eq!(explained.totals.sources(), explained.sources.len() as u64, "{explained}");
        if env.wall_time() != now {
            return Ok(());
        }
        let mut expected: Vec<_> =
            model.alive(now).into_iter().filter(|(key, _)| range.contains(key)).collect();
        if reverse {
            expected.reverse();
        }
        expected.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let bytes: usize = expected.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert_eq!(explained.key_count, expected.len() as u64, "{explained}");
        assert_eq!(explained.bytes, bytes as u64, "{explained}");
        // What was met is what was shown or hidden, what others had newer, and what lay behind.
        let newest: u64 = explained.sources.iter().map(|tally| tally.newest).sum();
        let outside = newest - explained.key_count - explained.hidden.total();
        assert_eq!(outside, 0, "{explained}");
        Ok(())
    }
}

fn run(seed: u64, steps: u32) -> Result<()> {
    simulate(seed, |env| {
        let mut random = SeededRng::new(seed);
        let mut options = small();
        options.table.filter_bits_per_key = [1, 10][random.below(2) as usize];
        options.table.compression = [Compression::None, Compression::Lz4][random.below(2) as usize];
        if random.one_in(3) {
            options.drange_boundaries = vec![b"k00100".to_vec()];
        }
        let shape = Shape::draw(&mut random);
        let mut run = Run { random, shape, model: Model::default(), snapshots: Vec::new() };
        let mut store = open(env, &options)?;
        for _ in 0..steps {
            match run.random.below(100) {
                0..60 => run.write(env, &store)?,
                60..85 => run.check_key(env, &store)?,
                85..90 => run.check_scan(env, &store)?,
                90..92 => run.snapshots.push((store.snapshot(), run.model.clone())),
                92 => drop(run.snapshots.pop()),
                93 => store.flush()?,
                94 if run.random.one_in(4) => store.compact(&KeyRange::all())?,
                95..98 => env.sleep(Duration::from_millis(run.random.below(3000))),
                98 if run.random.one_in(2) => {
                    run.snapshots.clear();
                    drop(store);
                    store = open(env, &options)?;
                }
                _ => {}
            }
        }
        Ok(())
    })
}

#[test]
fn the_verdict_is_the_answer_over_random_operations() {
    for seed in 0..40 {
        if let Err(error) = run(seed, 500) {
            panic!("seed {seed}: {error}");
        }
    }
}
