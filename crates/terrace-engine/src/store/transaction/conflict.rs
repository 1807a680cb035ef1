use std::fmt;

use terrace_base::SeqNo;

/// Something that a transaction read was written by another one before it could commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The key that was written, as the range stores it; for a deletion of an interval the first
    /// of its keys that were read.
    pub key: Vec<u8>,
    /// The number of the write.
    pub seqno: SeqNo,
}

impl Conflict {
    /// The conflict as it is told to a caller that knows the key by this name.
    pub fn show(&self, key: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "another write changed what this transaction had read, the key \"{}\"; \
             nothing was written; begin the transaction anew",
            key.escape_ascii()
        )
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(&self.key, f)
    }
}
