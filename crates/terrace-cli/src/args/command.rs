//! The commands.

use clap::{Command as ClapCommand, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::ffi::OsString;

use crate::args::backup::{BackupArgs, RestoreArgs};
use crate::args::bench::BenchArgs;
use crate::args::cloud::{CloneArgs, CloudActArgs, WhyLiveArgs};
use crate::args::entries::{CountArgs, DeleteArgs, GetArgs, PutArgs, ScanArgs};
use crate::args::explain::{ExplainArgs, SlowArgs};
use crate::args::figures::{PlanArgs, StatsArgs};
use crate::args::keyspaces::KeyspacesArgs;
use crate::args::place::{PlaceArgs, Takes};
use crate::args::serve::ServeArgs;
use crate::args::shell::ShellArgs;
use crate::args::sim::SimArgs;
use crate::args::transfer::{CheckpointArgs, ExportArgs, ImportArgs, IngestArgs};
use crate::args::upkeep::{AdoptArgs, CheckArgs, CompactArgs, InspectArgs, RepairArgs};
use crate::failure::EXIT_CODES;

/// An ordered key-value store
///
/// Data commands work on a directory (--data) or on a running server (--connect), and see the same
/// keys either way. Both can be said before or after the command, or by the environment variables
/// TERRACE_DATA and TERRACE_CONNECT. Those that only read work on an object store as well (--data
/// URL).
#[derive(Debug, Parser)]
#[command(name = "terrace", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Data(DataCommand),
    /// Type data commands one after the other, with history and completion
    Shell(ShellArgs),
    /// Turn sorted files into tables of a database, all at once
    Ingest(IngestArgs),
    /// Serve a database to Redis clients
    Serve(Box<ServeArgs>),
    /// Choose sizes for a database, with reasons
    Plan(Box<PlanArgs>),
    /// Print the slowest operations of a server in the last minutes
    Slow(SlowArgs),
    /// Make a copy of a database at one moment, by hard links
    Checkpoint(CheckpointArgs),
    /// Make a database of its own out of one in an object store
    Clone(CloneArgs),
    /// List the databases of an object store, and list, make and remove their checkpoints
    Cloud(CloudActArgs),
    /// Tell who needs an object of a database in an object store
    WhyLive(WhyLiveArgs),
    /// Make backups of a database, list them, check them, delete them
    Backup(BackupArgs),
    /// Make a database out of a backup
    Restore(RestoreArgs),
    /// Rewrite a database so that it is small and fast to read
    Compact(CompactArgs),
    /// Read everything in a database and say what is damaged
    Check(CheckArgs),
    /// Salvage what is left of a damaged database into a new one
    Repair(RepairArgs),
    /// Take over the log and the L0 of a database that was moved, from the media they are on
    Adopt(AdoptArgs),
    /// Show a file in readable form, or all of a directory in short, damaged ones too
    Inspect(InspectArgs),
    /// Measure the store with a named workload
    Bench(Box<BenchArgs>),
    /// Run the store on a simulated machine that fails, and check every answer
    Sim(SimArgs),
}

/// What is done to the keys of an open database.
#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// Print the values of keys
    Get(GetArgs),
    /// Set the value of a key
    Put(PutArgs),
    /// Delete keys, or all keys of an interval
    Delete(DeleteArgs),
    /// Print keys and values in key order
    Scan(ScanArgs),
    /// Count keys
    Count(CountArgs),
    /// List the keyspaces, or drop one
    Keyspaces(KeyspacesArgs),
    /// Read entries from files
    Import(ImportArgs),
    /// Write entries to standard output
    Export(ExportArgs),
    /// Tell step by step what a read meets, and why it answers as it does
    Explain(ExplainArgs),
    /// Print figures about a database
    Stats(StatsArgs),
}

/// The commands in groups, as help shows them, and what each takes of [`PlaceArgs`].
const GROUPS: &[(&str, &[(&str, Takes)])] = &[
    (
        "Data",
        &[
            ("get", Takes::READ),
            ("put", Takes::ALL),
            ("delete", Takes::ALL),
            ("scan", Takes::READ),
            ("count", Takes::READ),
            ("keyspaces", Takes::READ_WHOLE),
            ("shell", Takes::READ),
        ],
    ),
    (
        "Files",
        &[
            ("import", Takes::ALL),
            ("export", Takes::READ),
            ("ingest", Takes::IN_DIRECTORY),
            ("checkpoint", Takes::WHOLE),
            ("backup", Takes::WHOLE),
            ("restore", Takes::NOTHING),
        ],
    ),
    (
        "Object store",
        &[("clone", Takes::MOMENT), ("cloud", Takes::STORE), ("why-live", Takes::STORE)],
    ),
    (
        "Operating",
        &[
            ("serve", Takes::SERVED),
            ("stats", Takes::READ_WHOLE),
            ("slow", Takes::SERVER),
            ("explain", Takes::READ),
            ("compact", Takes::ALL),
            ("check", Takes::WHOLE),
            ("repair", Takes::DIRECTORY),
            ("adopt", Takes::DIRECTORY),
            ("inspect", Takes::NOTHING),
        ],
    ),
    ("Measuring", &[("plan", Takes::ASKED), ("bench", Takes::DIRECTORY), ("sim", Takes::NOTHING)]),
];

