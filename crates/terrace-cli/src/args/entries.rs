//! Commands on single keys, and `scan`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args as ClapArgs;

use crate::args::database::{DataArgs, KeyArgs, RangeArgs};
use crate::args::output::{Output, ValueOutput};
use crate::args::units::parse_time;

#[derive(Debug, ClapArgs)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) keys: KeyArgs,
    /// How to print the value: on a terminal as text, else as the bytes that it is
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) output: Option<ValueOutput>,
    /// The key
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PutArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) keys: KeyArgs,
    /// When the key goes away by itself: 90s, 15m, 12h, 30d, 500ms
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) ttl: Option<Duration>,
    /// Only if the key is not there; else code 1, and nothing is written
    #[arg(long, conflicts_with_all = ["if_equal", "ttl"])]
    pub(crate) if_absent: bool,
    /// Only if the key holds this; else code 1, and nothing is written
    #[arg(long, value_name = "VALUE", conflicts_with = "ttl")]
    pub(crate) if_equal: Option<OsString>,
    /// The key
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,
    /// The value; - for all of standard input, as it is
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) value: OsString,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) keys: KeyArgs,
    /// The keys
    #[arg(value_name = "KEY", required = true)]
    pub(crate) key: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// From the last key to the first
    #[arg(long)]
    pub(crate) reverse: bool,
    /// At most this many
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Without the values
    #[arg(long)]
    pub(crate) keys_only: bool,
    /// How to print them
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
}
