//! Goal: clients at once see one order of all writes. Method: small workloads of several threads
//! under many schedules, with turns taken away at latches too.

use terrace_sim::schedule::run_seed;
use terrace_sim::workload::Coverage;

#[test]
fn ten_thousand_schedules_show_one_order_of_all_writes() {
    let mut coverage = Coverage::default();
    for seed in 0..10_000 {
        if let Err(failed) = run_seed(seed, &mut coverage) {
            panic!("seed {seed}: {failed}");
        }
    }
    println!("{coverage}");
    for point in ["flush", "compaction", "writer made to wait", "iterator that turns round"] {
        assert!(coverage.count(point) > 100, "{point}: {coverage}");
    }
}
