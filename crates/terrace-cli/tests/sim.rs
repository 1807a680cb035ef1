//! Goal: `terrace sim` says the same thing for the same seed, and something else for another one.
//! Method: run it.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::Output;

use common::terrace;

fn sim(line: &str) -> Output {
    terrace().arg("sim").args(line.split_whitespace()).output().unwrap()
}

fn report(line: &str) -> String {
    let output = sim(line);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_another_run() {
    let line = "--seed 7 --steps 1500 --clients 3";
    let first = report(line);
    assert_eq!(first, report(line));
    let other = report("--seed 8 --steps 1500 --clients 3");
    let traces = |report: &str| report.matches("trace ").count();
    assert!(traces(&first) > 2 && traces(&other) > 2, "{first}");
    let last = |report: &str| report.lines().rfind(|l| l.contains("trace")).map(str::to_owned);
    assert_ne!(last(&first), last(&other));
    assert!(first.ends_with("nothing was violated\n"), "{first}");
}

#[test]
fn the_first_line_of_a_report_gives_it_again() {
    let first = report("--seed 21 --steps 900");
    let line = first.lines().next().unwrap();
    let (words, options) = line.split_once(" --options ").unwrap();
    let (_, words) = words.split_once(" sim ").unwrap();
    let again = terrace()
        .arg("sim")
        .args(words.split_whitespace())
        .args(["--options", options.trim_matches('\'')])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(again.stdout).unwrap(), first);
}

#[test]
fn faults_are_those_that_were_asked_for() {
    let none = report("--seed 3 --steps 800 --faults none");
    assert!(!none.contains("killed") && !none.contains("Error"), "{none}");
    let cuts = report("--seed 3 --steps 3000 --faults power-cut");
    assert!(cuts.contains("power cut") && !cuts.contains("killed"), "{cuts}");
}

#[test]
fn wrong_words_are_refused_with_what_there_is() {
    let output = sim("--faults fire");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("failed-sync"));
    assert_eq!(sim("--options class=safe").status.code(), Some(2));
    assert_eq!(sim("--clients 0").status.code(), Some(2));
}

#[test]
#[cfg(feature = "planted-bugs")]
fn a_broken_promise_is_reported_and_says_what_to_do() {
    let output = sim("--seed 1 --options planted=skip-manifest-sync --faults power-cut");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("VIOLATION"));
    assert!(String::from_utf8(output.stderr).unwrap().contains("keep the report"));
}
