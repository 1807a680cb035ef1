//! The command line as people see it.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use terrace::{
    Baseline, Compression, DiskProfile, Durability, KeyRange, L0Medium, L0Options, Options,
};
use terrace_bench::distribution::Distribution;
use terrace_bench::records::ValueMix;
use terrace_server::ServerOptions;

use crate::failure::{EXIT_CODES, Failure, Outcome};
use crate::format::{Format, KeyTemplate, parse_escaped};

/// An ordered key-value store
///
/// Data commands work on a directory (--data) or on a running server (--connect), and see the same
/// keys either way. Keys and values are bytes.
#[derive(Debug, Parser)]
#[command(name = "terrace", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a database to Redis clients
    Serve(ServeArgs),
    /// Print the value of a key
    Get(GetArgs),
    /// Set the value of a key
    Put(PutArgs),
    /// Delete keys
    Delete(DeleteArgs),
    /// Print keys and values in key order
    Scan(ScanArgs),
    /// Read entries from files
    Import(ImportArgs),
    /// Write entries to standard output
    Export(ExportArgs),
    /// Tell step by step what a read meets, and why it answers as it does
    Explain(ExplainArgs),
    /// Turn sorted files into tables of a database, all at once
    Ingest(IngestArgs),
    /// Make a copy of a database at one moment, by hard links
    Checkpoint(CheckpointArgs),
    /// Print figures about a database
    Stats(StatsArgs),
    /// Choose sizes for a database, with reasons
    Plan(PlanArgs),
    /// Print the slowest operations of a server in the last minutes
    Slow(SlowArgs),
    /// Read everything in a database and say what is damaged
    Check(CheckArgs),
    /// Salvage what is left of a damaged database into a new one
    Repair(RepairArgs),
    /// Take over the log and the L0 of a database that was moved, from the media they are on
    Adopt(AdoptArgs),
    /// Show a single file in readable form, damaged ones too
    Inspect(InspectArgs),
    /// Rewrite a database so that it is small and fast to read
    Compact(CompactArgs),
    /// Measure the store with a named workload
    Bench(Box<BenchArgs>),
    /// Run the store on a simulated machine that fails, and check every answer
    Sim(SimArgs),
}

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
    pub(crate) fn range(&self) -> Outcome<KeyRange> {
        let bytes = |text: &Option<OsString>| text.as_ref().map(|text| self.keys.bytes(text));
        if let Some(prefix) = bytes(&self.prefix) {
            return Ok(KeyRange::prefix(&prefix?));
        }
        let from = bytes(&self.from).transpose()?.unwrap_or_default();
        Ok(KeyRange::new(from, bytes(&self.to).transpose()?))
    }
}

/// How a directory is opened by servers and benchmarks.
#[derive(Debug, ClapArgs)]
pub(crate) struct StoreArgs {
    /// What an acknowledged write survives: buffered (a killed process), interval:MS (power loss,
    /// but for the last MS milliseconds) or sync (power loss)
    #[arg(long, value_name = "CLASS", default_value_t = Durability::default())]
    pub(crate) durability: Durability,
    /// Memory for what is read from disk, such as 256M
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) cache_bytes: Option<u64>,
    /// Memory for everything together: writers are slowed down near it
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) memory_bytes: Option<u64>,
    /// Memory for what is not yet in tables
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) memtable_bytes: Option<u64>,
    /// How tables are compressed: none, lz4 or zstd
    #[arg(long, value_name = "KIND")]
    pub(crate) compression: Option<Compression>,
    /// Where new writes go when they leave memory: into L0, the first level
    #[arg(long, value_enum, value_name = "FORM", default_value_t = L0Form::Plain)]
    pub(crate) l0: L0Form,
    /// The size of L0's container, or what plain tables may take in --l0-path, such as 256M (which
    /// is the default)
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) l0_bytes: Option<u64>,
    /// The directory of L0: persistent memory, or a file system in memory that stands in for it and
    /// does not survive a power cut. Otherwise L0 is in the database's directory
    #[arg(long, value_name = "DIR")]
    pub(crate) l0_path: Option<PathBuf>,
    /// The directory of the log: persistent memory, where a sync costs no system call, or a file
    /// system in memory that stands in for it and does not survive a power cut. Otherwise it is in
    /// the database's directory
    #[arg(long, value_name = "DIR")]
    pub(crate) log_path: Option<PathBuf>,
}

/// What L0 is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum L0Form {
    /// Tables in files: for ordinary disks
    Plain,
    /// Rows in the pages of one container, out of which small slices are compacted: for persistent
    /// memory
    Container,
}

