#[cfg(test)]
use terrace_base::Epoch;
use terrace_base::{FileId, KeyRange, SeqNo, TableUid, WallTime};

use super::BuiltTable;
use crate::placement::{TableLocation, TableMedium};
use crate::vlog::NamedSegments;

/// What a version knows of a table without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// The file's id.
    pub id: FileId,
    /// Where the table store put it.
    pub location: TableLocation,
    /// The table's own identity, stored inside it.
    pub uid: TableUid,
    /// Its size in bytes.
    pub bytes: u64,
    /// XXH3-128 of all its bytes.
    pub hash: u128,
    /// The least sequence number in it, range tombstones included.
    pub least_seqno: SeqNo,
    /// The greatest sequence number in it.
    pub greatest_seqno: SeqNo,
    /// Where its keys and range tombstones lie.
    pub bounds: KeyRange,
    /// Only what lies in here counts: so a split, a migration or an excision rewrites nothing.
    pub clip: KeyRange,
    /// Whether other nodes may name the same table, so that deleting it is not this node's affair.
    pub shared: bool,
    /// How many entries it holds, range tombstones apart.
    pub entry_count: u64,
    /// How many of them are tombstones.
    pub tombstone_count: u64,
    /// How many range tombstones it holds.
    pub range_tombstone_count: u64,
    /// Bytes of keys and values before coding.
    pub raw_bytes: u64,
    /// The longest run of neighbouring keys whose newest entry in it is a tombstone: what a scan
    /// may have to step over.
    pub tombstone_run: u64,
    /// When the last of its entries expires, if all of them expire and it holds no range tombstone.
    pub expired_from: Option<WallTime>,
    /// The values that it names in value files.
    pub named: NamedSegments,
}

impl TableMeta {
    /// Whether it is a row in the pages of L0's container, and no file.
    #[must_use]
    pub fn is_in_pages(&self) -> bool {
        self.location.medium() == TableMedium::Container
    }

    /// The keys that the table speaks for: its bounds within its clip interval.
    #[must_use]
    pub fn span(&self) -> KeyRange {
        self.bounds.intersection(&self.clip)
    }

    /// A table of one entry with number 1, anywhere among the keys.
    #[cfg(test)]
    pub(crate) fn sample(counter: u64) -> TableMeta {
        TableMeta {
            id: FileId { epoch: Epoch(1), counter },
            location: TableLocation::new(vec![counter as u8]),
            uid: TableUid(counter.into()),
            bytes: 1,
            hash: 0,
            least_seqno: SeqNo(1),
            greatest_seqno: SeqNo(1),
            bounds: KeyRange::all(),
            clip: KeyRange::all(),
            shared: false,
            entry_count: 1,
            tombstone_count: 0,
            range_tombstone_count: 0,
            raw_bytes: 1,
            tombstone_run: 0,
            expired_from: None,
            named: NamedSegments::default(),
        }
    }
}

/// What versions know of a table that was just built.
pub(crate) fn table_meta(id: FileId, built: BuiltTable) -> TableMeta {
    let properties = &built.properties;
    assert!(
        properties.entry_count + properties.range_tombstone_count > 0,
        "table {id} holds nothing"
    );
    assert!(
        properties.least_seqno <= properties.greatest_seqno,
        "the numbers of table {id} go from {} to {}",
        properties.least_seqno,
        properties.greatest_seqno
    );
    TableMeta {
        id,
        location: built.location,
        uid: built.uid,
        bytes: built.bytes,
        hash: built.hash,
        least_seqno: properties.least_seqno,
        greatest_seqno: properties.greatest_seqno,
        bounds: properties.bounds(),
        clip: KeyRange::all(),
        shared: false,
        entry_count: properties.entry_count,
        tombstone_count: properties.tombstone_count,
        range_tombstone_count: properties.range_tombstone_count,
        raw_bytes: properties.raw_key_bytes + properties.raw_value_bytes,
        tombstone_run: built.tombstone_run,
        expired_from: built.expired_from,
        named: built.properties.named,
    }
}
