//! How large each level should be. Pure.
//!
//! # Why
//! With fixed sizes from the top the last level is mostly half empty, and the levels above it hold
//! a large share of the data a second time. So the sizes are counted from the largest level up:
//! each level above it may hold `level_ratio` times less, and a cut out of L0 goes straight to the
//! first level that is worth having, the *base*. Levels above the base are empty; then about nine
//! tenths of the data lie in the last level.
//!
//! ```text
//!   L0   ▒▒▒▒                              L0   ▒▒▒▒
//!   L1 … L5  (empty)                       L1 … L4  (empty)
//!                                          L5   ▒▒▒▒▒▒          base
//!   L6   ▒▒▒▒▒▒▒▒▒▒▒▒   base               L6   ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒
//!   up to 4 × the size of L0's cuts        above it
//! ```
//!
//! *Source:* the dynamic level sizes of RocksDB (Dong et al., CIDR 2017). *Differs:* a level is
//! worth having only when what lies below it is more than `DIRECT_RATIO` times what a cut brings.
//! With c bytes a cut and d bytes below, going straight there writes 1 + d/c bytes for each; by way
//! of a level of d/10 it is 2 + d/10c + d/(d/10 + c), and the two meet where d is between 4 and 5
//! times c.

use terrace_base::{LEVEL_MAX, LevelNo};

use crate::options::Options;
use crate::version::Version;
use crate::vlog::SpaceBound;

/// See the head of this file.
const DIRECT_RATIO: u64 = 4;

/// The wanted shape of the tree.
#[derive(Clone, Debug)]
pub struct LevelShape {
    /// About what the cuts of all of L0 bring: levels that would be smaller are not made.
    pub level_bytes_base: u64,
    /// Each deeper level is this many times larger.
    pub level_ratio: u64,
    /// About how many bytes a cut out of L0 takes at most, those that it meets below included.
    pub cut_bytes: u64,
    /// How much of what tables name in value files may be dead.
    pub values: SpaceBound,
    /// Whether L0 is to become smaller rather than cheap to read: the local disk has no room for
    /// what a merge of its rows would write before it deletes them.
    pub l0_lacks_room: bool,
    /// What a cut costs the scans that pay for it, in percent of what it is taken to cost.
    pub scan_price_percent: u32,
}

impl LevelShape {
    /// The shape that the options ask for.
    #[must_use]
    pub fn of(options: &Options) -> LevelShape {
        let Options { level_bytes_base, level_ratio, .. } = *options;
        let cut_bytes = if options.cut_bytes == 0 { u64::MAX } else { options.cut_bytes };
        LevelShape {
            level_bytes_base,
            level_ratio,
            cut_bytes,
            values: SpaceBound::of(options),
            l0_lacks_room: false,
            scan_price_percent: options.research.scan_price_percent.unwrap_or(100),
        }
    }
}

/// How much each level of a version should hold at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelTargets {
    base: LevelNo,
    /// Of L1 and so on.
    bytes_max: [u64; LEVEL_MAX.0 as usize],
}

impl LevelTargets {
    /// The targets for a version.
    #[must_use]
    pub fn of(version: &Version, shape: &LevelShape) -> LevelTargets {
        let mut bytes = [0; LEVEL_MAX.0 as usize];
        for (level, run) in version.runs() {
            bytes[usize::from(level.0) - 1] = run.bytes();
        }
        LevelTargets::new(bytes, shape)
    }

    /// The targets for levels that hold these bytes, L1 first.
    #[must_use]
    pub fn new(bytes: [u64; LEVEL_MAX.0 as usize], shape: &LevelShape) -> LevelTargets {
        let largest = bytes.iter().copied().max().unwrap_or(0);
        let mut bytes_max = [0; LEVEL_MAX.0 as usize];
        let mut base = bytes.len() - 1;
        let mut target = largest;
        bytes_max[base] = u64::MAX;
        let direct = shape.level_bytes_base.saturating_mul(DIRECT_RATIO);
        loop {
            // A level that holds something stays until it is clearly too much: data around the
            // limit would otherwise be poured to and fro.
            let is_kept = base > 0 && bytes[base - 1] > 0 && target > direct / 2;
            if base == 0 || target <= direct && !is_kept {
                break;
            }
            base -= 1;
            target /= shape.level_ratio.max(2);
            bytes_max[base] = target.max(1);
        }
        LevelTargets { base: LevelNo(base as u8 + 1), bytes_max }
    }

