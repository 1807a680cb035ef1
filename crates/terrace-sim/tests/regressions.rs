//! Bugs that other stores had, each under its label. Each test says what happened there and who
//! would have lost what; the case is as small as it can be and still has the shape.

use std::collections::BTreeSet;

use terrace_env::{Fault, FaultEffect, FaultErrno, FaultPlan, Operation};
use terrace_sim::crash::{Component, Thoroughness, enumerate};
use terrace_sim::metamorphic::cases;
use terrace_sim::oracle::{Kind, Outcome, Record, What};
use terrace_sim::run::Case;
use terrace_sim::sweep::run_with;
use terrace_sim::tally::Tally;
use terrace_sim::workload::{Coverage, Generator, Purpose, SHAPES, Shape};

/// Every moment, and every third recovery is crashed itself.
const ALL: Thoroughness = Thoroughness { again_in: 3, ..Thoroughness::USUAL };

fn case(text: &str) -> Case {
    text.parse().unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn crash_everywhere(text: &str, how: Thoroughness) -> Tally {
    let mut tally = Tally::default();
    if let Err(failed) = enumerate(&case(text), how, &mut tally) {
        panic!("{failed}");
    }
    tally
}

/// A store of one node acknowledged writes before they were durable, because with one node nobody
/// was there to wait for. A power cut took what clients had been told was safe.
#[test]
fn r05_unsynced_ack_nothing_is_acknowledged_before_its_sync() {
    for class in ["sync", "buffered", "interval:1"] {
        for clients in [1, 3] {
            let lists = "client\n  put a 9#1 sync\n  put b 9#2\n  delete a sync\n".repeat(clients);
            let tally = crash_everywhere(&format!("seed 5\nsetup class={class}\n{lists}"), ALL);
            assert!(tally.of("power cut, synced only") > 20, "{tally}");
        }
    }
}

/// A crash in the middle of a compaction, or of what cleans up after it, made a store go back to a
/// state before writes that had been acknowledged.
#[test]
fn r06_crash_during_compaction_never_goes_back() {
    let text = "seed 6\nsetup class=sync\nclient\n  put a 300#1\n  put b 300#2\n  flush\n  delete a\n  \
                put c 300#3\n  flush\n  put b 300#4\n  compact - -\n  delete-range b d\n  put d 9#5\n  \
                compact - -\n  restart close\n  put a 9#6\n";
    for component in [Component::Tables, Component::Manifest] {
        let tally = crash_everywhere(text, Thoroughness { only: Some(component), ..ALL });
        assert!(tally.of("killed") > 10 && tally.of("crash in a recovery") > 10, "{tally}");
    }
}

/// A sync failed once; the store tried it again and was told that all was well, though the system
/// had dropped the pages with the failure. What was acknowledged after that was nowhere.
#[test]
fn r11_fsync_gate_a_failed_sync_ends_acknowledgements_until_the_next_open() {
    let text = "seed 11\nsetup class=sync mapped=false\nclient\n  put a 9#1\n  put b 9#2\n  flush\n  \
                put c 9#3\n  put a 9#4\n  compact - -\n  put d 9#5\n  restart drop\n  put e 9#6\n  \
                put a 9#7\n";
    let mut failures = 0;
    for operation in [Operation::Sync, Operation::SyncDir] {
        for nth in 1.. {
            let fault = Fault::nth(operation, nth, FaultEffect::Error(FaultErrno::Io));
            let done = match run_with(&case(text), &FaultPlan::one(fault)) {
                Ok(done) => done,
                Err(failed) => panic!("{operation:?} {nth}: {failed}"),
            };
            if done.injected.is_empty() {
                break;
            }
            failures += 1;
            check_silence(&done.record);
        }
    }
    assert!(failures > 20, "{failures} failed syncs");
}

/// Once a call says that the range is poisoned, no write is acknowledged until it is opened anew.
fn check_silence(record: &Record) {
    let mut is_poisoned = false;
    for event in &record.events {
        match &event.what {
            What::Opened { .. } => is_poisoned = false,
            What::Failed { error: Kind::Poisoned, .. } => is_poisoned = true,
            What::Write(write) => match &write.outcome {
                Outcome::Written { .. } => {
                    assert!(!is_poisoned, "acknowledged after a failed sync: {write:?}");
                }
                Outcome::Unknown | Outcome::Refused { error: Kind::Poisoned, .. } => {
                    is_poisoned = true;
                }
                _ => {}
            },
            _ => {}
        }
    }
}

/// A new file was synced and its directory was not: after a power cut the file had no name, and a
/// manifest named a table that was not there.
#[test]
fn r12_dir_entry_loss_every_named_file_is_there_after_a_power_cut() {
    let text = "seed 12\nsetup class=sync memtable=16384\nclient\n  put a 3000#1\n  put b 3000#2\n  \
                flush\n  put a 3000#4\n  compact - -\n  put c 3000#6\n  flush\n  restart close\n  \
                put d 9#8\n  flush\n";
    let tally = crash_everywhere(text, ALL);
    assert!(tally.of("power cut, synced only") > 60, "{tally}");
    assert!(tally.of("power cut, any sectors") > 60, "{tally}");
}

/// Two writes were under way; the later one reached the disk and the earlier one did not, and
/// recovery kept the later one. A reader saw an effect without its cause.
#[test]
fn r13_hole_in_log_what_is_left_is_a_prefix() {
    for setup in ["", "mapped=false", "dranges=62,63 switch=1", "class=interval:1 switch=2"] {
        let lists: String = ["a", "b", "c"]
            .iter()
            .map(|key| {
                format!(
                    "client\n  put {key} 700#1\n  batch {{ put a 9#2; put b 9#3; put c 9#4 }}\n  \
                     put {key} 2000#5\n  put b 600#6 sync\n  delete {key}\n"
                )
            })
            .collect();
        let tally = crash_everywhere(&format!("seed 13\nsetup {setup}\n{lists}"), ALL);
        assert!(tally.of("power cut, any sectors") > 60, "{setup}: {tally}");
    }
}

/// Four fuzzers missed a bug for years, because all of them made their queries in one way. Seeds
/// vary what a generator does; here its shape varies too, and this says that each one is reached.
#[test]
fn r15_narrow_generator_every_shape_is_drawn() {
    let mut coverage = Coverage::default();
    let mut forms = BTreeSet::new();
    for seed in 0..60 {
        coverage.merge(&cases(seed, 400, 1).1);
        for purpose in [Purpose::Steps, Purpose::Crash, Purpose::Race] {
            let mut random = terrace_env::SeededRng::stream(seed, 59);
            let shape = Shape::draw(&mut random, purpose, 512, 4096);
            forms.insert(format!("{purpose:?} keys {:?}", shape.key_form));
            forms.insert(format!("{purpose:?} values {:?}", shape.value_form));
            let list = Generator::new(seed, 0, shape).list(50);
            assert_eq!(list.len(), 50);
        }
    }
    assert_eq!(coverage.missing(SHAPES), [""; 0], "{coverage}");
    // Six forms of keys for each purpose; six of values, of which races leave two out.
    assert_eq!(forms.iter().filter(|form| form.contains("keys")).count(), 18, "{forms:?}");
    assert!(forms.iter().filter(|form| form.contains("values")).count() >= 14, "{forms:?}");
}
