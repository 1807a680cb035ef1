//! Every state in which a crash can leave persistent memory.
//!
//! # Why
//! A row whose header becomes durable before its payload is lost by one power cut in a million, and
//! by none that a test could wait for. So a test records what an operation does to an area, and
//! then looks at each image that a crash could leave: there are many, and one is wrong.
//!
//! ```text
//!   PmemRecorder ── pmem() ──► the code under test        store store flush fence store …
//!        │                                                      │     │           │
//!        └─ recording() ──► PmemRecording::explore ── crash ────┴─────┴───────────┘
//!                              │ a crash before each of these calls, and one at the end
//!                              │ lines that no fence has made durable: any of their contents since
//!                              └─► judge(image, mark): right, or a PmemViolation that says where
//! ```
//!
//! # What a crash leaves
//! * `PmemDomain::Adr`: a line that was flushed before its thread's last fence is at least as new
//!   as it was at that flush. Any other may be as it was then, or as after any store since: the
//!   processor evicts lines when it likes. The words of one store to one line arrive in any order
//!   (*tear*); words of 8 bytes are whole.
//! * `PmemDomain::Eadr`: the caches survive, so all stores are there, in order; the last one
//!   perhaps by half.
//!
//! # Which of them are tried
//! All, as long as they are at most 4096. Beyond that, of the lines in the order of their last
//! stores: every subset of up to 12, else every prefix, each line alone, all but each line; each
//! older content of a line with the others old and new; 64 at random. And the tears of each line,
//! with the others old and new. A state is judged once for each mark.
//!
//! Source: the method is that of Yat (USENIX ATC 2014), bounded.

mod choices;
mod explore;
mod lines;

use std::fmt;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use parking_lot::Mutex;

pub use self::explore::{PmemCrash, PmemDomain, PmemExploration, PmemReport, PmemViolation};
use self::lines::Lines;
use super::{Memory, PMEM_LINE_BYTES, Pmem, PmemMedium, PmemSide};
use crate::EnvResult;

pub(super) const LINE_BYTES: usize = PMEM_LINE_BYTES as usize;

/// An area in memory whose stores, flushes and fences are noted, in the order in which they happen.
#[derive(Debug)]
pub struct PmemRecorder {
    pmem: Pmem,
    notes: Arc<Notes>,
    initial: Vec<u8>,
}

/// What was done to an area, to be explored.
#[derive(Clone, Debug)]
pub struct PmemRecording {
    initial: Vec<u8>,
    events: Vec<Event>,
}

/// What was done to an area, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PmemCounts {
    /// Stores, published words among them.
    pub stores: u64,
    /// Lines that were flushed.
    pub flushes: u64,
    /// Those of them to which nothing had been stored since they were last flushed.
    pub needless_flushes: u64,
    /// Fences.
    pub fences: u64,
}

#[derive(Clone, Debug)]
enum Event {
    Store { offset: usize, bytes: Vec<u8> },
    Flush { thread: usize, line: usize, count: usize },
    Fence { thread: usize },
    Mark(u64),
}

impl PmemRecorder {
    /// An area of `bytes` zeros (whole pages, above 0; panics otherwise), all of them durable.
    #[must_use]
    pub fn new(bytes: u64) -> PmemRecorder {
        let bytes = usize::try_from(bytes).expect("an area fits the address space");
        PmemRecorder::over(&vec![0; bytes])
    }

    /// An area with this content, all of it durable: what a crash left, to record what is done to
    /// it next.
    #[must_use]
    pub fn over(content: &[u8]) -> PmemRecorder {
        let notes = Arc::new(Notes(Mutex::new(State {
            events: Vec::new(),
            threads: Vec::new(),
            lines: Lines::new(content.to_vec()),
            counts: PmemCounts::default(),
        })));
        let side: Arc<dyn PmemSide> = Arc::clone(&notes) as Arc<dyn PmemSide>;
        let pmem = Pmem::new(filled(content), side);
        PmemRecorder { pmem, notes, initial: content.to_vec() }
    }

    /// A handle of the area.
    #[must_use]
    pub fn pmem(&self) -> Pmem {
        self.pmem.clone()
    }

    /// Notes that something is over, or begins, for the judge to know: see [`PmemCrash::mark`].
    pub fn mark(&self, mark: u64) {
        self.notes.0.lock().events.push(Event::Mark(mark));
    }

    /// How many lines were stored to and are not durable: 0 where an operation may be acknowledged.
    #[must_use]
    pub fn unfenced_lines(&self) -> usize {
        self.notes.0.lock().lines.open_count()
    }

    /// What was done so far, in numbers.
    #[must_use]
    pub fn counts(&self) -> PmemCounts {
        self.notes.0.lock().counts
    }

    /// What was done so far.
    #[must_use]
    pub fn recording(&self) -> PmemRecording {
        let events = self.notes.0.lock().events.clone();
        PmemRecording { initial: self.initial.clone(), events }
    }
}

/// Memory of the heap with this content.
fn filled(content: &[u8]) -> Arc<Memory> {
    let memory = Memory::zeroed(content.len() as u64);
    let claimed = Memory::claim(&memory, 0, content.len() as u64);
    claimed.expect("nobody else has the memory yet").store(0, content);
    memory
}

/// The lines that hold some of the `bytes` at `offset`: the first one, and how many.
fn lines_of(offset: usize, bytes: usize) -> (usize, usize) {
    let first = offset / LINE_BYTES;
    (first, if bytes == 0 { 0 } else { (offset + bytes).div_ceil(LINE_BYTES) - first })
}

/// The side of a recorded area. Locked for a few instructions.
struct Notes(Mutex<State>);

struct State {
    events: Vec<Event>,
    threads: Vec<ThreadId>,
    /// As after the last event.
    lines: Lines,
    counts: PmemCounts,
}

impl State {
    /// The number of the calling thread.
    fn thread(&mut self) -> usize {
        let id = thread::current().id();
        let found = self.threads.iter().position(|thread| *thread == id);
        found.unwrap_or_else(|| {
            self.threads.push(id);
            self.threads.len() - 1
        })
    }
}

impl PmemSide for Notes {
    fn medium(&self) -> PmemMedium {
        PmemMedium::Simulated
    }

    fn stored(&self, offset: u64, bytes: &[u8]) {
        let offset = offset as usize;
        let mut state = self.0.lock();
        state.counts.stores += 1;
        state.lines.store(offset, bytes);
        state.events.push(Event::Store { offset, bytes: bytes.to_vec() });
    }

    fn flush(&self, offset: u64, lines: &[u8]) {
        let (line, count) = lines_of(offset as usize, lines.len());
        let mut state = self.0.lock();
        let thread = state.thread();
        let needless = state.lines.flush(thread, line, count);
        state.counts.flushes += count as u64;
        state.counts.needless_flushes += needless;
        state.events.push(Event::Flush { thread, line, count });
    }

    fn fence(&self) -> EnvResult<()> {
        let mut state = self.0.lock();
        let thread = state.thread();
        state.counts.fences += 1;
        state.lines.fence(thread);
        state.events.push(Event::Fence { thread });
        Ok(())
    }
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("recorded")
    }
}

#[cfg(test)]
mod tests;
