//! Explanations in the keys of the caller: the tree's keys without what stands in front of them.

use terrace_engine::explain::{GetExplanation, ScanExplanation, SlowOperation};
use terrace_engine::store::{DrangeStats, DrangesReport, L0Report, L0Slice, NextCut};

use crate::keyspace::split;

/// The caller's part of a stored key; nothing for the end of a keyspace.
fn asked(stored: &[u8]) -> Vec<u8> {
    split(stored).1.unwrap_or_default().to_vec()
}

/// The explanation of a get as its caller knows the key.
pub fn get_as_asked(explanation: GetExplanation) -> GetExplanation {
    GetExplanation {
        key: asked(&explanation.key),
        drange_start: asked(&explanation.drange_start),
        drange_end: explanation.drange_end.as_deref().map(asked),
        ..explanation
    }
}

/// The explanation of a scan as its caller knows the interval.
pub fn scan_as_asked(explanation: ScanExplanation) -> ScanExplanation {
    let start = asked(&explanation.start);
    let end = explanation.end.as_deref().and_then(|end| split(end).1).map(<[u8]>::to_vec);
    ScanExplanation { start, end, ..explanation }
}

/// The dranges as a caller knows their keys.
pub fn dranges_as_asked(report: DrangesReport) -> DrangesReport {
    let asked = |drange: DrangeStats| DrangeStats { start: asked(&drange.start), ..drange };
    DrangesReport { dranges: report.dranges.into_iter().map(asked).collect(), ..report }
}

/// L0 as a caller knows its keys.
pub fn l0_as_asked(report: L0Report) -> L0Report {
    let slices = report.slices.iter().map(|slice| L0Slice { start: asked(&slice.start) });
    let next_cut = report.next_cut.map(|cut| NextCut {
        start: asked(&cut.start),
        end: cut.end.as_deref().map(asked),
        ..cut
    });
    L0Report { slices: slices.collect(), next_cut, ..report }
}

/// A slow operation as its caller knows the key.
pub fn slow_as_asked(slow: SlowOperation) -> SlowOperation {
    let (key, explanation) = (asked(&slow.key), slow.explanation.map(get_as_asked));
    SlowOperation { key, explanation, ..slow }
}
