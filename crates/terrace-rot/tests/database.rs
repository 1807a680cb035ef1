//! Goal: damage to the files of a range is found, never answered from, and repaired to a subset of
//! what was written. Method: plant one fault at a time in seeded ranges.

use terrace_rot::campaign::{Plan, Tally, damage};
use terrace_rot::fault::{FaultKind, changes};
use terrace_rot::judge::{Effort, Judge};
use terrace_rot::specimen::{Ending, Medium, Specimen};

fn run(name: &str, seeds: std::ops::Range<u64>, ending: Ending, medium: Medium, plan: &Plan) {
    let mut tally = Tally::default();
    for seed in seeds {
        tally.add(damage(seed, ending, medium, plan));
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
        fault_count: 300,
        read_one_in: 4,
        repair_one_in: 10,
    };
    run("rot, closed", 0..20, Ending::Closed, Medium::Disk, &plan);
}

#[test]
fn what_is_torn_or_misplaced_in_a_closed_range_is_found_or_dead() {
    let plan = Plan {
        kinds: FaultKind::MISPLACED.to_vec(),
        fault_count: 200,
        read_one_in: 4,
        repair_one_in: 5,
    };
    run("misplaced, closed", 100..140, Ending::Closed, Medium::Disk, &plan);
}

/// A manifest that ends at the end of an edit is a whole one, only older: the log knows better.
#[test]
fn every_cut_of_a_manifest_or_of_current_is_found() {
    let mut cuts = 0;
    for seed in 300..303 {
        let specimen =
            Specimen::build(seed, Ending::Closed, Medium::Disk).expect("the disk is whole");
        let judge = Judge::new(&specimen).expect("the range is whole");
        for (path, bytes) in specimen.files() {
            let name = path.to_string_lossy();
            if !name.ends_with(".manifest") && !name.ends_with("CURRENT") {
                continue;
            }
            for length in 0..bytes {
                let mut damaged = specimen.disk.clone();
                damaged.truncate(&path, length).expect("the file is there");
                let changes = changes(&specimen.disk, &damaged);
                let effort = if length % 16 == 0 { Effort::Repair } else { Effort::Check };
                let verdict = judge.judge(&damaged, &changes, effort);
                let place = format!("seed {seed}: {name} cut to {length}");
                assert_eq!(verdict.violations, Vec::<String>::new(), "{place}");
                cuts += 1;
            }
        }
    }
    println!("{cuts} cuts");
}

#[test]
fn damage_after_a_crash_leaves_a_prefix_and_is_listed() {
    let kinds = [&FaultKind::ROT[..], &FaultKind::MISPLACED[..]].concat();
    let plan = Plan { kinds, fault_count: 150, read_one_in: 2, repair_one_in: 4 };
    run("any, killed", 200..220, Ending::Killed, Medium::Disk, &plan);
}

#[test]
fn damage_to_rows_and_logs_in_memory_is_found_or_dead() {
    let kinds = [&FaultKind::ROT[..], &FaultKind::MISPLACED[..]].concat();
    let plan = Plan { kinds, fault_count: 150, read_one_in: 2, repair_one_in: 4 };
    run("any, closed, in memory", 400..415, Ending::Closed, Medium::Memory, &plan);
    run("any, killed, in memory", 500..515, Ending::Killed, Medium::Memory, &plan);
}
