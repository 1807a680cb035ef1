//! Persistent memory: bytes that are stored by the processor and survive a power cut.
//!
//! # Why
//! A row of L0 in persistent memory is written by stores and read by loads: no system call, no
//! block. What makes a store durable is not a sync of a file but the order of three steps, and a
//! test on a real machine cannot see one that is missing.
//!
//! ```text
//!   store    the line is dirty in a cache: lost in a power cut, or not, as the processor evicts it
//!   flush    the line is on its way                                       64 bytes a line
//!   fence    whatever this thread flushed is durable
//!   publish  one aligned 8-byte word: wholly there after a crash, or not at all
//! ```
//!
//! So a payload is stored, flushed and fenced before the word that makes it visible is published,
//! flushed and fenced. Nothing longer than an aligned word is stored at once.
//!
//! # Media
//! | [`PmemMedium`] | what it is | flush | fence |
//! |---|---|---|---|
//! | `Persistent` | a DAX file, mapped with `MAP_SYNC` | `clwb`, else `clflushopt`, else `clflush` | `sfence` |
//! | `Emulated` | a file in memory (`/dev/shm`): costs the same instructions, survives a killed process and no power cut | the same | the same |
//! | `File` | a file in the kernel's pages | notes the pages | syncs them |
//! | `Simulated` | memory of a simulation or a [`PmemRecorder`], which tell dirty, flushed and durable lines apart | notes the lines | makes them durable |
//!
//! # Who may touch which bytes
//! Everything here is safe to call, because no byte is ever read through a `&[u8]` while it is
//! stored to:
//!
//! 1. The bytes of an area are touched through a [`PmemSpan`] only. No other code has a pointer to
//!    them, but for pages that were given out as plain memory ([`PmemScratch`]), to which there is
//!    no span then.
//! 2. The pages of two living spans of one area are disjoint: [`Pmem::claim`] takes them in a
//!    bitmap, under a latch, and only dropping the span gives them back.
//! 3. A span is a `&[u8]` through `&self`; [`PmemSpan::store`] and [`PmemSpan::publish`] need
//!    `&mut self`. So the borrow checker keeps stores and slices of one span apart, and the latch
//!    orders what an earlier owner of a page did before what the next one does.
//! 4. An area is mapped once: its file is locked for as long as the mapping lives, and opening it
//!    again, in this process or another, fails
//!    ([`EnvError::is_locked`](crate::EnvError::is_locked)).
//! 5. The file is reserved and never cut, so every page has a place behind it. What writes to such
//!    a file other than through an area (no code of Terrace does) breaks this, as it breaks any
//!    mapping.
//!
//! # I/O errors
//! A `Persistent` or `File` area on a failing device: a load whose page cannot be read kills the
//! process (`SIGBUS`), as no call is there to return an error; opening it again recovers what was
//! fenced. A page that cannot be written back fails the fence, and every later one: a failed sync
//! is never tried again. On a file system that writes to a new place each time (btrfs, ZFS)
//! reserved space is no promise: a store to a full one kills the process too. Rows there belong
//! into files.
//!
//! Start reading at [`Pmem`]; a log is written through [`PmemLogFile`]; what tests need is
//! [`PmemRecorder`].

mod log_file;
mod memory;
mod recorder;
mod scratch;
mod span;
mod write_back;

use std::fmt;
use std::sync::Arc;

pub use self::log_file::PmemLogFile;
pub(crate) use self::memory::Memory;
pub use self::recorder::{
    PmemCounts, PmemCrash, PmemDomain, PmemExploration, PmemRecorder, PmemRecording, PmemReport,
    PmemViolation,
};
pub use self::scratch::PmemScratch;
pub use self::span::PmemSpan;
pub(crate) use self::write_back::{fence_lines, write_back};
use crate::EnvResult;

/// Areas are claimed by pages of this number of bytes.
pub const PMEM_PAGE_BYTES: u64 = 4096;

/// Bytes are written back by lines of this number of bytes, as processors do.
pub const PMEM_LINE_BYTES: u64 = 64;

