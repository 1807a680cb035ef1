//! Goal: an option changes how fast an answer comes, never the answer. Method: one list of
//! operations under several random option sets, all judged by one model.

#![allow(clippy::disallowed_methods, reason = "two threads share the seeds of real simulations")]

use terrace_sim::metamorphic::{Report, sweep};
use terrace_sim::run::FAR;
use terrace_sim::workload::SHAPES;

/// What runs must reach beside the shapes that the generator draws.
const REACHED: &[&str] = &[
    "flush",
    "compaction",
    "table moved down",
    "cut that left a part of a row",
    "entry dropped by a compaction",
    "level 2 or deeper",
];

/// Runs the lists of these seeds.
fn run_all(seeds: impl Iterator<Item = u64>) -> Report {
    let mut report = Report::default();
    for seed in seeds {
        if let Err(failed) = sweep(seed, 2000, 3, &mut report) {
            let case = terrace_sim::reduce::reduce(&failed.case, 1500, |case| {
                terrace_sim::metamorphic::check(case).is_err()
            });
            panic!("seed {seed}: {}\n{case}", failed.violation);
        }
    }
    report
}

/// Two threads share the seeds, since this is the only test of its program.
#[test]
fn lists_of_operations_give_the_same_answers_under_every_option_set() {
    let mut report = Report::default();
    std::thread::scope(|scope| {
        let halves = [0, 1].map(|first| scope.spawn(move || run_all((first..200).step_by(2))));
        for half in halves {
            report.merge(&half.join().expect("the seed that failed is printed above"));
        }
    });
    let Report { lists, runs, operations, coverage } = &report;
    println!("{lists} lists, {runs} runs, {operations} operations; {coverage}");
    assert_eq!((*lists, *runs, *operations), (200, 600, 1_200_000));
    assert_eq!(coverage.missing(SHAPES), [""; 0], "the generator is too narrow");
    assert_eq!(coverage.missing(&FAR), [""; 0], "the line is not at every level");
    assert_eq!(coverage.missing(REACHED), [""; 0], "the runs stay too shallow");
}
