use std::time::Duration;

use super::require;
use crate::Result;
use crate::cloud::PriceSheet;

/// The log may take this part of the bytes that the range may take on the local disk.
const LOG_DIVISOR: u64 = 4;

/// Where the lower levels of a range lie that is larger than the local disk: in an object store.
///
/// *Source:* RocksMash (TACO 2022), sections 2 and 3.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudOptions {
    /// The URL of the store, as [`ObjectStores::open`](terrace_env::ObjectStores::open) takes it.
    /// Several databases may share it: all of one lies under its id.
    pub url: String,
    /// About how many bytes the range may take on the local disk, its log and values included; at
    /// least 16 MiB. The levels that do not fit lie in the store. With more, fewer reads cost a
    /// request. Without it, every level stays where it lies.
    pub local_bytes: Option<u64>,
    /// About how many bytes of the local disk blocks of the lower levels may take that were read:
    /// later reads of them cost no request. With `local_bytes` they are a part of these, and the
    /// levels have the rest; without this option blocks take what is left of them at the moment.
    /// Without either, the cache stays as large as an earlier open has left it. Nothing that is
    /// kept there has to last.
    pub cache_bytes: Option<u64>,
    /// The level from which on tables lie in the store whatever `local_bytes` says, from 1 to 6.
    /// The default is none: the level follows `local_bytes`.
    pub first_level: Option<u8>,
    /// How often the store gets the levels above the line as well, if at all: then whoever has only
    /// the store finds the range as it was at a moment, at most about this long ago: a reader on
    /// another machine, a checkpoint in the store, or whoever takes the database over when this
    /// machine is lost. At least a second. Each time memtables are flushed, and each file of the
    /// upper levels costs a put and its bytes; the default is never. Not with a container of L0.
    pub mirror: Option<Duration>,
    /// The log goes to the store as well, an object at most this often unless it is full, so that
    /// writes of the class [`Durability::Durable`](super::Durability::Durable) outlive this
    /// machine, and others are lost with it at most for about a second. From a millisecond on; each
    /// object costs a put, and a longer time makes fewer of them and durable writes slower. It
    /// needs [`CloudOptions::mirror`], which says how much of the log there is at most, and the log
    /// in the database's own directory. The default is none.
    pub log: Option<Duration>,
    /// How long any earlier state of the database can be had again, to the second: the log in the
    /// store is kept for so long, and checkpoints are made between which it leads from one to the
    /// next. They are called `archive-…`, and hold what compactions have dropped since. An open
    /// without this option makes no more of them and leaves those that are there, which can be
    /// removed by their names. At least a minute. It needs [`CloudOptions::log`]. The default is
    /// none.
    pub archive: Option<Duration>,
    /// The database that an empty directory goes on with, by its id. Without one it is the only one
    /// that the store has, or a new one if it has none.
    pub database: Option<u128>,
    /// Whether to go on from the newest moment in the store though the database was not closed
    /// there, because its owner is lost; or though this directory has a manifest of its own, which
    /// has fallen behind the store. What was written after the moment is not there. Whoever still
    /// has the database open can write no more, and a directory that has fallen behind keeps what
    /// only it had, in a directory below it.
    pub take_over: bool,
    /// Whether a take-over goes on without the log that lay on a volume
    /// ([`Options::log_volume`](super::Options::log_volume)), because that is lost too: what was
    /// written after the newest moment in the store is lost then, what was acknowledged as durable
    /// as well. The default is no: then a take-over without the volume is refused.
    pub abandon_log: bool,
    /// What the store charges, for the estimates of money in figures and explanations; nothing else
    /// depends on it, and it is not kept with the database. The default is the sheet that is built
    /// in for the URL's scheme ([`PriceSheet::of_url`]), which holds for the service itself and not
    /// for another server that speaks like it.
    pub prices: Option<PriceSheet>,
}

impl CloudOptions {
    /// The least `local_bytes`.
    pub const LOCAL_BYTES_MIN: u64 = 16 << 20;

    /// Levels that do not fit into `local_bytes` lie in the store at `url`.
    #[must_use]
    pub fn new(url: impl Into<String>, local_bytes: u64) -> CloudOptions {
        CloudOptions { local_bytes: Some(local_bytes), ..CloudOptions::as_it_is(url) }
    }

    /// Every level stays where it lies, in the store at `url` or on the local disk.
    #[must_use]
    pub fn as_it_is(url: impl Into<String>) -> CloudOptions {
        CloudOptions {
            url: url.into(),
            local_bytes: None,
            cache_bytes: None,
            first_level: None,
            mirror: None,
            log: None,
            archive: None,
            database: None,
            take_over: false,
            abandon_log: false,
            prices: None,
        }
    }

    /// What the store charges: `prices`, or the sheet for the URL's scheme.
    #[must_use]
    pub fn price_sheet(&self) -> PriceSheet {
        self.prices.clone().unwrap_or_else(|| PriceSheet::of_url(&self.url))
    }

    /// The most bytes that blocks may ever take that are kept near, if there is a bound.
    pub(crate) fn near_bytes_max(&self) -> Option<u64> {
        self.cache_bytes.or(self.local_bytes)
    }

    /// How many of `local_bytes` the log may take.
    pub(super) fn log_bytes_max(&self) -> u64 {
        self.local_bytes.map_or(u64::MAX, |bytes| bytes / LOG_DIVISOR)
    }

    pub(super) fn validate(&self) -> Result<()> {
        require(!self.url.is_empty(), "cloud.url must name an object store")?;
        require(
            self.local_bytes.is_none_or(|bytes| bytes >= CloudOptions::LOCAL_BYTES_MIN),
            "cloud.local_bytes must be at least 16 MiB",
        )?;
        require(
            self.cache_bytes.is_none_or(|bytes| {
                self.local_bytes.is_none_or(|local_bytes| bytes <= local_bytes / 2)
            }),
            "cloud.cache_bytes may be at most half of cloud.local_bytes",
        )?;
        require(
            self.mirror.is_none_or(|period| period >= Duration::from_secs(1)),
            "cloud.mirror must be at least 1 s",
        )?;
        require(
            self.log.is_none_or(|interval| interval >= Duration::from_millis(1)),
            "cloud.log must be at least 1 ms",
        )?;
        require(self.log.is_none() || self.mirror.is_some(), "cloud.log needs cloud.mirror")?;
        require(
            self.archive.is_none_or(|keep| keep >= Duration::from_secs(60)),
            "cloud.archive must be at least 1 min",
        )?;
        require(self.archive.is_none() || self.log.is_some(), "cloud.archive needs cloud.log")?;
        require(
            self.first_level.is_none_or(|level| (1..=6).contains(&level)),
            "cloud.first_level must be from 1 to 6",
        )
    }
}
