//! Campaigns: many faults from one seed, counted by kind.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use terrace_env::{DiskImage, SeededRng};

use crate::fault::{Change, FaultKind, plant};
use crate::judge::{Effort, Judge, Outcome};
use crate::specimen::{Ending, Medium, Specimen};

/// What became of the faults of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Faults that made a difference.
    pub planted: u64,
    /// Named as damage.
    pub damage: u64,
    /// Listed as undecidable.
    pub undecidable: u64,
    /// Only the mark of a clean close was gone.
    pub close_mark: u64,
    /// In bytes that nobody reads, by reason.
    pub dead: BTreeMap<String, u64>,
    /// Neither found nor dead.
    pub missed: u64,
    /// Of these, how many were repaired, too.
    pub repaired: u64,
}

/// What a campaign did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tally {
    /// By kind of fault.
    pub kinds: BTreeMap<String, Count>,
    /// Promises that were not kept, each with what repeats it.
    pub findings: Vec<String>,
}

impl Tally {
    /// Adds what another campaign did.
    pub fn add(&mut self, other: Tally) {
        for (kind, count) in other.kinds {
            let sum = self.kinds.entry(kind).or_default();
            sum.planted += count.planted;
            sum.damage += count.damage;
            sum.undecidable += count.undecidable;
            sum.close_mark += count.close_mark;
            sum.missed += count.missed;
            sum.repaired += count.repaired;
            for (why, dead) in count.dead {
                *sum.dead.entry(why).or_default() += dead;
            }
        }
        self.findings.extend(other.findings);
    }

    /// Faults that made a difference.
    #[must_use]
    pub fn planted(&self) -> u64 {
        self.kinds.values().map(|count| count.planted).sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, count) in &self.kinds {
            let dead: u64 = count.dead.values().sum();
            writeln!(
                f,
                "{kind:32} {:>8} planted {:>8} damage {:>6} undecidable {:>5} close mark {:>6} dead \
                 {:>3} missed {:>6} repaired",
                count.planted,
                count.damage,
                count.undecidable,
                count.close_mark,
                dead,
                count.missed,
                count.repaired
            )?;
        }
        for finding in &self.findings {
            writeln!(f, "FOUND: {finding}")?;
        }
        write!(f, "{} faults, {} findings", self.planted(), self.findings.len())
    }
}

/// How much a campaign plants into one specimen.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The faults to choose from.
    pub kinds: Vec<FaultKind>,
    /// How many are planted, one at a time.
    pub fault_count: usize,
    /// Of this number of damaged ranges one is opened and read.
    pub read_one_in: usize,
    /// Of this number of damaged ranges one is repaired, too.
    pub repair_one_in: usize,
}

/// A specimen and what is known of it, to be damaged again and again.
pub struct Patient {
    specimen: Specimen,
    other: Specimen,
}

impl Patient {
    /// Makes the specimen of a seed, and the one whose files stand in for those of another
    /// database.
    ///
    /// Errors: none on a disk that is whole.
    pub fn build(seed: u64, ending: Ending, medium: Medium) -> terrace_engine::Result<Patient> {
        let specimen = Specimen::build(seed, ending, medium)?;
        let other = Specimen::build(seed ^ (1 << 40), Ending::Closed, medium)?;
        Ok(Patient { specimen, other })
    }

    /// The specimen.
    #[must_use]
    pub fn specimen(&self) -> &Specimen {
        &self.specimen
    }

    /// Plants the fault of this number, which is one of `kinds`.
    #[must_use]
    pub fn fault(&self, kinds: &[FaultKind], number: usize) -> (FaultKind, DiskImage, Vec<Change>) {
        let mut random = SeededRng::stream(self.specimen.seed, 1000 + number as u64);
        let kind = kinds[random.index(kinds.len())];
        let (damaged, changes) = plant(kind, &self.specimen, &self.other, &mut random);
        (kind, damaged, changes)
    }
}

/// Damages one specimen made from `seed` again and again, each time from its whole state.
#[must_use]
pub fn damage(seed: u64, ending: Ending, medium: Medium, plan: &Plan) -> Tally {
    let mut tally = Tally::default();
    let found = |text: String| format!("seed {seed} ({ending:?}, {medium:?}): {text}");
    let patient = match Patient::build(seed, ending, medium) {
        Ok(patient) => patient,
        Err(error) => {
            tally.findings.push(found(format!("no specimen: {error}")));
            return tally;
        }
    };
    let judge = match Judge::new(patient.specimen()) {
        Ok(judge) => judge,
        Err(error) => {
            tally.findings.push(found(error));
            return tally;
        }
    };
    for number in 0..plan.fault_count {
        let (kind, damaged, changes) = patient.fault(&plan.kinds, number);
        let effort = if number % plan.repair_one_in == 0 {
            Effort::Repair
        } else if number % plan.read_one_in == 0 {
            Effort::Read
        } else {
            Effort::Check
        };
        let verdict = judge.judge(&damaged, &changes, effort);
        let count = tally.kinds.entry(format!("{kind}, {}", name_of(ending))).or_default();
        take(count, verdict.outcome, effort);
        for violation in verdict.violations.into_iter().take(2) {
            let paths: Vec<_> = changes.iter().map(|change| change.path.display()).collect();
            let place = format!("fault {number}, {kind} in {paths:?}: {violation}");
            tally.findings.push(found(place));
        }
    }
    tally
}

fn name_of(ending: Ending) -> &'static str {
    match ending {
        Ending::Closed => "closed",
        Ending::Killed => "killed",
    }
}

fn take(count: &mut Count, outcome: Outcome, effort: Effort) {
    if outcome == Outcome::Unchanged {
        return;
    }
    count.planted += 1;
    count.repaired += u64::from(effort == Effort::Repair);
    match outcome {
        Outcome::Unchanged => {}
        Outcome::Damage => count.damage += 1,
        Outcome::Undecidable => count.undecidable += 1,
        Outcome::CloseMark => count.close_mark += 1,
        Outcome::Dead(why) => *count.dead.entry(why.to_string()).or_default() += 1,
        Outcome::Missed => count.missed += 1,
    }
}
