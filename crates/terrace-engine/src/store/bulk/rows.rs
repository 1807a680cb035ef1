//! Rows of L0 that a copy writes itself, because they lie in no file that it could take.

use std::sync::Arc;

use terrace_base::{FileId, KeyRange, LevelNo, TableUid};

use crate::Result;
use crate::compaction::{Retained, Retention};
use crate::iter::{MergingStream, Stream};
use crate::l0::LiveTable;
use crate::memtable::Memtable;
use crate::range_tombstone::Fragments;
use crate::store::Inner;
use crate::table::{LocalTableStore, OutputSpec, OutputTables, TableShape};
use crate::version::TableMeta;

/// The one table of a row, before it is written.
struct RowTable<'a> {
    id: FileId,
    tombstones: &'a Fragments,
    expected_bytes: u64,
}

impl Inner {
    /// Writes what is live of a row in pages as a table; none if that is nothing.
    pub(super) fn write_row(
        &self,
        target: &LocalTableStore,
        live: &LiveTable,
    ) -> Result<Option<TableMeta>> {
        let meta = live.table.meta();
        let row = self.context.opener.container.row(meta)?;
        let clipped: Vec<Fragments> =
            live.parts().iter().map(|part| row.range_tombstones().clip(part)).collect();
        let tombstones = Fragments::merge(&clipped);
        let table = RowTable { id: meta.id, tombstones: &tombstones, expected_bytes: live.bytes() };
        self.write_table(target, table, |outputs| {
            live.parts().iter().try_for_each(|part| add_all(outputs, &mut row.stream(part)?))
        })
    }

    /// Writes these memtables as a table, of which nobody needs more than the newest versions; none
    /// if they hold nothing.
    pub(super) fn write_memtables(
        &self,
        target: &LocalTableStore,
        memtables: &[Arc<Memtable>],
        id: FileId,
    ) -> Result<Option<TableMeta>> {
        let streams = memtables.iter();
        let streams = streams.map(|memtable| Box::new(memtable.stream()) as Box<dyn Stream + Send>);
        let mut merged = MergingStream::new(streams.collect());
        let fragments: Vec<_> =
            memtables.iter().map(|memtable| memtable.range_tombstones()).collect();
        let tombstones = Fragments::merge(fragments.iter().map(|some| &**some));
        let rules = Retention::new(Vec::new(), Vec::new(), self.env.wall_time(), tombstones)
            .with_operator(self.merge_operator.clone());
        let mut retained = Retained::new(&mut merged, &rules)?;
        let tombstones = &rules.surviving_tombstones();
        let expected_bytes = memtables.iter().map(|memtable| memtable.used_bytes() as u64).sum();
        let table = RowTable { id, tombstones, expected_bytes };
        self.write_table(target, table, |outputs| add_all(outputs, &mut retained))
    }

    fn write_table(
        &self,
        target: &LocalTableStore,
        table: RowTable<'_>,
        fill: impl FnOnce(&mut OutputTables<'_>) -> Result<()>,
    ) -> Result<Option<TableMeta>> {
        let RowTable { id, tombstones, expected_bytes } = table;
        let spec = OutputSpec {
            level: LevelNo(0),
            shape: &TableShape { table_bytes: u64::MAX, table: self.options.table },
            slice: &KeyRange::all(),
            tombstones,
            expected_bytes,
            now: self.env.wall_time(),
        };
        let next_table = Box::new(|| Ok((id, TableUid(self.env.random_u128()))));
        let mut outputs = OutputTables::new(target, spec, next_table);
        fill(&mut outputs)?;
        Ok(outputs.finish()?.pop())
    }
}

fn add_all(outputs: &mut OutputTables<'_>, stream: &mut dyn Stream) -> Result<()> {
    while let Some(entry) = stream.entry() {
        outputs.add(&entry)?;
        stream.advance()?;
    }
    Ok(())
}
