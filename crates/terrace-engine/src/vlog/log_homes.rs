//! A flush leaves large values where the log has them.
//!
//! ```text
//!   log      ┌ 7.log ─────────────┐ ┌ 8.log ────────────┐ ┌ 9.log ──
//!            │ r │ r k══value │ r │ │ r k══value │ r │   │ │ r │ …      is written to
//!            └─────────▲──────────┘ └───────▲───────────┘ └─────────
//!   values     7.values│ (same file)        │
//!   row        key ─► (7, offset, bytes, checksum)        copied: what 8 and 9 have
//! ```
//! A segment that is mostly large values gets a second name as a value file, and the row pointers
//! into it. Of the others, and of the one that is still written to, values are copied. The log
//! must be synced through the values before the edit that names them.
//!
//! *Source:* Tebis (EuroSys 2022), section 2: Kreon's log is the place of all values. *Differs:*
//! there every value stays, and whether it lives is found out by look-ups; here a segment is judged
//! first, and what is mostly something else is copied out, so that the log of small values goes.

use std::collections::BTreeMap;

use terrace_base::{EntryRef, FileId, LogPosition, SeqNo, TableUid};

use super::format::entry_bytes;
use super::{HeldSegment, ValueFileMeta, ValueHome, ValueName, ValuePointer};
use crate::Result;
use crate::iter::Stream;
use crate::memtable::LoggedByNumber;
use crate::placement::TableLocation;
use crate::table::TableStore;
use crate::wal::{FinishedSegment, LogSink};

/// Which segments of the log stay where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// Those that are mostly large values that live.
    MostlyLarge,
    /// All that have a large value that lives: a baseline.
    All,
}

impl Stay {
    /// Whether a segment of which so many bytes of large values may be wanted is worth to stay.
    fn keeps(self, segment: &FinishedSegment, large_bytes: u64) -> bool {
        match self {
            Stay::MostlyLarge => segment.may_stay(large_bytes),
            Stay::All => large_bytes > 0,
        }
    }
}

/// Of what stands beside the large values this part of the records' bytes is left alone; what is
/// beyond counts as dead, for a rewrite gives it back.
const OVERHEAD_SHARE: u64 = 8;

/// Where the log has the large values of some memtables, and which of its segments are to stay.
#[derive(Debug)]
pub struct LogHomes {
    logged: LoggedByNumber,
    /// Those that may stay, oldest first.
    segments: Vec<FinishedSegment>,
    /// What lives in them, in bytes of a value file, once that was weighed.
    live_bytes: u64,
    /// Those of them that are value files.
    known: BTreeMap<FileId, Home>,
    /// Whether the store could not take one: it takes none.
    is_refused: bool,
    stay: Stay,
}

/// What a segment is to a flush.
#[derive(Debug)]
enum Home {
    /// A value file since an earlier one.
    Before,
    /// A value file since now; `is_new`: its name was not there before.
    Now { meta: ValueFileMeta, is_new: bool },
}

impl LogHomes {
    /// Those of memtables whose values are `logged`, in a log with these `finished` segments, of
    /// which some may be value files already, and of which these `stay`.
    #[must_use]
    pub fn new(
        logged: LoggedByNumber,
        finished: Vec<FinishedSegment>,
        stay: Stay,
        is_value_file: impl Fn(FileId) -> bool,
    ) -> LogHomes {
        let may_stay = |segment: &FinishedSegment| stay.keeps(segment, segment.large_bytes);
        let segments: Vec<_> = finished.into_iter().filter(may_stay).collect();
        let before = segments.iter().filter(|segment| is_value_file(segment.id));
        let known = before.map(|segment| (segment.id, Home::Before)).collect();
        LogHomes { logged, segments, live_bytes: 0, known, is_refused: false, stay }
    }

