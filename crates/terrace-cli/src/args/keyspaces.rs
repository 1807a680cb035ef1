//! `terrace keyspaces`.

use clap::{Args as ClapArgs, Subcommand};

use crate::args::output::Output;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A keyspace is a set of keys of its own, chosen by --keyspace NAME. `default` exists always, and so do
those with the numbers 1 to 1023, which are listed once they hold something; SELECT 0 is `default`.")]
pub(crate) struct KeyspacesArgs {
    #[command(subcommand)]
    pub(crate) act: Option<KeyspacesAct>,
    /// Also what each was asked since the server was started (--connect), or the directory opened:
    /// keys read, put and deleted, bytes, iterators, conflicts
    #[arg(long)]
    pub(crate) stats: bool,
    /// How to print the list
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

/// What to do with keyspaces.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyspacesAct {
    /// Drop a keyspace with all its keys, for good
    Drop(DropArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DropArgs {
    /// Do not ask first
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// The name of the keyspace
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}
