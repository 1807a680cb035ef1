//! Terrace and its peers, measured by the same workloads in the same run.
//!
//! ```text
//! run ── for each round, for each group of cells, for each engine (the order turns):
//!          └── session, a process of its own over an empty directory
//!                └── the cells of the group, one after the other ──► a report for each
//!     └── medians, spreads and ratios ──► compare.json, charts
//! ```
//! What is compared is interleaved, because the speed of a shared machine drifts. [`cells`] says
//! what is measured, [`engines`] how each engine is set up, [`session`] runs one engine through
//! one group, [`summary`] makes the figures of many sessions into one table; [`instructions`]
//! counts what no clock can tell. [`experiments`] are those of papers, each with the baselines that
//! the paper compares with.

mod cells;
mod engines;
mod experiments;
mod footprint;
mod instructions;
mod session;
mod summary;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use engines::Engine;
use terrace::DiskProfile;
use terrace_env::ObjectsProfile;

/// Compare Terrace with its peers
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run all cells and write the table and the charts
    Run(RunArgs),
    /// Run one group of cells on one engine and print a report for each as a line of JSON
    Session(SessionArgs),
    /// Name the cells
    Cells,
    /// Run experiments of papers, and write for each a table, a chart and a row of the README
    Experiment(ExperimentArgs),
    /// Run one subject of an experiment and print a report for each step as a line of JSON
    ExperimentSession(ExperimentSessionArgs),
    /// Name the experiments
    Experiments,
    /// Count the instructions of single operations under Valgrind
    Instructions(InstructionsArgs),
    /// Do one operation many times: what `instructions` counts
    Work(WorkArgs),
}

/// What to count.
#[derive(Debug, clap::Args)]
pub(crate) struct InstructionsArgs {
    /// The engines
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "terrace,rocksdb,fjall"
    )]
    engines: Vec<Engine>,
    /// Where the result goes
    #[arg(long, value_name = "DIR", default_value = "docs/results/compare")]
    out: PathBuf,
    /// The commit that is measured, for the record
    #[arg(long, value_name = "ID", default_value = "unknown")]
    commit: String,
}

/// One operation, many times.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkArgs {
    /// The engine
    #[arg(long)]
    engine: Engine,
    /// The operation
    #[arg(long)]
    kind: instructions::Counted,
    /// How often
    #[arg(long)]
    count: u64,
    /// An empty directory
    #[arg(long)]
    data: PathBuf,
}

/// What to compare.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The engines, Terrace first
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "terrace,rocksdb,fjall"
    )]
    engines: Vec<Engine>,
    /// Every engine there is
    #[arg(long)]
    all: bool,
    /// Only these cells (and those of the same session that come before them)
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    cells: Vec<String>,
    /// How often everything is measured
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: u64,
    /// Records and operations, as a multiple of the standing sizes
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    scale: f64,
    /// The seed of the first round; each further round takes the next
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where databases are made and deleted again
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Where the results go
    #[arg(long, value_name = "DIR", default_value = "docs/results/compare")]
    out: PathBuf,
    /// The commit that is measured, for the record
    #[arg(long, value_name = "ID", default_value = "unknown")]
    commit: String,
}

/// One engine, one group.
#[derive(Debug, clap::Args)]
pub(crate) struct SessionArgs {
    /// The engine
    #[arg(long)]
    engine: Engine,
    /// The group, by the name of its first cell
    #[arg(long)]
    group: String,
    /// An empty directory
    #[arg(long)]
    data: PathBuf,
    /// Records and operations, as a multiple of the standing sizes
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The last cell to run; all of them if none is named
    #[arg(long)]
    through: Option<String>,
}

/// Which experiments.
#[derive(Debug, clap::Args)]
pub(crate) struct ExperimentArgs {
    /// Their names, or beginnings of them up to a dash; all of them if none is named
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// How often everything is measured
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u64,
    /// Records, operations and memory, as a multiple of the standing sizes
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    scale: f64,
    /// The seed of the first round; each further round takes the next
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where databases are made and deleted again
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Where the results go, instead of to those of each one's paper; a README there gets a row for
    /// each experiment
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What stands in for persistent memory: a directory in which others are made and deleted again
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    medium: PathBuf,
    /// Operations a second, for steps that have a rate
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// The commit that is measured, for the record
    #[arg(long, value_name = "ID", default_value = "unknown")]
    commit: String,
    /// Run on an emulated disk that is slower than the machine's, such as ssd-2017; names of
    /// results say so
    #[arg(long, value_name = "PROFILE")]
    disk_profile: Option<DiskProfile>,
    /// How far away object stores are: bucket, or bounds such as
    /// read=15ms,write=30ms,bandwidth=100MB/s,requests=3500
    #[arg(long, value_name = "PROFILE", default_value = "bucket")]
    objects_profile: ObjectsProfile,
}

/// One subject, one sequence of steps.
#[derive(Debug, clap::Args)]
pub(crate) struct ExperimentSessionArgs {
    /// The experiment
    #[arg(long)]
    experiment: String,
    /// Which of its sequences, from 0
    #[arg(long)]
    sequence: usize,
    /// Which of its subjects, from 0
    #[arg(long)]
    subject: usize,
    /// An empty directory
    #[arg(long)]
    data: PathBuf,
    /// Another one, on what stands in for persistent memory
    #[arg(long)]
    medium: PathBuf,
    /// Operations a second, for steps that have a rate
    #[arg(long)]
    rate: Option<f64>,
    /// Records, operations and memory, as a multiple of the standing sizes
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run on an emulated disk
    #[arg(long)]
    disk_profile: Option<DiskProfile>,
    /// How far away object stores are
    #[arg(long, default_value = "bucket")]
    objects_profile: ObjectsProfile,
    /// Do so many steps only, and wait to be killed
    #[arg(long, hide = true)]
    until: Option<usize>,
}

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Run(args) => summary::run(&args),
        Command::Session(args) => session::run(&args),
        Command::Experiment(args) => experiments::runner::run(&args),
        Command::ExperimentSession(args) => experiments::session::run(&args),
        Command::Experiments => {
            experiments::all().for_each(|one| println!("{:<20} {}", one.name, one.meaning));
            Ok(())
        }
        Command::Instructions(args) => instructions::run(&args),
        Command::Work(args) => instructions::work(&args),
        Command::Cells => {
            for group in cells::GROUPS {
                group.cells.iter().for_each(|cell| println!("{:<16} {}", cell.name, cell.meaning));
            }
            Ok(())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(3)
        }
    }
}
