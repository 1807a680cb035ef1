//! What scans read ahead of their place: pieces of tables, each asked for once.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use terrace_env::Latch;

use super::file::Piece;
use crate::Result;
use crate::cloud::PendingGet;
use crate::table::ByteInterval;

/// The least that is read ahead with one request: then the request costs less time than its bytes.
pub const PIECE_BYTES: u64 = 1 << 20;

/// So many bytes wait to be read, in so many pieces; the oldest go when there are more.
const BYTES_MAX: u64 = 16 << 20;
const PIECES_MAX: usize = 128;

/// So many of them may be on their way, each of which holds the place of a request until somebody
/// comes to it or it goes.
const PENDING_MAX: usize = 24;

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
    fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn is_pending(&self) -> bool {
        matches!(self.asked, Asked::Pending { .. })
    }

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

/// Where a piece stands that holds an interval of a table.
fn find(pieces: &VecDeque<Waiting>, table: u128, interval: ByteInterval) -> Option<usize> {
    pieces.iter().position(|waiting| waiting.holds(table, interval))
}

/// Which piece goes: the oldest one if there are too many, or the oldest of those on their way.
fn excess(pieces: &VecDeque<Waiting>) -> Option<usize> {
    let bytes: u64 = pieces.iter().map(Waiting::bytes).sum();
    // One alone is kept, whatever it has.
    if pieces.len() > 1 && (bytes > BYTES_MAX || pieces.len() > PIECES_MAX) {
        return Some(0);
    }
    let is_too_many = pieces.iter().filter(|one| one.is_pending()).count() > PENDING_MAX;
    pieces.iter().position(|one| is_too_many && one.is_pending())
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
        if self.holds(table, ByteInterval { bytes: 1, ..interval }) {
            return;
        }
        let bytes = PIECE_BYTES.max(interval.bytes as u64);
        let end = interval.offset.saturating_add(bytes).min(table_bytes);
        self.ask_for(table, interval.offset..end, begin);
    }

    /// Begins to read `range` of a table.
    pub fn ask_for(
        &self,
        table: u128,
        range: Range<u64>,
        begin: impl FnOnce(Range<u64>) -> PendingGet,
    ) {
        let pending = begin(range.clone());
        let asked = Asked::Pending { offset: range.start, pending };
        self.keep(Waiting { table, range, asked });
    }

    /// What was asked for and holds the interval; it is the caller's now.
    pub fn take(&self, table: u128, interval: ByteInterval) -> Option<Asked> {
        let mut pieces = self.pieces.lock();
        let index = find(&pieces, table, interval)?;
        pieces.remove(index).map(|waiting| waiting.asked)
    }

    /// The bytes of an interval, if they have come.
    pub fn get(&self, table: u128, interval: ByteInterval) -> Option<Vec<u8>> {
        let pieces = self.pieces.lock();
        match &pieces[find(&pieces, table, interval)?].asked {
            Asked::There(piece) => piece.get(interval),
            Asked::Pending { .. } => None,
        }
    }

    /// Whether something was asked for that holds the interval.
    pub fn holds(&self, table: u128, interval: ByteInterval) -> bool {
        find(&self.pieces.lock(), table, interval).is_some()
    }

    /// Keeps a piece of which an interval was read, if there is more of it.
    pub fn keep_rest(&self, table: u128, read: ByteInterval, piece: Arc<Piece>) {
        let range = piece.offset..piece.offset + piece.bytes.len() as u64;
        if read.bytes < piece.bytes.len() {
            self.keep(Waiting { table, range, asked: Asked::There(piece) });
        }
    }

    fn keep(&self, waiting: Waiting) {
        let dropped: SmallVec<[Waiting; 4]> = {
            let mut pieces = self.pieces.lock();
            pieces.push_back(waiting);
            std::iter::from_fn(|| excess(&pieces).and_then(|index| pieces.remove(index))).collect()
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
