use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use terrace_base::RowId;
use terrace_env::{Mutex, SharedEnv};

use super::{FileIds, Manifest, TableContext, Version, VersionEdit, VersionFeed};
use crate::l0::L0;
use crate::{Error, Result};

/// A manifest beyond this size is replaced by a new one that begins with a snapshot.
const MANIFEST_BYTES_MAX: u64 = 4 << 20;

/// The current version of a range, and the only way to change it.
#[derive(Debug)]
pub struct Versions {
    env: SharedEnv,
    dir: PathBuf,
    ids: Arc<FileIds>,
    l0: Arc<dyn L0>,
    context: Arc<TableContext>,
    current: ArcSwap<Version>,
    /// One edit at a time; guards the manifest that edits go to.
    turn: Mutex<Manifest>,
}

impl Versions {
    /// Goes on from `version`, which `manifest` holds.
    #[must_use]
    pub fn new(
        env: &SharedEnv,
        dir: &Path,
        ids: Arc<FileIds>,
        l0: Arc<dyn L0>,
        context: Arc<TableContext>,
        version: Version,
        manifest: Manifest,
    ) -> Versions {
        Versions {
            dir: dir.to_path_buf(),
            ids,
            l0,
            context,
            current: ArcSwap::from_pointee(version),
            turn: env.waits().mutex(manifest),
            env: Arc::clone(env),
        }
    }

    /// The current version.
    #[must_use]
    pub fn current(&self) -> Arc<Version> {
        self.current.load_full()
    }

    /// Makes `edit` durable and then current. Rows that it adds get their ids here, in the order
    /// of installation. `publish` is called with the new version before the next edit may begin:
    /// it makes the version visible to readers.
    ///
    /// Errors: `Poisoned` if a sync failed; any other error changed nothing, and the edit may be
    /// tried again.
    pub fn install(
        &self,
        mut edit: VersionEdit,
        publish: impl FnOnce(&Arc<Version>),
    ) -> Result<Arc<Version>> {
        let mut manifest = self.turn.lock();
        let current = self.current();
        let mut next_row = current.next_row;
        for row in &mut edit.rows_added {
            row.id = next_row;
            next_row = RowId(next_row.0 + 1);
        }
        let next = current
            .apply(&edit, self.l0.as_ref(), &self.context)
            .map_err(|misfit| Error::Poisoned(format!("a version edit does not fit: {misfit}")))?;
        let next = Arc::new(next);
        if manifest.is_broken() || manifest.bytes() > MANIFEST_BYTES_MAX {
            let snapshot = next.to_snapshot();
            *manifest = Manifest::create(&self.env, &self.dir, self.ids.next(), &snapshot)?;
        } else {
            manifest.append(&edit)?;
        }
        self.mark_removed(&current, &next);
        self.current.store(Arc::clone(&next));
        publish(&next);
        Ok(next)
    }

    /// The edit is durable: tables that only the old version names may go with it.
    fn mark_removed(&self, old: &Version, next: &Version) {
        let live: std::collections::BTreeSet<_> =
            next.tables().map(|table| table.meta().id).collect();
        for table in old.tables().filter(|table| !live.contains(&table.meta().id)) {
            table.mark_removed();
        }
    }

    /// Appends an edit that says where the log ended at a clean close.
    pub fn close(&self, edit: &VersionEdit) -> Result<()> {
        self.turn.lock().append(edit)
    }

    /// The manifest in use, and how many of its bytes are durable.
    pub fn manifest(&self) -> (terrace_base::FileId, u64) {
        let manifest = self.turn.lock();
        (manifest.id(), manifest.bytes())
    }
}
