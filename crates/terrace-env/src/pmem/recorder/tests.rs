//! Goal: an exploration finds what is wrong with a protocol, and nothing wrong with a right one.
//! Method: rows are appended by the right protocol and by ones that leave out a step, each in the
//! way that real stores did, and a judge holds every state against the rows that were acknowledged.

use super::*;
use crate::PMEM_PAGE_BYTES;

const AREA_BYTES: u64 = 2 * PMEM_PAGE_BYTES;
/// Number of lines of the place of a row.
const ROW_LINES: usize = 8;

/// What of the protocol is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Right,
    /// The header becomes visible before the payload is stored (R18).
    HeaderFirst,
    /// The payload is stored first, but nothing makes it durable before the header.
    NoFenceBetween,
    /// The payload is fenced and was not flushed.
    NoFlush,
    /// The last line of the payload is not flushed.
    LastLineNotFlushed,
    /// The row is acknowledged before its header is durable.
    NoFenceAtEnd,
    /// The header is two words.
    WideHeader,
}

use Protocol::{
    HeaderFirst, LastLineNotFlushed, NoFenceAtEnd, NoFenceBetween, NoFlush, Right, WideHeader,
};

fn payload(row: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (row * 31 + at / 8 + 1) as u8).collect()
}

fn row_at(row: usize) -> usize {
    (1 + row * ROW_LINES) * LINE_BYTES
}

/// The area with the count of rows in its first word, and each row's payload in its place.
fn append(pmem: &Pmem, row: usize, bytes: usize, protocol: Protocol) {
    let mut span = pmem.claim(0, AREA_BYTES).unwrap();
    let count = row as u64 + 1;
    if protocol == HeaderFirst {
        span.publish(0, count);
    }
    span.store(row_at(row), &payload(row, bytes));
    match protocol {
        NoFlush => {}
        LastLineNotFlushed => span.flush(row_at(row), bytes - LINE_BYTES),
        _ => span.flush(row_at(row), bytes),
    }
    if protocol != NoFenceBetween {
        pmem.fence().unwrap();
    }
    match protocol {
        HeaderFirst => {}
        WideHeader => {
            span.store(0, &[count.to_le_bytes(), (!count).to_le_bytes()].concat());
        }
        _ => span.publish(0, count),
    }
    span.flush(0, 16);
    if protocol != NoFenceAtEnd {
        pmem.fence().unwrap();
    }
}

fn record(rows: usize, bytes: usize, protocol: Protocol) -> PmemRecorder {
    let recorder = PmemRecorder::new(AREA_BYTES);
    for row in 0..rows {
        append(&recorder.pmem(), row, bytes, protocol);
        recorder.mark(row as u64 + 1);
    }
    recorder
}

/// Whether an area has the acknowledged rows, or the one under way too, and all of each row.
fn judge(crash: &PmemCrash<'_>, bytes: usize, protocol: Protocol) -> Result<(), String> {
    let span = crash.pmem.claim(0, AREA_BYTES).unwrap();
    let word = |at: usize| u64::from_le_bytes(span[at..at + 8].try_into().unwrap());
    let (count, acknowledged) = (word(0), crash.mark.unwrap_or(0));
    if count != acknowledged && count != acknowledged + 1 {
        return Err(format!("{count} rows, {acknowledged} acknowledged"));
    }
    if protocol == WideHeader && count != 0 && word(8) != !count {
        return Err("torn header".to_owned());
    }
    for row in 0..count as usize {
        if span[row_at(row)..][..bytes] != payload(row, bytes) {
            return Err(format!("row {row} of {count} is torn"));
        }
    }
    Ok(())
}

fn explore(
    rows: usize,
    bytes: usize,
    protocol: Protocol,
    domain: PmemDomain,
) -> Result<PmemReport, PmemViolation> {
    let exploration = PmemExploration { domain, seed: 1 };
    let recording = record(rows, bytes, protocol).recording();
    recording.explore(exploration, |crash| judge(crash, bytes, protocol))
}