/// The bytes of L0 where they are not given.
const L0_BYTES: u64 = 256 << 20;

impl StoreArgs {
    /// The library's options. All that is converted between the two is converted here.
    pub(crate) fn options(&self) -> Outcome<Options> {
        let mut options = Options { durability: self.durability, ..Options::default() };
        let too_large = |_| Failure::Usage("a size is larger than memory can be".to_owned());
        if let Some(bytes) = self.cache_bytes {
            options.cache_bytes = bytes.try_into().map_err(too_large)?;
        }
        if let Some(bytes) = self.memory_bytes {
            options.memory_bytes = Some(bytes.try_into().map_err(too_large)?);
        }
        if let Some(bytes) = self.memtable_bytes {
            options.memtable_bytes = bytes.try_into().map_err(too_large)?;
        }
        if let Some(compression) = self.compression {
            options.compression = compression;
        }
        options.l0 = self.l0_options()?;
        options.log_path.clone_from(&self.log_path);
        options.validate().map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(options)
    }

    fn l0_options(&self) -> Outcome<L0Options> {
        let bytes = self.l0_bytes.unwrap_or(L0_BYTES);
        match (self.l0, self.l0_path.clone()) {
            (L0Form::Container, path) => Ok(L0Options::Container { bytes, path }),
            (L0Form::Plain, Some(path)) => {
                Ok(L0Options::Plain { medium: Some(L0Medium { path, bytes }) })
            }
            (L0Form::Plain, None) if self.l0_bytes.is_some() => Err(Failure::Usage(
                "--l0-bytes needs --l0 container or --l0-path: plain tables in the database's \
                 directory are bounded by their number"
                    .to_owned(),
            )),
            (L0Form::Plain, None) => Ok(L0Options::PLAIN),
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ServeArgs {
    /// The directory of the database, which is made if there is none
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Where to listen. Other machines are let in only with a password, or with --insecure
    #[arg(long, value_name = "ADDR", default_value_t = ServerOptions::default().listen)]
    pub(crate) listen: SocketAddr,
    /// The most clients at a time
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) max_clients: usize,
    /// The memory for requests and replies of all clients together, beyond 64 KiB each, such as
    /// 256M (1G unless given). A request counts twice while it runs; one that would go over it, or
    /// whose reply would, gets an error
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) client_bytes: Option<u64>,
    /// How long a client may stop in the middle of a request, or take none of its replies while
    /// more than 64 KiB of them waits, before it is cut
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) stall_timeout: u64,
    /// How long a client may send no request before it is cut; 0 for as long as it likes
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) idle_timeout: u64,
    /// A file with the password that clients must give, unless TERRACE_PASSWORD holds it
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Let other machines in without a password
    #[arg(long)]
    pub(crate) insecure: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

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

/// How a single value is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ValueOutput {
    /// The bytes and nothing else
    Raw,
    /// A line, with what is not printable escaped
    Text,
    /// A JSON object with key and value
    Json,
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

/// How entries or figures are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people: what is not printable is escaped, as in tsv
    Text,
    /// JSON, one object a line; bytes that are no UTF-8 as {"base64": "..."}
    Json,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Damaged lines end the import, with their number; everything before them is stored. So does Ctrl-C.
Both say with which --skip to go on.")]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// What the files hold
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Format,
    /// Leave out this many lines at the beginning (of all files together)
    #[arg(long, value_name = "LINES", default_value_t = 0)]
    pub(crate) skip: u64,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

/// Where entries come from, and what their keys are.
#[derive(Debug, ClapArgs)]
pub(crate) struct InputArgs {
    /// Which field is the key, or how to make one of several: '{Package}={Version}'. For deb822
    /// (default {Package}={Version}/{Architecture}), and for jsonl with objects of your own
    #[arg(long, value_name = "TEMPLATE", value_parser = KeyTemplate::parse)]
    pub(crate) key_field: Option<KeyTemplate>,
    /// The files; - for standard input. Names that end in .gz or .lz4 are decompressed
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The keys of all files together come in ascending order, bytewise, each once, as export writes them.
A line out of order or damaged ends it, with its number, and so does Ctrl-C: then nothing was ingested.
No server may have the directory open.")]
pub(crate) struct IngestArgs {
    /// The directory of the database, which is made if there is none
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// What the files hold
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Jsonl)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The copy shares the bytes of its tables with the database (on another file system they are copied) and
opens like any other; deleting one of the two leaves the other. After an error or Ctrl-C it holds no
database. No server may have the directory open: programs that embed the database take checkpoints
while it runs.")]
pub(crate) struct CheckpointArgs {
    /// The directory of the database
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// The directory of the copy, which does not exist or is empty
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// As what to write them: jsonl or tsv
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Jsonl)]
    pub(crate) format: Format,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ExplainArgs {
    #[command(subcommand)]
    pub(crate) read: ExplainedRead,
}

