//! A log file in persistent memory.
//!
//! ```text
//!   write_at   store                                    the lines are dirty, and noted
//!   sync       flush of the lines noted, one fence      no system call where the medium needs none
//! ```
//! A fence makes durable what its own thread flushed, and the thread that syncs is rarely the one
//! that wrote: so the flushes are the syncing thread's, and a writer pays for stores only.
//!
//! # Invariants
//! 1. A line is noted before the write that stored to it returns, and until a sync has taken it.
//! 2. Syncs take turns: what one of them has taken is durable, or its fence has failed, before the
//!    next one begins.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{PMEM_LINE_BYTES, Pmem, PmemMedium, PmemSpan};
use crate::fs::assert_within_log;
use crate::{EnvResult, Latch, LogFile, Mutex, WaitFactory};

/// Bytes that are copied or flushed under one latch at most, so that no thread waits for it long.
const STEP_BYTES: usize = 4 << 10;

/// An area of persistent memory that is written as a log file.
pub struct PmemLogFile {
    pmem: Pmem,
    content: Latch<Content>,
    /// One sync at a time.
    sync_turn: Mutex<()>,
}

struct Content {
    /// All of the area.
    span: PmemSpan,
    dirty: DirtyLines,
}

impl PmemLogFile {
    /// The log file that all of `pmem` is, with what it holds. `waits` are those of the environment
    /// that the area comes from.
    ///
    /// # Panics
    /// If a page of the area has an owner.
    #[must_use]
    pub fn over(pmem: Pmem, waits: &WaitFactory) -> Arc<PmemLogFile> {
        let span = pmem.claim(0, pmem.bytes()).expect("the area of a log is the log's alone");
        let content = Latch::new(Content { span, dirty: DirtyLines::default() });
        Arc::new(PmemLogFile { pmem, content, sync_turn: waits.mutex(()) })
    }

    /// Flushes the lines in `start..end`.
    fn flush(&self, start: u64, end: u64) {
        for at in (start..end).step_by(STEP_BYTES) {
            let bytes = (end - at).min(STEP_BYTES as u64);
            // Both lie within the area, which is mapped.
            self.content.lock().span.flush(at as usize, bytes as usize);
        }
    }
}

impl LogFile for PmemLogFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> EnvResult<()> {
        assert_within_log(offset, bytes, self.bytes());
        let mut at = offset;
        for piece in bytes.chunks(STEP_BYTES) {
            let end = at + piece.len() as u64;
            let mut content = self.content.lock();
            content.span.store(at as usize, piece);
            content.dirty.add(at, end);
            at = end;
        }
        Ok(())
    }

    fn sync(&self) -> EnvResult<()> {
        let _turn = self.sync_turn.lock();
        let taken = std::mem::take(&mut self.content.lock().dirty);
        taken.0.into_iter().for_each(|(start, end)| self.flush(start, end));
        self.pmem.fence()
    }

    /// Leaves the lines noted: what of them another thread's sync has taken, that one makes durable
    /// too.
    fn sync_range(&self, offset: u64, bytes: u64) -> EnvResult<()> {
        let end = offset.checked_add(bytes).filter(|&end| end <= self.bytes());
        self.flush(offset, end.expect("a sync within the log file"));
        self.pmem.fence()
    }

    fn forget(&mut self) {
        self.content.get_mut().dirty = DirtyLines::default();
    }

    fn bytes(&self) -> u64 {
        self.pmem.bytes()
    }

    fn is_mapped(&self) -> bool {
        true
    }

    fn medium(&self) -> Option<PmemMedium> {
        Some(self.pmem.medium())
    }
}

impl fmt::Debug for PmemLogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PmemLogFile").field("pmem", &self.pmem).finish_non_exhaustive()
    }
}

/// Intervals of whole lines, by their beginnings, each with its end; none touches another. A log is
/// written from front to back, by a few threads at once: so there are few.
#[derive(Debug, Default, PartialEq, Eq)]
struct DirtyLines(BTreeMap<u64, u64>);

