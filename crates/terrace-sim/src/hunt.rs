//! Plants a bug and looks whether the suites find it.
//!
//! # Why
//! A harness that finds nothing stands in front of a good store, or is blind. So bugs of the kinds
//! that stores really had are planted, one at a time, and every suite gets its turn; a bug that
//! none of them finds within the budget is a hole in the harness.
//!
//! Means something in builds with the feature `planted-bugs` only.

use terrace_env::PlantedBug;

use crate::failed::Failed;
use crate::suite::Suite;
use crate::tally::Tally;

/// How often each suite runs in one round: the quick ones more often.
const TURNS: &[(Suite, u64)] = &[
    (Suite::Schedules, 40),
    (Suite::OptionSets, 2),
    (Suite::Trials, 2),
    (Suite::NamedCrashes, 2),
    (Suite::FailingCalls, 2),
    (Suite::RandomCrashes, 1),
    (Suite::Library, 10),
    (Suite::LibraryCrashes, 1),
];

/// A planted bug that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The suite that found it.
    pub suite: Suite,
    /// The seed under which it was found.
    pub seed: u64,
    /// Number of seeds of all suites that were tried until then.
    pub tries: u64,
    /// What it showed.
    pub failed: Failed,
}

/// Looks for `bug` with all suites, with seeds from `seed` on, in at most `rounds` rounds.
#[must_use]
pub fn hunt(bug: PlantedBug, seed: u64, rounds: u64) -> Option<Found> {
    let mut tally = Tally::default();
    let mut tries = 0;
    for round in 0..rounds {
        for (suite, turns) in TURNS {
            for turn in 0..*turns {
                let seed = seed + round * turns + turn;
                tries += 1;
                if let Err(failed) = suite.run(seed, &[bug], &mut tally) {
                    return Some(Found { suite: *suite, seed, tries, failed });
                }
            }
        }
    }
    None
}