/// What an area lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PmemMedium {
    /// Persistent memory: a file on a DAX file system, mapped with `MAP_SYNC`.
    Persistent,
    /// A file system in memory: as fast as stores are, and gone after a power cut.
    Emulated,
    /// The kernel's pages of an ordinary file, made durable by syncs.
    File,
    /// Simulated.
    Simulated,
}

impl PmemMedium {
    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PmemMedium::Persistent => "persistent",
            PmemMedium::Emulated => "emulated",
            PmemMedium::File => "file",
            PmemMedium::Simulated => "simulated",
        }
    }
}

impl fmt::Display for PmemMedium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An area of persistent memory, mapped; see the module. A clone is another handle of the same
/// area, which stays mapped, and locked, until its last handle and span are dropped.
///
/// All methods may be called from any thread.
#[derive(Clone)]
pub struct Pmem {
    memory: Arc<Memory>,
    side: Arc<dyn PmemSide>,
}

/// A page of the wanted ones is claimed already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmemClaimed {
    /// Where the first page begins that has an owner.
    pub offset: u64,
}

impl fmt::Display for PmemClaimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the page at {} of the area has an owner", self.offset)
    }
}

impl std::error::Error for PmemClaimed {}

/// What an environment makes of stores, flushes and fences. The bytes themselves are in memory by
/// then.
pub(crate) trait PmemSide: Send + Sync + fmt::Debug {
    fn medium(&self) -> PmemMedium;

    /// `bytes` were stored at `offset`.
    fn stored(&self, _offset: u64, _bytes: &[u8]) {}

    /// `lines`, whole lines that begin at `offset`, are to be written back.
    fn flush(&self, offset: u64, lines: &[u8]);

    /// What this thread flushed is to be durable.
    fn fence(&self) -> EnvResult<()>;
}

impl Pmem {
    pub(crate) fn new(memory: Arc<Memory>, side: Arc<dyn PmemSide>) -> Pmem {
        Pmem { memory, side }
    }

    /// The same memory behind another side, which is given this one.
    pub(crate) fn behind(self, wrap: impl FnOnce(Arc<dyn PmemSide>) -> Arc<dyn PmemSide>) -> Pmem {
        Pmem { memory: self.memory, side: wrap(self.side) }
    }

    /// The size in bytes, a multiple of [`PMEM_PAGE_BYTES`]; it never changes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.memory.bytes() as u64
    }

    /// What the area lies on.
    #[must_use]
    pub fn medium(&self) -> PmemMedium {
        self.side.medium()
    }

    /// Takes exclusive ownership of the pages at `offset`. Both numbers are multiples of
    /// [`PMEM_PAGE_BYTES`], `bytes` is above 0, and the end lies within [`Pmem::bytes`]; panics
    /// otherwise.
    ///
    /// Errors: one of the pages has an owner, and nothing is claimed. Cost: a short latch, a bit a
    /// page.
    pub fn claim(&self, offset: u64, bytes: u64) -> Result<PmemSpan, PmemClaimed> {
        let pages = Memory::claim(&self.memory, offset, bytes)?;
        Ok(PmemSpan::new(pages, Arc::clone(&self.side)))
    }

    /// Returns when all lines that this thread flushed before the call are durable.
    ///
    /// Errors: a `File` area could not be synced. What was flushed is in doubt then, and every
    /// later fence fails with the same error: it must not be retried. Cost: an `sfence`; for a
    /// `File` area a sync of the flushed pages, whichever thread flushed them, behind a sync that
    /// is under way.
    pub fn fence(&self) -> EnvResult<()> {
        self.side.fence()
    }
}

impl fmt::Debug for Pmem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pmem").field("bytes", &self.bytes()).field("side", &self.side).finish()
    }
}

/// Panics unless an area may have `bytes` bytes.
pub(crate) fn assert_area_bytes(bytes: u64) {
    assert!(
        is_area_bytes(bytes),
        "an area of {bytes} bytes: it is to have whole pages, and one of them"
    );
}

/// Whether an area may have `bytes` bytes.
pub(crate) fn is_area_bytes(bytes: u64) -> bool {
    bytes > 0 && bytes.is_multiple_of(PMEM_PAGE_BYTES)
}
