use terrace_base::limits::SEQNO_END;
use terrace_base::{ByteReader, CodecError, FileId, LevelNo, RowId, SeqNo, put_bytes, put_varint};

use super::table::{put_table, read_table};
use super::{FieldWriter, field};
use crate::l0::CutInterval;
use crate::table::TableMeta;
use crate::version::format::{below, bounded, put_file_id, put_range, read_file_id, read_range};

/// A row of L0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowMeta {
    /// Given at installation, in installation order. A row that was merged out of others within L0
    /// has the id of the newest of them.
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

/// What one flush job or one ingest wrote into L0: it gets its id when it is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRow {
    /// The tables that hold the row, sorted and disjoint.
    pub tables: Vec<TableMeta>,
}

impl NewRow {
    /// Bytes of the row.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes).sum()
    }
}

/// What an edit changes of the tree: rows of L0, and tables of levels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeEdit {
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
    /// The greatest sequence number that tables hold.
    pub greatest_seqno: Option<SeqNo>,
}

impl TreeEdit {
    /// The tables that join, those of rows included.
    pub fn tables(&self) -> impl Iterator<Item = &TableMeta> {
        let levels = self.tables_added.iter().map(|(_, table)| table);
        levels.chain(self.rows_added.iter().flat_map(|row| &row.tables))
    }

    /// As [`TreeEdit::tables`], to be changed.
    pub fn tables_mut(&mut self) -> impl Iterator<Item = &mut TableMeta> {
        let levels = self.tables_added.iter_mut().map(|(_, table)| table);
        levels.chain(self.rows_added.iter_mut().flat_map(|row| &mut row.tables))
    }

    pub(super) fn put(&self, out: &mut FieldWriter<'_>) {
        for row in &self.rows_removed {
            out.put(field::ROW_REMOVED, |v| put_varint(v, row.0));
        }
        for row in &self.rows_added {
            out.put(field::ROW_ADDED, |v| put_row(v, row));
        }
        if !self.cuts.is_empty() {
            out.put(field::CUTS, |v| put_cuts(v, &self.cuts));
        }
        if let Some(row) = self.next_row {
            out.put(field::NEXT_ROW, |v| put_varint(v, row.0));
        }
        for (level, id) in &self.tables_removed {
            out.put(field::TABLE_REMOVED, |v| {
                v.push(level.0);
                put_file_id(v, *id);
            });
        }
        for (level, table) in &self.tables_added {
            out.put(field::TABLE_ADDED, |v| {
                v.push(level.0);
                put_table(v, table);
            });
        }
        if let Some(seqno) = self.greatest_seqno {
            out.put(field::GREATEST_SEQNO, |v| put_varint(v, seqno.0));
        }
    }

    /// Reads the field with this number, if it is one of the tree's.
    pub(super) fn read(
        &mut self,
        number: u64,
        value: &mut ByteReader<'_>,
    ) -> Result<bool, CodecError> {
        match number {
            field::ROW_REMOVED => self.rows_removed.push(RowId(bounded(value)?)),
            field::ROW_ADDED => self.rows_added.push(read_row(value)?),
            field::CUTS => self.cuts = read_cuts(value)?,
            field::NEXT_ROW => self.next_row = Some(RowId(bounded(value)?)),
            field::TABLE_REMOVED => {
                let level = LevelNo(value.u8()?);
                self.tables_removed.push((level, read_file_id(value)?));
            }
            field::TABLE_ADDED => {
                let level = LevelNo(value.u8()?);
                self.tables_added.push((level, read_table(value)?));
            }
            field::GREATEST_SEQNO => {
                self.greatest_seqno = Some(SeqNo(below(value, SEQNO_END.0)?));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn put_row(out: &mut Vec<u8>, row: &RowMeta) {
    put_varint(out, row.id.0);
    for table in &row.tables {
        let mut fields = Vec::with_capacity(160);
        put_table(&mut fields, table);
        put_bytes(out, &fields);
    }
}

fn read_row(reader: &mut ByteReader<'_>) -> Result<RowMeta, CodecError> {
    let id = RowId(bounded(reader)?);
    let mut tables = Vec::new();
    while !reader.is_empty() {
        tables.push(read_table(&mut ByteReader::new(reader.bytes()?))?);
    }
    Ok(RowMeta { id, tables })
}

fn put_cuts(out: &mut Vec<u8>, cuts: &[CutInterval]) {
    for cut in cuts {
        put_range(out, &cut.slice);
        put_varint(out, cut.through.0);
    }
}

/// Intervals that ascend, are disjoint and not empty.
fn read_cuts(reader: &mut ByteReader<'_>) -> Result<Vec<CutInterval>, CodecError> {
    let mut cuts: Vec<CutInterval> = Vec::new();
    while !reader.is_empty() {
        let slice = read_range(reader)?;
        let through = RowId(bounded(reader)?);
        let ascends = cuts.last().is_none_or(|last| last.slice.is_before(slice.start()));
        if !ascends || slice.is_empty() || through == RowId(0) {
            return Err(reader.error("consumed intervals of rows that cannot be"));
        }
        cuts.push(CutInterval { slice, through });
    }
    Ok(cuts)
}
