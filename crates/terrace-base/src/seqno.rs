use std::fmt;

/// The order of writes within one range: a later write has a larger number.
///
/// Each entry of a batch has its own number (entries that a range tombstone leaves in several
/// dranges share one), and the numbers of a batch become visible together. Numbers are never
/// reused within a range. [`SeqNo::ZERO`] lies before every write, so that a read at it sees
/// nothing; [`SeqNo::MAX`] lies after every write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SeqNo(pub u64);

impl SeqNo {
    /// Before every write.
    pub const ZERO: SeqNo = SeqNo(0);
    /// After every write.
    pub const MAX: SeqNo = SeqNo(u64::MAX);

    /// The number that follows this one.
    ///
    /// # Panics
    /// After 2^64 - 1 writes to one range.
    #[must_use]
    pub fn next(self) -> SeqNo {
        SeqNo(self.0.checked_add(1).expect("a range holds fewer than 2^64 writes"))
    }
}

impl fmt::Debug for SeqNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for SeqNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
