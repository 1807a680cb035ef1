//! Goal: the oracle objects to what must not be. Method: a record of a run that went well is
//! changed by hand.

use terrace_base::WallTime;

use super::*;
use crate::run::{Case, Scene, run};

const CASE: &str = "seed 3\nclient\n  put a 9#1\n  put b 9#2 ttl=60000\n  get a\n  delete a\n  \
                    get a\n  scan - - forward 9\n  update b if-present { put b 9#3 }\n";

fn record() -> Record {
    let case: Case = CASE.parse().expect("well formed");
    run(&case, Scene::default()).expect("nothing fails").record
}

fn verdict(record: &Record) -> Result<(), Violation> {
    let found = orders(record, 0, None)?;
    let model = model_of(&Model::default(), &found[0]);
    judge(record, &found[0], &model, Tolerance::default())
}

/// What the oracle says when `change` has been at the first event that it likes.
fn objection(mut change: impl FnMut(&mut What) -> bool) -> String {
    let mut record = record();
    assert!(verdict(&record).is_ok());
    assert!(record.events.iter_mut().any(|event| change(&mut event.what)), "nothing to change");
    verdict(&record).expect_err("this must not be").to_string()
}

#[test]
fn a_lost_write_is_seen() {
    let text = objection(|what| match what {
        What::Got { seen, .. } => seen.found.take().is_some(),
        _ => false,
    });
    assert!(text.contains("was not there"), "{text}");
}

#[test]
fn a_deleted_key_that_returns_is_seen() {
    let ghost = Found::of(1, None, b"ghost");
    let text = objection(|what| match what {
        What::Got { seen, .. } if seen.found.is_none() => seen.found.replace(ghost).is_none(),
        _ => false,
    });
    assert!(text.contains("at no number"), "{text}");
}

#[test]
fn another_expiry_and_a_missing_row_are_seen() {
    let text = objection(|what| match what {
        What::Scanned { rows, .. } => rows.first_mut().is_some_and(|(_, found)| {
            found.expiry = Some(WallTime(1));
            true
        }),
        _ => false,
    });
    assert!(text.contains("until 1"), "{text}");
    let text = objection(|what| match what {
        What::Scanned { rows, .. } if !rows.is_empty() => {
            rows.clear();
            true
        }
        _ => false,
    });
    assert!(text.contains("0 keys instead of 1"), "{text}");
}

#[test]
fn a_number_given_out_twice_and_a_gap_are_seen() {
    for last in [1, 7] {
        let text = objection(|what| match what {
            What::Write(write) if write.outcome == Outcome::Written { last: 2 } => {
                write.outcome = Outcome::Written { last };
                true
            }
            _ => false,
        });
        assert!(text.contains("given out") || text.contains("no gap"), "{text}");
    }
}

#[test]
fn a_refusal_without_a_reason_is_seen() {
    let refused = Outcome::Refused { error: Kind::Io, text: "no reason".to_string() };
    let text = objection(|what| match what {
        What::Write(write) if write.outcome == Outcome::Written { last: 4 } => {
            write.outcome = refused.clone();
            true
        }
        _ => false,
    });
    assert!(text.contains("no reason"), "{text}");
}

#[test]
fn promises_follow_the_class_and_the_sync() {
    let record = record();
    let found = orders(&record, 0, None).expect("one order");
    let at = std::time::Duration::ZERO;
    let promise = |class, io| promise_at(&record, &found[0], 0, class, io, at);
    use terrace_engine::options::Durability::{Buffered, Interval};
    assert_eq!(promise(Buffered, 0), Promise::default());
    assert_eq!(promise(Buffered, u64::MAX).kill, 4);
    let long_after = std::time::Duration::from_secs(9);
    let class = Interval(std::time::Duration::from_millis(1));
    assert_eq!(promise_at(&record, &found[0], 0, class, u64::MAX, long_after).cut, 4);
}
