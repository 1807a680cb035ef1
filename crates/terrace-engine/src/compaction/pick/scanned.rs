//! Rows that scans have paid for.
//!
//! Each row of L0 that a scan has to merge makes it slower, and a cut that takes the rows away
//! costs work, too. Which of the two is less depends on how many scans are yet to come, and nobody
//! knows that. So a slice is cut once scans have spent on its rows what the cut costs: whatever
//! comes after, waiting and cutting together cost at most twice what the better of "cut at once"
//! and "never cut" would have cost. *Source:* the ski rental problem (Karlin et al., Algorithmica
//! 1988).
//!
//! It is decided slice by slice, so that hot keys are cut often, and the rest is left alone.

use std::time::Duration;

use terrace_base::LevelNo;

use super::l0::{cut_bounds, of_cut};
use crate::compaction::ScanCosts;
use crate::compaction::decision::Compaction;
use crate::compaction::levels::{LevelShape, LevelTargets};
use crate::compaction::taken::Taken;
use crate::l0::{Cut, CutBounds, CutEnd};
use crate::version::Version;

/// About how many bytes such a cut takes at most, those that it meets below included: so that what
/// is scanned often need not wait until all that lies beside it has paid.
const SLICE_BYTES: u64 = 64 << 20;

/// What a cut costs for each byte that it reads, in time of one core: 0.85 ns were measured where
/// blocks are not compressed, and the disk is taken for as dear.
const NANOS_PER_BYTE: u64 = 2;

/// The cut whose price scans have paid most times over; none if they have paid none.
#[must_use]
pub fn of_scanned(
    version: &Version,
    shape: &LevelShape,
    taken: &Taken,
    costs: &ScanCosts,
) -> Option<Compaction> {
    if costs.is_empty() {
        return None;
    }
    let base = LevelTargets::of(version, shape).base();
    let bounds = cut_bounds(version, shape, base, taken);
    let bounds = CutBounds { bytes: bounds.bytes.min(SLICE_BYTES), ..bounds };
    let paid = |cut: Cut| {
        let chosen = of_cut(version, &Cut { end: CutEnd::Scanned, ..cut }, base);
        let spent = costs.within(&chosen.slice);
        let times = spent.div_duration_f64(price(&chosen, shape.scan_price_percent));
        (times >= 1.0 && taken.is_free(&chosen)).then_some((times, chosen))
    };
    let cuts = version.l0().policy().propose_cuts(&bounds).all();
    let paid = cuts.filter_map(paid).max_by(|(one, _), (other, _)| one.total_cmp(other));
    paid.map(|(_, chosen)| chosen)
}

/// What a cut costs scans.
fn price(cut: &Compaction, percent: u32) -> Duration {
    let bytes = cut.bytes_from(LevelNo(0)) + cut.bytes_from(cut.output_level);
    let nanos = u128::from(bytes) * u128::from(NANOS_PER_BYTE) * u128::from(percent) / 100;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX).max(1))
}
