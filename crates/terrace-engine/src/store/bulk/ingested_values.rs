//! The large values of an ingest: they go into value files as they come, and its tables have
//! pointers. So they are written once, as those that come through the log.

use terrace_base::{EntryKind, EntryRef, TableUid};

use crate::Result;
use crate::store::Inner;
use crate::vlog::format::ValueEntry;
use crate::vlog::{ValueFileMeta, ValueFileWriter};

/// The value files of an ingest. No edit names them yet.
#[derive(Debug, Default)]
pub(super) struct IngestedValues {
    /// The file that is written to.
    writer: Option<ValueFileWriter>,
    /// Those that are written, with durable content; their names are not durable.
    files: Vec<ValueFileMeta>,
    /// The pointer that was asked for last.
    pointer: Vec<u8>,
}

impl IngestedValues {
    /// The entry as its table has it: with a pointer, if the value is large and the range has a
    /// value log. Errors: those of writing files, after which the ingest is of no use.
    pub fn separate<'a>(&'a mut self, entry: EntryRef<'a>, inner: &Inner) -> Result<EntryRef<'a>> {
        let Some(bounds) = inner.options.value_log else { return Ok(entry) };
        if entry.value.len() < bounds.large_bytes {
            return Ok(entry);
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(begin(inner)?),
        };
        let pointer =
            writer.add(&ValueEntry { key: entry.key, seqno: entry.seqno, value: entry.value })?;
        self.pointer.clear();
        pointer.encode(&mut self.pointer);
        if writer.offset() >= inner.options.memtable_bytes as u64 {
            self.end_file(inner)?;
        }
        Ok(EntryRef { kind: EntryKind::ValuePointer, value: &self.pointer, ..entry })
    }

    /// Ends the file that is written to, if there is one.
    pub fn end_file(&mut self, inner: &Inner) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            let _work = inner.begin_work()?;
            self.files.push(inner.poison_if_sync_failed(writer.finish())?);
        }
        Ok(())
    }

    /// The files that are written.
    pub fn files(&self) -> &[ValueFileMeta] {
        &self.files
    }
}

fn begin(inner: &Inner) -> Result<ValueFileWriter> {
    let _work = inner.begin_work()?;
    inner.check_healthy()?;
    let (id, uid) = (inner.ids.next(), TableUid(inner.env.random_u128()));
    ValueFileWriter::create(inner.context.opener.store.as_ref(), id, uid, 0, None)
}
