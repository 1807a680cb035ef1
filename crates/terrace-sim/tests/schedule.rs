//! Goal: clients at once see one order of all writes. Method: small workloads of several threads
//! under many schedules, with turns taken away at latches too.

#![allow(clippy::disallowed_methods, reason = "two threads share the seeds of real simulations")]

use terrace_sim::schedule::run_seed;
use terrace_sim::workload::Coverage;

/// Runs these seeds; what they reached.
fn run_all(seeds: impl Iterator<Item = u64>) -> Coverage {
    let mut coverage = Coverage::default();
    for seed in seeds {
        if let Err(failed) = run_seed(seed, &mut coverage) {
            panic!("seed {seed}: {failed}");
        }
    }
    coverage
}

/// Two threads share the seeds, since this is the only test of its program.
#[test]
fn ten_thousand_schedules_show_one_order_of_all_writes() {
    let mut coverage = Coverage::default();
    std::thread::scope(|scope| {
        let halves = [0, 1].map(|first| scope.spawn(move || run_all((first..10_000).step_by(2))));
        for half in halves {
            coverage.merge(&half.join().expect("the seed that failed is printed above"));
        }
    });
    println!("{coverage}");
    for point in ["flush", "compaction", "writer made to wait", "iterator that turns round"] {
        assert!(coverage.count(point) > 100, "{point}: {coverage}");
    }
}
