//! Sessions, interleaved, until all rounds are done or somebody stops them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::Value;
use terrace_bench::StoreError;

use super::{Experiment, Figure, render};
use crate::ExperimentArgs;

/// Every report of an experiment, by step and subject, in the order of the rounds.
pub type Reports = BTreeMap<(&'static str, &'static str), Vec<Value>>;

/// Runs the experiments that are asked for, all if none is named, one after the other; each is
/// written out when it is done. Ctrl-C ends the run; what was finished by then is written.
///
/// Errors: a name that is none; a session that failed; a file that cannot be written.
pub fn run(args: &ExperimentArgs) -> Result<(), StoreError> {
    let experiments = chosen(args)?;
    let sessions = |of: &Experiment| of.sequences.len() * of.subjects.len() * args.rounds as usize;
    let mut progress = Progress {
        started: Instant::now(),
        done: 0,
        all: experiments.iter().map(|experiment| sessions(experiment)).sum(),
        stop: stop_flag()?,
    };
    let mut known: BTreeMap<&str, Reports> = BTreeMap::new();
    for experiment in experiments {
        let reports = match experiment.runs_of.and_then(|name| known.get(name)) {
            Some(reports) => {
                progress.done += sessions(experiment);
                reports.clone()
            }
            None => run_one(args, experiment, &mut progress)?,
        };
        render::write(args, experiment, &reports)?;
        known.insert(experiment.name, reports);
        if progress.is_stopped() {
            return Err("stopped; what was finished is written".into());
        }
    }
    eprintln!("written after {} s", progress.seconds());
    Ok(())
}

fn chosen(args: &ExperimentArgs) -> Result<Vec<&'static Experiment>, StoreError> {
    if args.names.is_empty() {
        return Ok(super::all().collect());
    }
    let find = |name: &String| {
        let unknown = || format!("there is no experiment '{name}'; see `experiments`");
        let found = super::named(name);
        if found.is_empty() { Err(unknown()) } else { Ok(found) }
    };
    let found: Result<Vec<_>, String> = args.names.iter().map(find).collect();
    Ok(found?.into_iter().flatten().collect())
}

struct Progress {
    started: Instant,
    done: usize,
    all: usize,
    stop: Arc<AtomicBool>,
}

impl Progress {
    fn seconds(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Is set by the first Ctrl-C; the second ends the process. Sessions get it too, and end at once.
fn stop_flag() -> Result<Arc<AtomicBool>, StoreError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // In this order, so that the first signal only sets the flag.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn run_one(
    args: &ExperimentArgs,
    experiment: &'static Experiment,
    progress: &mut Progress,
) -> Result<Reports, StoreError> {
    let mut reports = Reports::new();
    let subjects = experiment.subjects;
    for round in 0..args.rounds {
        for sequence in 0..experiment.sequences.len() {
            for turn in 0..subjects.len() {
                let subject = (turn + round as usize) % subjects.len();
                let session = Session { experiment, sequence, subject, seed: args.seed + round };
                let found = match session.run(args) {
                    Ok(found) => found,
                    // Whatever a session that was stopped says.
                    Err(_) if progress.is_stopped() => return Ok(reports),
                    Err(error) => return Err(error),
                };
                progress.done += 1;
                let place = format!("{}/{}, {} s", progress.done, progress.all, progress.seconds());
                let name = subjects[subject].name;
                let figures = session.summary(&found);
                eprintln!("[{place}] {} round {}, {name}: {figures}", experiment.name, round + 1);
                for (step, report) in session.steps().zip(found) {
                    reports.entry((step, name)).or_default().push(report);
                }
                if progress.is_stopped() {
                    return Ok(reports);
                }
            }
        }
    }
    Ok(reports)
}

/// One subject, one sequence, one seed.
struct Session {
    experiment: &'static Experiment,
    sequence: usize,
    subject: usize,
    seed: u64,
}

impl Session {
    /// The names of what it measures.
    fn steps(&self) -> impl Iterator<Item = &'static str> {
        let steps = self.experiment.sequences[self.sequence].iter();
        steps.filter(|step| step.measured).map(|step| step.name)
    }

    /// Runs it in a process of its own, over an empty directory that is deleted afterwards; a
    /// report for each measured step.
    fn run(&self, args: &ExperimentArgs) -> Result<Vec<Value>, StoreError> {
        let scratch = args.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let scratch = scratch.join(format!("terrace-experiment-{}", std::process::id()));
        let medium = args.medium.join(format!("terrace-experiment-{}", std::process::id()));
        let outcome = self.run_in(args, &scratch, &medium);
        for dir in [scratch, medium].iter().filter(|dir| dir.exists()) {
            std::fs::remove_dir_all(dir)?;
        }
        outcome
    }

    fn run_in(
        &self,
        args: &ExperimentArgs,
        scratch: &Path,
        medium: &Path,
    ) -> Result<Vec<Value>, StoreError> {
        std::fs::create_dir_all(scratch)?;
        std::fs::create_dir_all(medium)?;
        let below = if self.experiment.all_on_medium { medium } else { scratch };
        let data: PathBuf = below.join("data");
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["experiment-session", "--experiment", self.experiment.name])
            .args(["--sequence", &self.sequence.to_string()])
            .args(["--subject", &self.subject.to_string()])
            .args(["--scale", &args.scale.to_string(), "--seed", &self.seed.to_string()])
            .arg("--data")
            .arg(&data)
            .arg("--medium")
            .arg(medium)
            .stdout(Stdio::piped());
        command.args(["--objects-profile", &args.objects_profile.name]);
        if let Some(rate) = args.rate {
            command.args(["--rate", &rate.to_string()]);
        }
        if let Some(profile) = args.disk_profile.as_ref().filter(|_| !self.experiment.all_on_medium)
        {
            command.args(["--disk-profile", &profile.name]);
        }
        let mut child = command.spawn()?;
        let output = child.stdout.take().ok_or("a session has an output")?;
        let mut found = Vec::new();
        for line in BufReader::new(output).lines() {
            found.push(serde_json::from_str(&line?)?);
        }
        let status = child.wait()?;
        if !status.success() || found.len() != self.steps().count() {
            let name = self.experiment.subjects[self.subject].name;
            return Err(format!("a session of {name} failed: {status}").into());
        }
        Ok(found)
    }

    /// What it came to, in a line.
    fn summary(&self, reports: &[Value]) -> String {
        let figure: Figure = self.experiment.figures[0];
        let each = self.steps().zip(reports).map(|(step, report)| {
            let number = report[figure.field()].as_f64().unwrap_or(f64::NAN);
            format!("{step} {}", render::shown(number))
        });
        format!("{} ({})", each.collect::<Vec<_>>().join(", "), figure.unit())
    }
}
