//! The threads of a replay: they put records that were read and judged into a memtable.
//!
//! One thread reads the log, in its order, and hands chunks of records over; the others, and it too
//! when they do not keep up, insert them. All of them insert into one memtable at a time, through
//! its latch: copying an entry, and touching the fresh page that it goes to, costs more than its
//! place in the tree, and is done outside. So a replay gives the same entries, and the same errors,
//! with however many threads.
//!
//! ```text
//!   log → read, checksum, judge ─┬─→ [chunk] [chunk] [chunk] ─→ thread 1 ─┐
//!                                │                         └─→ thread 2 ─┼─→ latch → memtable
//!                                └──── when the tray is full ────────────┘
//! ```
//! *Source:* RocksMash (TACO 2022), where parts of a log are replayed side by side; Nova-LSM
//! (SIGMOD 2021), where threads rebuild a memtable each. *Differs:* here no record is divided over
//! two memtables that are flushed apart, so the threads share the memtable and not the log.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use terrace_base::{LogPosition, MemtableId};
use terrace_env::{JobClass, JobHandle, Latch, SharedEnv, Signal};

use crate::Result;
use crate::memtable::Memtable;
use crate::wal::ReadRecord;
use crate::wal::format::{BatchBody, RecordHeader};

/// A chunk is this share of a memtable, or [`CHUNK_BYTES_MAX`] if that is less.
const CHUNKS_PER_MEMTABLE: usize = 256;
const CHUNK_BYTES_MAX: usize = 128 << 10;
/// Number of chunks that wait at most: enough for the others to do while the next part of the log
/// is read, and few enough to be in the cache still.
const CHUNKS_WAITING_MAX: usize = 32;

/// What the reader has seen to be good: no error is found later.
const JUDGED: &str = "the reader has decoded the record before";

/// Some records for one memtable, which has room for all of them.
pub(super) struct Chunk {
    memtable: Arc<Memtable>,
    /// What their entries need at most, if nothing of it was flushed.
    space_bytes: usize,
    /// What they take here.
    bytes: usize,
    buffers: Vec<Arc<Vec<u8>>>,
    records: Vec<Kept>,
}

/// A record that is kept beyond the visit.
struct Kept {
    header: RecordHeader,
    /// Index of the buffer that holds its body.
    buffer_index: usize,
    /// The part of that buffer that is its body.
    body: Range<usize>,
}

impl Chunk {
    pub(in crate::store) fn new(memtable: &Arc<Memtable>) -> Chunk {
        let memtable = Arc::clone(memtable);
        Chunk { memtable, space_bytes: 0, bytes: 0, buffers: Vec::new(), records: Vec::new() }
    }

    /// The memtable has room for `space_bytes` more, which the record needs at most.
    pub(in crate::store) fn push(&mut self, record: &ReadRecord<'_>, space_bytes: usize) {
        if !self.buffers.last().is_some_and(|last| Arc::ptr_eq(last, record.buffer)) {
            self.buffers.push(Arc::clone(record.buffer));
        }
        self.space_bytes += space_bytes;
        self.bytes += record.body.len() + size_of::<Kept>();
        let buffer_index = self.buffers.len() - 1;
        let (header, body) = (*record.header, record.body.clone());
        self.records.push(Kept { header, buffer_index, body });
    }

    /// Inserts all entries but those of `flushed` memtables.
    fn insert(self, flushed: &BTreeMap<MemtableId, LogPosition>) {
        let mut entries = Vec::with_capacity(self.records.len());
        for Kept { header, buffer_index, body } in &self.records {
            let body = &self.buffers[*buffer_index][body.clone()];
            let batch = BatchBody::decode(header, body).expect(JUDGED);
            let judged = batch.entries().map(|entry| entry.expect(JUDGED));
            let wanted = judged.filter(|(memtable, _)| !flushed.contains_key(memtable));
            entries.extend(wanted.map(|(_, entry)| entry));
        }
        let reservation = self.memtable.reserve(self.space_bytes);
        let mut reservation = reservation.expect("room was made for all of the chunk");
        self.memtable.insert_all(&mut reservation, entries);
    }
}

/// The threads, and the one that reads. When dropped, the others drop what waits, and end.
pub(super) struct Workers {
    env: SharedEnv,
    /// Threads beside the one that reads, at most. They are started when there is work for them.
    helpers_max: usize,
    helpers: Vec<JobHandle>,
    chunk_bytes: usize,
    shared: Arc<Shared>,
}

struct Shared {
    /// Memtables whose entries are in tables.
    flushed: BTreeMap<MemtableId, LogPosition>,
    tray: Latch<Tray>,
    /// Notified when a chunk has come, and at the end.
    filled: Signal,
    /// Notified when a chunk is done.
    done: Signal,
}