/// What the command of this name takes.
fn takes(name: &str) -> Takes {
    let mut commands = GROUPS.iter().flat_map(|(_, commands)| *commands);
    commands.find(|(known, _)| *known == name).map_or(Takes::NOTHING, |(_, takes)| *takes)
}

/// The command line as clap knows it: each command shows only what it has a use for, and help shows
/// the commands in groups.
pub(crate) fn command_line() -> ClapCommand {
    let mut root = Args::command();
    for (name, takes) in GROUPS.iter().flat_map(|(_, commands)| *commands) {
        for id in takes.unused() {
            let Some(shown) = root.get_arguments().find(|arg| arg.get_id() == id) else { continue };
            let hidden = shown.clone().hide(true);
            root = root.mut_subcommand(name, |command| {
                let is_its_own = command.get_arguments().any(|arg| arg.get_id() == id);
                if is_its_own { command } else { command.arg(hidden) }
            });
        }
    }
    let groups = groups(&root);
    root.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{groups}\nOptions:\n{{options}}\n\n\
         {EXIT_CODES}"
    ))
}

/// The commands in their groups, each with a line of what it does.
fn groups(root: &ClapCommand) -> String {
    let mut text = String::new();
    for (title, commands) in GROUPS {
        text.push_str(&format!("\n{title}:\n"));
        for (name, _) in *commands {
            let about = root.find_subcommand(name).and_then(ClapCommand::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {name:<12}{about}\n"));
        }
    }
    text.push_str("\n`terrace help COMMAND` says more about one of them.\n");
    text
}

impl Args {
    /// Reads a command line, of which the first word is the program's name.
    ///
    /// Errors: it is none; or help was asked for.
    pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Args, clap::Error> {
        let mut matches = command_line().try_get_matches_from(words)?;
        Args::from_arg_matches_mut(&mut matches)
    }

    /// Errors: something was said that the command has no use for.
    pub(crate) fn check(&self) -> crate::failure::Outcome {
        let name = self.command.name();
        self.place.check(name, takes(name))
    }
}

impl Command {
    /// As it is typed.
    fn name(&self) -> &'static str {
        match self {
            Command::Data(command) => command.name(),
            Command::Shell(_) => "shell",
            Command::Ingest(_) => "ingest",
            Command::Serve(_) => "serve",
            Command::Plan(_) => "plan",
            Command::Slow(_) => "slow",
            Command::Checkpoint(_) => "checkpoint",
            Command::Clone(_) => "clone",
            Command::Cloud(_) => "cloud",
            Command::WhyLive(_) => "why-live",
            Command::Backup(_) => "backup",
            Command::Restore(_) => "restore",
            Command::Compact(_) => "compact",
            Command::Check(_) => "check",
            Command::Repair(_) => "repair",
            Command::Adopt(_) => "adopt",
            Command::Inspect(_) => "inspect",
            Command::Bench(_) => "bench",
            Command::Sim(_) => "sim",
        }
    }
}

impl DataCommand {
    fn name(&self) -> &'static str {
        match self {
            DataCommand::Get(_) => "get",
            DataCommand::Put(_) => "put",
            DataCommand::Delete(_) => "delete",
            DataCommand::Scan(_) => "scan",
            DataCommand::Count(_) => "count",
            DataCommand::Keyspaces(_) => "keyspaces",
            DataCommand::Import(_) => "import",
            DataCommand::Export(_) => "export",
            DataCommand::Explain(_) => "explain",
            DataCommand::Stats(_) => "stats",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command_line().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group() {
        let root = command_line();
        let known: Vec<&str> = root.get_subcommands().map(ClapCommand::get_name).collect();
        let grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, commands)| *commands).map(|(name, _)| *name).collect();
        assert_eq!(grouped.iter().collect::<BTreeSet<_>>().len(), grouped.len());
        assert_eq!(BTreeSet::from_iter(known), BTreeSet::from_iter(grouped));
    }
}
