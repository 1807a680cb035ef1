//! The commands.

use clap::{Parser, Subcommand};

use crate::args::bench::BenchArgs;
use crate::args::entries::{DeleteArgs, GetArgs, PutArgs, ScanArgs};
use crate::args::explain::{ExplainArgs, SlowArgs};
use crate::args::figures::{PlanArgs, StatsArgs};
use crate::args::serve::ServeArgs;
use crate::args::sim::SimArgs;
use crate::args::transfer::{CheckpointArgs, ExportArgs, ImportArgs, IngestArgs};
use crate::args::upkeep::{AdoptArgs, CheckArgs, CompactArgs, InspectArgs, RepairArgs};
use crate::failure::EXIT_CODES;

/// An ordered key-value store
///
/// Data commands work on a directory (--data) or on a running server (--connect), and see the same
/// keys either way. Keys and values are bytes.
#[derive(Debug, Parser)]
#[command(name = "terrace", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a database to Redis clients
    Serve(ServeArgs),
    /// Print the value of a key
    Get(GetArgs),
    /// Set the value of a key
    Put(PutArgs),
    /// Delete keys
    Delete(DeleteArgs),
    /// Print keys and values in key order
    Scan(ScanArgs),
    /// Read entries from files
    Import(ImportArgs),
    /// Write entries to standard output
    Export(ExportArgs),
    /// Tell step by step what a read meets, and why it answers as it does
    Explain(ExplainArgs),
    /// Turn sorted files into tables of a database, all at once
    Ingest(IngestArgs),
    /// Make a copy of a database at one moment, by hard links
    Checkpoint(CheckpointArgs),
    /// Print figures about a database
    Stats(StatsArgs),
    /// Choose sizes for a database, with reasons
    Plan(PlanArgs),
    /// Print the slowest operations of a server in the last minutes
    Slow(SlowArgs),
    /// Read everything in a database and say what is damaged
    Check(CheckArgs),
    /// Salvage what is left of a damaged database into a new one
    Repair(RepairArgs),
    /// Take over the log and the L0 of a database that was moved, from the media they are on
    Adopt(AdoptArgs),
    /// Show a single file in readable form, damaged ones too
    Inspect(InspectArgs),
    /// Rewrite a database so that it is small and fast to read
    Compact(CompactArgs),
    /// Measure the store with a named workload
    Bench(Box<BenchArgs>),
    /// Run the store on a simulated machine that fails, and check every answer
    Sim(SimArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }
}
