use terrace_base::{LogPosition, SeqNo};
use terrace_env::Latch;

use super::Memtable;

/// Where the log has a large value that is in a memtable too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoggedValue {
    /// The number of its entry.
    pub seqno: SeqNo,
    /// Where its key begins, behind which the value stands.
    pub at: LogPosition,
}

impl LoggedValue {
    /// What noting one takes of a memtable's arena, in bytes.
    pub const BYTES: usize = size_of::<LoggedValue>();
}

/// Where the log has the large values of a memtable, in no order: a flush may leave them there.
///
/// It lies beside the arena, and is charged to it all the same. It grows by pieces of one size, so
/// that no writer waits while a long list moves.
#[derive(Debug, Default)]
pub(super) struct LoggedValues(Latch<Vec<Vec<LoggedValue>>>);

/// Places in a piece of the list: 4 KiB.
const PIECE_LEN: usize = 256;

impl LoggedValues {
    pub(super) fn add(&self, values: impl IntoIterator<Item = LoggedValue>) {
        let mut pieces = self.0.lock();
        for value in values {
            match pieces.last_mut().filter(|piece| piece.len() < PIECE_LEN) {
                Some(piece) => piece.push(value),
                None => {
                    let mut piece = Vec::with_capacity(PIECE_LEN);
                    piece.push(value);
                    pieces.push(piece);
                }
            }
        }
    }

    pub(super) fn list(&self) -> Vec<LoggedValue> {
        self.0.lock().concat()
    }
}

/// Where the log has the large values of some memtables, by the numbers of their entries.
#[derive(Clone, Debug, Default)]
pub struct LoggedByNumber(Vec<LoggedValue>);

impl LoggedByNumber {
    /// Those of these memtables.
    #[must_use]
    pub fn of<'a>(memtables: impl IntoIterator<Item = &'a Memtable>) -> LoggedByNumber {
        memtables.into_iter().flat_map(Memtable::logged).collect()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one of the entry with this number. Cost: a binary search.
    #[must_use]
    pub fn get(&self, seqno: SeqNo) -> Option<LoggedValue> {
        let index = self.0.binary_search_by_key(&seqno, |one| one.seqno).ok()?;
        Some(self.0[index])
    }
}

impl FromIterator<LoggedValue> for LoggedByNumber {
    fn from_iter<I: IntoIterator<Item = LoggedValue>>(values: I) -> LoggedByNumber {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_unstable();
        LoggedByNumber(values)
    }
}