impl DirtyLines {
    /// Adds the lines of `start..end`, which is not empty.
    fn add(&mut self, start: u64, end: u64) {
        let mut start = start / PMEM_LINE_BYTES * PMEM_LINE_BYTES;
        let mut end = end.next_multiple_of(PMEM_LINE_BYTES);
        while let Some((&first, &last)) = self.0.range(..=end).next_back()
            && last >= start
        {
            self.0.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.0.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a sync leaves nothing in a cache of what was written before it, whoever wrote it, and
    //! flushes nothing else. Method: a recorder, which counts.

    use super::*;
    use crate::PmemRecorder;

    fn log(pages: u64) -> (PmemRecorder, Arc<PmemLogFile>) {
        let recorder = PmemRecorder::new(pages * super::super::PMEM_PAGE_BYTES);
        let log = PmemLogFile::over(recorder.pmem(), &WaitFactory::real());
        (recorder, log)
    }

    #[test]
    fn intervals_that_touch_are_one() {
        let mut lines = DirtyLines::default();
        let mut add = |start, end| {
            lines.add(start, end);
            lines.0.iter().map(|(&start, &end)| (start, end)).collect::<Vec<_>>()
        };
        assert_eq!(add(70, 71), [(64, 128)]);
        assert_eq!(add(64, 128), [(64, 128)]);
        assert_eq!(add(300, 400), [(64, 128), (256, 448)]);
        assert_eq!(add(600, 601), [(64, 128), (256, 448), (576, 640)]);
        assert_eq!(add(448, 449), [(64, 128), (256, 512), (576, 640)]);
        assert_eq!(add(10, 20), [(0, 128), (256, 512), (576, 640)]);
        assert_eq!(add(127, 580), [(0, 640)]);
    }

    #[test]
    fn a_sync_is_one_fence_behind_the_lines_that_were_written() {
        let (recorder, log) = log(4);
        log.write_at(60, b"over a line").unwrap();
        log.write_at(71, b"behind it").unwrap();
        log.write_at(16_000, b"far away").unwrap();
        assert_eq!(recorder.counts().flushes, 0, "a writer stores");
        assert_eq!(recorder.unfenced_lines(), 3);
        log.sync().unwrap();
        let counts = recorder.counts();
        assert_eq!((counts.flushes, counts.needless_flushes, counts.fences), (3, 0, 1));
        assert_eq!(recorder.unfenced_lines(), 0);
        log.sync().unwrap();
        assert_eq!(recorder.counts().flushes, 3, "there was nothing to do");
        log.write_at(100, &[7; 10_000]).unwrap();
        assert_eq!(recorder.counts().stores, counts.stores + 3, "no latch is held for long");
        log.sync().unwrap();
        assert_eq!(recorder.unfenced_lines(), 0);
    }

    #[test]
    fn a_part_is_synced_by_itself_and_once_more_with_the_rest() {
        let (recorder, log) = log(2);
        log.write_at(0, b"first").unwrap();
        log.write_at(5000, b"second").unwrap();
        log.sync_range(5000, 6).unwrap();
        assert_eq!((recorder.unfenced_lines(), recorder.counts().fences), (1, 1));
        log.sync().unwrap();
        assert_eq!((recorder.unfenced_lines(), recorder.counts().fences), (0, 2));
    }

    #[test]
    fn what_is_not_wanted_any_more_is_not_flushed() {
        let (recorder, mut log) = log(1);
        log.write_at(0, b"of an earlier use").unwrap();
        Arc::get_mut(&mut log).unwrap().forget();
        log.write_at(200, b"of this use").unwrap();
        log.sync().unwrap();
        assert_eq!((recorder.counts().flushes, recorder.unfenced_lines()), (1, 1));
    }

    #[test]
    fn what_another_thread_wrote_is_durable_too() {
        let (recorder, log) = log(1);
        let writer = Arc::clone(&log);
        std::thread::spawn(move || writer.write_at(128, b"theirs").unwrap()).join().unwrap();
        assert_eq!(recorder.unfenced_lines(), 1);
        log.sync().unwrap();
        assert_eq!(recorder.unfenced_lines(), 0);
    }

    #[test]
    #[should_panic(expected = "beyond the end of a log file")]
    fn a_write_beyond_the_area_is_refused() {
        let _ = log(1).1.write_at(4095, b"ab");
    }
}
