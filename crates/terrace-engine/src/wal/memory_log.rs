//! A log in memory: shows that another sink can take the local one's place, and serves tests.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_base::LogPosition;
use terrace_env::Latch;

use super::format::{RECORD_HEADER_BYTES, RecordHeader, RecordKind};
use super::replay::{LogFacts, LogStart, ReadRecord, Replayed};
use super::sink::{LogPlace, LogSink, LogStore, LogTarget, Record, Visit};
use crate::Result;
use crate::ids::FileIds;

/// A log whose records live in this process: it survives a closed range, but no crash. Clones
/// share the records.
#[derive(Clone, Default)]
pub struct MemoryLog {
    records: Arc<Records>,
}

#[derive(Default)]
struct Records {
    end: Latch<LogPosition>,
    durable: AtomicU64,
    kept: Latch<Vec<MemoryRecord>>,
}

/// A record as a [`MemoryLog`] keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRecord {
    /// Its place in the append order.
    pub position: LogPosition,
    /// What its header says.
    pub header: RecordHeader,
    /// Its body.
    pub body: Vec<u8>,
}

impl MemoryLog {
    /// The records kept, in the append order.
    #[must_use]
    pub fn records(&self) -> Vec<MemoryRecord> {
        let mut records = self.records.kept.lock().clone();
        records.sort_by_key(|record| record.position);
        records
    }
}

impl LogStore for MemoryLog {
    fn replay(&self, facts: LogFacts, visit: &mut Visit<'_>) -> Result<Replayed> {
        for record in self.records() {
            let MemoryRecord { position, header, body } = record;
            if position >= facts.start.position && header.kind == RecordKind::Batch {
                let file = Path::new("the log in memory");
                let (offset, header, body_bytes) = (position.0, &header, body.len());
                let (buffer, body) = (&Arc::new(body), 0..body_bytes);
                visit(ReadRecord { position, file, offset, header, buffer, body })?;
            }
        }
        Ok(Replayed { end: self.end(), durable: self.durable(), ..Replayed::default() })
    }

    fn begin(
        &self,
        _database: u128,
        _ids: &Arc<FileIds>,
        _replayed: &Replayed,
        _reserved_bytes: u64,
    ) -> Result<Arc<dyn LogSink>> {
        Ok(Arc::new(self.clone()))
    }
}

impl LogTarget for Records {
    fn append(&self, place: &LogPlace, record: &Record<'_>) -> Result<()> {
        let header = record.header();
        let body = record.body.concat();
        self.kept.lock().push(MemoryRecord { position: place.position, header, body });
        Ok(())
    }
}

impl LogSink for MemoryLog {
    fn take(&self, bytes: usize) -> Option<LogPlace> {
        let mut end = self.records.end.lock();
        let position = *end;
        end.0 += bytes.next_multiple_of(RECORD_HEADER_BYTES) as u64;
        let target = Arc::clone(&self.records) as Arc<dyn LogTarget>;
        Some(LogPlace { position, end: *end, offset: position.0, target })
    }

    fn make_room(&self, _bytes: usize) -> Result<()> {
        Ok(())
    }

    fn end(&self) -> LogPosition {
        *self.records.end.lock()
    }

    fn sync(&self, through: LogPosition) -> Result<()> {
        self.records.durable.fetch_max(through.0, Ordering::AcqRel);
        Ok(())
    }

    fn durable(&self) -> LogPosition {
        LogPosition(self.records.durable.load(Ordering::Acquire))
    }

    fn start_at(&self, from: LogPosition) -> LogStart {
        LogStart { segment: None, position: from }
    }

    fn release(&self, from: LogPosition) -> Result<()> {
        self.records.kept.lock().retain(|record| record.position >= from);
        Ok(())
    }

    fn live_bytes(&self) -> u64 {
        let records = self.records.kept.lock();
        records.iter().map(|record| u64::from(record.header.bytes)).sum()
    }
}

impl fmt::Debug for MemoryLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryLog(..{})", self.end())
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Records")
    }
}
