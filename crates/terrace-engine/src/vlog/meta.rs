use terrace_base::{FileId, TableUid};

use super::ValueHome;
use crate::placement::TableLocation;

/// The values of one segment that lie in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldSegment {
    /// The segment.
    pub id: FileId,
    /// How many values; 0 of a log segment, in which nobody has counted them.
    pub count: u64,
    /// Bytes of their entries; of a log segment, of what a rewrite copies or gives back, where a
    /// value counts as its entry would: that may be more than the segment has.
    pub bytes: u64,
}

/// What a version knows of a value file without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueFileMeta {
    /// The file's id.
    pub id: FileId,
    /// Where the table store put it.
    pub location: TableLocation,
    /// The file's own identity, stored inside it.
    pub uid: TableUid,
    /// Its size in bytes. A log segment may be longer: its unused end was to be given back.
    pub bytes: u64,
    /// XXH3-128 of all its bytes; 0 of a log segment, of which nobody has read them all.
    pub hash: u128,
    /// The segments whose values lie in it, ascending; the one of the file's own id, as long as it
    /// was not rewritten.
    pub segments: Vec<HeldSegment>,
    /// What it is made of.
    pub home: ValueHome,
}

impl ValueFileMeta {
    /// Whether values of a segment lie in it.
    #[must_use]
    pub fn holds(&self, segment: FileId) -> bool {
        self.segments.binary_search_by_key(&segment, |one| one.id).is_ok()
    }

    /// Bytes of all entries, dead ones included.
    #[must_use]
    pub fn entry_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Bytes of all that is no entry.
    #[must_use]
    pub fn overhead_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.entry_bytes())
    }
}
