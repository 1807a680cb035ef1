//! Everything that there is to run, each by a seed.

use std::sync::Arc;

use terrace_env::{PlantedBug, SeededRng};

use crate::crash::{self, Thoroughness, enumerate};
use crate::failed::Failed;
use crate::library;
use crate::metamorphic;
use crate::reduce::reduce;
use crate::run::Case;
use crate::schedule;
use crate::setup::Setup;
use crate::sweep;
use crate::tally::Tally;
use crate::trial::{Trial, TrialOptions};

/// Operations in a list of the suite `option-sets`.
const LIST_OPERATIONS: usize = 1000;

/// A way to look for bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suite {
    /// Clients at once, whose turns the seed decides.
    Schedules,
    /// One list of operations under three option sets.
    OptionSets,
    /// Clients, crashes and failing calls, round after round on one disk.
    Trials,
    /// Every way in which single calls fail.
    FailingCalls,
    /// A workload with a name, stopped at each change of the disk.
    NamedCrashes,
    /// A random workload, stopped at each change of the disk.
    RandomCrashes,
    /// Clients of the library: keyspaces, transactions, backups.
    Library,
    /// The same, stopped at each change of the disk.
    LibraryCrashes,
}

impl Suite {
    /// All of them: those of the engine, then those of the library; within each those that take
    /// least time first.
    pub const ALL: &[Suite] = &[
        Suite::Schedules,
        Suite::OptionSets,
        Suite::Trials,
        Suite::FailingCalls,
        Suite::NamedCrashes,
        Suite::RandomCrashes,
        Suite::Library,
        Suite::LibraryCrashes,
    ];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Suite::Schedules => "schedules",
            Suite::OptionSets => "option-sets",
            Suite::Trials => "trials",
            Suite::FailingCalls => "failing-calls",
            Suite::NamedCrashes => "named-crashes",
            Suite::RandomCrashes => "random-crashes",
            Suite::Library => "library",
            Suite::LibraryCrashes => "library-crashes",
        }
    }

    /// The suite with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Suite> {
        Suite::ALL.iter().copied().find(|suite| suite.name() == name)
    }

    /// What a seed stands for; nothing for trials, which are no single case.
    #[must_use]
    pub fn cases(self, seed: u64) -> Vec<Case> {
        match self {
            Suite::Schedules => vec![schedule::case(seed).0],
            Suite::OptionSets => metamorphic::cases(seed, LIST_OPERATIONS, 3).0,
            Suite::Trials => Vec::new(),
            Suite::FailingCalls => vec![sweep::case(seed)],
            Suite::NamedCrashes => {
                let named = crash::named();
                vec![named[(seed % named.len() as u64) as usize].case(seed)]
            }
            Suite::RandomCrashes => vec![crash::random(seed)],
            Suite::Library => vec![library::race(seed)],
            Suite::LibraryCrashes => vec![library::crash(seed)],
        }
    }

    /// Runs what a seed stands for, with these bugs planted, and counts what was done.
    pub fn run(self, seed: u64, planted: &[PlantedBug], tally: &mut Tally) -> Result<(), Failed> {
        if self == Suite::Trials {
            return trial(seed, planted, tally);
        }
        for mut case in self.cases(seed) {
            if !planted.is_empty() {
                let setup = Setup { planted: planted.to_vec(), ..Setup::clone(&case.setup) };
                case.setup = Arc::new(setup);
            }
            self.examine(&case, tally)?;
        }
        Ok(())
    }

    /// Judges one case as this suite does.
    pub fn examine(self, case: &Case, tally: &mut Tally) -> Result<(), Failed> {
        match self {
            Suite::Schedules | Suite::OptionSets | Suite::Trials | Suite::Library => {
                metamorphic::check(case).map_err(|violation| Failed::new(case, violation))?;
                tally.add("operation", case.len() as u64);
                tally.count(if case.clients.len() > 1 { "schedule" } else { "option set" });
                Ok(())
            }
            Suite::FailingCalls => sweep::sweep(case, case.seed, 29, tally),
            Suite::NamedCrashes | Suite::RandomCrashes | Suite::LibraryCrashes => {
                let mut random = SeededRng::stream(case.seed, 55);
                // Half of the moments of twice as many cases: they differ more.
                let moments_in = 1 + random.below(3) as u32;
                let how = Thoroughness { moments_in, ..Thoroughness::USUAL };
                enumerate(case, how, tally)
            }
        }
    }

    /// The smallest case found, in `tries_max` tries, that this suite still objects to; the case of
    /// `failed` itself if it is no longer objected to.
    #[must_use]
    pub fn reduce(self, failed: &Failed, tries_max: u64) -> Case {
        let fails = |case: &Case| match self {
            Suite::FailingCalls => sweep::run_with(case, &failed.faults).is_err(),
            _ => self.examine(case, &mut Tally::default()).is_err(),
        };
        if self == Suite::Trials || !fails(&failed.case) {
            return failed.case.clone();
        }
        reduce(&failed.case, tries_max, fails)
    }
}

fn trial(seed: u64, planted: &[PlantedBug], tally: &mut Tally) -> Result<(), Failed> {
    let mut options = TrialOptions::new(seed);
    options.setup.planted = planted.to_vec();
    let mut trial = Trial::new(options);
    while trial.round()?.is_some() {}
    tally.merge(trial.tally());
    Ok(())
}
