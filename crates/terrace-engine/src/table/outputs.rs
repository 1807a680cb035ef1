use std::sync::Arc;

use terrace_base::{EntryRef, FileId, KeyRange, LevelNo, TableUid, WallTime};
use terrace_env::{PlantedBug, is_planted};

use super::{HotBlocks, TableBuilder, TableMeta, TableOptions, TableStore, table_meta};
use crate::Result;
use crate::process::TableIo;
use crate::range_tombstone::Fragments;

/// A key at which the data of a table could be divided, and the bytes of data between it and the
/// sample before it.
pub type Sample = (Vec<u8>, u64);

/// How the tables of a level are built.
#[derive(Clone, Debug)]
pub struct TableShape {
    /// A table ends at the first new key beyond this many bytes.
    pub table_bytes: u64,
    /// How its blocks are built.
    pub table: TableOptions,
}

/// What a job writes: which part of the keys, and in what shape.
#[derive(Clone, Copy, Debug)]
pub struct OutputSpec<'a> {
    /// The level that the tables are for; 0 for a row of L0.
    pub level: LevelNo,
    /// How the tables are built.
    pub shape: &'a TableShape,
    /// The keys; entries lie within, range tombstones are clipped to it.
    pub slice: &'a KeyRange,
    /// The range tombstones.
    pub tombstones: &'a Fragments,
    /// An estimate of the bytes to come, so that room for them is reserved and no more.
    pub expected_bytes: u64,
    /// Becomes the tables' creation time.
    pub now: WallTime,
}

/// Gives out the file id and the identity of the next table.
pub type NextTable<'a> = Box<dyn FnMut() -> Result<(FileId, TableUid)> + 'a>;

/// Writes sorted entries and range tombstones into a row of disjoint tables.
///
/// A table ends where the key changes, never between two versions of one key. Range tombstones
/// are clipped to the part of the slice that each table speaks for.
///
/// ```text
///   entries      a a b c   │   d e f   │   g
///   tombstones  ├───────────────┤
///   tables      [ a … d )      [ d … g )   [ g … end )
/// ```
pub struct OutputTables<'a> {
    store: &'a dyn TableStore,
    spec: OutputSpec<'a>,
    next_table: NextTable<'a>,
    /// Whose limit the tables obey, if any.
    io: Option<TableIo>,
    /// What of them will be read, if that is known.
    hot: Option<Arc<HotBlocks>>,
    /// Where the part of the current table begins.
    part_start: Vec<u8>,
    builder: Option<(FileId, TableBuilder)>,
    last_key: Vec<u8>,
    finished: Vec<TableMeta>,
}

impl<'a> OutputTables<'a> {
    /// Writes into `store`.
    #[must_use]
    pub fn new(
        store: &'a dyn TableStore,
        spec: OutputSpec<'a>,
        next_table: NextTable<'a>,
    ) -> OutputTables<'a> {
        OutputTables {
            store,
            spec,
            next_table,
            io: None,
            hot: None,
            part_start: spec.slice.start().to_vec(),
            builder: None,
            last_key: Vec::new(),
            finished: Vec::new(),
        }
    }

    /// The same for background work, which obeys a limit.
    #[must_use]
    pub fn limited_by(self, io: Option<TableIo>) -> OutputTables<'a> {
        OutputTables { io, ..self }
    }

    /// The same; blocks that will be read are kept as they are written.
    #[must_use]
    pub fn with_hot(self, hot: Option<Arc<HotBlocks>>) -> OutputTables<'a> {
        OutputTables { hot, ..self }
    }

    /// Adds the next entry in internal order.
    pub fn add(&mut self, entry: &EntryRef<'_>) -> Result<()> {
        let full = self.builder.as_ref().is_some_and(|(_, builder)| {
            builder.estimated_bytes() >= self.spec.shape.table_bytes && self.last_key != entry.key
        });
        if full {
            self.end_part(Some(entry.key))?;
        }
        self.builder()?.add(*entry)?;
        self.last_key.clear();
        self.last_key.extend_from_slice(entry.key);
        Ok(())
    }

    fn builder(&mut self) -> Result<&mut TableBuilder> {
        if self.builder.is_none() {
            let (id, uid) = (self.next_table)()?;
            let shape = self.spec.shape;
            let expected_bytes = self.spec.expected_bytes.min(shape.table_bytes);
            let writer =
                self.store.create(id, self.spec.level, expected_bytes + expected_bytes / 8)?;
            let writer = match &self.io {
                Some(io) => io.limited(writer),
                None => writer,
            };
            let builder = TableBuilder::new(writer, uid, &shape.table, self.spec.now);
            let builder = builder.with_hot(self.hot.clone());
            self.builder = Some((id, builder));
        }
        Ok(&mut self.builder.as_mut().expect("made above").1)
    }

    /// Ends the current table's part at `end` (of the slice, if none).
    fn end_part(&mut self, end: Option<&[u8]>) -> Result<()> {
        let end = end.or(self.spec.slice.end()).map(<[u8]>::to_vec);
        let part = KeyRange::new(std::mem::take(&mut self.part_start), end.clone());
        self.part_start = end.unwrap_or_default();
        let tombstones = self.spec.tombstones.clip(&part);
        for tombstone in tombstones.iter() {
            let crosses = !self.finished.is_empty() && tombstone.start == part.start();
            if crosses && is_planted(PlantedBug::LoseRangeTombstoneAtBoundary) {
                continue;
            }
            self.builder()?.add_range_tombstone(tombstone);
        }
        if let Some((id, builder)) = self.builder.take() {
            self.finished.push(table_meta(id, builder.finish()?));
        }
        Ok(())
    }

    /// Ends the last table. The tables' content is durable, their names are not yet: see
    /// [`TableStore::sync`].
    pub fn finish(mut self) -> Result<Vec<TableMeta>> {
        self.end_part(None)?;
        let finished = std::mem::take(&mut self.finished);
        assert_row(&finished, self.spec.slice);
        Ok(finished)
    }
}

/// The tables are disjoint, ascend and lie within the slice: what is wrong here would be installed,
/// or refused when its manifest is read.
fn assert_row(tables: &[TableMeta], slice: &KeyRange) {
    for table in tables {
        assert_eq!(table.bounds, table.bounds.intersection(slice), "{table:?} leaves {slice:?}");
    }
    for pair in tables.windows(2) {
        let start = pair[1].bounds.start();
        assert!(pair[0].bounds.is_before(start), "{:?} and {:?} overlap", pair[0], pair[1]);
    }
}

impl std::fmt::Debug for OutputTables<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OutputTables, {} finished", self.finished.len())
    }
}
