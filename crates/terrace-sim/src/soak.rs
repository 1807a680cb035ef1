//! Runs every suite in turn for as long as there is time, with seeds that nobody ran before.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::failed::Failed;
use crate::suite::Suite;
use crate::tally::Tally;

/// How often a failing case is run again to make it smaller.
const REDUCER_TRIES: u64 = 2000;

/// What a soak came to, as the JSON says it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Soak {
    /// The first seed of every suite.
    pub base_seed: u64,
    /// How long it ran, in seconds.
    pub seconds: u64,
    /// Each suite by its name.
    pub suites: BTreeMap<&'static str, Share>,
    /// Violations.
    pub findings: Vec<Finding>,
    /// Planted bugs, each with what found it; `None` if nothing did. Empty in builds without them.
    pub planted: BTreeMap<String, Option<Caught>>,
}

/// What one suite did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Share {
    /// Seeds that it ran, from the base seed on.
    pub seeds: u64,
    /// What it counted: crash states by how they came about, failed calls by kind, operations.
    pub counts: Tally,
}

/// A violation, with all that is needed to see it again.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The suite.
    pub suite: &'static str,
    /// Its seed.
    pub seed: u64,
    /// What was violated.
    pub violation: String,
    /// The smallest case that shows it, as text.
    pub case: String,
    /// The calls that failed.
    pub faults: Vec<String>,
}

/// How a planted bug was found.
#[derive(Clone, Debug, Serialize)]
pub struct Caught {
    /// The suite that found it.
    pub suite: &'static str,
    /// The seed under which it was found.
    pub seed: u64,
    /// Number of seeds that were tried until then.
    pub tries: u64,
    /// How it showed.
    pub violation: String,
}

impl Soak {
    /// A soak that begins every suite with this seed.
    #[must_use]
    pub fn new(base_seed: u64) -> Soak {
        Soak { base_seed, ..Soak::default() }
    }

    /// Runs the next seed of a suite. Returns what it found, if anything.
    pub fn step(&mut self, suite: Suite) -> Option<&Finding> {
        let share = self.suites.entry(suite.name()).or_default();
        let seed = self.base_seed.wrapping_add(share.seeds);
        share.seeds += 1;
        let failed = suite.run(seed, &[], &mut share.counts).err()?;
        self.findings.push(finding(suite, seed, &failed));
        self.findings.last()
    }

    /// Plants each bug that is there to plant and looks for it. `go_on` is asked before each.
    #[cfg(feature = "planted-bugs")]
    pub fn hunt_all(&mut self, rounds: u64, mut go_on: impl FnMut(&str) -> bool) {
        for bug in terrace_env::PlantedBug::of_one_machine() {
            if !go_on(&bug.name()) {
                return;
            }
            let caught = crate::hunt::hunt(bug, self.base_seed, rounds).map(|found| Caught {
                suite: found.suite.name(),
                seed: found.seed,
                tries: found.tries,
                violation: found.failed.violation.to_string(),
            });
            self.planted.insert(bug.name(), caught);
        }
    }

    /// Whether nothing was violated and every planted bug was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.planted.values().all(Option::is_some)
    }

    /// Crash states so far.
    #[must_use]
    pub fn crash_states(&self) -> u64 {
        let crashes = ["named-crashes", "random-crashes", "library-crashes"];
        crashes.iter().filter_map(|name| self.suites.get(name)).map(|s| s.counts.total()).sum()
    }

    /// Failed calls so far.
    #[must_use]
    pub fn failed_calls(&self) -> u64 {
        self.suites.get("failing-calls").map_or(0, |share| share.counts.total())
    }

    /// A line that says how far it is, `elapsed` after its beginning.
    #[must_use]
    pub fn progress(&self, elapsed: Duration) -> String {
        let seeds: u64 = self.suites.values().map(|share| share.seeds).sum();
        format!(
            "{:3} min {:02} s  {seeds} seeds  {} crash states  {} failed calls  {} findings",
            elapsed.as_secs() / 60,
            elapsed.as_secs() % 60,
            self.crash_states(),
            self.failed_calls(),
            self.findings.len()
        )
    }
}

fn finding(suite: Suite, seed: u64, failed: &Failed) -> Finding {
    let case = suite.reduce(failed, REDUCER_TRIES);
    Finding {
        suite: suite.name(),
        seed,
        violation: failed.violation.to_string(),
        case: case.to_string(),
        faults: failed.faults.faults.iter().map(|fault| format!("{fault:?}")).collect(),
    }
}
