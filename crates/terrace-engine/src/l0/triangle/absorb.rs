//! A flush becomes a row: of the container as long as there are pages, and for the rest a table.

use std::sync::Arc;

use terrace_base::{EntryRef, KeyRange};

use super::Pages;
use super::container::Container;
use super::row::{Predecessor, RowBuilder, RowError, RowResult};
use crate::Result;
use crate::l0::FlushInput;
use crate::l0::flush_writer::FlushWriter;
use crate::table::table_meta;
use crate::version::TableMeta;
use crate::yielder::Yielder;

/// A row in the making: tables of one row, which ascend and share no key.
///
/// ```text
///   entries      a a b c d d e   │   f g h        the container has no more pages
///   tables       [  in its pages )[ in a file … end )
/// ```
pub(super) struct Absorb<'a> {
    pub container: &'a Container,
    pub pages: &'a Arc<Pages>,
    /// For the rest.
    pub writer: &'a FlushWriter,
}

/// Number of pages beyond the estimate that are kept for the end of a row: heads, and the last
/// pages of data and metadata.
const SPARE_PAGES: usize = 4;

impl Absorb<'_> {
    /// Writes everything into pages, as far as there are any. Returns the tables; `None` if the
    /// versions of a single key outgrew the pages, so that there is no row.
    pub fn write(
        &self,
        predecessors: &[Predecessor],
        input: &mut FlushInput<'_, '_>,
    ) -> Result<Option<Vec<TableMeta>>> {
        let mut tables = Vec::new();
        let mut start: Vec<u8> = Vec::new();
        loop {
            let end = match self.part(predecessors, &start, input, &mut tables) {
                Ok(Some(end)) => end,
                Ok(None) => return Ok(Some(tables)),
                Err(RowError::Failed(error)) => return Err(error),
                Err(RowError::NoPages | RowError::TooLarge) => return Ok(None),
            };
            let is_stuck = end == start;
            start = end;
            if is_stuck {
                break;
            }
        }
        tables.extend(self.writer.write(&start, input)?);
        Ok(Some(tables))
    }

    /// Writes a part of the entries, from `start` on, into pages; where it ended if that is not the
    /// end of all.
    fn part(
        &self,
        predecessors: &[Predecessor],
        start: &[u8],
        input: &mut FlushInput<'_, '_>,
        tables: &mut Vec<TableMeta>,
    ) -> RowResult<Option<Vec<u8>>> {
        let pages = self.pages;
        let now = self.writer.env.wall_time();
        let uid = self.writer.new_uid();
        let filter_bits_per_key = self.writer.shape.table.filter_bits_per_key;
        let mut builder = RowBuilder::new(pages, uid, now, predecessors.to_vec())
            .with_filter(filter_bits_per_key);
        // Nobody else takes pages meanwhile, so there are no fewer later.
        let budget = (pages.free_pages() * pages.page_bytes()) as u64;
        let spare = (SPARE_PAGES * pages.page_bytes()) as u64;
        let mut end = None;
        let mut yielder = Yielder::new(self.writer.env.as_ref());
        while let Some(entry) = input.entry()? {
            let is_new = builder.last_key() != Some(entry.key);
            let needed = builder.estimated_bytes() + bytes_of(&entry) + spare;
            if is_new && (needed > budget || builder.is_full()) {
                end = Some(entry.key.to_vec());
                break;
            }
            yielder.worked_on(&entry);
            builder.add(entry)?;
            input.advance()?;
        }
        let part = KeyRange::new(start, end.clone());
        let tombstones = input.tombstones.clip(&part);
        if end.as_deref() == Some(start) {
            return Ok(end);
        }
        if let Some(built) = builder.finish(&tombstones)? {
            tables.push(table_meta(self.writer.ids.next(), built.meta));
            self.container.keep(built.reader);
        }
        Ok(end)
    }
}

/// Bytes that an entry takes at most, its element and its share of the rest not counted.
fn bytes_of(entry: &EntryRef<'_>) -> u64 {
    const FRONT_BYTES_MAX: usize = 64;
    (entry.key.len() + entry.value.len() + FRONT_BYTES_MAX) as u64
}
