//! The binary `terrace-sim`: runs the suites for as long as there is time, one seed of a suite
//! again, or a case that a report shows.

#![allow(clippy::disallowed_methods, reason = "cases and reports are files")]

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Parser, Subcommand};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use terrace_env::{Env as _, RealEnv};
use terrace_sim::run::Case;
use terrace_sim::soak::Soak;
use terrace_sim::suite::Suite;
use terrace_sim::tally::Tally;

/// How often a progress line is written, and the report saved.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// How often `run` tries to make a failing case smaller.
const REDUCER_TRIES: u64 = 2000;

/// The harness of Terrace on simulated machines
#[derive(Debug, Parser)]
#[command(
    name = "terrace-sim",
    version,
    max_term_width = 100,
    after_help = "\
Suites: schedules, option-sets, trials, failing-calls, named-crashes, random-crashes, library,
library-crashes.

Exit codes:
  0  nothing was violated
  1  something was: the report has the case
  2  the command line is wrong
  3  something failed"
)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run all suites in turn with fresh seeds, and write a report as JSON. Ctrl-C ends it well
    Soak {
        /// How long
        #[arg(long, value_name = "N", default_value_t = 60)]
        minutes: u64,
        /// The first seed of every suite; drawn if not said
        #[arg(long, value_name = "SEED")]
        seed: Option<u64>,
        /// Where the report goes
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Plant each bug first and look for it, in this number of rounds at most (builds with the
        /// feature planted-bugs only)
        #[arg(long, value_name = "ROUNDS", default_value_t = 0)]
        hunt: u64,
    },
    /// Run one seed of a suite; if it fails, make its case smaller and print it
    Run {
        /// The suite
        #[arg(value_name = "SUITE", value_parser = suite)]
        suite: Suite,
        /// The seed
        #[arg(value_name = "SEED")]
        seed: u64,
    },
    /// Judge the case in a file as a suite does
    Case {
        /// The suite
        #[arg(value_name = "SUITE", value_parser = suite)]
        suite: Suite,
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

fn suite(name: &str) -> Result<Suite, String> {
    Suite::parse(name).ok_or_else(|| format!("there is no suite '{name}'"))
}

fn main() -> ExitCode {
    let args = Args::parse();
    // Violations are reported as such; a simulated thread that panics is one of them.
    std::panic::set_hook(Box::new(|_| ()));
    let outcome = match args.command {
        Command::Soak { minutes, seed, out, hunt } => soak(minutes, seed, &out, hunt),
        Command::Run { suite, seed } => again(suite, seed),
        Command::Case { suite, file } => case(suite, &file),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            say(&format!("terrace-sim: {error}"));
            ExitCode::from(3)
        }
    }
}

/// Says something on standard error.
fn say(text: &str) {
    // If it is closed, there is nobody to tell.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Says something on standard output.
fn print(text: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{text}")
}

/// A flag that the first Ctrl-C or SIGTERM sets; the second one ends the process.
fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn save(soak: &Soak, out: &Path) -> io::Result<()> {
    let mut text = serde_json::to_string_pretty(soak)?;
    text.push('\n');
    std::fs::write(out, text)
}

/// Whether nothing was found.
fn soak(minutes: u64, seed: Option<u64>, out: &Path, hunt: u64) -> io::Result<bool> {
    let env = RealEnv::new();
    let stop = stop_flag()?;
    // Short enough to be typed.
    let seed = seed.unwrap_or_else(|| env.random_u64() >> 32);
    let time = Duration::from_secs(60 * minutes);
    let mut soak = Soak::new(seed);
    save(&soak, out)?;
    say(&format!("base seed {seed}, {minutes} minutes, report in {}", out.display()));
    let start = env.now();
    let goes_on = || !stop.load(Ordering::Relaxed) && env.now() - start < time;
    if hunt > 0 {
        hunt_all(&mut soak, hunt, &goes_on)?;
        save(&soak, out)?;
    }
    let mut spent = [Duration::ZERO; Suite::ALL.len()];
    let mut next_line = Duration::ZERO;
    while goes_on() {
        // The suite that had the least time so far.
        let turn = (0..spent.len()).min_by_key(|index| spent[*index]).unwrap_or(0);
        let began = env.now();
        if let Some(finding) = soak.step(Suite::ALL[turn]) {
            say(&format!("FOUND by {} {}: {}", finding.suite, finding.seed, finding.violation));
        }
        let now = env.now();
        spent[turn] += now - began;
        soak.seconds = (now - start).as_secs();
        if now - start >= next_line {
            next_line = now - start + LINE_EVERY;
            say(&soak.progress(now - start));
            save(&soak, out)?;
        }
    }
    soak.seconds = (env.now() - start).as_secs();
    save(&soak, out)?;
    say(&soak.progress(env.now() - start));
    Ok(soak.is_clean())
}

#[cfg(feature = "planted-bugs")]
fn hunt_all(soak: &mut Soak, rounds: u64, goes_on: &dyn Fn() -> bool) -> io::Result<()> {
    soak.hunt_all(rounds, |bug| {
        say(&format!("looking for {bug}"));
        goes_on()
    });
    Ok(())
}

#[cfg(not(feature = "planted-bugs"))]
fn hunt_all(_: &mut Soak, _: u64, _: &dyn Fn() -> bool) -> io::Result<()> {
    Err(io::Error::other("--hunt needs a build with --features planted-bugs"))
}

fn again(suite: Suite, seed: u64) -> io::Result<bool> {
    let mut tally = Tally::default();
    match suite.run(seed, &[], &mut tally) {
        Ok(()) => print(&tally.to_string()).map(|()| true),
        Err(mut failed) => {
            say(&format!("{}; making the case smaller", failed.violation));
            failed.case = suite.reduce(&failed, REDUCER_TRIES);
            print(&failed.to_string()).map(|()| false)
        }
    }
}

fn case(suite: Suite, file: &Path) -> io::Result<bool> {
    let text = std::fs::read_to_string(file)?;
    let case: Case = text.parse().map_err(io::Error::other)?;
    let mut tally = Tally::default();
    match suite.examine(&case, &mut tally) {
        Ok(()) => print(&tally.to_string()).map(|()| true),
        Err(failed) => print(&failed.violation.to_string()).map(|()| false),
    }
}
