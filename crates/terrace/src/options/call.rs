//! The options of one call.

use std::time::Duration;

use terrace_base::{Expiry, WallTime};
use terrace_engine::store::GetOptions;
use terrace_engine::table::ReadMode;

use crate::Durability;

/// How keys and intervals are read; given to a [`View`](crate::View) by
/// [`View::with`](crate::View::with).
///
/// ```
/// # fn main() -> terrace::Result<()> {
/// use terrace::{ErrorKind, ReadOptions};
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let db = terrace::Db::open(directory.path())?;
/// let at_once = db.with(ReadOptions::new().no_wait());
/// match at_once.get("key") {
///     Ok(value) => println!("{value:?}"),
///     Err(error) if error.kind() == ErrorKind::NeedsIo => println!("it is on the disk"),
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions {
    no_wait: bool,
    no_cache_fill: bool,
    readahead_bytes: u32,
}

impl ReadOptions {
    /// Reads that wait for the disk where they have to.
    #[must_use]
    pub const fn new() -> ReadOptions {
        ReadOptions { no_wait: false, no_cache_fill: false, readahead_bytes: 0 }
    }

    /// Reads that do not wait for the disk: they answer `NeedsIo` where they would. An event loop
    /// tries that first, and moves to a thread that may wait.
    #[must_use]
    pub const fn no_wait(self) -> ReadOptions {
        ReadOptions { no_wait: true, ..self }
    }

    /// Reads that leave the block cache as it is: what they read from the disk does not stay in it.
    /// For a walk over much that will not be read again soon.
    #[must_use]
    pub const fn no_cache_fill(self) -> ReadOptions {
        ReadOptions { no_cache_fill: true, ..self }
    }

    /// Has so many bytes of each table read ahead of an iterator or a cursor that goes forward: it
    /// then waits less for the disk. The default is 0, which leaves it to the kernel; 1 MiB is
    /// enough for most disks. At most 16 MiB.
    #[must_use]
    pub const fn readahead(self, bytes: usize) -> ReadOptions {
        const MAX: usize = 16 << 20;
        let bytes = if bytes < MAX { bytes } else { MAX };
        ReadOptions { readahead_bytes: bytes as u32, ..self }
    }

    #[cfg(feature = "tokio")]
    pub(crate) const fn may_wait(self) -> ReadOptions {
        ReadOptions { no_wait: false, ..self }
    }

    pub(crate) fn engine(self) -> GetOptions {
        GetOptions { wait: !self.no_wait, fill_cache: !self.no_cache_fill }
    }

    pub(crate) fn mode(self) -> ReadMode {
        ReadMode {
            waits: !self.no_wait,
            fills_cache: !self.no_cache_fill,
            ahead_bytes: self.readahead_bytes,
        }
    }
}

/// How a write is done. Options that are not set are those of the database and the keyspace.
///
/// ```
/// use std::time::Duration;
/// use terrace::WriteOptions;
/// # fn main() -> terrace::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let db = terrace::Db::open(directory.path())?;
/// const SESSION: WriteOptions = WriteOptions::new().sync().ttl(Duration::from_secs(1800));
/// db.put_with("session", "Ada", &SESSION)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    durability: Option<Durability>,
    life: Life,
    no_wait: bool,
}

/// For how long what is put stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Life {
    /// As the keyspace says.
    #[default]
    Default,
    /// For this long from now.
    For(Duration),
    /// Until this moment.
    Until(Expiry),
    /// For ever.
    ForEver,
}

impl WriteOptions {
    /// Nothing set.
    #[must_use]
    pub const fn new() -> WriteOptions {
        WriteOptions { durability: None, life: Life::Default, no_wait: false }
    }

    /// The write is acknowledged when it would survive a power cut. In a database of a weaker class
    /// it is visible before that.
    #[must_use]
    pub const fn sync(self) -> WriteOptions {
        self.durability(Durability::Sync)
    }

    /// The write is acknowledged when it would survive the loss of this machine. It needs the log
    /// in an object store ([`CloudOptions::log`](crate::CloudOptions::log)).
    #[must_use]
    pub const fn durable(self) -> WriteOptions {
        self.durability(Durability::Durable)
    }

    /// What the acknowledgement of this write promises.
    #[must_use]
    pub const fn durability(self, durability: Durability) -> WriteOptions {
        WriteOptions { durability: Some(durability), ..self }
    }

    /// What is put is gone after this time, which is counted in milliseconds.
    #[must_use]
    pub const fn ttl(self, ttl: Duration) -> WriteOptions {
        WriteOptions { life: Life::For(ttl), ..self }
    }

    /// What is put is gone from this moment on.
    #[must_use]
    pub const fn expires_at(self, expiry: Expiry) -> WriteOptions {
        WriteOptions { life: Life::Until(expiry), ..self }
    }

    /// What is put stays, whatever the keyspace says.
    #[must_use]
    pub const fn no_expiry(self) -> WriteOptions {
        WriteOptions { life: Life::ForEver, ..self }
    }

    /// The call does not wait: for room, for the pace that background work sets, or for a sync. It
    /// answers `WouldBlock` where it would, and then nothing was written.
    #[must_use]
    pub const fn no_wait(self) -> WriteOptions {
        WriteOptions { no_wait: true, ..self }
    }

    #[cfg(feature = "tokio")]
    pub(crate) const fn may_wait(self) -> WriteOptions {
        WriteOptions { no_wait: false, ..self }
    }

    pub(crate) fn life(&self) -> Life {
        self.life
    }

    pub(crate) fn engine(&self) -> terrace_engine::store::WriteOptions {
        terrace_engine::store::WriteOptions { durability: self.durability, wait: !self.no_wait }
    }
}

impl Life {
    /// The expiry of what is put at `now`, in a keyspace with this default.
    #[inline]
    pub(crate) fn expiry(
        self,
        default: Option<Duration>,
        now: impl Fn() -> WallTime,
    ) -> Option<Expiry> {
        let ttl = match self {
            Life::Default => default?,
            Life::For(ttl) => ttl,
            Life::Until(expiry) => return Some(expiry),
            Life::ForEver => return None,
        };
        let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        Some(Expiry::at(WallTime(now().0.saturating_add(millis))))
    }
}
