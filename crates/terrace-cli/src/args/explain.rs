//! What a read met, and which were slow.

use std::ffi::OsString;

use clap::{Args as ClapArgs, Subcommand};

use crate::args::keys::{KEYS_HELP, KeyArgs, RangeArgs};
use crate::args::output::Output;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A number is the place of a write in the order of all writes: of two entries of a key, the one with the
greater number counts.")]
pub(crate) struct ExplainArgs {
    #[command(subcommand)]
    pub(crate) read: ExplainedRead,
}

/// Which read to explain.
#[derive(Debug, Subcommand)]
pub(crate) enum ExplainedRead {
    /// What the read of a key searches, and why the key is there or not
    Get(ExplainGetArgs),
    /// Where a scan takes its keys from, and what it steps over
    Scan(ExplainScanArgs),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = KEYS_HELP)]
pub(crate) struct ExplainGetArgs {
    #[command(flatten)]
    pub(crate) keys: KeyArgs,
    /// How to print it
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
    /// The key
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = KEYS_HELP)]
pub(crate) struct ExplainScanArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// From the last key to the first
    #[arg(long)]
    pub(crate) reverse: bool,
    /// At most this many keys
    #[arg(long, value_name = "N", default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub(crate) limit: u64,
    /// How to print it
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Every operation that had to wait for a file, a lock, room, the gate or a sync is timed from that
wait on; of the others one in 1024 is timed. The slowest of each minute are kept for five minutes.
--reset forgets them once they are printed.")]
pub(crate) struct SlowArgs {
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    /// Then forget all of them
    #[arg(long)]
    pub(crate) reset: bool,
    /// How to print them
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
}
