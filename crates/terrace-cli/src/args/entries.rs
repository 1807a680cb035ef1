//! Commands on single keys, and on intervals of them.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args as ClapArgs;

use crate::args::keys::{KEYS_HELP, KeyArgs, PairArgs, RangeArgs};
use crate::args::output::{Output, ValueOutput};
use crate::args::units::parse_time;

#[derive(Debug, ClapArgs)]
#[command(after_help = KEYS_HELP)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) keys: KeyArgs,
    /// How to print the value: on a terminal as text, else as the bytes that it is. Several keys
    /// are lines of key, tab, value unless json is said
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) output: Option<ValueOutput>,
    /// The keys
    #[arg(value_name = "KEY", required = true)]
    pub(crate) key: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = KEYS_HELP)]
pub(crate) struct PutArgs {
    #[command(flatten)]
    pub(crate) text: PairArgs,
    /// When the key goes away by itself: 90s, 15m, 12h, 30d, 500ms
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) ttl: Option<Duration>,
    /// Only if the key is not there; else code 1, and nothing is written
    #[arg(long, conflicts_with = "if_equal")]
    pub(crate) if_absent: bool,
    /// Only if the key holds this; else code 1, and nothing is written
    #[arg(long, value_name = "VALUE")]
    pub(crate) if_equal: Option<OsString>,
    /// The key
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,
    /// The value, as it is; - for all of standard input
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) value: OsString,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = KEYS_HELP)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// Every key of the keyspace
    #[arg(long, conflicts_with_all = ["prefix", "from", "to"])]
    pub(crate) all: bool,
    /// Only say how many keys would be deleted, and the first of them
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The keys
    #[arg(value_name = "KEY", conflicts_with_all = ["prefix", "from", "to", "all"],
        required_unless_present_any = ["prefix", "from", "to", "all"])]
    pub(crate) key: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = KEYS_HELP)]
pub(crate) struct ScanArgs {
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
    /// How to print them; json says when an entry expires, too
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Every key is looked at, which takes some time for many of them,\nunless --approximate is said."
)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// About how many, at once: what is dead and not yet dropped counts too
    #[arg(long)]
    pub(crate) approximate: bool,
}
