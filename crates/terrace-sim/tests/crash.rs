use terrace_sim::crash::{Thoroughness, enumerate, named, random};
use terrace_sim::tally::Tally;

#[test]
fn named_workloads() {
    let mut tally = Tally::default();
    for named in named() {
        let before = tally.total();
        for seed in 0..2 {
            if let Err(failed) = enumerate(&named.case(seed), Thoroughness::USUAL, &mut tally) {
                panic!("{} seed {seed}: {}\n{}", named.name, failed.violation, failed.case);
            }
        }
        println!("{} {}", named.name, tally.total() - before);
    }
    println!("{} {tally}", tally.total());
}

#[test]
fn random_workloads() {
    let mut tally = Tally::default();
    let n: u64 = std::env::var("N").map_or(20, |n| n.parse().unwrap());
    let from: u64 = std::env::var("FROM").map_or(0, |n| n.parse().unwrap());
    for seed in from..from + n {
        if let Err(failed) = enumerate(&random(seed), Thoroughness::USUAL, &mut tally) {
            panic!("seed {seed}: {}\n{}", failed.violation, failed.case);
        }
    }
    println!("{} {tally}", tally.total());
}
