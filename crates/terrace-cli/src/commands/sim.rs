//! `terrace sim`.

use terrace_sim::Failed;
use terrace_sim::setup::Setup;
use terrace_sim::trial::{Trial, TrialOptions, Trouble};

use crate::args::SimArgs;
use crate::failure::{Failure, Outcome};
use crate::terminal::{Output, Progress};

pub(crate) fn sim(args: SimArgs) -> Outcome {
    // A violation is reported as such; what the simulated threads said while they were stopped
    // would only stand in between.
    std::panic::set_hook(Box::new(|_| ()));
    let options = options(&args)?;
    let steps = options.steps;
    let mut output = Output::new();
    let words = words(&options);
    let mut trial = Trial::new(options);
    let (version, setup) = (env!("CARGO_PKG_VERSION"), trial.setup());
    output.line(format_args!("terrace {version} sim {words} --options '{setup}'"))?;
    output.line(format_args!("clients  {}", trial.shape()))?;
    let progress = Progress::of_operations(steps);
    let outcome = rounds(&mut trial, &mut output, &progress);
    progress.finish();
    match outcome? {
        None => {
            output.line(format_args!("done     {}", trial.tally()))?;
            output.line("nothing was violated")?;
            output.finish()
        }
        Some(failed) => {
            output.line(format_args!("done     {}", trial.tally()))?;
            output.line(format_args!("VIOLATION {failed}"))?;
            output.finish()?;
            Err(Failure::Negative(
                "the store broke a promise. The same command shows it again, byte for byte: keep \
                 the report, try a smaller --steps, and tell the project"
                    .to_owned(),
            ))
        }
    }
}

/// Runs all rounds, or as far as the first violation.
fn rounds(
    trial: &mut Trial,
    output: &mut Output,
    progress: &Progress,
) -> Outcome<Option<Box<Failed>>> {
    loop {
        match trial.round() {
            Ok(Some(round)) => output.line(&round)?,
            Ok(None) => return Ok(None),
            Err(failed) => return Ok(Some(Box::new(failed))),
        }
        progress.set(trial.tally().of("operation"), trial.tally().of("round"), "rounds");
    }
}

fn options(args: &SimArgs) -> Outcome<TrialOptions> {
    let drawn = TrialOptions::new(args.seed);
    let setup = match &args.options {
        Some(text) => text.parse::<Setup>().map_err(|error| Failure::Usage(error.to_string()))?,
        None => drawn.setup,
    };
    let troubles = match &args.faults {
        Some(list) => troubles(list).map_err(Failure::Usage)?,
        None => drawn.troubles,
    };
    let clients = args.clients.unwrap_or(drawn.clients);
    Ok(TrialOptions { seed: args.seed, steps: args.steps, clients, troubles, setup })
}

/// A list of troubles by their names.
fn troubles(list: &str) -> Result<Vec<Trouble>, String> {
    match list {
        "all" => return Ok(Trouble::ALL.to_vec()),
        "none" => return Ok(Vec::new()),
        _ => {}
    }
    let wrong = |name: &str| {
        let names: Vec<&str> = Trouble::ALL.iter().map(|trouble| trouble.name()).collect();
        format!("there is no fault '{name}'; there are all, none, and {}", names.join(", "))
    };
    list.split(',').map(|name| Trouble::parse(name).ok_or_else(|| wrong(name))).collect()
}

/// The words that give this run again, but for the options.
fn words(options: &TrialOptions) -> String {
    let names: Vec<&str> = options.troubles.iter().map(|trouble| trouble.name()).collect();
    let faults = if names.is_empty() { "none".to_owned() } else { names.join(",") };
    let TrialOptions { seed, steps, clients, .. } = options;
    format!("--seed {seed} --steps {steps} --clients {clients} --faults {faults}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_names() {
        assert_eq!(troubles("all").map(|all| all.len()), Ok(Trouble::ALL.len()));
        assert_eq!(troubles("none"), Ok(Vec::new()));
        assert_eq!(troubles("kill,eio"), Ok(vec![Trouble::Kill, Trouble::Eio]));
        assert!(troubles("kill,fire").is_err_and(|text| text.contains("power-cut")));
    }
}
