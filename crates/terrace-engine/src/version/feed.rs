use std::fmt;

use terrace_env::Latch;

use super::VersionEdit;
use crate::Result;

/// The version feed seam: the ordered stream of a range's version edits.
///
/// The manifest is its local follower; backups, readers and the cloud copy of the manifest hold
/// other things beside, but follow the same stream.
pub trait VersionFeed: Send + Sync + fmt::Debug {
    /// Appends an edit. On return it is durable; the caller installs it only then. One caller at
    /// a time.
    fn append(&self, edit: &VersionEdit) -> Result<()>;
}

/// A feed that keeps its edits in memory: shows that another follower can take the manifest's
/// place, and serves tests.
#[derive(Debug, Default)]
pub struct MemoryFeed {
    edits: Latch<Vec<VersionEdit>>,
}

impl MemoryFeed {
    /// The edits so far, in order.
    #[must_use]
    pub fn edits(&self) -> Vec<VersionEdit> {
        self.edits.lock().clone()
    }
}

impl VersionFeed for MemoryFeed {
    fn append(&self, edit: &VersionEdit) -> Result<()> {
        self.edits.lock().push(edit.clone());
        Ok(())
    }
}
