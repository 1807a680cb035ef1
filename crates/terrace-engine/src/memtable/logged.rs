use terrace_base::{LogPosition, SeqNo};
use terrace_env::Latch;

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
