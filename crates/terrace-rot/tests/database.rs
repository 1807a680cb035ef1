//! Goal: damage to the files of a range is found, never answered from, and repaired to a subset of
//! what was written. Method: plant one fault at a time in seeded ranges.

use terrace_rot::campaign::{Plan, Tally, damage};
use terrace_rot::fault::FaultKind;
use terrace_rot::specimen::Ending;

fn run(name: &str, seeds: std::ops::Range<u64>, ending: Ending, plan: &Plan) {
    let mut tally = Tally::default();
    for seed in seeds {
        tally.add(damage(seed, ending, plan));
    }
    println!("{name}\n{tally}");
    assert!(tally.findings.is_empty(), "{name}: see above");
    for (kind, count) in &tally.kinds {
        assert!(count.planted > 0, "no fault of kind {kind} made a difference");
    }
}

#[test]
fn rot_in_a_closed_range_is_found_or_dead() {
    let plan = Plan {
        kinds: FaultKind::ROT.to_vec(),
        fault_count: 200,
        read_one_in: 4,
        repair_one_in: 10,
    };
    run("rot, closed", 0..15, Ending::Closed, &plan);
}

#[test]
fn what_is_torn_or_misplaced_in_a_closed_range_is_found_or_dead() {
    let plan = Plan {
        kinds: FaultKind::MISPLACED.to_vec(),
        fault_count: 200,
        read_one_in: 4,
        repair_one_in: 5,
    };
    run("misplaced, closed", 100..125, Ending::Closed, &plan);
}

#[test]
fn damage_after_a_crash_leaves_a_prefix_and_is_listed() {
    let kinds = [&FaultKind::ROT[..], &FaultKind::MISPLACED[..]].concat();
    let plan = Plan { kinds, fault_count: 150, read_one_in: 2, repair_one_in: 4 };
    run("any, killed", 200..212, Ending::Killed, &plan);
}
