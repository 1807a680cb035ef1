use std::collections::BTreeMap;

use terrace_base::FileId;

use super::format::entry_bytes;
use super::{ValueFileMeta, ValuePointer};

/// What a table names of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedBytes {
    /// The segment.
    pub segment: FileId,
    /// How many values of it.
    pub count: u64,
    /// Bytes that these take in a value file.
    pub bytes: u64,
}

/// What one table names of all segments, ascending.
///
/// A table of which a part is consumed or clipped away still counts as a whole: what it names may
/// be less than this says, never more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedSegments(Vec<NamedBytes>);

impl NamedSegments {
    /// These; `None` unless the segments ascend, and each has at least one value of some bytes.
    #[must_use]
    pub fn new(named: Vec<NamedBytes>) -> Option<NamedSegments> {
        let ascends = named.windows(2).all(|pair| pair[0].segment < pair[1].segment);
        let are_some = named.iter().all(|one| 0 < one.count && one.count <= one.bytes);
        (ascends && are_some).then_some(NamedSegments(named))
    }

    /// Whether the table names no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One after the other, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &NamedBytes> {
        self.0.iter()
    }

    /// Bytes of all values that the table names.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|one| one.bytes).sum()
    }

    /// Adds the value of a key. Cost: O(log segments), but for the first one of a segment.
    pub fn add(&mut self, pointer: &ValuePointer, key_bytes: usize) {
        let segment = pointer.name.segment;
        let bytes = entry_bytes(key_bytes, pointer.bytes as usize);
        match self.0.binary_search_by_key(&segment, |one| one.segment) {
            Ok(index) => {
                self.0[index].count += 1;
                self.0[index].bytes += bytes;
            }
            Err(index) => self.0.insert(index, NamedBytes { segment, count: 1, bytes }),
        }
    }
}

/// How much of each segment the tables of a version name; pure. What is not named is garbage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Liveness {
    named: BTreeMap<FileId, (u64, u64)>,
}

impl Liveness {
    /// The sum over tables. Cost: O(tables × segments that each names).
    pub fn of<'a>(tables: impl IntoIterator<Item = &'a NamedSegments>) -> Liveness {
        let mut named: BTreeMap<FileId, (u64, u64)> = BTreeMap::new();
        for one in tables.into_iter().flat_map(NamedSegments::iter) {
            let (count, bytes) = named.entry(one.segment).or_default();
            *count += one.count;
            *bytes += one.bytes;
        }
        Liveness { named }
    }

    /// Whether tables name a value of a file, be it for a part of them that counts no more.
    #[must_use]
    pub fn names_any(&self, file: &ValueFileMeta) -> bool {
        file.segments.iter().any(|one| self.named.contains_key(&one.id))
    }

    /// Whether tables name a value of a segment.
    #[must_use]
    pub fn names(&self, segment: FileId) -> bool {
        self.named.contains_key(&segment)
    }

    /// How many values of a file tables name; one that two tables name counts twice.
    #[must_use]
    pub fn named_count(&self, file: &ValueFileMeta) -> u64 {
        let count = |one: &super::HeldSegment| self.named.get(&one.id).map_or(0, |named| named.0);
        file.segments.iter().map(count).sum()
    }

    /// Bytes of a file that tables name. Two tables may name a value both, so it is cut off at what
    /// the file has of each segment.
    #[must_use]
    pub fn live_bytes(&self, file: &ValueFileMeta) -> u64 {
        let live = |one: &super::HeldSegment| {
            self.named.get(&one.id).map_or(0, |(_, bytes)| *bytes.min(&one.bytes))
        };
        file.segments.iter().map(live).sum()
    }
}

#[cfg(test)]
mod tests {
    use terrace_base::{Epoch, TableUid};

    use super::super::{HeldSegment, ValueName};
    use super::*;
    use crate::placement::TableLocation;

    fn id(counter: u64) -> FileId {
        FileId { epoch: Epoch(1), counter }
    }

    fn table(values: &[(u64, u32)]) -> NamedSegments {
        let mut named = NamedSegments::default();
        for (segment, bytes) in values {
            let name = ValueName { segment: id(*segment), offset: 64 };
            named.add(&ValuePointer { name, bytes: *bytes, checksum: None }, 8);
        }
        named
    }

    #[test]
    fn what_tables_name_adds_up_by_segment() {
        let tables = [table(&[(3, 100), (1, 60), (3, 100)]), table(&[(3, 10)]), table(&[])];
        let named: Vec<_> =
            tables[0].iter().map(|one| (one.segment, one.count, one.bytes)).collect();
        assert_eq!(named, [(id(1), 1, 100), (id(3), 2, 280)]);
        assert_eq!(tables[0].bytes(), 380);
        let liveness = Liveness::of(&tables);
        assert!(liveness.names(id(1)) && liveness.names(id(3)) && !liveness.names(id(2)));
        let file = |segments: &[(u64, u64)]| ValueFileMeta {
            id: id(9),
            location: TableLocation::new("x"),
            uid: TableUid(1),
            bytes: 0,
            hash: 0,
            segments: segments
                .iter()
                .map(|(counter, bytes)| HeldSegment { id: id(*counter), count: 1, bytes: *bytes })
                .collect(),
            home: Default::default(),
        };
        assert_eq!(liveness.live_bytes(&file(&[(1, 1000), (3, 1000)])), 100 + 330);
        assert_eq!(liveness.live_bytes(&file(&[(3, 200)])), 200, "named twice");
        assert_eq!(liveness.named_count(&file(&[(1, 1000), (3, 1000), (4, 9)])), 4);
        assert_eq!(liveness.live_bytes(&file(&[(2, 1000)])), 0);
        assert_eq!(NamedSegments::new(tables[0].0.clone()).as_ref(), Some(&tables[0]));
        assert_eq!(NamedSegments::new(tables[0].0.iter().rev().copied().collect()), None);
    }
}
