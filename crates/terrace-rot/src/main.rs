//! The soak: every campaign in turn, with fresh seeds, for as long as somebody wants.
//!
//! `terrace-rot soak --minutes N --seed S --out FILE.json`

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use terrace_env::{Env as _, EnvResult, RealEnv};
use terrace_rot::campaign::{Plan, Tally, damage};
use terrace_rot::decoder::{FlipCount, formats};
use terrace_rot::fault::FaultKind;
use terrace_rot::lies::{self, LieCount};
use terrace_rot::specimen::{Ending, Medium};

const USAGE: &str = "usage: terrace-rot soak [--minutes N] [--seed S] [--out FILE.json]
  --minutes N   how long, 1 by default; Ctrl-C ends it earlier, with all that was found
  --seed S      the first seed, 1 by default; each round takes the next
  --out FILE    where the figures go, as JSON

Exit codes: 0 nothing was found, 1 something was, 2 the command line is wrong, 3 it failed.";

/// What the soak was asked for.
struct Args {
    minutes: u64,
    seed: u64,
    out: Option<String>,
}

/// What a soak did.
#[derive(Default, Serialize)]
struct Report {
    first_seed: u64,
    rounds: u64,
    seconds: u64,
    decoder_flips: u64,
    decoder_lengths: u64,
    lies: LieCount,
    faults: u64,
    #[serde(flatten)]
    tally: Tally,
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Args> {
    let mut args = Args { minutes: 1, seed: 1, out: None };
    if words.next()? != "soak" {
        return None;
    }
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word.as_str() {
            "--minutes" => args.minutes = value.parse().ok()?,
            "--seed" => args.seed = value.parse().ok()?,
            "--out" => args.out = Some(value),
            _ => return None,
        }
    }
    Some(args)
}

fn main() -> ExitCode {
    let Some(args) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match soak(&args) {
        Ok(report) if report.tally.findings.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("terrace-rot: {error}");
            ExitCode::from(3)
        }
    }
}

fn soak(args: &Args) -> std::result::Result<Report, String> {
    let env = RealEnv::new();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order, so that the first signal only sets the flag, and the second ends it.
        flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| format!("signals cannot be caught: {error}"))?;
    }
    let begin = env.now();
    let end = begin + Duration::from_secs(args.minutes.saturating_mul(60));
    let mut report = Report { first_seed: args.seed, ..Report::default() };
    while env.now() < end && !stop.load(Ordering::Relaxed) {
        let known = report.tally.findings.len();
        round(args.seed.wrapping_add(report.rounds), &mut report);
        for finding in &report.tally.findings[known..] {
            eprintln!("\nFOUND: {finding}");
        }
        report.rounds += 1;
        report.faults = report.tally.planted();
        report.seconds = (env.now() - begin).as_secs();
        eprint!(
            "\r{} s: {} rounds, {} faults, {} decoder flips, {} lying disks, {} findings",
            report.seconds,
            report.rounds,
            report.faults,
            report.decoder_flips,
            report.lies.runs,
            report.tally.findings.len()
        );
    }
    eprintln!();
    println!("{}", report.tally);
    println!("{:?}", report.lies);
    if let Some(out) = &args.out {
        let json = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
        write(&env, Path::new(out), json.as_bytes()).map_err(|error| error.to_string())?;
    }
    Ok(report)
}

fn write(env: &Arc<RealEnv>, path: &Path, bytes: &[u8]) -> EnvResult<()> {
    // A file of an earlier soak is replaced.
    match env.fs().remove(path) {
        Err(error) if !error.is_not_found() => return Err(error),
        _ => {}
    }
    let mut file = env.fs().create(path, 0)?;
    file.append(bytes)?;
    file.finish()
}

/// Every campaign once, with one seed.
fn round(seed: u64, report: &mut Report) {
    let all = [&FaultKind::ROT[..], &FaultKind::MISPLACED[..]].concat();
    let campaigns = [
        (Ending::Closed, FaultKind::ROT.to_vec(), 10),
        (Ending::Closed, FaultKind::MISPLACED.to_vec(), 5),
        (Ending::Killed, all, 5),
    ];
    for (ending, kinds, repair_one_in) in campaigns {
        let plan = Plan { kinds, fault_count: 200, read_one_in: 3, repair_one_in };
        for medium in [Medium::Disk, Medium::Memory] {
            report.tally.add(damage(seed, ending, medium, &plan));
        }
    }
    for number in 0..50 {
        let seed = seed.wrapping_mul(1000).wrapping_add(number);
        report.tally.findings.extend(lies::run(seed, &mut report.lies));
    }
    // All bits of one format; all formats in turn.
    match formats(seed) {
        Ok(formats) => {
            let format = &formats[seed as usize % formats.len()];
            let FlipCount { flips, lengths, missed, .. } = format.flip_all(1);
            report.decoder_flips += flips;
            report.decoder_lengths += lengths;
            let place = |missed| format!("seed {seed}: {}: {missed}", format.name);
            report.tally.findings.extend(missed.into_iter().take(3).map(place));
        }
        Err(error) => report.tally.findings.push(format!("seed {seed}: {error}")),
    }
}
