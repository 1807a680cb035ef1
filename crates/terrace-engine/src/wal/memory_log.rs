//! A log in memory: shows that another sink can take the local one's place, and serves tests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_base::{LogPosition, SeqNo};
use terrace_env::Latch;

use super::format::RecordKind;
use super::replay::LogStart;
use super::sink::{LogPlace, LogSink, LogTarget, Record};
use crate::Result;

/// A log whose records live in this process: it survives a closed range, but no crash.
#[derive(Default)]
pub struct MemoryLog {
    end: Latch<LogPosition>,
    durable: AtomicU64,
    records: Arc<Records>,
}

#[derive(Default)]
struct Records {
    kept: Latch<Vec<MemoryRecord>>,
}

/// A record as a [`MemoryLog`] keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRecord {
    /// Its place in the append order.
    pub position: LogPosition,
    /// What it is for.
    pub kind: RecordKind,
    /// The number of its first entry.
    pub first_seqno: SeqNo,
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

impl LogTarget for Records {
    fn append(&self, place: &LogPlace, record: &Record<'_>) -> Result<()> {
        self.kept.lock().push(MemoryRecord {
            position: place.position,
            kind: record.kind,
            first_seqno: record.first_seqno,
            body: record.body.concat(),
        });
        Ok(())
    }
}

impl LogSink for MemoryLog {
    fn take(&self, bytes: usize) -> Option<LogPlace> {
        let mut end = self.end.lock();
        let position = *end;
        end.0 += bytes as u64;
        let target = Arc::clone(&self.records) as Arc<dyn LogTarget>;
        Some(LogPlace { position, end: *end, offset: position.0, target })
    }

    fn make_room(&self, _bytes: usize) -> Result<()> {
        Ok(())
    }

    fn end(&self) -> LogPosition {
        *self.end.lock()
    }

    fn sync(&self, through: LogPosition) -> Result<()> {
        self.durable.fetch_max(through.0, Ordering::AcqRel);
        Ok(())
    }

    fn durable(&self) -> LogPosition {
        LogPosition(self.durable.load(Ordering::Acquire))
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
        records.iter().map(|record| record.body.len() as u64).sum()
    }
}
