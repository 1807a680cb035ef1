//! The binary `terrace`: one subcommand for each act on a database.
//!
//! # Where things are
//! [`args`] is the command line as people see it; each file in [`commands`] does one subcommand.
//! Data commands work through [`data::Data`], of which there are two: a directory opened by the
//! library, and a running server; so they see the same keys either way. [`mod@format`] has the text
//! formats, without I/O. The outside is reached through [`terminal`] (standard streams, progress),
//! [`signals`], [`files`], [`clock`] and `data::remote` (the socket of a client), and nowhere
//! else.

mod args;
mod clock;
mod commands;
mod data;
mod failure;
mod files;
mod format;
mod signals;
mod terminal;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    // Wrong usage ends here, with code 2 and a text by clap.
    let args = args::Args::parse();
    match commands::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            terminal::complain(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}
