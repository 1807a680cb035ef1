//! What scans read ahead of their place: pieces of tables, each asked for once.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use terrace_env::Latch;

use super::file::Piece;
use crate::Result;
use crate::cloud::PendingGet;
use crate::table::ByteInterval;

/// The least that is read ahead with one request: then the request costs less time than its bytes.
pub const PIECE_BYTES: u64 = 1 << 20;

/// So many pieces wait to be read; the oldest goes when there are more.
const PIECES_MAX: usize = 16;

/// A read that was begun.
pub(super) enum Asked {
    /// The answer is on its way.
    Pending { offset: u64, pending: PendingGet },
    /// It has come.
    There(Arc<Piece>),
}

impl Asked {
    pub fn wait(self) -> Result<Arc<Piece>> {
        match self {
            Asked::Pending { offset, pending } => {
                Ok(Arc::new(Piece { offset, bytes: pending.wait()? }))
            }
            Asked::There(piece) => Ok(piece),
        }
    }
}

struct Waiting {
    table: u128,
    range: Range<u64>,
    asked: Asked,
}

impl Waiting {
    fn holds(&self, table: u128, interval: ByteInterval) -> bool {
        let end = interval.offset + interval.bytes as u64;
        self.table == table && self.range.start <= interval.offset && end <= self.range.end
    }
}

/// The pieces of all tables of a store that were read ahead, the oldest first.
#[derive(Default)]
pub(super) struct ReadAhead {
    pieces: Latch<VecDeque<Waiting>>,
}

impl ReadAhead {
    /// Begins to read a piece of a table of `table_bytes` that begins with the interval, unless
    /// that is under way.
    pub fn ask(
        &self,
        table: u128,
        interval: ByteInterval,
        table_bytes: u64,
        begin: impl FnOnce(Range<u64>) -> PendingGet,
    ) {
        let first = ByteInterval { bytes: 1, ..interval };
        if self.pieces.lock().iter().any(|waiting| waiting.holds(table, first)) {
            return;
        }
        let bytes = PIECE_BYTES.max(interval.bytes as u64);
        let end = interval.offset.saturating_add(bytes).min(table_bytes);
        let range = interval.offset..end;
        let pending = begin(range.clone());
        let asked = Asked::Pending { offset: range.start, pending };
        self.keep(Waiting { table, range, asked });
    }

    /// What was asked for and holds the interval; it is the caller's now.
    pub fn take(&self, table: u128, interval: ByteInterval) -> Option<Asked> {
        let mut pieces = self.pieces.lock();
        let index = pieces.iter().position(|waiting| waiting.holds(table, interval))?;
        pieces.remove(index).map(|waiting| waiting.asked)
    }

    /// The bytes of an interval, if they have come.
    pub fn get(&self, table: u128, interval: ByteInterval) -> Option<Vec<u8>> {
        let pieces = self.pieces.lock();
        let found = pieces.iter().find(|waiting| waiting.holds(table, interval))?;
        match &found.asked {
            Asked::There(piece) => piece.get(interval),
            Asked::Pending { .. } => None,
        }
    }

    /// Whether something was asked for that holds the interval.
    pub fn holds(&self, table: u128, interval: ByteInterval) -> bool {
        self.pieces.lock().iter().any(|waiting| waiting.holds(table, interval))
    }

    /// Keeps a piece of which an interval was read, if more of it is to come.
    pub fn keep_rest(&self, table: u128, read: ByteInterval, piece: Arc<Piece>) {
        let range = piece.offset..piece.offset + piece.bytes.len() as u64;
        if read.offset + (read.bytes as u64) < range.end {
            self.keep(Waiting { table, range, asked: Asked::There(piece) });
        }
    }

    fn keep(&self, waiting: Waiting) {
        let dropped = {
            let mut pieces = self.pieces.lock();
            pieces.push_back(waiting);
            if pieces.len() > PIECES_MAX { pieces.pop_front() } else { None }
        };
        // To let go of a read that is under way may call the environment.
        drop(dropped);
    }
}

impl std::fmt::Debug for ReadAhead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReadAhead, {} pieces", self.pieces.lock().len())
    }
}
