//! Models of the log's tail: places are disjoint, a segment is followed by the prepared one, and
//! a sync covers all records that end at or below the position that it says is durable.

use std::sync::Arc;

use loom::thread;
use terrace_base::{LogPosition, SeqNo};
use terrace_env::atomic::{AtomicU64, Ordering};
use terrace_env::model::{Weakened, explore, must_fail};
use terrace_env::{EnvResult, LogFile};

use super::format::{RECORD_HEADER_BYTES, RecordKind, SEGMENT_HEADER_BYTES};
use super::local_log::LocalLog;
use super::{LogPlace, LogSink, Record};

/// Bytes of a model's record.
const RECORD_BYTES: u64 = RECORD_HEADER_BYTES as u64;

/// A file that knows which of its records were written and synced, one bit each.
#[derive(Debug, Default)]
struct CountedFile {
    records_max: u64,
    written: AtomicU64,
    synced: AtomicU64,
}

impl LogFile for CountedFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> EnvResult<()> {
        if bytes.len() as u64 != SEGMENT_HEADER_BYTES {
            assert_eq!(bytes.len() as u64, RECORD_BYTES);
            let index = (offset - SEGMENT_HEADER_BYTES) / RECORD_BYTES;
            self.written.fetch_add(1 << index, Ordering::Relaxed);
        }
        Ok(())
    }

    fn sync(&self) -> EnvResult<()> {
        let written = self.written.load(Ordering::Relaxed);
        // Syncs take turns, and bits are only added.
        self.synced.fetch_max(written, Ordering::Relaxed);
        Ok(())
    }

    fn sync_range(&self, _offset: u64, _bytes: u64) -> EnvResult<()> {
        self.sync()
    }

    fn bytes(&self) -> u64 {
        2 * SEGMENT_HEADER_BYTES + self.records_max * RECORD_BYTES
    }

    fn is_mapped(&self) -> bool {
        false
    }
}

struct Range {
    log: LocalLog,
    files: Vec<Arc<CountedFile>>,
}

impl Range {
    /// A log whose first segment and whose spare have room for these numbers of records.
    fn new(records: [u64; 2]) -> Arc<Range> {
        let file = |records_max| Arc::new(CountedFile { records_max, ..CountedFile::default() });
        let files: Vec<_> = records.into_iter().map(file).collect();
        let log = LocalLog::of_files(files.iter().map(|file| Arc::clone(file) as _).collect(), 0);
        Arc::new(Range { log, files })
    }

    fn append(&self) -> Option<LogPlace> {
        let place = self.log.take(RECORD_BYTES as usize)?;
        let record = Record {
            kind: RecordKind::Batch,
            first_seqno: SeqNo(1),
            seqno_count: 1,
            entry_count: 0,
            durable: self.log.durable(),
            large_bytes: 0,
            body: &[],
        };
        place.target.append(&place, &record).unwrap();
        Some(place)
    }

    /// Up to which position everything is synced.
    fn synced(&self) -> u64 {
        let records = |file: &CountedFile| file.synced.load(Ordering::Relaxed).trailing_ones();
        let first = u64::from(records(&self.files[0]));
        let is_whole = first == self.files[0].records_max;
        let second = if is_whole { u64::from(records(&self.files[1])) } else { 0 };
        (first + second) * RECORD_BYTES
    }
}

fn two_appenders(records: [u64; 2]) {
    let range = Range::new(records);
    let other = Arc::clone(&range);
    let thread = thread::spawn(move || [other.append(), other.append()]);
    let mut places = vec![range.append()];
    places.extend(thread.join().unwrap());
    let mut positions: Vec<_> =
        places.iter().flatten().map(|place| (place.position.0, place.end.0)).collect();
    positions.sort_unstable();
    let room = usize::try_from(records.iter().sum::<u64>().min(3)).unwrap();
    assert_eq!(positions.len(), room, "nobody is refused as long as there is room");
    for (index, (position, end)) in positions.iter().enumerate() {
        let expected = index as u64 * RECORD_BYTES;
        assert_eq!((*position, *end), (expected, expected + RECORD_BYTES), "no gap, no overlap");
    }
    assert_eq!(range.log.end(), LogPosition(room as u64 * RECORD_BYTES));
}

#[test]
fn places_are_disjoint_and_without_a_gap() {
    explore("log: two appenders in one segment", 5, || two_appenders([3, 0]));
    explore("log: two appenders go on to the spare", 5, || two_appenders([1, 2]));
    explore("log: two appenders fill it up", 5, || two_appenders([1, 1]));
}

/// Each writer appends, and syncs through what is complete then, as publication counts it; or, as
/// it must not, through the end of its own record, before which another may be missing.
fn two_who_sync(records: [u64; 2], in_order: bool) {
    let range = Range::new(records);
    let complete = Arc::new(AtomicU64::new(0));
    let write = move |range: &Range, complete: &AtomicU64| {
        let place = range.append().expect("there is room");
        let bit = 1 << (place.position.0 / RECORD_BYTES);
        let all = complete.fetch_add(bit, Ordering::AcqRel) + bit;
        let in_order_end = LogPosition(u64::from(all.trailing_ones()) * RECORD_BYTES);
        let through = if in_order { in_order_end } else { place.end };
        range.log.sync(through).unwrap();
        let durable = range.log.durable();
        assert!(durable >= through);
        assert!(range.synced() >= durable.0, "{durable} is not synced");
    };
    let (other, others) = (Arc::clone(&range), Arc::clone(&complete));
    let thread = thread::spawn(move || write(&other, &others));
    write(&range, &complete);
    thread.join().unwrap();
    assert_eq!(range.log.durable(), LogPosition(2 * RECORD_BYTES));
}

#[test]
fn what_is_said_to_be_durable_is_synced() {
    let name = "log: two who sync";
    explore(name, 4, || two_who_sync([2, 0], true));
    explore("log: two who sync across segments", 4, || two_who_sync([1, 1], true));
    must_fail(name, Weakened::Releases, 4, || two_who_sync([2, 0], true));
    must_fail("log: a sync ahead of publication", Weakened::Nothing, 3, || {
        two_who_sync([2, 0], false);
    });
}
