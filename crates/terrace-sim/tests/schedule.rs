use terrace_sim::schedule::run_seed;
use terrace_sim::workload::Coverage;

#[test]
fn schedules() {
    let mut coverage = Coverage::default();
    let n: u64 = std::env::var("N").map_or(1000, |n| n.parse().unwrap());
    let from: u64 = std::env::var("FROM").map_or(0, |n| n.parse().unwrap());
    for seed in from..from + n {
        if let Err(failed) = run_seed(seed, &mut coverage) {
            panic!("seed {seed}: {}\n{}", failed.violation, failed.case);
        }
    }
    println!("{n} {coverage}");
}