#[test]
fn nothing_is_wrong_with_a_row_whose_header_comes_last() {
    for (rows, bytes) in [(3, 8), (5, 100), (2, 512)] {
        for domain in [PmemDomain::Adr, PmemDomain::Eadr] {
            let report = explore(rows, bytes, Right, domain).unwrap();
            assert!(report.states > report.points / 2, "{report:?}");
        }
    }
    let report = explore(2, 512, Right, PmemDomain::Adr).unwrap();
    // For each row: nothing, any of the other subsets of its 8 lines, and tears; then its header.
    assert!(report.states > 2 * 256, "{report:?}");
    assert_eq!(report.unfenced_lines_max, 8);
}

#[test]
fn every_broken_protocol_is_found() {
    let broken = [
        (HeaderFirst, "row 0 of 1 is torn"),
        (NoFenceBetween, "row 0 of 1 is torn"),
        (NoFlush, "row 0 of 1 is torn"),
        (LastLineNotFlushed, "row 0 of 1 is torn"),
        (NoFenceAtEnd, "0 rows, 1 acknowledged"),
        (WideHeader, "torn header"),
    ];
    for (protocol, message) in broken {
        let violation = explore(3, 200, protocol, PmemDomain::Adr).unwrap_err();
        assert_eq!(violation.message, message, "{protocol:?}: {violation}");
        assert!(violation.to_string().contains("seed 1"), "{violation}");
    }
}

#[test]
fn with_durable_caches_order_is_enough_and_tears_are_not() {
    for protocol in [NoFenceBetween, NoFlush, LastLineNotFlushed, NoFenceAtEnd] {
        explore(3, 200, protocol, PmemDomain::Eadr).unwrap();
    }
    let violation = explore(3, 200, HeaderFirst, PmemDomain::Eadr).unwrap_err();
    assert_eq!(violation.message, "row 0 of 1 is torn");
    let violation = explore(3, 200, WideHeader, PmemDomain::Eadr).unwrap_err();
    assert_eq!(violation.message, "torn header");
    assert!(violation.state.ends_with("torn store"), "{violation}");
}

#[test]
fn one_line_of_many_that_is_missing_is_found() {
    // 30 lines without a fence, and then one that says they are there.
    let recorder = PmemRecorder::new(PMEM_PAGE_BYTES);
    let pmem = recorder.pmem();
    let mut span = pmem.claim(0, PMEM_PAGE_BYTES).unwrap();
    for line in 1..=30 {
        span.store(line * LINE_BYTES, &[line as u8]);
        if line != 17 {
            span.flush(line * LINE_BYTES, 1);
        }
    }
    pmem.fence().unwrap();
    span.publish(0, 1);
    span.flush(0, 8);
    pmem.fence().unwrap();
    assert_eq!(recorder.unfenced_lines(), 1);
    let exploration = PmemExploration { domain: PmemDomain::Adr, seed: 2 };
    let mut wrong = 0;
    let report = recorder.recording().explore(exploration, |crash| {
        let span = crash.pmem.claim(0, PMEM_PAGE_BYTES).unwrap();
        let missing: Vec<usize> =
            (1..=30).filter(|&line| span[0] == 1 && span[line * LINE_BYTES] == 0).collect();
        assert!(missing.is_empty() || missing == [17], "{missing:?}");
        wrong += usize::from(!missing.is_empty());
        Ok(())
    });
    let report = report.unwrap();
    assert_eq!((wrong, report.unfenced_lines_max), (1, 30));
    assert!(
        report.states > 4096 + 3 * 30,
        "every subset of the first 12, then bounded: {report:?}"
    );
}

#[test]
fn a_line_may_be_as_after_any_store_to_it() {
    let recorder = PmemRecorder::new(PMEM_PAGE_BYTES);
    let pmem = recorder.pmem();
    let mut span = pmem.claim(0, PMEM_PAGE_BYTES).unwrap();
    for word in 1..=3 {
        span.publish(0, word);
    }
    span.publish(64, 1);
    drop(span);
    let exploration = PmemExploration { domain: PmemDomain::Adr, seed: 3 };
    let mut seen = std::collections::BTreeSet::new();
    let judge = |crash: &PmemCrash<'_>| {
        let span = crash.pmem.claim(0, PMEM_PAGE_BYTES).unwrap();
        seen.insert((span[0], span[64]));
        Ok(())
    };
    let report = recorder.recording().explore(exploration, judge).unwrap();
    assert_eq!(seen.len(), 8, "{seen:?}");
    assert_eq!(report.states, 8, "none is judged twice");
}

