//! Ids are newtypes so that two of them cannot be swapped by mistake.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id! {
    /// Grows at each change of a range's owner; an open of an embedded database is such a change.
    Epoch(u64), "e"
}
id! {
    /// A range: a key interval with one owner and one LSM-tree.
    RangeId(u64), "range"
}
id! {
    /// A level of the tree. Level 0 may hold runs that overlap each other; each deeper level
    /// holds exactly one run.
    LevelNo(u8), "L"
}

/// The deepest level.
pub const LEVEL_MAX: LevelNo = LevelNo(6);

id! {
    /// A row of L0: what one flush job wrote. Given at installation, in installation order, so
    /// that a greater id is a newer row; never reused.
    RowId(u64), "row"
}

id! {
    /// A place in a range's append order, in bytes of records since the range was created.
    /// Positions have no gaps: where one record ends (after its padding) the next begins, in the
    /// same segment or the next.
    LogPosition(u64), "@"
}

/// The id of a file: the epoch in which it was created, and a counter within that epoch.
///
/// Ids are never reused: each open of a range raises the epoch durably before it creates a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The epoch in which the file was created.
    pub epoch: Epoch,
    /// Counts the files of that epoch.
    pub counter: u64,
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06}-{:08}", self.epoch.0, self.counter)
    }
}

impl fmt::Debug for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FileId {
    /// The inverse of `Display`: a name that does not print back to itself is refused, so that a
    /// foreign file in the directory is never taken for one of ours.
    #[must_use]
    pub fn parse(text: &str) -> Option<FileId> {
        let (epoch, counter) = text.split_once('-')?;
        let id = FileId { epoch: Epoch(epoch.parse().ok()?), counter: counter.parse().ok()? };
        (id.to_string() == text).then_some(id)
    }
}

/// The id of a memtable: never reused, and ordered by creation within a range.
///
/// Log records name the memtables of their entries, and a version edit names the memtables that
/// a flush made durable, so that a replay knows which entries are settled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemtableId {
    /// The epoch in which the memtable was created.
    pub epoch: Epoch,
    /// Counts the memtables of that epoch.
    pub counter: u64,
}

impl fmt::Display for MemtableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch.0, self.counter)
    }
}

impl fmt::Debug for MemtableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{self}")
    }
}

/// A table's own identity, drawn at random when it is built and stored inside it.
///
/// Checksums cover it, so that the bytes of one table are never taken for those of another, and
/// it travels with the bytes through copies, links and shipping, where file names change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableUid(pub u128);

impl fmt::Debug for TableUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_ids_print_and_parse() {
        let id = FileId { epoch: Epoch(3), counter: 41 };
        assert_eq!(id.to_string(), "000003-00000041");
        assert_eq!(FileId::parse("000003-00000041"), Some(id));
        let large = FileId { epoch: Epoch(u64::MAX), counter: u64::MAX };
        assert_eq!(FileId::parse(&large.to_string()), Some(large));
    }

    #[test]
    fn names_that_do_not_print_back_are_foreign() {
        for foreign in ["3-41", "000003-0000041", "+00003-00000041", "../../x", "", "-", "000003-"]
        {
            assert_eq!(FileId::parse(foreign), None, "{foreign:?}");
        }
    }
}
