//! Disks that lie about their syncs (T7).
//!
//! A range on such a disk may go back when the power fails, even behind what it acknowledged as
//! synced. What it must not do is answer from a state that it never had: either the open refuses,
//! or the content is what some number of first steps left, and it stays that after further writes
//! and honest opens.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use terrace_base::KeyRange;
use terrace_engine::check::{CheckDepth, check_dir};
use terrace_engine::options::{Durability, Options};
use terrace_engine::repair::repair;
use terrace_engine::store::WriteOptions;
use terrace_engine::{Error, Result};
use terrace_env::{CrashPolicy, DiskImage, SeededRng, SharedEnv, SimEnv, SimOptions};

use crate::history::{Content, History, Op};
use crate::judge::content_of;
use crate::specimen::{DIR, draw_step, open, small_options};

/// What became of lying disks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LieCount {
    /// Runs.
    pub runs: u64,
    /// Syncs that did nothing.
    pub lies: u64,
    /// Runs after which nothing was missing.
    pub whole: u64,
    /// Runs after which a suffix of the writes was missing, and nothing else.
    pub prefix: u64,
    /// Runs after which the open, or a read, refused.
    pub refused: u64,
}

impl LieCount {
    /// Adds other runs.
    pub fn add(&mut self, other: &LieCount) {
        self.runs += other.runs;
        self.lies += other.lies;
        self.whole += other.whole;
        self.prefix += other.prefix;
        self.refused += other.refused;
    }
}

/// What is left of a run when the power has failed.
struct Crashed {
    disk: DiskImage,
    history: History,
    lies: u64,
}

/// One range on a lying disk, the power cut, and what comes after. Returns what was promised and
/// not kept, if anything.
pub fn run(seed: u64, count: &mut LieCount) -> Option<String> {
    count.runs += 1;
    let looked = catch_unwind(AssertUnwindSafe(|| {
        let mut random = SeededRng::stream(seed, 21);
        let options = Options { durability: Durability::Sync, ..small_options(&mut random) };
        let crashed = live(seed, &options, &mut random).map_err(|error| error.to_string())?;
        count.lies += crashed.lies;
        after(seed, &options, &crashed, &mut random, count)
    }));
    let text = match looked {
        Ok(Ok(())) => return None,
        Ok(Err(text)) => text,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            format!("a panic: {}", text.unwrap_or_default())
        }
    };
    Some(format!("lying disk, seed {seed}: {text}"))
}

/// A range on a lying disk, up to the power cut.
fn live(seed: u64, options: &Options, random: &mut SeededRng) -> Result<Crashed> {
    let sync_lie_one_in = [1, 2, 4, 10, 40][random.index(5)];
    let sim = SimOptions { sync_lie_one_in, try_read_miss_one_in: 0, ..SimOptions::new(seed) };
    SimEnv::run(sim, |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let mut history = History::default();
        let mut store = open(&env, Path::new(DIR), options)?;
        for number in 0..20 + random.index(120) {
            let step = draw_step(random, number);
            store.write(&History::batch(&step)?, &WriteOptions::default())?;
            history.steps.push(step);
            match random.below(80) {
                0..=3 => store.flush()?,
                4 => store.compact(&KeyRange::all())?,
                5..=6 => {
                    store.close()?;
                    drop(store);
                    store = open(&env, Path::new(DIR), options)?;
                }
                _ => {}
            }
        }
        if random.one_in(3) {
            store.close()?;
        }
        let policies = [CrashPolicy::SyncedOnly, CrashPolicy::Sectors, CrashPolicy::Pages];
        let disk = sim.disk().crash(policies[random.index(3)], seed);
        let lies = sim.lie_count();
        drop(store);
        Ok(Crashed { disk, history, lies })
    })
}

