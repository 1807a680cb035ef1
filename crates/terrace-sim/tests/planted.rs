//! Goal: the harness is not blind. Method: bugs are planted, one at a time, and each must be found
//! by some suite within a budget.
//!
//! A run plants four at random. `TERRACE_PLANTED` chooses others: names separated by commas, or
//! `all`; `TERRACE_SEED` the seed.

use std::env::var;

use terrace_env::{PlantedBug, SeededRng, SimOptions};
use terrace_sim::hunt::hunt;
use terrace_sim::suite::Suite;
use terrace_sim::tally::Tally;

/// Rounds in which a bug must be found. The shyest one takes about five on average.
const ROUNDS: u64 = 60;

/// How many are planted if nobody chooses.
const DRAWN: usize = 4;

fn chosen(random: &mut SeededRng) -> Vec<PlantedBug> {
    match var("TERRACE_PLANTED").as_deref() {
        Ok("all") => PlantedBug::of_one_machine(),
        Ok(names) => names
            .split(',')
            .map(|name| PlantedBug::parse(name).unwrap_or_else(|| panic!("no bug {name:?}")))
            .collect(),
        Err(_) => {
            let mut left = PlantedBug::of_one_machine();
            (0..DRAWN).map(|_| left.swap_remove(random.index(left.len()))).collect()
        }
    }
}

/// A seed of its own for every run, so that in time every bug has its turn.
fn drawn_seed() -> u64 {
    use terrace_env::Env as _;
    terrace_env::RealEnv::new().random_u64() >> 40
}

#[test]
fn planted_bugs_are_found() {
    let seed = var("TERRACE_SEED").map_or_else(
        |_| drawn_seed(),
        |seed| seed.parse().unwrap_or_else(|_| panic!("{seed:?} is no seed")),
    );
    println!("TERRACE_SEED={seed}");
    let mut random = SeededRng::stream(seed, 58);
    let mut missed = Vec::new();
    for bug in chosen(&mut random) {
        match hunt(bug, seed, ROUNDS) {
            Some(found) => println!(
                "{}: found by {} under seed {}, after {} seeds: {}",
                bug.name(),
                found.suite.name(),
                found.seed,
                found.tries,
                found.failed.violation
            ),
            None => missed.push(bug.name()),
        }
    }
    assert!(missed.is_empty(), "seed {seed}: not found: {}", missed.join(", "));
}

/// Those of transactions, backups and filters are the engine's, and other suites find some of them
/// too; but whoever programs with the library must not depend on that.
#[test]
fn bugs_of_keyspaces_transactions_backups_and_filters_are_found_through_the_library() {
    for bug in [
        PlantedBug::ReuseKeyspaceNumber,
        PlantedBug::CommitForgetsIntervals,
        PlantedBug::CheckpointMissesTheLog,
        PlantedBug::FilterAboveTheOldestReader,
        PlantedBug::IteratorSeesTheFilter,
    ] {
        let mut tally = Tally::default();
        let mut failures = (0..1000).filter_map(|seed| {
            let failed = Suite::Library.run(seed, &[bug], &mut tally).err()?;
            Some((seed, failed.violation))
        });
        let (seed, violation) = failures.next().unwrap_or_else(|| panic!("{bug:?}: not found"));
        println!("{}: found under seed {seed}: {violation}", bug.name());
    }
}

#[test]
fn there_are_enough_bugs_and_none_is_planted_by_default() {
    assert!(PlantedBug::ALL.len() >= 12);
    assert!(SimOptions::new(1).planted.is_empty());
}
