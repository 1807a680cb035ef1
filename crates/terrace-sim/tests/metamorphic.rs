//! One list of operations under several option sets gives the same answers.

use terrace_sim::metamorphic::{Report, sweep};

#[test]
fn lists_of_operations_give_the_same_answers_under_every_option_set() {
    let mut report = Report::default();
    let n: u64 = std::env::var("N").map_or(20, |n| n.parse().unwrap());
    for seed in 0..n {
        if let Err(failed) = sweep(seed, 2000, 3, &mut report) {
            let text = failed.case.to_string();
            let text: String = text.lines().take(4).collect::<Vec<_>>().join("\n");
            panic!("seed {seed}: {}\n{}", failed.violation, text);
        }
    }
    println!(
        "{} lists, {} runs, {} operations; {}",
        report.lists, report.runs, report.operations, report.coverage
    );
}
