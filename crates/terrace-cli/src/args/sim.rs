//! `terrace sim`.

use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The real store runs on a simulated disk, clock and scheduler. Clients work on it in rounds; in most
rounds a call fails or the machine stops, and the next round goes on with the disk that is left.
Every answer, and everything that a stop left, is compared with a model.

The same words give the same report, byte for byte; another seed gives another run.

Faults:
  kill           the process dies; what it wrote stays with the system
  power-cut      what was not synced is lost, whole or in parts
  eio, enospc    a call fails so
  eintr          a call is interrupted
  short-write    half of a write is written before it fails
  failed-sync    a sync fails, and what it should have kept is lost
  failed-rename  a rename fails
  delay          a call takes seconds
  clock-jump     an hour passes during a stop

Exit code 0 if every promise was kept, 1 if not: then the report ends with what was broken.")]
pub(crate) struct SimArgs {
    /// Decides everything that the other words leave open
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Operations of all clients together
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) steps: u64,
    /// Clients at once, 1 to 8; by the seed if not said
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u64).range(1..=8))]
    pub(crate) clients: Option<u64>,
    /// What may go wrong: names from below separated by commas, all or none [default: all]
    #[arg(long, value_name = "LIST")]
    pub(crate) faults: Option<String>,
    /// Options of the store and the machine as words name=value, as a report prints them; by the
    /// seed if not said
    #[arg(long, value_name = "WORDS")]
    pub(crate) options: Option<String>,
}
