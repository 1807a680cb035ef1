//! Rows of a range that nobody writes to.
//!
//! Rows wait for more rows, so that a cut rewrites little for what it takes. Where nobody writes
//! none come, and what they cost reads they would cost for as long as the range rests. So they go
//! down then, where that rewrites no more for what it takes than a cut that is due would.

use std::collections::BTreeSet;

use super::l0::{MET_RATIO_MAX, cut_bounds, priced};
use crate::compaction::decision::Compaction;
use crate::compaction::levels::{LevelShape, LevelTargets};
use crate::compaction::taken::Taken;
use crate::l0::{CutEnd, Cuts};
use crate::version::Version;

/// The cut that rewrites least for what it takes; none if each would rewrite too much, or if the
/// rows lie in a container, which is there to hold them.
#[must_use]
pub fn of_rested(version: &Version, shape: &LevelShape, taken: &Taken) -> Option<Compaction> {
    let base = LevelTargets::of(version, shape).base();
    let bounds = cut_bounds(version, shape, base, taken);
    let Cuts::ByPrice(cuts) = version.l0().policy().propose_cuts(&bounds) else { return None };
    let is_worthwhile = |(_, chosen, own_bytes, met_bytes): &(_, Compaction, u64, u64)| {
        let is_cheap = *met_bytes <= own_bytes.saturating_mul(MET_RATIO_MAX);
        // One row above nothing would be one run after it as before.
        let helps = *met_bytes > 0 || row_count(version, chosen) > 1;
        helps && is_cheap && taken.is_free(chosen)
    };
    let (_, chosen, _, _) = priced(version, base, cuts.iter()).into_iter().find(is_worthwhile)?;
    Some(Compaction { cut_end: Some(CutEnd::Rested), ..chosen })
}

/// How many rows a cut takes something from.
fn row_count(version: &Version, cut: &Compaction) -> usize {
    let taken = version.l0().live().iter().filter(|live| live.overlaps(&cut.slice));
    taken.map(|live| live.row).collect::<BTreeSet<_>>().len()
}
