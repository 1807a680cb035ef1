//! The options of one call.

use crate::Durability;

/// How a key or an interval is read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Whether the call may wait for the disk (the default). If not, it answers `NeedsIo` where it
    /// would: an event loop tries that first, and moves to a thread that may wait.
    pub wait: bool,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions { wait: true }
    }
}

/// How a write is done.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// What the acknowledgement of this write promises; the database's class if none is given.
    /// A single `sync` write in a weaker database is visible before it is synced, and acknowledged
    /// after.
    pub durability: Option<Durability>,
    /// Whether the call may wait: for room, for the pace that background work sets, or for a sync
    /// (the default). If not, it answers `WouldBlock` where it would, and nothing was written.
    pub wait: bool,
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions { durability: None, wait: true }
    }
}

impl WriteOptions {
    pub(crate) fn engine(&self) -> terrace_engine::store::WriteOptions {
        terrace_engine::store::WriteOptions { durability: self.durability, wait: self.wait }
    }
}

impl ReadOptions {
    pub(crate) fn engine(&self) -> terrace_engine::store::GetOptions {
        terrace_engine::store::GetOptions { wait: self.wait }
    }
}
