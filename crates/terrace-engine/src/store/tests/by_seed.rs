//! Tests that run once for each of many seeds, from which all of a run follows.
//!
//! `TERRACE_TEST_SEED` is the first seed and `TERRACE_TEST_SEEDS` their number, if they are set.

use std::collections::BTreeMap;
use std::panic::RefUnwindSafe;

use terrace_env::{SeededRng, SharedEnv, SimEnv, SimOptions};

use crate::Result;

/// How often something was done in a run.
pub type Tally = BTreeMap<&'static str, u64>;

/// What the runs of a test came to together.
pub struct Total {
    runs: u64,
    pub tally: Tally,
}

impl Total {
    /// Each of these must have been done more than `times` times, if there were as many runs as a
    /// test makes by itself.
    pub fn assert_done(&self, what: &[&'static str], times: u64, runs: u64) {
        if self.runs < runs {
            return;
        }
        for what in what {
            let done = self.tally.get(what).copied().unwrap_or(0);
            assert!(done > times, "{what}: {:?}", self.tally);
        }
    }
}

/// Runs the test for each seed, `count` of them unless the environment asks for another number.
/// Those that failed are printed, and the test fails when all have run. `things`: what a run is.
pub fn each_seed(things: &str, count: u64, run: impl Fn(u64) -> Tally + RefUnwindSafe) -> Total {
    let runs = number_from("TERRACE_TEST_SEEDS", count);
    let (mut tally, mut failed) = (Tally::new(), 0);
    for seed in seeds(runs) {
        match std::panic::catch_unwind(|| run(seed)) {
            Ok(of_run) => {
                of_run
                    .into_iter()
                    .for_each(|(what, times)| *tally.entry(what).or_default() += times);
            }
            Err(_) => {
                println!("failed: seed {seed} (TERRACE_TEST_SEED={seed} TERRACE_TEST_SEEDS=1)");
                failed += 1;
            }
        }
    }
    println!("{runs} {things}: {tally:?}");
    assert_eq!(failed, 0, "{things} that failed");
    Total { runs, tally }
}

/// Whether a run is not blind: each bug, planted by itself, must make one of `count` runs fail.
#[cfg(feature = "planted-bugs")]
pub fn hunt<'a>(
    things: &str,
    count: u64,
    bugs: impl IntoIterator<Item = &'a terrace_env::PlantedBug>,
    run: impl Fn(u64, terrace_env::PlantedBug) -> Tally + RefUnwindSafe,
) {
    let mut missed = Vec::new();
    for bug in bugs {
        let fails = |seed: &u64| std::panic::catch_unwind(|| run(*seed, *bug)).is_err();
        match seeds(count).find(fails) {
            Some(seed) => println!("{}: found under seed {seed}", bug.name()),
            None => missed.push(bug.name()),
        }
    }
    assert!(missed.is_empty(), "not found by {count} {things}: {missed:?}");
}

fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let first = number_from("TERRACE_TEST_SEED", 0);
    println!("{count} seeds from {first} on");
    (0..count).map(move |index| first.wrapping_add(index))
}

/// A number that the environment of the test has, or another one.
/// Runs `act` in one simulation, in which no call fails, with what the seed draws; the tally that
/// it makes.
pub fn one_simulation(
    seed: u64,
    sim: SimOptions,
    act: impl FnOnce(&SharedEnv, &mut SeededRng, &mut Tally, &str) -> Result<()> + Send,
) -> Tally {
    let mut tally = Tally::new();
    let mut random = SeededRng::new(seed);
    let done = SimEnv::run(sim, |env| {
        let env: SharedEnv = env;
        act(&env, &mut random, &mut tally, &format!("seed {seed}"))
    });
    done.expect("no call fails");
    tally
}

fn number_from(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| {
        text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number"))
    })
}
