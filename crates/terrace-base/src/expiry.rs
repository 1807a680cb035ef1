use std::num::NonZeroU64;

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
