//! Goal: no crash takes what was promised, leaves a hole, or makes a range that does not open.
//! Method: every change of the disk of many workloads, every way in which a disk may be left.

use terrace_sim::crash::{Component, Thoroughness, enumerate, named, random};
use terrace_sim::tally::Tally;

/// Of this number of moments one is crashed: every workload has hundreds, and more workloads differ
/// more than more moments of one.
const HOW: Thoroughness = Thoroughness { moments_in: 3, again_in: 60, ..Thoroughness::USUAL };

/// What a test of this file must have counted of each kind of state.
const KINDS: &[&str] = &[
    "killed",
    "killed in a write",
    "power cut, synced only",
    "power cut, any sectors",
    "power cut, any pages",
    "crash in a recovery",
    "crash at depth 3 and more",
];

fn check_counts(tally: &Tally, least: u64) {
    println!("{} crash states: {tally}", tally.total());
    for kind in KINDS {
        assert!(tally.of(kind) > 500, "{kind}: {tally}");
    }
    assert!(tally.total() >= least, "{tally}");
}

#[test]
fn no_crash_of_a_named_workload_breaks_a_promise() {
    let mut tally = Tally::default();
    for named in named() {
        let mut own = Tally::default();
        for seed in 0..4 {
            if let Err(failed) = enumerate(&named.case(seed), HOW, &mut own) {
                panic!("{}, seed {seed}: {failed}", named.name);
            }
        }
        println!("{}: {} crash states", named.name, own.total());
        tally.merge(&own);
    }
    check_counts(&tally, 20_000);
}

#[test]
fn no_crash_of_a_random_workload_breaks_a_promise() {
    let mut tally = Tally::default();
    for seed in 0..145 {
        let how = Thoroughness { moments_in: 6, ..HOW };
        if let Err(failed) = enumerate(&random(seed), how, &mut tally) {
            panic!("seed {seed}: {failed}");
        }
    }
    check_counts(&tally, 20_000);
}

#[test]
fn no_crash_while_one_component_writes_breaks_a_promise() {
    for component in Component::ALL {
        let mut tally = Tally::default();
        let how = Thoroughness { only: Some(*component), moments_in: 1, ..HOW };
        for seed in 1000..1008 {
            if let Err(failed) = enumerate(&random(seed), how, &mut tally) {
                panic!("{component:?}, seed {seed}: {failed}");
            }
        }
        println!("{component:?}: {} crash states: {tally}", tally.total());
        assert!(tally.total() > 500, "{component:?}: {tally}");
    }
}
