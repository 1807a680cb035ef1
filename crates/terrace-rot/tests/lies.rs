//! Goal: a disk that lies about its syncs sets a range back to a prefix of its writes, or the open
//! refuses. Method: seeded ranges on such disks, a power cut, and honest opens after it.

#![allow(clippy::disallowed_methods, reason = "two threads share the seeds of real simulations")]

use terrace_rot::lies::{LieCount, run};

/// Runs these seeds; what was counted, and what was found.
fn run_all(seeds: impl Iterator<Item = u64>) -> (LieCount, Vec<String>) {
    let mut count = LieCount::default();
    let findings = seeds.filter_map(|seed| run(seed, &mut count)).collect();
    (count, findings)
}

/// Two threads share the seeds, since this is the only test of its program.
#[test]
fn a_lying_disk_leaves_a_prefix_or_a_refusal() {
    let mut count = LieCount::default();
    let mut findings = Vec::new();
    std::thread::scope(|scope| {
        let halves = [0, 1].map(|first| scope.spawn(move || run_all((first..2000).step_by(2))));
        for half in halves {
            let (counted, mut found) = half.join().expect("a run does not panic");
            count.add(&counted);
            findings.append(&mut found);
        }
    });
    println!("{count:?}");
    for finding in &findings {
        println!("FOUND: {finding}");
    }
    assert!(findings.is_empty(), "see above");
    assert!(count.lies > 1000 && count.prefix > 0 && count.refused > 0, "{count:?}");
}
