//! Explanations in the keys of the caller: the tree's keys without what stands in front of them.

use terrace_engine::explain::{GetExplanation, ScanExplanation, SlowOperation};
use terrace_engine::store::{DrangesReport, L0Report};

use crate::keyspace::split;

/// The caller's part of a stored key; nothing for the end of a keyspace.
fn asked(stored: &[u8]) -> Vec<u8> {
    split(stored).1.unwrap_or_default().to_vec()
}

/// The explanation of a get as its caller knows the key.
pub fn get_as_asked(mut explanation: GetExplanation) -> GetExplanation {
    for key in [&mut explanation.key, &mut explanation.drange_start] {
        *key = asked(key);
    }
    explanation.drange_end = explanation.drange_end.as_deref().map(asked);
    explanation
}

/// The explanation of a scan as its caller knows the interval.
pub fn scan_as_asked(mut explanation: ScanExplanation) -> ScanExplanation {
    explanation.start = asked(&explanation.start);
    let end = explanation.end.as_deref();
    explanation.end = end.and_then(|end| split(end).1).map(<[u8]>::to_vec);
    explanation
}

/// The dranges as a caller knows their keys.
pub fn dranges_as_asked(mut report: DrangesReport) -> DrangesReport {
    for drange in &mut report.dranges {
        drange.start = asked(&drange.start);
    }
    report
}

/// L0 as a caller knows its keys.
pub fn l0_as_asked(mut report: L0Report) -> L0Report {
    for slice in &mut report.slices {
        slice.start = asked(&slice.start);
    }
    if let Some(cut) = &mut report.next_cut {
        cut.start = asked(&cut.start);
        cut.end = cut.end.as_deref().map(asked);
    }
    report
}

/// A slow operation as its caller knows the key.
pub fn slow_as_asked(mut slow: SlowOperation) -> SlowOperation {
    slow.key = asked(&slow.key);
    slow.explanation = slow.explanation.map(get_as_asked);
    slow
}