/// Which read to explain.
#[derive(Debug, Subcommand)]
pub(crate) enum ExplainedRead {
    /// Whom the read of a key asks, and why the key is there or not
    Get(ExplainGetArgs),
    /// Where a scan takes its keys from, and what it steps over
    Scan(ExplainScanArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ExplainGetArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) keys: KeyArgs,
    /// How to print it
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
    /// The key
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ExplainScanArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// From the last key to the first
    #[arg(long)]
    pub(crate) reverse: bool,
    /// At most this many keys
    #[arg(long, value_name = "N", default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub(crate) limit: u64,
    /// How to print it
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Every operation that had to wait for a file, a lock, room, the gate or a sync is timed from that
wait on; of the others one in 1024 is timed. The slowest of each minute are kept for five minutes.
--reset forgets them once they are printed.")]
pub(crate) struct SlowArgs {
    /// The address of a running server, such as 127.0.0.1:7379
    #[arg(long, value_name = "ADDR")]
    pub(crate) connect: String,
    /// A file with the server's password, unless TERRACE_PASSWORD holds it
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    /// Then forget all of them
    #[arg(long)]
    pub(crate) reset: bool,
    /// How to print them
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

/// What figures are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Figures {
    /// The database as a whole
    All,
    /// How the writes are spread over the parts that keys are divided into
    Dranges,
    /// What is left of the rows of L0, slice by slice, and the next cut
    L0,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "Nothing is opened or written.")]
pub(crate) struct PlanArgs {
    /// How much the database will hold: all keys and values, such as 80G
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) data_bytes: u64,
    /// How much memory the process may take, such as 16G
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) memory: u64,
    /// How much persistent memory there is for L0, or memory that stands in for it
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value = "0")]
    pub(crate) pmem: u64,
    /// The length of values, about
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value = "256")]
    pub(crate) value_bytes: u64,
    /// How to print the plan
    #[arg(long, alias = "format", value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct StatsArgs {
    /// What to print figures about
    #[arg(value_enum, value_name = "WHAT", default_value_t = Figures::All)]
    pub(crate) what: Figures,
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// How to print them
    #[arg(long, alias = "format", value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Nobody may have the database open for writing. Nothing is written. Code 0: no damage, 1: damage,
