//! The object store for what does not fit on the local disk.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};
use terrace::{CloudOptions, PriceSheet};

use crate::args::place::parse_id;
use crate::args::units::{parse_size, parse_time};
use crate::files;

/// The object store for what does not fit on the local disk.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct CloudArgs {
    /// The object store for what does not fit into --local-bytes: s3://BUCKET/PREFIX, gs://…,
    /// az://… or file:///DIR. Credentials are taken from AWS_ACCESS_KEY_ID and the like. The
    /// directory keeps the URL, so that later commands need not be told
    #[arg(long, value_name = "URL", requires = "local_bytes")]
    pub(crate) cloud_url: Option<String>,
    /// About how much the database may take on the local disk, such as 10G: the lower levels lie in
    /// the object store
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "cloud_url")]
    pub(crate) local_bytes: Option<u64>,
    /// How much of --local-bytes blocks of the lower levels may take that were read, such as 2G, so
    /// that later reads of them cost no request; the upper levels have the rest. Otherwise blocks
    /// take what is left of it at the moment
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "cloud_url")]
    pub(crate) cloud_cache: Option<u64>,
    /// Keep the upper levels in the object store as well, and store a moment of the whole database
    /// so often, such as 60s: others read it there, make checkpoints and clones
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "cloud_url")]
    pub(crate) cloud_mirror: Option<Duration>,
    /// Bring the log to the object store as well, an object at most so often, such as 50ms, unless
    /// it is full: what is written with the class "durable" outlives this machine, and of the rest
    /// about a second is lost with it. Each object costs a put. It needs --cloud-mirror, which
    /// bounds the log there
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "cloud_mirror")]
    pub(crate) cloud_log: Option<Duration>,
    /// Keep the log there for so long, such as 7d, and make checkpoints between which it leads from
    /// one to the next: any earlier state can be read or cloned again (--at TIME). It keeps what
    /// compactions drop meanwhile. A log that is gathered for longer, such as --cloud-log 10s,
    /// makes an archive cheap
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "cloud_log")]
    pub(crate) cloud_archive: Option<Duration>,
    /// Which database of the object store an empty directory goes on with, by its id, if there are
    /// several. If there is one that was closed, it goes on with that; if there is none, a new one
    /// begins
    #[arg(long, value_name = "ID", value_parser = parse_id, requires = "cloud_url")]
    pub(crate) cloud_database: Option<u128>,
    /// Go on from the newest moment in the object store though the database was not closed there:
    /// the machine of its owner is lost, or this directory has fallen behind. What was written
    /// after that moment is in the database as far as the store has the log (--cloud-log), or the
    /// volume with it is here (--log-volume); a directory that has fallen behind keeps what only it
    /// has in a directory below. Whoever still has the database open can write no more
    #[arg(long, requires = "cloud_url")]
    pub(crate) take_over: bool,
    /// Take the database over without the log that lay on a volume (--log-volume), because that is
    /// lost too: what was written after the newest moment is lost then, also with the class
    /// "durable"
    #[arg(long, requires = "take_over")]
    pub(crate) abandon_log: bool,
    /// What the store charges, for estimates of money in figures: s3, gcs, azure, ebs-gp3,
    /// ebs-gp2, none, or a file of prices. Otherwise it follows the URL: s3:// is s3, gs:// gcs,
    /// az:// azure, and file:// costs nothing. For another server that speaks like S3, say none
    /// or a file
    #[arg(long, value_name = "NAME|FILE", value_parser = parse_prices, requires = "cloud_url")]
    pub(crate) prices: Option<Box<PriceSheet>>,
}

/// The largest file of prices, in bytes: one has a few lines.
const PRICES_BYTES_MAX: u64 = 64 << 10;

/// A sheet that is built in, or the one in a file.
/// Errors: no sheet and no file has this name; the file has no prices.
pub(crate) fn parse_prices(text: &str) -> Result<Box<PriceSheet>, String> {
    if let Some(sheet) = PriceSheet::named(text) {
        return Ok(Box::new(sheet));
    }
    let names = PriceSheet::NAMES.join(", ");
    let text_of = files::short_text(text.as_ref(), PRICES_BYTES_MAX).map_err(|why| {
        format!("it is neither a sheet of prices ({names}) nor a file of them: {why}")
    })?;
    PriceSheet::parse(&text_of).map(Box::new).map_err(|error| error.to_string())
}

impl CloudArgs {
    /// The library's options; `None` for what the directory says.
    pub(crate) fn options(&self) -> Option<CloudOptions> {
        let mut options = CloudOptions::new(self.cloud_url.clone()?, self.local_bytes?);
        options.cache_bytes = self.cloud_cache;
        options.mirror = self.cloud_mirror;
        options.log = self.cloud_log;
        options.archive = self.cloud_archive;
        options.database = self.cloud_database;
        options.take_over = self.take_over;
        options.abandon_log = self.abandon_log;
        options.prices = self.prices.as_deref().cloned();
        Some(options)
    }
}

/// Make a database of its own out of one in an object store.
#[derive(Debug, ClapArgs)]
pub(crate) struct CloneArgs {
    /// The directory for it; does not exist or is empty
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,
}

/// Who needs an object.
#[derive(Debug, ClapArgs)]
pub(crate) struct WhyLiveArgs {
    /// The name of the object, with the database's id in front or without, such as
    /// feed/00000000000000000001
    #[arg(value_name = "OBJECT")]
    pub(crate) object: String,
}

/// Databases in an object store.
#[derive(Debug, ClapArgs)]
pub(crate) struct CloudActArgs {
    #[command(subcommand)]
    pub(crate) act: CloudAct,
}

/// What to do in an object store.
#[derive(Debug, Subcommand)]
pub(crate) enum CloudAct {
    /// List the ids of the databases there
    Databases,
    /// List the checkpoints of a database
    Checkpoints,
    /// Keep the newest moment of a database as a checkpoint; no data is copied
    Checkpoint {
        /// Up to 100 letters, digits, `.`, `_` and `-`
        name: String,
    },
    /// Remove a checkpoint
    Remove {
        /// The checkpoint
        name: String,
    },
}
