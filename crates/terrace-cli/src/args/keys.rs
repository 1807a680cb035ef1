//! How keys and values are written on the command line, and which keys are meant.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use std::ffi::OsString;

use clap::Args as ClapArgs;
use terrace::OwnedRange;

use crate::failure::{Failure, Outcome};
use crate::format::{parse_escaped, parse_hex};

/// How keys are written: what `--help` says at its end where keys are read or printed.
pub(crate) const KEYS_HELP: &str = "\
Keys are read as they are printed, so what scan prints can be given to get, in quotes for the shell:
\\t \\n \\r \\\\ and \\xHH stand for bytes, everything else for itself. --raw takes a backslash for a
backslash; --hex reads and prints hexadecimal digits.";

/// How keys are written on the command line.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct KeyArgs {
    /// Take keys as they are given: a backslash is a backslash
    #[arg(long, conflicts_with_all = ["hex", "escaped"])]
    raw: bool,
    /// Read and print keys (and values) as hexadecimal digits
    #[arg(long, conflicts_with = "escaped")]
    pub(crate) hex: bool,
    /// What is always so for keys
    #[arg(long, hide = true)]
    escaped: bool,
}

impl KeyArgs {
    /// The bytes of a key.
    pub(crate) fn bytes(&self, text: &OsStr) -> Outcome<Vec<u8>> {
        read(text, self.writing())
    }

    fn writing(&self) -> Writing {
        match (self.raw, self.hex) {
            (true, _) => Writing::Raw,
            (false, true) => Writing::Hex,
            (false, false) => Writing::Escaped,
        }
    }
}

/// How a key and its value are written on the command line.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct PairArgs {
    /// Take the key as it is given, as values are: a backslash is a backslash
    #[arg(long, conflicts_with_all = ["hex", "escaped"])]
    raw: bool,
    /// Read key and values as hexadecimal digits
    #[arg(long, conflicts_with = "escaped")]
    hex: bool,
    /// Read \t \n \r \\ \xHH in values too as the bytes that they stand for
    #[arg(long)]
    escaped: bool,
}

impl PairArgs {
    pub(crate) fn key(&self, text: &OsStr) -> Outcome<Vec<u8>> {
        KeyArgs { raw: self.raw, hex: self.hex, escaped: self.escaped }.bytes(text)
    }

    /// The bytes of a value, which is taken as it is unless something else was said: many values
    /// (JSON, for one) have backslashes of their own.
    pub(crate) fn value(&self, text: &OsStr) -> Outcome<Vec<u8>> {
        let writing = match (self.hex, self.escaped) {
            (true, _) => Writing::Hex,
            (false, true) => Writing::Escaped,
            (false, false) => Writing::Raw,
        };
        read(text, writing)
    }
}

#[derive(Clone, Copy)]
enum Writing {
    Raw,
    Escaped,
    Hex,
}

fn read(text: &OsStr, writing: Writing) -> Outcome<Vec<u8>> {
    let bytes = text.as_bytes();
    let shown = text.display();
    match writing {
        Writing::Raw => Ok(bytes.to_vec()),
        Writing::Escaped => parse_escaped(bytes)
            .map_err(|why| Failure::Usage(format!("'{shown}': {why}; or say --raw"))),
        Writing::Hex => parse_hex(bytes).map_err(|why| Failure::Usage(format!("'{shown}': {why}"))),
    }
}

/// Which keys.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct RangeArgs {
    /// Only keys that begin with this
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["from", "to"])]
    prefix: Option<OsString>,
    /// Only this key and those after it
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Only keys before this one
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    #[command(flatten)]
    pub(crate) keys: KeyArgs,
}

impl RangeArgs {
    /// Whether any bound was said.
    pub(crate) fn is_said(&self) -> bool {
        self.prefix.is_some() || self.from.is_some() || self.to.is_some()
    }

    pub(crate) fn range(&self) -> Outcome<OwnedRange> {
        let bytes = |text: &Option<OsString>| text.as_ref().map(|text| self.keys.bytes(text));
        if let Some(prefix) = bytes(&self.prefix) {
            return Ok(OwnedRange::prefix(&prefix?));
        }
        let from = bytes(&self.from).transpose()?.unwrap_or_default();
        Ok(OwnedRange::new(from, bytes(&self.to).transpose()?))
    }
}