    /// Looks which segments are worth to stay by what of them lives: `entries` are those of the
    /// memtables, of which the first one of each key is the newest. Older ones that a snapshot sees
    /// are not counted.
    ///
    /// Cost: a walk over the entries. Errors: those of the stream.
    pub fn weigh(&mut self, entries: &mut dyn Stream) -> Result<()> {
        let mut live_bytes: BTreeMap<FileId, u64> = BTreeMap::new();
        let mut before: Option<Vec<u8>> = None;
        while let Some(entry) = entries.entry() {
            if before.as_deref() != Some(entry.key) {
                let key = before.get_or_insert_default();
                key.clear();
                key.extend_from_slice(entry.key);
                if let Some((segment, _)) = self.find(entry.seqno) {
                    let bytes = entry_bytes(entry.key.len(), entry.value.len());
                    *live_bytes.entry(segment.id).or_default() += bytes;
                }
            }
            entries.advance()?;
        }
        let (known, stay_bytes, stay) = (&self.known, &mut self.live_bytes, self.stay);
        self.segments.retain(|segment| {
            let live_bytes = live_bytes.get(&segment.id).copied().unwrap_or_default();
            let stays = known.contains_key(&segment.id) || stay.keeps(segment, live_bytes);
            *stay_bytes += if stays { live_bytes } else { 0 };
            stays
        });
        Ok(())
    }

    /// How many bytes of a value file are spared by what stays, as far as that was
    /// [weighed](LogHomes::weigh).
    #[must_use]
    pub fn spared_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Through where the log has to be durable before an edit names values in it: the end of the
    /// last segment that may stay. Its records are those of other memtables, too, and what is a
    /// value file must not change any more, for copies are made of it.
    #[must_use]
    pub fn end(&self) -> Option<LogPosition> {
        if self.is_empty() { None } else { self.segments.last().map(|segment| segment.end) }
    }

    /// Whether no value can stay.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.logged.is_empty() || self.segments.is_empty()
    }

    /// The pointer to an entry's value in the log, whose segment is a value file from then on.
    /// `None` if the value has to be copied.
    ///
    /// Errors: what giving a file a second name gives.
    pub fn pointer(
        &mut self,
        entry: &EntryRef<'_>,
        log: &dyn LogSink,
        store: &dyn TableStore,
    ) -> Result<Option<ValuePointer>> {
        if self.is_refused {
            return Ok(None);
        }
        let Some((segment, offset)) = self.find(entry.seqno) else { return Ok(None) };
        let name = ValueName { segment: segment.id, offset };
        if !self.known.contains_key(&segment.id) {
            let Some(home) = retire(segment, log, store)? else {
                self.is_refused = true;
                return Ok(None);
            };
            self.known.insert(name.segment, home);
        }
        Ok(Some(ValuePointer::into_log(name, entry.key, entry.value)))
    }

    /// The segment that may stay and has the value with this number, and where.
    fn find(&self, seqno: SeqNo) -> Option<(&FinishedSegment, u64)> {
        let at = self.logged.get(seqno)?;
        let next = self.segments.partition_point(|segment| segment.end <= at);
        let segment = self.segments.get(next)?;
        segment.offset_of(at).map(|offset| (segment, offset))
    }

    /// The value files that came about.
    pub fn retired(&self) -> impl Iterator<Item = &ValueFileMeta> {
        self.known.values().filter_map(|home| match home {
            Home::Now { meta, .. } => Some(meta),
            Home::Before => None,
        })
    }

    /// The names that came about, which nothing but this flush may want: one that was found may be
    /// named by an edit whose outcome is unknown.
    pub fn new_names(&self) -> impl Iterator<Item = &TableLocation> {
        self.known.values().filter_map(|home| match home {
            Home::Now { meta, is_new: true } => Some(&meta.location),
            _ => None,
        })
    }
}

