use terrace_base::{
    Epoch, FileId, KeyRange, LevelNo, LogPosition, MemtableId, RangeId, RowId, SeqNo, TableUid,
    WallTime,
};

use crate::l0::CutInterval;
use crate::l0::triangle::ContainerPlace;
use crate::l0::triangle::row::RowLocation;
use crate::table::TableLocation;
use crate::wal::LogStart;

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
}

impl TableMeta {
    /// Whether it is a row in the pages of L0's container, and no file.
    #[must_use]
    pub fn is_in_pages(&self) -> bool {
        RowLocation::decode(&self.location).is_some()
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
            location: TableLocation(vec![counter as u8]),
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
        }
    }
}

/// What one flush job wrote into L0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowMeta {
    /// Given at installation, in installation order; [`RowId`] 0 until then. A row that was merged
    /// out of others within L0 has the id of the newest of them.
    pub id: RowId,
    /// The tables that hold the row, sorted and disjoint (plain L0).
    pub tables: Vec<TableMeta>,
}

impl RowMeta {
    /// Bytes of the row.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes).sum()
    }
}

/// A change of a [`Version`](super::Version): what one flush, one compaction or one open did.
///
/// Fields that are `None` or empty change nothing. Edits are applied in the order of the feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionEdit {
    /// Starts from an empty version: the first edit of every manifest.
    pub is_snapshot: bool,
    /// The database, drawn at random when it was created.
    pub database: Option<u128>,
    /// The range, and the keys that it owns.
    pub range: Option<(RangeId, KeyRange)>,
    /// The owner's epoch. Edits of a lower epoch are refused.
    pub epoch: Option<Epoch>,
    /// Rows that leave L0.
    pub rows_removed: Vec<RowId>,
    /// Rows that join L0, oldest first. One that has the id of a removed row takes its place, and
    /// the place of all rows that were removed with it.
    pub rows_added: Vec<RowMeta>,
    /// What of the rows is consumed: what the edit's cut took, or, in a snapshot, all of it.
    /// Ascending and disjoint.
    pub cuts: Vec<CutInterval>,
    /// The id that the next row gets.
    pub next_row: Option<RowId>,
    /// Tables that leave a level.
    pub tables_removed: Vec<(LevelNo, FileId)>,
    /// Tables that join a level (1 or deeper).
    pub tables_added: Vec<(LevelNo, TableMeta)>,
    /// Memtables whose entries are in L0 now, each with the log position below which all its
    /// records stand: a replay skips their entries.
    pub memtables_flushed: Vec<(MemtableId, LogPosition)>,
    /// Where a replay of the log starts.
    pub log_start: Option<LogStart>,
    /// The greatest sequence number that tables hold.
    pub greatest_seqno: Option<SeqNo>,
    /// Where the log ends after a clean close. Means something only as the last edit.
    pub closed: Option<LogPosition>,
    /// The name of the range's merge operator, which it keeps.
    pub merge_operator: Option<String>,
    /// The range was put together by a repair.
    pub repaired: Option<Repaired>,
    /// Where memtables divide the keys from now on, ascending.
    pub drange_boundaries: Option<Vec<Vec<u8>>>,
    /// Where the rows of L0 are that lie in pages.
    pub container: Option<ContainerPlace>,
    /// The directory of the tables of L0 that lie in one of their own.
    pub row_directory: Option<String>,
    /// The directories beside the range's own in which segments of the log lie.
    pub log_directories: Option<Vec<String>>,
}

/// The stamp of a repair: what a range holds was salvaged from a damaged one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Repaired {
    /// When.
    pub at_ms: u64,
    /// The database that it was salvaged from; 0 if that could not be read. The repaired one has
    /// an identity of its own.
    pub source_database: u128,
    /// Whether the repair knew of something that it could not salvage.
    pub is_incomplete: bool,
}
