//! The options of one call.

use std::time::Duration;

use terrace_base::{Expiry, WallTime};

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
}

impl ReadOptions {
    /// Reads that wait for the disk where they have to.
    #[must_use]
    pub const fn new() -> ReadOptions {
        ReadOptions { no_wait: false }
    }

    /// Reads that do not wait for the disk: they answer `NeedsIo` where they would. An event loop
    /// tries that first, and moves to a thread that may wait.
    #[must_use]
    pub const fn no_wait(self) -> ReadOptions {
        ReadOptions { no_wait: true }
    }

    pub(crate) fn may_wait(self) -> bool {
        !self.no_wait
    }

    pub(crate) fn engine(self) -> terrace_engine::store::GetOptions {
        terrace_engine::store::GetOptions { wait: self.may_wait() }
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
