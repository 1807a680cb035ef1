//! Range tombstones: deleted key intervals.

use terrace_base::SeqNo;

/// Every version older than `seqno` of every key with `start <= key < end` is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// The first deleted key.
    pub start: Vec<u8>,
    /// The first key above `start` that is not deleted.
    pub end: Vec<u8>,
    /// When the delete was written.
    pub seqno: SeqNo,
}
