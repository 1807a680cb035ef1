use std::num::NonZeroU64;
use std::time::{Duration, SystemTime};

/// A moment of the wall clock, in milliseconds since the Unix epoch.
///
/// Wall time is used for expiry and for reports only; nothing about safety rests on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WallTime(pub u64);

/// The moment from which an entry counts as a tombstone, in milliseconds since the Unix epoch.
///
/// An expired entry hides older versions of its key just as a tombstone with the same sequence
/// number would, and may be dropped only where such a tombstone may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expiry(NonZeroU64);

impl Expiry {
    /// An expiry at `at`; the epoch itself (0 ms) is rounded up to 1 ms.
    #[must_use]
    pub fn at(at: WallTime) -> Expiry {
        Expiry(NonZeroU64::new(at.0).unwrap_or(NonZeroU64::MIN))
    }

    /// Whether the entry counts as a tombstone at `now`.
    #[must_use]
    pub fn is_expired(self, now: WallTime) -> bool {
        self.0.get() <= now.0
    }

    /// The moment itself.
    #[must_use]
    pub fn time(self) -> WallTime {
        WallTime(self.0.get())
    }

    /// The moment as the standard library has it.
    #[must_use]
    pub fn to_system_time(self) -> SystemTime {
        let since_epoch = Duration::from_millis(self.0.get());
        // Every number of milliseconds in 64 bits fits the seconds in 64 bits that Linux has.
        SystemTime::UNIX_EPOCH + since_epoch
    }

    /// The stored form: 0 for no expiry, else the milliseconds.
    #[must_use]
    pub fn to_stored(expiry: Option<Expiry>) -> u64 {
        expiry.map_or(0, |expiry| expiry.0.get())
    }

    /// The inverse of [`Expiry::to_stored`].
    #[must_use]
    pub fn from_stored(stored: u64) -> Option<Expiry> {
        NonZeroU64::new(stored).map(Expiry)
    }
}

/// The millisecond that `at` lies in; what is not after the epoch counts as 1 ms after it.
impl From<SystemTime> for Expiry {
    fn from(at: SystemTime) -> Expiry {
        let since_epoch = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Expiry::at(WallTime(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl From<WallTime> for Expiry {
    fn from(at: WallTime) -> Expiry {
        Expiry::at(at)
    }
}