3: it could not be checked. After a crash the end of the log can be what the crash left, or damage
to what was never promised to last: that is said, and is no damage.")]
pub(crate) struct CheckArgs {
    /// The directory of the database
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Of tables only sizes, footers, indexes, filters and properties
    #[arg(long)]
    pub(crate) quick: bool,
    /// How to print the result
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The damaged database is only read. The new one holds nothing that was never written; which keys may
be missing, old, or deleted and back again, is printed. Code 0: nothing was lost, 1: something was,
3: there is no new database. Restore a backup instead if there is one.")]
pub(crate) struct RepairArgs {
    /// The directory of the damaged database
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// The directory of the new one, which does not exist or is empty
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// How to print the result
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
What a database has on other media (--log-path, --l0-path) belongs to the directory that it was written
for. After that directory was moved, this makes the new one the owner; the old one is refused from then
on. Nothing else is changed. To have a copy beside the original, use terrace checkpoint instead.")]
pub(crate) struct AdoptArgs {
    /// The directory of the database, where it is now
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Each line begins with an offset in the file. Keys are stored ones: two bytes of keyspace and one of
type stand in front. Code 0: the file is whole, 1: something in it is damaged.")]
pub(crate) struct InspectArgs {
    /// What the file is
    #[arg(value_enum, value_name = "KIND")]
    pub(crate) kind: InspectKind,
    /// The file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// With every entry of a log or a table
    #[arg(long)]
    pub(crate) entries: bool,
    /// How to print it
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

/// Kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InspectKind {
    /// A manifest: which tables there are
    Manifest,
    /// A table
    Table,
    /// A log segment
    Log,
    /// CURRENT: which manifest counts
    Current,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CompactArgs {
    /// The directory of the database
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct BenchArgs {
    /// The workload: load, YCSB a to f, rw50, sw50, w100, fillseq, fillrandom, overwrite,
    /// readrandom, readmissing or seekrandom
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The directory, which is made if there is none; records that it holds are used again
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
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
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) key_bytes: usize,
    /// The length of values
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) value_bytes: usize,
    /// Pairs of several lengths instead: s, m and l are keys and values of 33, 123 and 1023 bytes
    /// together; sd, md and ld are 60 % of one of them and 20 % of each other
    #[arg(long, value_name = "MIX")]
    pub(crate) value_mix: Option<ValueMix>,
    /// How many records a scan reads, instead of what the workload says
    #[arg(long, value_name = "N")]
    pub(crate) scan_count: Option<u64>,
    /// The share of reads, in percent, that ask for records that are not there
    #[arg(long, value_name = "PERCENT")]
    pub(crate) missing_share: Option<u32>,
    /// Begin this number of operations in a second, whether or not those before have ended;
    /// latencies count from the intended start
    #[arg(long, value_name = "OPS")]
    pub(crate) rate: Option<f64>,
    /// Which records, instead of what the workload says: uniform, zipfian (0.99, scattered),
    /// zipfian-clustered (0.99, rank is key order) or latest
    #[arg(long, value_name = "NAME")]
    pub(crate) distribution: Option<Distribution>,
    /// Run on an emulated disk that is slower than the machine's: ssd-2017, or bounds such as
    /// write=354MB/s,read=445MB/s,iops=80000. Results say that it was emulated
    #[arg(long, value_name = "PROFILE")]
    pub(crate) disk_profile: Option<DiskProfile>,
    /// Into how many dranges keys are divided for writing: a number, or auto
    #[arg(long, value_name = "N", default_value = "auto", value_parser = parse_dranges)]
    pub(crate) dranges: usize,
    /// Whether memtables of hot keys are merged in memory
    #[arg(long, value_enum, value_name = "SWITCH", default_value_t = Switch::Off)]
    pub(crate) memtable_merging: Switch,
    /// Whether reads of one key ask the lookup index first
    #[arg(long, value_enum, value_name = "SWITCH", default_value_t = Switch::Off)]
    pub(crate) lookup_index: Switch,
    /// How many memtables' worth of bytes stay in memory before they are flushed together
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) memtables_kept: usize,
    /// About how many bytes the first level below L0 should hold, instead of what follows from the
    /// memtables or from L0
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) level_bytes_base: Option<u64>,
    /// Do something as others do it, to measure what is saved by not doing so. May be given several
    /// times
    #[arg(long, value_name = "NAME", value_parser = baselines())]
    pub(crate) baseline: Vec<Baseline>,
    /// A baseline as well: keys divided evenly among this number of databases of one process, which
    /// share the memory that one would have (1 to 255)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=255))]
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
        let mut options = Options {
            dranges: self.dranges,
            memtable_merging: self.memtable_merging == Switch::On,
            lookup_index_bytes: if self.lookup_index == Switch::On {
                LOOKUP_INDEX_BYTES
            } else {
                0
            },
            memtables_kept: self.memtables_kept,
            level_bytes_base: self.level_bytes_base.unwrap_or_default(),
            ..self.store.options()?
        };
        for baseline in &self.baseline {
            let chosen = baseline.choose(&mut options.research, &mut options.l0);
            chosen.map_err(|error| Failure::Usage(error.to_string()))?;
        }
        options.validate().map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(options)
    }
}

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

/// A number of bytes with or without a unit: `4096`, `64K`, `256M`, `2GiB`. Errors: it is none.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no size such as 4096, 64K, 256M or 2G");
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = match &*text[digits.len()..].to_ascii_lowercase() {
        "" | "b" => 1_u64,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return Err(wrong()),
    };
    digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(wrong)
}

/// A time with its unit: `500ms`, `90s`, `15m`, `12h`, `30d`; seconds without one.
/// Errors: it is none.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no time such as 500ms, 90s, 15m, 12h or 30d");
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit_ms = match &text[digits.len()..] {
        "ms" => 1_u64,
        "" | "s" => 1000,
        "m" => 60 * 1000,
        "h" => 3600 * 1000,
        "d" => 86_400 * 1000,
        _ => return Err(wrong()),
    };
    let ms = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms));
    ms.filter(|&ms| ms > 0).map(Duration::from_millis).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64K"), Ok(65_536));
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        assert_eq!(parse_time("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_time("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(parse_time("5ms"), Ok(Duration::from_millis(5)));
        for wrong in ["", "x", "1x", "-1", "99999999999999999999", "18446744073709551615G"] {
            assert!(parse_size(wrong).is_err() && parse_time(wrong).is_err(), "{wrong}");
        }
        assert!(parse_time("0s").is_err());
    }
}
