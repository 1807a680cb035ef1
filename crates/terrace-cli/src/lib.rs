//! The command line of Terrace: one subcommand for each act on a database.
//!
//! # Where things are
//! [`args`] is the command line as people see it; each file in [`commands`] does one subcommand.
//! Which database is meant is said before or after the subcommand, or by the environment
//! ([`args`], `place.rs`). Data commands work through [`data::Data`], of which there are two: a
//! directory opened by the library, and a running server; so they see the same keys either way.
//! [`mod@format`] has the text formats, without I/O. The outside is reached through [`terminal`]
//! (standard streams, progress), [`prompt`] (the lines of `terrace shell`), [`signals`], [`files`],
//! [`clock`] and `data::remote` (the socket of a client), and nowhere else.
//!
//! What reads people's text is public, so that tests outside of this crate can give it any text.
#![allow(rustdoc::private_intra_doc_links)]

mod args;
mod clock;
mod commands;
mod data;
mod failure;
mod files;
pub mod format;
mod prompt;
mod signals;
mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;

pub use args::{parse_size, parse_time};

/// Does what the command line of this process says.
#[must_use]
pub fn main() -> ExitCode {
    // Wrong usage ends here, with code 2 and a text by clap.
    let args = args::Args::read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    match commands::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            terminal::complain(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Whether these words, of which the first is the program's name, are a command line. Does nothing
/// else. Errors: the text that people would see.
pub fn check_words(words: impl IntoIterator<Item = OsString>) -> Result<(), String> {
    match args::Args::read(words) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