#[test]
fn a_state_that_was_right_is_judged_again_after_a_mark() {
    let recorder = PmemRecorder::new(PMEM_PAGE_BYTES);
    recorder.pmem().claim(0, PMEM_PAGE_BYTES).unwrap().publish(0, 1);
    let exploration = PmemExploration { domain: PmemDomain::Adr, seed: 7 };
    let judge = |crash: &PmemCrash<'_>| {
        let word = crash.pmem.claim(0, PMEM_PAGE_BYTES).unwrap()[0];
        if crash.mark.is_some() && word == 0 { Err("lost".to_owned()) } else { Ok(()) }
    };
    let report = recorder.recording().explore(exploration, judge).unwrap();
    assert_eq!((report.points, report.states), (2, 2));
    recorder.mark(0);
    let violation = recorder.recording().explore(exploration, judge).unwrap_err();
    assert_eq!(
        (violation.message.as_str(), violation.mark, violation.events),
        ("lost", Some(0), 2)
    );
}

#[test]
fn a_fence_is_for_the_lines_of_its_own_thread() {
    let recorder = PmemRecorder::new(PMEM_PAGE_BYTES);
    let pmem = recorder.pmem();
    let mut span = pmem.claim(0, PMEM_PAGE_BYTES).unwrap();
    span.store(0, b"mine");
    span.flush(0, 4);
    let other = pmem.clone();
    std::thread::spawn(move || other.fence().unwrap()).join().unwrap();
    assert_eq!(recorder.unfenced_lines(), 1);
    pmem.fence().unwrap();
    assert_eq!(recorder.unfenced_lines(), 0);
}

#[test]
fn flushes_without_a_use_are_counted() {
    let recorder = record(2, 100, Right);
    let counts = recorder.counts();
    assert_eq!(counts, PmemCounts { stores: 4, flushes: 6, needless_flushes: 0, fences: 4 });
    let pmem = recorder.pmem();
    pmem.claim(0, AREA_BYTES).unwrap().flush(0, 65);
    assert_eq!(recorder.counts(), PmemCounts { flushes: 8, needless_flushes: 2, ..counts });
    assert_eq!(record(1, 100, NoFlush).unfenced_lines(), 2);
}

#[test]
fn a_recovery_that_stores_leaves_the_next_state_alone() {
    let bytes = 200;
    let recording = record(3, bytes, Right).recording();
    let exploration = PmemExploration { domain: PmemDomain::Adr, seed: 4 };
    let untouched = recording.explore(exploration, |crash| judge(crash, bytes, Right)).unwrap();
    let report = recording.explore(exploration, |crash| {
        judge(crash, bytes, Right)?;
        let mut span = crash.pmem.claim(0, AREA_BYTES).unwrap();
        span.store(10, &[0xff; 3000]);
        span.publish(0, 77);
        span.flush(0, 8);
        crash.pmem.fence().map_err(|error| error.to_string())
    });
    assert_eq!(report, Ok(untouched));
}

#[test]
fn what_a_crash_left_can_be_recorded_again() {
    let left = record(2, 100, Right);
    let content = left.pmem().claim(0, AREA_BYTES).unwrap().to_vec();
    let recorder = PmemRecorder::over(&content);
    recorder.mark(2);
    append(&recorder.pmem(), 2, 100, NoFenceBetween);
    let exploration = PmemExploration { domain: PmemDomain::Adr, seed: 5 };
    let explored = recorder.recording().explore(exploration, |crash| judge(crash, 100, Right));
    assert_eq!(explored.unwrap_err().message, "row 2 of 3 is torn");
}

#[test]
#[should_panic(expected = "gives its claims back")]
fn a_judge_that_keeps_a_claim_is_noticed() {
    let recording = record(1, 8, Right).recording();
    let mut kept = Vec::new();
    let exploration = PmemExploration { domain: PmemDomain::Adr, seed: 6 };
    let _ = recording.explore(exploration, |crash| {
        kept.extend(crash.pmem.claim(0, PMEM_PAGE_BYTES));
        Ok(())
    });
}
