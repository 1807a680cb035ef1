//! Which database, and which of its keys.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use terrace::OwnedRange;

use crate::failure::{Failure, Outcome};
use crate::format::parse_escaped;

/// Which database.
#[derive(Debug, ClapArgs)]
pub(crate) struct DataArgs {
    /// The directory of a database
    #[arg(long, value_name = "DIR", required_unless_present = "connect")]
    pub(crate) data: Option<PathBuf>,
    /// The address of a running server instead, such as 127.0.0.1:7379
    #[arg(long, value_name = "ADDR", conflicts_with = "data")]
    pub(crate) connect: Option<String>,
    /// A file with the server's password, unless TERRACE_PASSWORD holds it
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

/// How keys are written on the command line.
#[derive(Debug, ClapArgs)]
pub(crate) struct KeyArgs {
    /// Read \xHH \t \n \r \\ in keys and values as the bytes that they stand for
    #[arg(long)]
    pub(crate) escaped: bool,
}

impl KeyArgs {
    /// The bytes of an argument.
    pub(crate) fn bytes(&self, text: &OsString) -> Outcome<Vec<u8>> {
        let bytes = text.clone().into_vec();
        if self.escaped { parse_escaped(&bytes).map_err(Failure::Usage) } else { Ok(bytes) }
    }
}

/// Which keys.
#[derive(Debug, ClapArgs)]
pub(crate) struct RangeArgs {
    /// Only keys that begin with this
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["from", "to"])]
    pub(crate) prefix: Option<OsString>,
    /// Only this key and those after it
    #[arg(long, value_name = "KEY")]
    pub(crate) from: Option<OsString>,
    /// Only keys before this one
    #[arg(long, value_name = "KEY")]
    pub(crate) to: Option<OsString>,
    #[command(flatten)]
    pub(crate) keys: KeyArgs,
}

impl RangeArgs {
    pub(crate) fn range(&self) -> Outcome<OwnedRange> {
        let bytes = |text: &Option<OsString>| text.as_ref().map(|text| self.keys.bytes(text));
        if let Some(prefix) = bytes(&self.prefix) {
            return Ok(OwnedRange::prefix(&prefix?));
        }
        let from = bytes(&self.from).transpose()?.unwrap_or_default();
        Ok(OwnedRange::new(from, bytes(&self.to).transpose()?))
    }
}
