use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_base::FileId;
use terrace_env::{PlantedBug, is_planted};

use super::version::Misfit;
use super::{TableContext, ValuesEdit};
use crate::vlog::{ValueFile, ValueFileMeta, ValueHome};

/// The value files of a version, and which of them holds which segment.
#[derive(Clone, Debug, Default)]
pub struct ValueFiles {
    /// Shared by the versions between two changes.
    files: Arc<Files>,
}

#[derive(Clone, Debug, Default)]
struct Files {
    by_id: BTreeMap<FileId, Arc<ValueFile>>,
    by_segment: BTreeMap<FileId, Arc<ValueFile>>,
}

impl ValueFiles {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.by_id.is_empty()
    }

    /// One after the other, by their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ValueFile>> {
        self.files.by_id.values()
    }

    /// The file with this id.
    #[must_use]
    pub fn get(&self, id: FileId) -> Option<&Arc<ValueFile>> {
        self.files.by_id.get(&id)
    }

    /// The file that holds a segment.
    #[must_use]
    pub fn of_segment(&self, segment: FileId) -> Option<&Arc<ValueFile>> {
        self.files.by_segment.get(&segment)
    }

    /// Those that lie on the local disk.
    pub fn local(&self) -> impl Iterator<Item = &ValueFileMeta> {
        self.iter().map(|file| file.meta()).filter(|meta| !meta.location.is_far())
    }

    /// The segments of the log among them, and the bytes of each.
    pub(super) fn retired_segments(&self) -> BTreeMap<FileId, u64> {
        let retired = self.local().filter(|meta| meta.home == ValueHome::Log);
        retired.map(|meta| (meta.id, meta.bytes)).collect()
    }

    /// What they are, as an edit adds them.
    pub(super) fn metas(&self) -> Vec<ValueFileMeta> {
        self.iter().map(|file| file.meta().clone()).collect()
    }

    /// These files after an edit. Errors: it removes what is not there, or adds a segment twice.
    pub(super) fn apply(
        &self,
        edit: &ValuesEdit,
        context: &Arc<TableContext>,
    ) -> Result<ValueFiles, Misfit> {
        if *edit == ValuesEdit::default() {
            return Ok(self.clone());
        }
        let mut files = Files::clone(&self.files);
        for id in &edit.removed {
            let removed = files.by_id.remove(id);
            let removed = removed.ok_or_else(|| format!("value file {id} is not there"))?;
            for segment in &removed.meta().segments {
                files.by_segment.remove(&segment.id);
            }
        }
        for meta in &edit.added {
            let file = Arc::new(ValueFile::new(meta.clone(), Arc::clone(context)));
            for segment in &meta.segments {
                if files.by_segment.insert(segment.id, Arc::clone(&file)).is_some() {
                    return Err(format!("segment {} lies in two value files", segment.id));
                }
            }
            if files.by_id.insert(meta.id, file).is_some() {
                return Err(format!("value file {} is there already", meta.id));
            }
        }
        Ok(ValueFiles { files: Arc::new(files) })
    }

    /// The edit that made `next` of these is durable: files that only these name may go.
    pub(super) fn mark_removed(&self, next: &ValueFiles) {
        for file in self.iter().filter(|file| next.get(file.meta().id).is_none()) {
            file.mark_removed();
            if is_planted(PlantedBug::DropValuesUnderReaders) {
                file.delete_early();
            }
        }
    }
}
