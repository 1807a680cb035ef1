use terrace_base::{ByteReader, CodecError, Epoch, LogPosition, MemtableId, put_varint};

use super::{FieldWriter, field};
use crate::version::format::{bounded, put_file_id, read_file_id};
use crate::wal::LogStart;

/// What an edit says of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogEdit {
    /// Memtables whose entries are in L0 now, each with the log position below which all its
    /// records stand: a replay skips their entries.
    pub memtables_flushed: Vec<(MemtableId, LogPosition)>,
    /// Where a replay of the log starts.
    pub start: Option<LogStart>,
    /// Below, all entries are in tables, though the log is kept from its start on for whoever takes
    /// the range over. Without this, that is so below its start.
    pub settled: Option<LogPosition>,
    /// Where the log ends after a clean close. Means something only as the last edit.
    pub closed: Option<LogPosition>,
}

impl LogEdit {
    pub(super) fn put(&self, out: &mut FieldWriter<'_>) {
        for (memtable, end) in &self.memtables_flushed {
            out.put(field::MEMTABLE_FLUSHED, |v| {
                put_varint(v, memtable.epoch.0);
                put_varint(v, memtable.counter);
                put_varint(v, end.0);
            });
        }
        if let Some(start) = self.start {
            out.put(field::LOG_START, |v| {
                put_varint(v, start.position.0);
                if let Some(segment) = start.segment {
                    put_file_id(v, segment);
                }
            });
        }
        if let Some(position) = self.settled {
            out.put(field::LOG_SETTLED, |v| put_varint(v, position.0));
        }
        if let Some(position) = self.closed {
            out.put(field::CLOSED, |v| put_varint(v, position.0));
        }
    }

    /// Reads the field with this number, if it is one of the log's.
    pub(super) fn read(
        &mut self,
        number: u64,
        value: &mut ByteReader<'_>,
    ) -> Result<bool, CodecError> {
        match number {
            field::MEMTABLE_FLUSHED => {
                let epoch = Epoch(bounded(value)?);
                let memtable = MemtableId { epoch, counter: bounded(value)? };
                self.memtables_flushed.push((memtable, LogPosition(bounded(value)?)));
            }
            field::LOG_START => {
                let position = LogPosition(bounded(value)?);
                let segment = if value.is_empty() { None } else { Some(read_file_id(value)?) };
                self.start = Some(LogStart { segment, position });
            }
            field::LOG_SETTLED => self.settled = Some(LogPosition(bounded(value)?)),
            field::CLOSED => self.closed = Some(LogPosition(bounded(value)?)),
            _ => return Ok(false),
        }
        Ok(true)
    }
}
