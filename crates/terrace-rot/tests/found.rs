//! Goal: what a soak found stays found. Method: plant a fault of the same kind in the same place
//! again, by seed and number. (What a seed draws changes when the engine takes other steps.)

use terrace_rot::campaign::Patient;
use terrace_rot::fault::FaultKind;
use terrace_rot::judge::{Effort, Judge, Outcome};
use terrace_rot::specimen::{Ending, Medium};

/// What becomes of a fault of the soak; nothing that was promised may be broken.
fn outcome_of(seed: u64, number: usize, ending: Ending, expected: FaultKind) -> Outcome {
    let kinds = match ending {
        Ending::Closed => FaultKind::MISPLACED.to_vec(),
        Ending::Killed => [&FaultKind::ROT[..], &FaultKind::MISPLACED[..]].concat(),
    };
    let patient = Patient::build(seed, ending, Medium::Disk).expect("the disk is whole");
    let judge = Judge::new(patient.specimen()).expect("the range is whole");
    let (kind, damaged, changes) = patient.fault(&kinds, number);
    assert_eq!(kind, expected, "seed {seed}, fault {number}: the campaign draws otherwise");
    let verdict = judge.judge(&damaged, &changes, Effort::Repair);
    assert_eq!(verdict.violations, Vec::<String>::new(), "seed {seed}, fault {number}");
    verdict.outcome
}

/// Ids are the same in every database, so the second header named the id that it should.
#[test]
fn the_second_header_of_another_database_is_damage() {
    for (seed, number) in [(20262016, 190), (20262044, 51)] {
        let outcome = outcome_of(seed, number, Ending::Closed, FaultKind::ForeignBlock);
        assert_eq!(outcome, Outcome::Damage, "seed {seed}");
    }
}

/// A segment has its size before it is begun: a short one is no tail that a crash tore.
#[test]
fn a_short_last_segment_is_no_torn_tail() {
    let outcome = outcome_of(20262016, 26, Ending::Killed, FaultKind::Truncate);
    assert_eq!(outcome, Outcome::Damage);
}

/// The page held the second header, too, which was durable: it cannot be another one.
#[test]
fn an_old_page_over_the_second_header_is_no_torn_tail() {
    let outcome = outcome_of(20262001, 186, Ending::Killed, FaultKind::OldPage);
    assert_eq!(outcome, Outcome::Damage);
}

/// Only the records of the last segment said how far it was durable, and all of them are gone: the
/// disk is one that a crash before its first record leaves.
#[test]
fn a_last_segment_that_is_as_never_begun_is_undecidable() {
    let faults = [
        (20262003, 125, FaultKind::StaleFile),
        (20262012, 68, FaultKind::Misplaced),
        (20262012, 88, FaultKind::StaleFile),
    ];
    for (seed, number, kind) in faults {
        let outcome = outcome_of(seed, number, Ending::Killed, kind);
        assert_eq!(outcome, Outcome::Undecidable, "seed {seed}, fault {number}");
    }
}

/// Without a manifest the log alone says whether it was closed, and its end was gone as well.
#[test]
fn a_repair_without_a_manifest_does_not_vouch_for_a_log_without_its_closing_record() {
    for (seed, number) in [(20261341, 80), (20261576, 105)] {
        let outcome = outcome_of(seed, number, Ending::Closed, FaultKind::SwapBetweenFiles);
        assert_eq!(outcome, Outcome::Damage, "seed {seed}");
    }
}
