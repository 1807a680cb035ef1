//! How a directory is opened by servers and benchmarks.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use terrace::{Compression, Durability, L0Medium, L0Options, Options, ValueLogOptions};

use crate::args::cloud::CloudArgs;
use crate::args::units::parse_size;
use crate::failure::{Failure, Outcome};

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
    /// How many bytes a second flushes and compactions may write, such as 50M; what holds writers
    /// up does not obey it
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) background_io_limit: Option<u64>,
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
    /// The directory of a volume for the log: another disk, or a block device that outlives this
    /// machine. Beside --cloud-mirror, what is written with the class "durable" waits for nothing
    /// but a sync there, and a take-over on another machine with the volume finds all of it. The
    /// log stays there until the store has a moment with what is in it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["log_path", "cloud_log"])]
    pub(crate) log_volume: Option<PathBuf>,
    /// Values of this many bytes and more, such as 1K, stand in the value log, which compactions do
    /// not write again; "all" is every value, a baseline. Otherwise all stand in the tables
    #[arg(long, value_name = "BYTES", value_parser = parse_large_values)]
    pub(crate) large_values: Option<LargeValues>,
    /// Values of this many bytes and more that are not large, such as 100, stand in files of their
    /// own until they come into the last level, and in its tables then
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "large_values")]
    pub(crate) medium_values: Option<u64>,
    #[command(flatten)]
    pub(crate) cloud: CloudArgs,
}

/// Which values are large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LargeValues {
    /// Those of this many bytes and more.
    From(u64),
    /// Every value.
    All,
}

fn parse_large_values(text: &str) -> Result<LargeValues, String> {
    match text {
        "all" => Ok(LargeValues::All),
        bytes => parse_size(bytes).map(LargeValues::From),
    }
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
        let mut options = Options::new().durability(self.durability);
        options.cache_bytes = self.cache_bytes.unwrap_or(options.cache_bytes);
        options.memory_bytes = self.memory_bytes;
        options.memtable_bytes = self.memtable_bytes.unwrap_or(options.memtable_bytes);
        options.compression = self.compression.unwrap_or(options.compression);
        options.background_io_limit = self.background_io_limit;
        options.layout.l0 = self.l0_options()?;
        options.layout.log_path.clone_from(&self.log_path);
        options.layout.log_volume.clone_from(&self.log_volume);
        options.layout.value_log = self.value_log()?;
        options.layout.cloud = self.cloud.options();
        options.validate().map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(options)
    }

    fn value_log(&self) -> Outcome<Option<ValueLogOptions>> {
        let length = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut values = match self.large_values {
            None => return Ok(None),
            Some(LargeValues::All) => ValueLogOptions::every_value(),
            Some(LargeValues::From(0)) => {
                return Err(Failure::Usage("--large-values: for every value say all".to_owned()));
            }
            Some(LargeValues::From(bytes)) => {
                ValueLogOptions { large_bytes: length(bytes), ..ValueLogOptions::default() }
            }
        };
        if let Some(bytes) = self.medium_values {
            values.medium_bytes = length(bytes);
            if values.medium_bytes > values.large_bytes {
                return Err(Failure::Usage(
                    "--medium-values must be at most --large-values".to_owned(),
                ));
            }
        }
        Ok(Some(values))
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
