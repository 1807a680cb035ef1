//! Goal: the library keeps its promises on top of the engine's: keyspaces that are dropped and made
//! again, batches over them whole at every crash, transactions serializable with what they walked
//! over, backups under load of one moment, a compaction filter that nobody sees work. Method: the
//! clients of the other suites go through `Db`, at once and one alone, and the machine stops at
//! every change of the disk.

use terrace_sim::library;
use terrace_sim::suite::Suite;
use terrace_sim::tally::Tally;

/// Runs these seeds of a suite; what it counted.
fn run_all(suite: Suite, seeds: std::ops::Range<u64>) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        if let Err(failed) = suite.run(seed, &[], &mut tally) {
            panic!("{}, seed {seed}: {failed}", suite.name());
        }
    }
    println!("{}: {tally}", suite.name());
    tally
}

#[test]
fn clients_of_the_library_see_one_order_of_all_writes() {
    let tally = run_all(Suite::Library, 0..600);
    assert!(tally.of("schedule") > 300 && tally.of("option set") > 100, "{tally}");
}

#[test]
fn no_crash_of_the_library_breaks_a_promise() {
    let tally = run_all(Suite::LibraryCrashes, 0..24);
    assert!(tally.total() > 3000, "{tally}");
}

#[test]
fn the_workloads_of_the_library_do_what_they_are_for() {
    let mut text = String::new();
    for seed in 0..60 {
        text.push_str(&library::race(seed).to_string());
        text.push_str(&library::crash(seed).to_string());
    }
    for wanted in
        ["drop-keyspace ", "rename-keyspace ", "checkpoint", "transact ", "update ", "restart "]
    {
        let count = text.lines().filter(|line| line.trim().starts_with(wanted)).count();
        assert!(count > 20, "{wanted}: {count}");
    }
}
