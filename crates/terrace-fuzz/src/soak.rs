//! Hours of mutation: every target in turn, each turn with a seed of its own, and a report that is
//! whole after each turn, so that whoever interrupts it has it.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a soak has real threads, a time, and files of inputs"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::random::Random;
use crate::run::{Budget, Failure, Report, run};
use crate::targets::{TARGETS, Target};

/// How long a target's turn is at most.
const TURN: Duration = Duration::from_secs(15);

/// How many findings are kept, inputs and all; more are only counted.
const FINDINGS_MAX: usize = 100;

/// What a soak does.
#[derive(Clone, Debug)]
pub struct SoakPlan {
    /// How long it takes.
    pub time: Duration,
    /// What the seeds of all turns are drawn from.
    pub seed: u64,
    /// How many targets run at a time; at least 1.
    pub jobs: u64,
    /// Committed inputs, in a directory for each target. What is not there is left out.
    pub corpus: PathBuf,
    /// Where the report goes: JSON, written anew after each turn.
    pub out: PathBuf,
}

/// What has come of it so far.
#[derive(Default)]
struct Soaked {
    targets: BTreeMap<&'static str, Sum>,
    executions: u64,
    finding_count: u64,
    findings: Vec<Value>,
}

#[derive(Default)]
struct Sum {
    executions: u64,
    outcomes_max: usize,
    peak_bytes: usize,
    seeds: Vec<u64>,
    finding_count: u64,
}

/// Runs all targets in turn until the time is over, and says how it goes on standard error.
///
/// Returns how many inputs broke a promise; they are in the report. Errors: a file that cannot be
/// read or written.
pub fn soak(plan: &SoakPlan) -> Result<u64, String> {
    // A failing input panics thousands of times while it is made smaller.
    std::panic::set_hook(Box::new(|_| {}));
    let begun = Instant::now();
    let corpora: Vec<Vec<Vec<u8>>> =
        TARGETS.iter().map(|target| corpus(plan, target)).collect::<Result<_, _>>()?;
    let soaked = Mutex::new(Soaked::default());
    let next_turn = AtomicU64::new(0);
    // The report can be written, or nothing is begun.
    write_report(plan, begun, &Soaked::default())?;
    let work = || -> Result<(), String> {
        loop {
            let left = plan.time.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            let turn = next_turn.fetch_add(1, Ordering::Relaxed);
            let index = usize::try_from(turn).unwrap_or(0) % TARGETS.len();
            let (target, seed) = (&TARGETS[index], seed_of(plan.seed, turn));
            let budget = Budget::Time(TURN.min(left));
            let outcome = run(target, corpora[index].clone(), seed, budget);
            let mut soaked = soaked.lock().unwrap_or_else(PoisonError::into_inner);
            soaked.add(target, seed, outcome);
            write_report(plan, begun, &soaked)?;
            eprint!(
                "\r{:>5} s, turn {turn}: {:<16} {:>12} executions, {} findings ",
                begun.elapsed().as_secs(),
                target.name,
                soaked.executions,
                soaked.finding_count,
            );
        }
    };
    let ended = std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..plan.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let end = |job: std::thread::ScopedJoinHandle<'_, Result<(), String>>| {
            job.join().unwrap_or_else(|_| Err("a job panicked outside of a target".to_owned()))
        };
        jobs.into_iter().try_for_each(end)
    });
    eprintln!();
    ended.map(|()| soaked.lock().unwrap_or_else(PoisonError::into_inner).finding_count)
}

/// The seed of a turn: another one in every turn of every soak.
fn seed_of(seed: u64, turn: u64) -> u64 {
    Random::new(seed ^ turn.wrapping_mul(0x9e37_79b9_7f4a_7c15)).next_u64()
}

/// The committed inputs of a target, in the order of their names, and what the encoders make.
fn corpus(plan: &SoakPlan, target: &Target) -> Result<Vec<Vec<u8>>, String> {
    let mut inputs = Vec::new();
    let dir = plan.corpus.join(target.name);
    if let Ok(entries) = std::fs::read_dir(&dir) {
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            inputs.push(std::fs::read(&path).map_err(|error| failed(&path, &error))?);
        }
    }
    inputs.extend((target.seeds)());
    Ok(inputs)
}

fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

impl Soaked {
    fn add(&mut self, target: &Target, seed: u64, outcome: Result<Report, Box<Failure>>) {
        let sum = self.targets.entry(target.name).or_default();
        sum.seeds.push(seed);
        let executions = match outcome {
            Ok(report) => {
                sum.outcomes_max = sum.outcomes_max.max(report.outcomes);
                sum.peak_bytes = sum.peak_bytes.max(report.peak_bytes);
                report.executions
            }
            Err(failure) => {
                sum.finding_count += 1;
                self.finding_count += 1;
                if self.findings.len() < FINDINGS_MAX {
                    let hex: String =
                        failure.input.iter().map(|byte| format!("{byte:02x}")).collect();
                    self.findings.push(json!({
                        "target": target.name,
                        "seed": seed,
                        "execution": failure.execution,
                        "message": failure.message,
                        "input_hex": hex,
                    }));
                }
                failure.execution
            }
        };
        sum.executions += executions;
        self.executions += executions;
    }

    fn report(&self, plan: &SoakPlan, elapsed: Duration) -> Value {
        let targets = self.targets.iter().map(|(name, sum)| {
            json!({
                "target": name,
                "executions": sum.executions,
                "outcomes_max": sum.outcomes_max,
                "peak_bytes": sum.peak_bytes,
                "findings": sum.finding_count,
                "seeds": sum.seeds,
            })
        });
        json!({
            "kind": "fuzz",
            "seed": plan.seed,
            "seconds_planned": plan.time.as_secs(),
            "seconds": elapsed.as_secs(),
            "jobs": plan.jobs,
            "executions": self.executions,
            "finding_count": self.finding_count,
            "targets": targets.collect::<Vec<_>>(),
            "findings": self.findings,
        })
    }
}

/// In one step for whoever reads it: an interrupted soak leaves the report of its last turn.
fn write_report(plan: &SoakPlan, begun: Instant, soaked: &Soaked) -> Result<(), String> {
    let mut name = plan.out.clone().into_os_string();
    name.push(".part");
    let part = PathBuf::from(name);
    let text = format!("{:#}\n", soaked.report(plan, begun.elapsed()));
    std::fs::write(&part, text).map_err(|error| failed(&part, &error))?;
    std::fs::rename(&part, &plan.out).map_err(|error| failed(&plan.out, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_turn_has_another_seed_and_the_report_says_which() {
        let seeds: std::collections::BTreeSet<u64> =
            (0..1000).map(|turn| seed_of(7, turn)).collect();
        assert_eq!(seeds.len(), 1000);
        let plan = SoakPlan {
            time: Duration::ZERO,
            seed: 7,
            jobs: 1,
            corpus: PathBuf::new(),
            out: PathBuf::new(),
        };
        let target = &TARGETS[0];
        let mut soaked = Soaked::default();
        soaked.add(target, 5, run(target, (target.seeds)(), 5, Budget::Executions(10)));
        let failure = Failure {
            target: target.name,
            execution: 3,
            input: vec![0xab, 1],
            message: "planted".to_owned(),
        };
        soaked.add(target, 6, Err(Box::new(failure)));
        let report = soaked.report(&plan, Duration::from_secs(2));
        assert_eq!(report["targets"][0]["seeds"], json!([5, 6]));
        assert_eq!(report["executions"], json!(13));
        assert_eq!(report["findings"][0]["input_hex"], "ab01");
        assert_eq!(report["finding_count"], 1);
    }
}