/// Opens what is left on an honest disk, writes more, opens again.
fn after(
    seed: u64,
    options: &Options,
    crashed: &Crashed,
    random: &mut SeededRng,
    count: &mut LieCount,
) -> std::result::Result<(), String> {
    let contents = crashed.history.contents();
    let sim = SimOptions {
        disk: crashed.disk.clone(),
        try_read_miss_one_in: 0,
        ..SimOptions::new(seed ^ 1)
    };
    SimEnv::run(sim, |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let dir = Path::new(DIR);
        let is_clean = check_dir(&env, dir, CheckDepth::Full, &mut |_, _| ())
            .is_ok_and(|report| report.is_clean());
        judge_repair(&env, options, &crashed.history, &contents)?;
        let opened = open(&env, dir, options).and_then(|store| Ok((content_of(&store)?, store)));
        let (content, store) = match opened {
            Ok(opened) => opened,
            Err(Error::Corruption(_)) if !is_clean => {
                count.refused += 1;
                return Ok(());
            }
            Err(error) => return Err(format!("refused, and the check is silent: {error}")),
        };
        match contents.iter().rposition(|prefix| *prefix == content) {
            Some(steps) if steps + 1 == contents.len() => count.whole += 1,
            Some(_) => count.prefix += 1,
            None => return Err("the content is no prefix of the writes: a hole".to_string()),
        }
        let goes_on = || -> Result<(Content, Content)> {
            let mut expected = content;
            let more: Vec<Op> = (0..10)
                .map(|number| {
                    let key = format!("k{:03}", random.below(140)).into_bytes();
                    Op::Put(key, format!("later {number}").into_bytes())
                })
                .collect();
            for op in &more {
                let step = std::slice::from_ref(op);
                store.write(&History::batch(step)?, &WriteOptions::default())?;
            }
            let later = History { steps: vec![more] };
            expected.extend(later.last());
            let disk = sim.disk().crash(CrashPolicy::SyncedOnly, 0);
            drop(store);
            let found = reopened(seed, options, disk)?;
            Ok((expected, found))
        };
        match goes_on() {
            Ok((expected, found)) if expected == found => Ok(()),
            Ok(_) => Err("what was written after the lie is not all there".to_string()),
            Err(Error::Corruption(_)) if !is_clean => Ok(()),
            Err(error) => Err(format!("writing on fails: {error}")),
        }
    })
}

/// A repair of what is left holds nothing that was never written, and says of every key that it
/// was lost, or shows what it was at some moment.
fn judge_repair(
    env: &SharedEnv,
    options: &Options,
    history: &History,
    contents: &[Content],
) -> std::result::Result<(), String> {
    let (dir, out) = (Path::new(DIR), Path::new("/out"));
    let report = match repair(env, dir, out, options, &mut |_, _| true) {
        Ok(report) => report,
        // The directory may have lost all its names.
        Err(Error::Invalid(_)) => return Ok(()),
        Err(error) => return Err(format!("the repair fails: {error}")),
    };
    let repaired = open(env, out, options).and_then(|store| content_of(&store));
    let repaired = repaired.map_err(|error| format!("the repaired range: {error}"))?;
    let written = history.written();
    for (key, _) in &written {
        let found = repaired.get(key);
        let is_old = contents.iter().any(|content| content.get(key) == found);
        if !is_old && !report.covers(key) {
            return Err(format!("the repair keeps silent about {}", key.escape_ascii()));
        }
    }
    match repaired.into_iter().find(|entry| !written.contains(entry)) {
        Some((key, _)) => Err(format!("the repair made a value up for {}", key.escape_ascii())),
        None => Ok(()),
    }
}

/// The content of the range on this disk; on a thread of its own, since a simulation runs in
/// another one.
fn reopened(seed: u64, options: &Options, disk: DiskImage) -> Result<Content> {
    let sim = SimOptions { disk, try_read_miss_one_in: 0, ..SimOptions::new(seed ^ 2) };
    SimEnv::run(sim, |sim| {
        let env: SharedEnv = sim;
        content_of(&open(&env, Path::new(DIR), options)?)
    })
}
