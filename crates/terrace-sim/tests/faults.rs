//! Goal: no failing call, and no sequence of failing calls and crashes, breaks a promise. Method:
//! single calls of many workloads fail in every way; trials mix failures with crashes.

use terrace_sim::suite::Suite;
use terrace_sim::sweep::{case, sweep};
use terrace_sim::tally::Tally;
use terrace_sim::trial::{Trial, TrialOptions, Trouble};

#[test]
fn any_single_call_may_fail_in_any_way() {
    let mut tally = Tally::default();
    for seed in 0..40 {
        if let Err(failed) = sweep(&case(seed), seed, 31, &mut tally) {
            panic!("seed {seed}: {failed}");
        }
    }
    println!("{} failed calls: {tally}", tally.total());
    assert!(tally.total() >= 2000, "{tally}");
    for kind in ["EIO", "ENOSPC", "EINTR", "EMFILE", "short write, EIO", "delay of 3 s"] {
        let count = tally.iter().filter(|(name, _)| name.ends_with(kind)).count();
        assert!(count > 0, "{kind}: {tally}");
    }
    for call in ["Sync with EIO", "SyncDir with EIO", "Rename with EIO", "Write with ENOSPC"] {
        assert!(tally.of(call) > 0, "{call}: {tally}");
    }
}

#[test]
fn rounds_of_failures_and_crashes_break_no_promise() {
    let mut tally = Tally::default();
    for seed in 0..300 {
        if let Err(failed) = Suite::Trials.run(seed, &[], &mut tally) {
            panic!("seed {seed}: {failed}");
        }
    }
    println!("{tally}");
    assert!(tally.of("acknowledged write") > 100_000, "{tally}");
}

#[test]
fn a_trial_is_decided_by_its_seed() {
    let run = |seed, steps| {
        let mut trial = Trial::new(TrialOptions { steps, ..TrialOptions::new(seed) });
        let mut report = trial.setup().to_string();
        while let Some(round) = trial.round().unwrap_or_else(|failed| panic!("{failed}")) {
            report.push_str(&format!("\n{round}"));
        }
        report
    };
    assert_eq!(run(5, 1500), run(5, 1500));
    assert_ne!(run(5, 1500), run(6, 1500));
}

#[test]
fn troubles_and_suites_have_names() {
    for trouble in Trouble::ALL {
        assert_eq!(Trouble::parse(trouble.name()), Some(*trouble));
    }
    for suite in Suite::ALL {
        assert_eq!(Suite::parse(suite.name()), Some(*suite));
    }
}