/// Makes a segment a value file, unless the store cannot have it. Its name is not durable yet.
fn retire(
    segment: &FinishedSegment,
    log: &dyn LogSink,
    store: &dyn TableStore,
) -> Result<Option<Home>> {
    // Order: the log must not use the file again from the moment at which it has another name.
    log.retire(segment);
    let Some(adopted) = store.adopt_values(segment.id, &segment.path)? else {
        log.refuse(segment.id);
        return Ok(None);
    };
    let bytes = segment.record_bytes();
    // Many small values in one record take more in a value file than here. They count as they will
    // be named, or garbage among them would not be seen.
    let dead_or_large = segment.large_bytes.max(bytes - bytes / OVERHEAD_SHARE);
    let own = HeldSegment { id: segment.id, count: 0, bytes: dead_or_large };
    let meta = ValueFileMeta {
        id: segment.id,
        location: adopted.location,
        uid: TableUid(segment.identity),
        bytes: segment.file_bytes(),
        hash: 0,
        segments: vec![own],
        home: ValueHome::Log,
    };
    Ok(Some(Home::Now { meta, is_new: adopted.is_new }))
}

/// What a separator of a flush needs to leave values in the log.
#[derive(Debug)]
pub struct LeavesInLog<'a> {
    /// The log.
    pub log: &'a dyn LogSink,
    /// Which values may stay.
    pub homes: &'a mut LogHomes,
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use terrace_base::{EntryKind, Epoch, MemtableId};
    use terrace_env::{SharedEnv, SimEnv, SimOptions};

    use super::*;
    use crate::memtable::{LoggedValue, Memtable};
    use crate::table::{LocalTableStore, MemoryTableStore};
    use crate::wal::MemoryLog;
    use crate::wal::format::SEGMENT_HEADER_BYTES;

    fn segment(counter: u64, base: u64, end: u64, large_bytes: u64) -> FinishedSegment {
        FinishedSegment {
            id: FileId { epoch: Epoch(1), counter },
            path: PathBuf::from(format!("{counter}.log")),
            identity: 7,
            base: LogPosition(base),
            end: LogPosition(end),
            large_bytes,
        }
    }

    #[test]
    fn a_value_stays_where_most_of_a_finished_segment_is_large_values() {
        let finished = vec![
            segment(1, 0, 1000, 900),
            segment(2, 1000, 2000, 849),
            segment(3, 2000, 3000, 850),
        ];
        let at = |seqno, at| LoggedValue { seqno: SeqNo(seqno), at: LogPosition(at) };
        let logged = vec![at(9, 2100), at(1, 40), at(3, 999), at(4, 1000), at(10, 3000)];
        let homes =
            LogHomes::new(logged.into_iter().collect(), finished, Stay::MostlyLarge, |_| false);
        let found = |seqno| homes.find(SeqNo(seqno)).map(|(one, at)| (one.id.counter, at));
        assert_eq!(found(1), Some((1, 40 + SEGMENT_HEADER_BYTES)));
        assert_eq!(found(3), Some((1, 999 + SEGMENT_HEADER_BYTES)));
        assert_eq!(found(4), None, "most of the segment is something else");
        assert_eq!(found(9), Some((3, 100 + SEGMENT_HEADER_BYTES)));
        assert_eq!(found(10), None, "its segment is still written to");
        assert_eq!(found(2), None, "nobody said where it is");
    }

    #[test]
    fn what_is_mostly_overwritten_does_not_stay() {
        let finished = vec![segment(1, 0, 1000, 900), segment(2, 1000, 2000, 900)];
        let at = |seqno: u64| LoggedValue { seqno: SeqNo(seqno), at: LogPosition(seqno * 200) };
        let logged: Vec<_> = (0..10).map(at).collect();
        let id = MemtableId { epoch: Epoch(1), counter: 1 };
        let memtable = Arc::new(Memtable::new(id, 1 << 16));
        let put = |key: &str, seqno| {
            let (key, value) = (key.as_bytes(), [7; 150].as_slice());
            let (kind, seqno) = (EntryKind::Value, SeqNo(seqno));
            let space = Memtable::space_for(key.len(), value.len());
            let mut reservation = memtable.reserve(space).expect("there is room");
            memtable.insert(&mut reservation, EntryRef { key, seqno, kind, expiry: None, value });
        };
        // All of the second segment lives, and two values of the first.
        ["a", "a", "b", "a", "b"].iter().zip(0..).for_each(|(key, seqno)| put(key, seqno));
        ["c", "d", "e", "f", "g"].iter().zip(5..).for_each(|(key, seqno)| put(key, seqno));
        for (known, stay) in [(None, vec![2]), (Some(1), vec![1, 2])] {
            let is_known = |id: FileId| Some(id.counter) == known;
            let mut homes = LogHomes::new(
                logged.iter().copied().collect(),
                finished.clone(),
                Stay::MostlyLarge,
                is_known,
            );
            homes.weigh(&mut memtable.stream()).expect("memory does not fail");
            let left: Vec<_> = homes.segments.iter().map(|one| one.id.counter).collect();
            assert_eq!(left, stay, "{known:?}");
        }
    }

    /// An attempt before, whose edit may have reached the disk, has left a name: that one is no new
    /// one, and nobody takes it back.
    #[test]
    fn a_name_that_was_found_is_not_taken_back() {
        SimEnv::run(SimOptions::new(1), |env| {
            let env: SharedEnv = env;
            let dir = PathBuf::from("/db");
            env.fs().create_dir_all(&dir).expect("nothing fails");
            let store = LocalTableStore::new(Arc::clone(&env), dir.clone());
            let of_file = |counter, base| {
                let path = dir.join(format!("{counter}.log"));
                env.fs().create_log(&path, 2000).expect("nothing fails");
                FinishedSegment { path, ..segment(counter, base, base + 1000, 1000) }
            };
            let finished = vec![of_file(1, 0), of_file(2, 1000)];
            let found = store.adopt_values(finished[0].id, &finished[0].path);
            assert!(found.expect("nothing fails").is_some_and(|found| found.is_new));
            let logged = [(1, 8), (2, 1008)];
            let logged =
                logged.map(|(seqno, at)| LoggedValue { seqno: SeqNo(seqno), at: LogPosition(at) });
            let mut homes =
                LogHomes::new(logged.into_iter().collect(), finished, Stay::MostlyLarge, |_| false);
            assert_eq!(homes.end(), Some(LogPosition(2000)));
            for seqno in [1, 2] {
                let (key, value) = (b"k".as_slice(), b"v".as_slice());
                let (kind, seqno) = (EntryKind::Value, SeqNo(seqno));
                let entry = EntryRef { key, seqno, kind, expiry: None, value };
                let pointer = homes.pointer(&entry, &MemoryLog::default(), &store);
                assert!(pointer.expect("nothing fails").is_some());
            }
            let retired: Vec<_> = homes.retired().map(|meta| meta.id.counter).collect();
            assert_eq!(retired, [1, 2]);
            let new: Vec<_> = homes.new_names().cloned().collect();
            let second = FileId { epoch: Epoch(1), counter: 2 };
            assert_eq!(new, [LocalTableStore::location_of_values(second)]);
        });
    }

    #[test]
    fn without_a_segment_that_may_stay_there_is_nothing_to_do() {
        let logged = vec![LoggedValue { seqno: SeqNo(1), at: LogPosition(8) }];
        assert!(
            LogHomes::new(logged.iter().copied().collect(), Vec::new(), Stay::MostlyLarge, |_| {
                false
            })
            .is_empty()
        );
        assert!(
            LogHomes::new(
                logged.iter().copied().collect(),
                vec![segment(1, 0, 1000, 849)],
                Stay::MostlyLarge,
                |_| { false }
            )
            .is_empty()
        );
        assert!(
            LogHomes::new(
                LoggedByNumber::default(),
                vec![segment(1, 0, 1000, 1000)],
                Stay::MostlyLarge,
                |_| false
            )
            .is_empty()
        );
        let mut homes = LogHomes::new(
            logged.into_iter().collect(),
            vec![segment(1, 0, 1000, 1000)],
            Stay::MostlyLarge,
            |_| false,
        );
        assert!(!homes.is_empty());
        let (key, value) = (b"k".as_slice(), b"v".as_slice());
        let kind = EntryKind::Value;
        let entry = EntryRef { key, seqno: SeqNo(1), kind, expiry: None, value };
        let (log, store) = (MemoryLog::default(), MemoryTableStore::new());
        let refused = homes.pointer(&entry, &log, &store).expect("nothing fails");
        assert_eq!(refused, None, "the store takes no files of others");
    }
}
