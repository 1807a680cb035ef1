use std::fmt;
use std::panic::Location;
use std::time::Duration;

use crate::Operation;

/// A simulated thread: 0 is the main one, then in the order in which they were started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ThreadId(pub u64);

/// What a thread can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitKind {
    /// A [`Signal`](crate::Signal).
    Signal,
    /// A [`Mutex`](crate::Mutex).
    Mutex,
    /// A [`Hold`](crate::Hold).
    Hold,
}

/// One lock or signal of a simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitPoint {
    /// Locks and signals are numbered in the order in which they were made.
    pub id: u64,
    pub kind: WaitKind,
    /// The line that made it, for reports.
    pub made_at: &'static Location<'static>,
}

impl fmt::Display for WaitPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            WaitKind::Signal => "signal",
            WaitKind::Mutex => "mutex",
            WaitKind::Hold => "hold",
        };
        write!(f, "{kind} #{} (made at {})", self.id, self.made_at)
    }
}

/// A call of the environment at which another thread may get its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Lock(u64),
    TryLock(u64),
    Share(u64),
    TryShare(u64),
    Release(u64),
    Ticket(u64),
    Wait(u64),
    Notify(u64),
    Now,
    WallTime,
    Random,
    Spawn,
    Join(ThreadId),
    Sleep,
    Io(Operation),
    IoDone(Operation),
    Latch,
    Yield,
}

impl Call {
    /// A number for the trace that tells this call from others.
    pub fn code(self) -> u64 {
        let (kind, detail) = match self {
            Call::Lock(id) => (1, id),
            Call::TryLock(id) => (2, id),
            Call::Share(id) => (3, id),
            Call::TryShare(id) => (4, id),
            Call::Release(id) => (5, id),
            Call::Ticket(id) => (6, id),
            Call::Wait(id) => (7, id),
            Call::Notify(id) => (8, id),
            Call::Now => (9, 0),
            Call::WallTime => (10, 0),
            Call::Random => (11, 0),
            Call::Spawn => (12, 0),
            Call::Join(thread) => (13, thread.0),
            Call::Sleep => (14, 0),
            Call::Io(operation) => (15, operation as u64),
            Call::IoDone(operation) => (16, operation as u64),
            Call::Latch => (17, 0),
            Call::Yield => (18, 0),
        };
        kind << 56 | detail
    }
}

/// Why a thread is not running.
#[derive(Clone, Debug)]
pub(super) enum Reason {
    /// It waits for a lock or a signal; with how reports show the mode.
    Point(WaitPoint, &'static str),
    /// It waits for the end of a thread.
    Join(ThreadId),
    /// It sleeps.
    Sleep,
    /// It came to a yield point, and the seed holds it up.
    HeldUp,
}

/// Whether a thread could run.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// It runs, or waits for its turn.
    Ready,
    /// It waits for something, at most until the deadline.
    Waiting { reason: Reason, deadline: Option<Duration> },
}
