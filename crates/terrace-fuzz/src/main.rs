//! Runs targets by hand: `cargo run --release -p terrace-fuzz -- help`.

#![allow(clippy::disallowed_methods, reason = "inputs are files")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use terrace_fuzz::{Budget, SoakPlan, TARGETS, Target, find, replay, run, soak};

#[global_allocator]
static ALLOCATOR: terrace_fuzz::allocation::Counting = terrace_fuzz::allocation::Counting;

const HELP: &str = "\
terrace-fuzz list                        the targets
terrace-fuzz run SECONDS [SEED] [NAME]   mutations of the corpus, for so long each
terrace-fuzz soak --minutes N --seed S --out FILE.json [--jobs J]
                                         all targets in turn, each turn with a seed of its own
terrace-fuzz replay NAME FILE...         inputs, one by one
terrace-fuzz corpus DIR                  writes what the real encoders make: DIR/NAME/NN";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["list"] => {
            TARGETS.iter().for_each(|target| println!("{:<16} {}", target.name, target.about));
            Ok(())
        }
        ["run", seconds] => run_all(seconds, "1", None),
        ["run", seconds, seed] => run_all(seconds, seed, None),
        ["run", seconds, seed, name] => run_all(seconds, seed, Some(name)),
        ["soak", options @ ..] => soak_all(options),
        ["replay", name, files @ ..] => replay_all(name, files),
        ["corpus", dir] => write_corpus(Path::new(dir)),
        _ => Err(HELP.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("\"{text}\" is no number"))
}

fn target_of(name: &str) -> Result<&'static Target, String> {
    find(name).ok_or_else(|| format!("there is no target \"{name}\"; try list"))
}

fn run_all(seconds: &str, seed: &str, name: Option<&str>) -> Result<(), String> {
    let budget = Budget::Time(Duration::from_secs(number(seconds)?));
    let seed = number(seed)?;
    let only = name.map(target_of).transpose()?;
    for target in TARGETS.iter().filter(|target| only.is_none_or(|only| only.name == target.name)) {
        let report = run(target, (target.seeds)(), seed, budget);
        println!("{}", report.map_err(|failure| failure.to_string())?);
    }
    Ok(())
}

fn soak_all(options: &[&str]) -> Result<(), String> {
    let (mut minutes, mut seed, mut jobs, mut out) = (60, 1, 2, None);
    for option in options.chunks(2) {
        match option {
            ["--minutes", text] => minutes = number(text)?,
            ["--seed", text] => seed = number(text)?,
            ["--jobs", text] => jobs = number(text)?,
            ["--out", path] => out = Some(PathBuf::from(path)),
            _ => return Err(HELP.to_owned()),
        }
    }
    let out = out.ok_or("soak needs --out FILE.json")?;
    let time = Duration::from_secs(minutes * 60);
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let findings = soak(&SoakPlan { time, seed, jobs, corpus, out: out.clone() })?;
    match findings {
        0 => Ok(()),
        count => Err(format!("{count} findings: see {}", out.display())),
    }
}

fn replay_all(name: &str, files: &[&str]) -> Result<(), String> {
    let target = target_of(name)?;
    for file in files {
        let input = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
        replay(target, &input).map_err(|text| format!("{file}: {text}"))?;
    }
    println!("{} inputs kept every promise", files.len());
    Ok(())
}

fn write_corpus(dir: &Path) -> Result<(), String> {
    for target in TARGETS {
        let dir = dir.join(target.name);
        let failed = |path: &PathBuf, error: std::io::Error| format!("{}: {error}", path.display());
        std::fs::create_dir_all(&dir).map_err(|error| failed(&dir, error))?;
        for (index, seed) in (target.seeds)().iter().enumerate() {
            let path = dir.join(format!("{index:02}"));
            std::fs::write(&path, seed).map_err(|error| failed(&path, error))?;
        }
    }
    Ok(())
}
