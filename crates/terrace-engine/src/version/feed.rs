use std::fmt;
use std::path::Path;
use std::sync::Arc;

use terrace_base::{Corruption, Epoch, FileId};
use terrace_env::Latch;

use super::{TableContext, Version, VersionEdit, fold, manifest_path};
use crate::Result;
use crate::l0::L0;

/// The version feed seam, as an open sees it: where the feed of a range is kept.
pub trait FeedStore: Send + Sync + fmt::Debug {
    /// Reads the feed; none if there is no range yet.
    ///
    /// Errors: `Corruption` and `Unsupported` if it cannot be read as it was written.
    fn load(&self) -> Result<Option<LoadedFeed>>;

    /// What the feed holds behind `mark`; all of it if there is no mark, or if another feed counts
    /// by now. None if there is no range. Somebody else may append to the feed meanwhile: what is
    /// not complete yet is no part of the answer.
    ///
    /// Errors: as [`FeedStore::load`].
    fn news(&self, mark: Option<FeedMark>) -> Result<Option<FeedNews>> {
        let Some(LoadedFeed { edits, end, .. }) = self.load()? else { return Ok(None) };
        let new = FeedMark { end, identity: 0 };
        let is_known = mark == Some(new);
        let edits = if is_known { Vec::new() } else { edits };
        Ok(Some(FeedNews { begins_anew: !is_known, edits, mark: new }))
    }

    /// Whoever follows the feed shows this version from now on, which its news have led to.
    fn shows(&self, _version: &Arc<Version>) {}

    /// An epoch above `epoch` that nothing was ever named after.
    fn next_epoch(&self, epoch: Epoch) -> Result<Epoch>;

    /// Begins a feed that starts with `snapshot`, under a new id, and makes it the one that
    /// counts: on return that is durable. If it fails, the feed before it still counts.
    fn begin(&self, id: FileId, snapshot: &VersionEdit) -> Result<Box<dyn VersionFeed>>;
}

/// A feed as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedFeed {
    /// Its edits, the snapshot first.
    pub edits: Vec<VersionEdit>,
    /// Where it ends.
    pub end: FeedPosition,
    /// Whether a crash tore its last edit off (which was never installed).
    pub is_torn: bool,
}

impl LoadedFeed {
    /// The version that its edits come to; it was read in `dir`. Errors: `Corruption`.
    pub fn fold(&self, dir: &Path, l0: &dyn L0, context: &Arc<TableContext>) -> Result<Version> {
        fold(&self.edits, l0, context).map_err(|(index, misfit)| {
            let path = manifest_path(dir, self.end.id);
            Corruption::new(path, 0, format!("edit {index} does not fit: {misfit}")).into()
        })
    }
}

/// The place in a feed up to which somebody has read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedMark {
    /// Where that is.
    pub end: FeedPosition,
    /// Which feed of that id it is, if ids do not say.
    pub identity: u128,
}

/// What a feed holds that its reader does not know yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedNews {
    /// Whether the edits begin with a snapshot and replace all that was read before; otherwise they
    /// go on from there.
    pub begins_anew: bool,
    /// The edits, in their order.
    pub edits: Vec<VersionEdit>,
    /// Where they end.
    pub mark: FeedMark,
}

/// A place in a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedPosition {
    /// The feed's id: the manifest's.
    pub id: FileId,
    /// Bytes of it that hold complete edits.
    pub bytes: u64,
}

impl Default for FeedPosition {
    fn default() -> FeedPosition {
        FeedPosition { id: FileId { epoch: Epoch(0), counter: 0 }, bytes: 0 }
    }
}

/// The version feed seam, as an installation sees it: the ordered stream of a range's version
/// edits.
///
/// The manifest is its local follower; backups, readers and the cloud copy of the manifest hold
/// other things beside, but follow the same stream. One caller at a time.
pub trait VersionFeed: Send + fmt::Debug {
    /// Appends an edit. On return it is durable; the caller installs it only then.
    ///
    /// After an error other than a failed sync the edit was not installed, and the feed wants to
    /// be begun anew before anything else is appended.
    fn append(&mut self, edit: &VersionEdit) -> Result<()>;

    /// Where it ends.
    fn end(&self) -> FeedPosition;

    /// Whether it has become too long, or was broken by a failed append, so that the next edit
    /// should go into a new feed that begins with a snapshot.
    fn wants_snapshot(&self) -> bool;
}

/// A feed that keeps its edits in memory: shows that another one can take the manifest's place,
/// and serves tests. Clones share the edits.
#[derive(Clone, Debug, Default)]
pub struct MemoryFeed {
    feed: Arc<Latch<Option<LoadedFeed>>>,
}

impl FeedStore for MemoryFeed {
    fn load(&self) -> Result<Option<LoadedFeed>> {
        Ok(self.feed.lock().clone())
    }

    fn next_epoch(&self, epoch: Epoch) -> Result<Epoch> {
        Ok(Epoch(epoch.0 + 1))
    }

    fn begin(&self, id: FileId, snapshot: &VersionEdit) -> Result<Box<dyn VersionFeed>> {
        let end = FeedPosition { id, bytes: 1 };
        let feed = LoadedFeed { edits: vec![snapshot.clone()], end, is_torn: false };
        *self.feed.lock() = Some(feed);
        Ok(Box::new(self.clone()))
    }
}

impl VersionFeed for MemoryFeed {
    fn append(&mut self, edit: &VersionEdit) -> Result<()> {
        if let Some(feed) = &mut *self.feed.lock() {
            feed.edits.push(edit.clone());
            feed.end.bytes += 1;
        }
        Ok(())
    }

    fn end(&self) -> FeedPosition {
        self.feed.lock().as_ref().map(|feed| feed.end).unwrap_or_default()
    }

    fn wants_snapshot(&self) -> bool {
        self.end().bytes > 16
    }
}
