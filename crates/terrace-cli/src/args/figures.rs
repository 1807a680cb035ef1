//! Figures of a database, and sizes for one.

use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};

use crate::args::output::Output;
use crate::args::tiers::TierArgs;
use crate::args::units::{parse_size, parse_time};

/// What figures are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Figures {
    /// The database as a whole
    All,
    /// How the writes are spread over the parts that keys are divided into
    Dranges,
    /// What is left of the rows of L0, slice by slice, and the next cut
    L0,
    /// What is found in memory and on the local disk of what was read, and what has to go
    Cache,
    /// What stands in the value log, how much of it may be dead, and what was written anew
    Values,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Nothing is written. With --rate, what lies where is planned as well, and what that costs:

  terrace plan --data-bytes 1T --memory-bytes 16G --rate 2000 --reads 70 --scans 5 \\
      --local-bytes-max 200G --lose 60s

With --from, the same is read of a database that is there, and its layout is compared:

  terrace plan --from 127.0.0.1:7379 --for 1m --lose 60s
  terrace plan --from DIR --memory-bytes 16G --rate 2000 --reads 70 --local-bytes-max 200G")]
pub(crate) struct PlanArgs {
    /// How much the database will hold: all keys and values, such as 80G or 1.5T
    #[arg(long, value_name = "BYTES", value_parser = parse_size, required_unless_present = "from")]
    pub(crate) data_bytes: Option<u64>,
    /// How much memory the process may take, such as 16G
    #[arg(long, alias = "memory", value_name = "BYTES", value_parser = parse_size,
        required_unless_present = "from")]
    pub(crate) memory_bytes: Option<u64>,
    /// How much persistent memory there is for L0, or memory that stands in for it
    #[arg(long, alias = "pmem", value_name = "BYTES", value_parser = parse_size,
        default_value = "0")]
    pub(crate) l0_bytes: u64,
    /// The length of values, about [default: 256]
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) value_bytes: Option<u64>,
    #[command(flatten)]
    pub(crate) tiers: TierArgs,
    /// How to print the plan
    #[arg(long, alias = "format", value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
What is unusual stands first. Of a server there is also what it did since it was started; of a directory
not, since nobody has it open. JSON is the same for both.")]
pub(crate) struct StatsArgs {
    /// What to print figures about
    #[arg(value_enum, value_name = "WHAT", default_value_t = Figures::All)]
    pub(crate) what: Figures,
    /// Print a line of rates each time that this has passed, such as 1 or 500ms, until Ctrl-C
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) watch: Option<Duration>,
    /// End a watch after this many lines
    #[arg(long, value_name = "N", requires = "watch")]
    pub(crate) times: Option<u64>,
    /// How to print them
    #[arg(long, alias = "format", value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
}