/// Chunks on their way.
#[derive(Default)]
struct Tray {
    waiting: VecDeque<Chunk>,
    waiting_bytes: usize,
    /// How many are being inserted by helpers.
    taken: usize,
    /// Whether the insertion of one ended in a panic.
    has_panicked: bool,
    is_over: bool,
}

impl Workers {
    /// `threads` in all, for memtables of a given size.
    pub(in crate::store) fn new(
        env: &SharedEnv,
        threads: usize,
        memtable_bytes: usize,
        flushed: BTreeMap<MemtableId, LogPosition>,
    ) -> Workers {
        let waits = env.waits();
        let (filled, done) = (waits.signal(), waits.signal());
        Workers {
            env: Arc::clone(env),
            helpers_max: threads.saturating_sub(1),
            helpers: Vec::new(),
            chunk_bytes: (memtable_bytes / CHUNKS_PER_MEMTABLE).min(CHUNK_BYTES_MAX),
            shared: Arc::new(Shared { flushed, tray: Latch::default(), filled, done }),
        }
    }

    /// Whether a chunk is worth being handed over.
    pub(in crate::store) fn is_enough(&self, chunk: &Chunk) -> bool {
        chunk.bytes >= self.chunk_bytes
    }

    /// Has the chunk inserted, soon. Errors: no thread is to be had.
    pub(super) fn hand_over(&mut self, chunk: Chunk) -> Result<()> {
        if self.helpers_max == 0 {
            self.insert(chunk);
            return Ok(());
        }
        {
            let mut tray = self.shared.tray.lock();
            tray.waiting_bytes += chunk.bytes;
            tray.waiting.push_back(chunk);
        }
        self.shared.filled.notify();
        if self.helpers.len() < self.helpers_max {
            let shared = Arc::clone(&self.shared);
            let name = format!("replay-{}", self.helpers.len());
            self.helpers.push(self.env.spawn(
                JobClass::Log,
                &name,
                Box::new(move || shared.help()),
            )?);
        }
        let bytes_max = CHUNKS_WAITING_MAX * self.chunk_bytes;
        while let Some(chunk) = self.shared.take_beyond(bytes_max) {
            self.insert(chunk);
        }
        Ok(())
    }

    /// Inserts the chunk, here and now.
    pub(in crate::store) fn insert(&self, chunk: Chunk) {
        chunk.insert(&self.shared.flushed);
    }

    /// Returns when everything that was handed over is inserted.
    ///
    /// # Panics
    /// If a helper did.
    pub(in crate::store) fn finish(&self) {
        while let Some(chunk) = self.shared.take_beyond(0) {
            self.insert(chunk);
        }
        loop {
            let ticket = self.shared.done.ticket();
            let (taken, has_panicked) = {
                let tray = self.shared.tray.lock();
                (tray.taken, tray.has_panicked)
            };
            assert!(!has_panicked, "a thread of the replay ended in a panic");
            if taken == 0 {
                return;
            }
            self.shared.done.wait(ticket);
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let dropped = {
            let mut tray = self.shared.tray.lock();
            tray.is_over = true;
            std::mem::take(&mut tray.waiting)
        };
        drop(dropped);
        self.shared.filled.notify();
        if std::thread::panicking() {
            // Waiting could hang a thread that must end; the others end by themselves.
            return;
        }
        for helper in std::mem::take(&mut self.helpers) {
            if !helper.join() {
                crate::program_log::error!("a thread of the replay ended in a panic");
            }
        }
    }
}

impl Shared {
    /// Inserts what comes until the replay is over.
    fn help(&self) {
        loop {
            let ticket = self.filled.ticket();
            let (chunk, is_over) = {
                let mut tray = self.tray.lock();
                let chunk = tray.take();
                tray.taken += usize::from(chunk.is_some());
                (chunk, tray.is_over)
            };
            match chunk {
                Some(chunk) => {
                    let _turn = Worker { shared: self };
                    chunk.insert(&self.flushed);
                }
                None if is_over => return,
                None => self.filled.wait(ticket),
            }
        }
    }

    /// The oldest chunk, if those that wait take more than `bytes_max` bytes.
    fn take_beyond(&self, bytes_max: usize) -> Option<Chunk> {
        let mut tray = self.tray.lock();
        if tray.waiting_bytes > bytes_max { tray.take() } else { None }
    }
}

impl Tray {
    fn take(&mut self) -> Option<Chunk> {
        let chunk = self.waiting.pop_front()?;
        self.waiting_bytes -= chunk.bytes;
        Some(chunk)
    }
}

/// A helper inserts a chunk; when dropped, that has ended.
struct Worker<'a> {
    shared: &'a Shared,
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        {
            let mut tray = self.shared.tray.lock();
            tray.taken -= 1;
            // Unwinding: nobody may wait for this chunk for ever.
            tray.has_panicked |= std::thread::panicking();
        }
        self.shared.done.notify();
    }
}
