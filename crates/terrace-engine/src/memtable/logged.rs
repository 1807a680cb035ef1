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

/// Where the log has the large values of a memtable, in no order: a flush may leave them there.
///
/// It is beside the arena, and takes sixteen bytes for each of these values.
#[derive(Debug, Default)]
pub(super) struct LoggedValues(Latch<Vec<LoggedValue>>);

impl LoggedValues {
    pub(super) fn add(&self, values: impl IntoIterator<Item = LoggedValue>) {
        self.0.lock().extend(values);
    }

    pub(super) fn list(&self) -> Vec<LoggedValue> {
        self.0.lock().clone()
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