    /// Where cuts out of L0 go.
    #[must_use]
    pub fn base(&self) -> LevelNo {
        self.base
    }

    /// How many bytes a level (1 or deeper) should hold at most: 0 above the base.
    #[must_use]
    pub fn bytes_max(&self, level: LevelNo) -> u64 {
        self.bytes_max[usize::from(level.0) - 1]
    }

    /// How full a level is that holds `bytes`: at 1 and above some of it should go down. A level
    /// that should not be there at all is no more pressing than one that is just full: its tables
    /// are in nobody's way.
    #[must_use]
    pub fn pressure(&self, level: LevelNo, bytes: u64) -> f64 {
        match self.bytes_max(level) {
            0 if bytes > 0 => 1.0,
            0 => 0.0,
            target => bytes as f64 / target as f64,
        }
    }
}

/// About how many bytes compactions have to write until the tree has its wanted shape, if nothing
/// more comes: what the level below each excess makes of it, from the top down.
#[must_use]
pub fn debt_bytes(version: &Version, shape: &LevelShape) -> u64 {
    let targets = LevelTargets::of(version, shape);
    let bytes_of = |level: LevelNo| version.run(level).bytes();
    let from_l0 = version.l0().policy().due_bytes();
    let mut debt = if from_l0 > 0 { from_l0 + bytes_of(targets.base()) } else { 0 };
    // What comes down into the level that is looked at.
    let mut arriving = 0;
    for (level, run) in version.runs().filter(|(level, _)| *level < LEVEL_MAX) {
        arriving += if level == targets.base() { from_l0 } else { 0 };
        let held = run.bytes() + arriving;
        arriving = held.saturating_sub(targets.bytes_max(level));
        if arriving > 0 {
            let below = bytes_of(LevelNo(level.0 + 1));
            let met = (below as f64 * (arriving as f64 / held as f64)) as u64;
            debt = debt.saturating_add(arriving).saturating_add(met);
        }
    }
    debt
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: LevelShape = LevelShape {
        scan_price_percent: 100,
        level_bytes_base: 100,
        level_ratio: 10,
        cut_bytes: 100,
        values: SpaceBound::NONE,
        l0_lacks_room: false,
    };

    fn base(bytes: [u64; 6]) -> u8 {
        LevelTargets::new(bytes, &SHAPE).base().0
    }

    #[test]
    fn the_base_rises_as_the_last_level_grows() {
        assert_eq!(base([0; 6]), 6);
        assert_eq!(base([0, 0, 0, 0, 0, 400]), 6);
        assert_eq!(base([0, 0, 0, 0, 0, 401]), 5);
        assert_eq!(base([0, 0, 0, 0, 0, 4000]), 5);
        assert_eq!(base([0, 0, 0, 0, 0, 4010]), 4);
        assert_eq!(base([0, 0, 0, 0, 0, u64::MAX]), 1);
    }

    #[test]
    fn a_level_stays_until_it_is_clearly_too_much() {
        assert_eq!(base([0, 0, 0, 0, 30, 300]), 5);
        assert_eq!(base([0, 0, 0, 0, 30, 200]), 6);
        let targets = LevelTargets::new([0, 0, 0, 0, 30, 200], &SHAPE);
        assert_eq!(targets.bytes_max(LevelNo(5)), 0);
        assert!(targets.pressure(LevelNo(5), 30) >= 1.0, "what should not be there goes down");
        assert!(targets.pressure(LevelNo(5), 0) < 1.0);
    }

    #[test]
    fn the_levels_above_the_last_hold_a_ninth_of_it_at_most() {
        let targets = LevelTargets::new([0, 0, 0, 0, 0, 100_000], &SHAPE);
        let above: u64 = (1..=5).map(|level| targets.bytes_max(LevelNo(level))).sum();
        assert_eq!(targets.bytes_max(LevelNo(5)), 10_000);
        assert!(above <= 100_000 / 9, "{above}");
        assert!(targets.pressure(LevelNo(6), u64::MAX / 2) < 1.0, "the last level is never due");
    }

    /// A range that was built with fixed sizes from the top: everything sinks.
    #[test]
    fn levels_above_the_base_are_due() {
        let targets = LevelTargets::new([50, 500, 3000, 0, 0, 0], &SHAPE);
        assert_eq!(targets.base().0, 5);
        assert!(targets.pressure(LevelNo(1), 50) >= 1.0);
        assert!(targets.pressure(LevelNo(3), 3000) >= 1.0);
    }
}
