//! Which keys are meant: the ranges of the language, prefixes, and intervals.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use terrace_base::KeyRange as OwnedRange;

/// An interval of keys, in bytewise order: `..`, `a..b`, `a..=b`, `a..`, `..b`, `..=b` of whatever
/// is bytes, a pair of [`Bound`]s, or a [`Prefix`].
///
/// ```
/// # fn main() -> terrace::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let db = terrace::Db::open(directory.path())?;
/// for key in ["a", "b", "c"] {
///     db.put(key, "")?;
/// }
/// assert_eq!(db.range(..).count(), 3);
/// assert_eq!(db.range("a".."c").count(), 2);
/// assert_eq!(db.range(String::from("b")..).count(), 2);
/// assert_eq!(db.range([b'a']..=[b'c']).count(), 3);
/// # Ok(())
/// # }
/// ```
pub trait KeyRange {
    /// The lower and the upper end.
    fn bounds(&self) -> (Bound<&[u8]>, RangeEnd<'_>);
}

/// Where an interval of keys ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RangeEnd<'a> {
    /// Before this key.
    Before(&'a [u8]),
    /// With this key.
    With(&'a [u8]),
    /// With the last key that begins with these bytes.
    WithPrefix(&'a [u8]),
    /// Nowhere: with the last key.
    Open,
}

impl<'a> From<Bound<&'a [u8]>> for RangeEnd<'a> {
    fn from(bound: Bound<&'a [u8]>) -> RangeEnd<'a> {
        match bound {
            Bound::Excluded(key) => RangeEnd::Before(key),
            Bound::Included(key) => RangeEnd::With(key),
            Bound::Unbounded => RangeEnd::Open,
        }
    }
}

/// The keys that begin with these bytes, and no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix<K>(
    /// What they begin with.
    pub K,
);

impl<K: AsRef<[u8]>> KeyRange for Prefix<K> {
    fn bounds(&self) -> (Bound<&[u8]>, RangeEnd<'_>) {
        let prefix = self.0.as_ref();
        (Bound::Included(prefix), RangeEnd::WithPrefix(prefix))
    }
}

impl KeyRange for RangeFull {
    fn bounds(&self) -> (Bound<&[u8]>, RangeEnd<'_>) {
        (Bound::Unbounded, RangeEnd::Open)
    }
}

impl<K: AsRef<[u8]>> KeyRange for Range<K> {
    fn bounds(&self) -> (Bound<&[u8]>, RangeEnd<'_>) {
        (Bound::Included(self.start.as_ref()), RangeEnd::Before(self.end.as_ref()))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeInclusive<K> {
    fn bounds(&self) -> (Bound<&[u8]>, RangeEnd<'_>) {
        (Bound::Included(self.start().as_ref()), RangeEnd::With(self.end().as_ref()))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeFrom<K> {
    fn bounds(&self) -> (Bound<&[u8]>, RangeEnd<'_>) {
        (Bound::Included(self.start.as_ref()), RangeEnd::Open)
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeTo<K> {
    fn bounds(&self) -> (Bound<&[u8]>, RangeEnd<'_>) {
        (Bound::Unbounded, RangeEnd::Before(self.end.as_ref()))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeToInclusive<K> {
    fn bounds(&self) -> (Bound<&[u8]>, RangeEnd<'_>) {
        (Bound::Unbounded, RangeEnd::With(self.end.as_ref()))
    }
}

impl<K: AsRef<[u8]>, L: AsRef<[u8]>> KeyRange for (Bound<K>, Bound<L>) {
    fn bounds(&self) -> (Bound<&[u8]>, RangeEnd<'_>) {
        let end = self.1.as_ref().map(AsRef::as_ref);
        (self.0.as_ref().map(AsRef::as_ref), end.into())
    }
}

impl KeyRange for OwnedRange {
    fn bounds(&self) -> (Bound<&[u8]>, RangeEnd<'_>) {
        (Bound::Included(self.start()), self.end().map_or(RangeEnd::Open, RangeEnd::Before))
    }
}

impl<R: KeyRange + ?Sized> KeyRange for &R {
    fn bounds(&self) -> (Bound<&[u8]>, RangeEnd<'_>) {
        (**self).bounds()
    }
}
