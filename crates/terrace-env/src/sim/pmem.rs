//! Persistent memory on the simulated disk.
//!
//! ```text
//!   store  the memory of the area, and `written` of its file: what the system shows
//!   flush  the lines as they are, set aside for the thread
//!   fence  the thread's lines go into `synced`; a call, and so a moment for a crash and a switch
//!   crash  `synced`, then any of the lines, or of the words of 8 bytes, in which `written` differs
//! ```
//!
//! Invariant: a durable line never goes back: what another thread set aside earlier than a line
//! that is durable now is forgotten.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, ThreadId};

use parking_lot::Mutex;
use terrace_base::hash_bytes;

use super::disk::InodeId;
use super::io::{Io, SimDisk};
use crate::pmem::{Memory, PMEM_LINE_BYTES, Pmem, PmemMedium, PmemSide};
use crate::{EnvResult, Operation};

const LINE_BYTES: usize = PMEM_LINE_BYTES as usize;

/// An area in a file that this run has marked as mapped, with its content.
pub(super) fn over(disk: &Arc<SimDisk>, path: &Path, inode: InodeId, content: &[u8]) -> Pmem {
    let side = SimPmem {
        disk: Arc::clone(disk),
        path: path.to_path_buf(),
        inode,
        flushed: Mutex::default(),
    };
    let memory = Memory::zeroed(content.len() as u64);
    let claimed = Memory::claim(&memory, 0, content.len() as u64);
    claimed.expect("nobody else has the memory yet").store(0, content);
    Pmem::new(memory, Arc::new(side))
}

struct SimPmem {
    disk: Arc<SimDisk>,
    path: PathBuf,
    inode: InodeId,
    /// Locked for a few instructions, and never while a thread gives up its turn. Order: behind the
    /// lock of the disk.
    flushed: Mutex<Flushed>,
}

/// What was set aside, and is not durable yet.
#[derive(Default)]
struct Flushed {
    /// Lines by offset, each with when it was flushed.
    threads: Vec<(ThreadId, BTreeMap<u64, Line>)>,
    flushes: u64,
    /// Of every store since the last fence, for the trace.
    stored_hash: u64,
}

#[derive(Clone, Copy)]
struct Line {
    flush: u64,
    bytes: [u8; LINE_BYTES],
}

impl Flushed {
    fn add(&mut self, thread: ThreadId, offset: u64, lines: &[u8]) {
        self.flushes += 1;
        let flush = self.flushes;
        let at = self.threads.iter().position(|(owner, _)| *owner == thread);
        let at = at.unwrap_or_else(|| {
            self.threads.push((thread, BTreeMap::new()));
            self.threads.len() - 1
        });
        for (index, bytes) in lines.chunks_exact(LINE_BYTES).enumerate() {
            let bytes = bytes.try_into().expect("chunks are exact");
            let offset = offset + (index * LINE_BYTES) as u64;
            self.threads[at].1.insert(offset, Line { flush, bytes });
        }
    }

    /// Takes the lines of a thread that become durable now.
    fn take(&mut self, thread: ThreadId) -> BTreeMap<u64, Line> {
        let Some(at) = self.threads.iter().position(|(owner, _)| *owner == thread) else {
            return BTreeMap::new();
        };
        let (_, taken) = self.threads.swap_remove(at);
        for (_, others) in &mut self.threads {
            others.retain(|offset, line| {
                taken.get(offset).is_none_or(|durable| durable.flush < line.flush)
            });
        }
        taken
    }
}

impl PmemSide for SimPmem {
    fn medium(&self) -> PmemMedium {
        PmemMedium::Simulated
    }

    fn stored(&self, offset: u64, bytes: &[u8]) {
        self.disk.store(self.inode, offset, bytes);
        let mut flushed = self.flushed.lock();
        flushed.stored_hash = hash_bytes(flushed.stored_hash ^ offset, bytes);
    }

    fn flush(&self, offset: u64, lines: &[u8]) {
        self.flushed.lock().add(thread::current().id(), offset, lines);
    }

    fn fence(&self) -> EnvResult<()> {
        let stored = Some(std::mem::take(&mut self.flushed.lock().stored_hash));
        let io = Io { stored, ..Io::new(Operation::Sync, &self.path) };
        self.disk.mutate(io, |disk| {
            let lines = self.flushed.lock().take(thread::current().id());
            disk.persist(self.inode, lines.iter().map(|(&offset, line)| (offset, &line.bytes[..])));
            Ok(())
        })
    }
}

impl Drop for SimPmem {
    fn drop(&mut self) {
        self.disk.unmap(self.inode);
    }
}

impl fmt::Debug for SimPmem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simulated {}", self.path.display())
    }
}

#[cfg(test)]
mod tests;
