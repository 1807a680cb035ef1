//! `terrace bench`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args as ClapArgs, ValueEnum};
use terrace::{Baseline, DiskProfile, Options};
use terrace_bench::distribution::Distribution;
use terrace_bench::records::ValueMix;

use crate::args::store::StoreArgs;
use crate::args::units::{parse_length, parse_size};
use crate::failure::{Failure, Outcome};

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The directory is made if there is none; records that it holds are used again. It has to be said:
TERRACE_DATA does not count, so that no database is filled with records by accident.")]
pub(crate) struct BenchArgs {
    /// The workload: load, YCSB a to f, rw50, sw50, w100, fillseq, fillrandom, overwrite,
    /// readrandom, transactions, pairs, readmissing or seekrandom
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// How many records there are
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) records: u64,
    /// How many operations to run
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) operations: u64,
    /// How many threads run them
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) threads: u64,
    /// The length of keys
    #[arg(long, value_name = "BYTES", value_parser = parse_length, default_value = "16")]
    pub(crate) key_bytes: usize,
    /// The length of values
    #[arg(long, value_name = "BYTES", value_parser = parse_length, default_value = "256")]
    pub(crate) value_bytes: usize,
    /// Pairs of several lengths instead: s, m and l are keys and values of 33, 123 and 1023 bytes
    /// together; sd, md and ld are 60 % of one of them and 20 % of each other
    #[arg(long, hide_short_help = true, value_name = "MIX")]
    pub(crate) value_mix: Option<ValueMix>,
    /// How many records a scan reads, instead of what the workload says
    #[arg(long, value_name = "N")]
    pub(crate) scan_count: Option<u64>,
    /// The share of reads, in percent, that ask for records that are not there
    #[arg(long, hide_short_help = true, value_name = "PERCENT")]
    pub(crate) missing_share: Option<u32>,
    /// Let loaded records have the numbers from 0 on as keys, not every sixteenth; nothing is
    /// missing then, and inserted records come behind all others
    #[arg(long, hide_short_help = true)]
    pub(crate) dense_keys: bool,
    /// Begin this number of operations in a second, whether or not those before have ended;
    /// latencies count from the intended start
    #[arg(long, value_name = "OPS")]
    pub(crate) rate: Option<f64>,
    /// Which records, instead of what the workload says: uniform, zipfian (0.99, scattered),
    /// zipfian-clustered (0.99, rank is key order) or latest
    #[arg(long, hide_short_help = true, value_name = "NAME")]
    pub(crate) distribution: Option<Distribution>,
    /// Run on an emulated disk that is slower than the machine's: ssd-2017, or bounds such as
    /// write=354MB/s,read=445MB/s,iops=80000. Results say that it was emulated
    #[arg(long, value_name = "PROFILE")]
    pub(crate) disk_profile: Option<DiskProfile>,
    /// Into how many dranges keys are divided for writing: a number, or auto
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "auto", value_parser = parse_dranges)]
    pub(crate) dranges: usize,
    /// Whether memtables of hot keys are merged in memory
    #[arg(long, hide_short_help = true, value_enum, value_name = "SWITCH", default_value_t = Switch::Off)]
    pub(crate) memtable_merging: Switch,
    /// Whether reads of one key ask the lookup index first
    #[arg(long, hide_short_help = true, value_enum, value_name = "SWITCH", default_value_t = Switch::Off)]
    pub(crate) lookup_index: Switch,
    /// How many memtables' worth of bytes stay in memory before they are flushed together
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 0)]
    pub(crate) memtables_kept: usize,
    /// About how many bytes the first level below L0 should hold, instead of what follows from the
    /// memtables or from L0
    #[arg(long, hide_short_help = true, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) level_bytes_base: Option<u64>,
    /// Do something as others do it, to measure what is saved by not doing so. May be given several
    /// times
    #[arg(long, hide_short_help = true, value_name = "NAME", value_parser = baselines())]
    pub(crate) baseline: Vec<Baseline>,
    /// A baseline as well: keys divided evenly among this number of databases of one process, which
    /// share the memory that one would have (1 to 255)
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=255))]
    pub(crate) static_trees: Option<u64>,
    /// Fixes every random choice
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the figures into this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draw throughput over time into this file as SVG, and latencies into one beside it whose
    /// name ends in `-latency.svg`
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Something that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// With it
    On,
    /// Without it
    Off,
}

/// What `--lookup-index on` gives the index: room for four million keys.
const LOOKUP_INDEX_BYTES: u64 = 32 << 20;

impl BenchArgs {
    /// The store's options for the run.
    pub(crate) fn store_options(&self) -> Outcome<Options> {
        let mut options = self.store.options()?;
        let layout = &mut options.layout;
        layout.dranges = self.dranges;
        layout.memtable_merging = self.memtable_merging == Switch::On;
        let has_index = self.lookup_index == Switch::On;
        layout.lookup_index_bytes = if has_index { LOOKUP_INDEX_BYTES } else { 0 };
        layout.memtables_kept = self.memtables_kept;
        layout.level_bytes_base = self.level_bytes_base.unwrap_or_default();
        for baseline in &self.baseline {
            let chosen = baseline.choose(&mut options.research, &mut options.layout.l0);
            chosen.map_err(|error| Failure::Usage(error.to_string()))?;
        }
        options.validate().map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(options)
    }
}

/// The baselines by name, with what each does.
fn baselines() -> impl TypedValueParser<Value = Baseline> {
    let value = |baseline: &Baseline| PossibleValue::new(baseline.name).help(baseline.meaning);
    PossibleValuesParser::new(Baseline::ALL.iter().map(value))
        .try_map(|name| Baseline::named(&name))
}

/// A number of dranges, 0 for `auto`. Errors: it is none.
fn parse_dranges(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|count| (1..=255).contains(count));
    let number = if text == "auto" { Some(0) } else { number };
    number.ok_or_else(|| format!("'{text}' is neither auto nor a number from 1 to 255"))
}
