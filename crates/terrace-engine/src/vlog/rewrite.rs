//! What lives of some value files becomes one file, in key order, under the names that it had.

use terrace_base::{FileId, LEVEL_MAX, TableUid};
use terrace_env::{PlantedBug, SharedEnv, is_planted};

use super::{Living, ValueFileMeta, ValueFileWriter};
use crate::process::TableIo;
use crate::table::TableStore;
use crate::yielder::Yielder;
use crate::{Error, Result};

/// How many values go by between two looks whether the work is cancelled.
const VALUES_PER_LOOK: u32 = 64;

/// What a rewrite needs of the world.
pub struct Rewrite<'a> {
    /// The clock and chance.
    pub env: &'a SharedEnv,
    /// Where the file goes.
    pub store: &'a dyn TableStore,
    /// Who writes.
    pub io: TableIo,
    /// Whether the work is wanted no more.
    pub is_cancelled: &'a dyn Fn() -> bool,
}

impl Rewrite<'_> {
    /// Copies the values that `walks` show, which have about `expected_bytes`, into a new file with
    /// this id. Its content and its name are durable then; nothing names it yet. It holds
    /// `segments`, which ascend, though of some there may be no value.
    ///
    /// Errors: `Closed` if it is cancelled; `Corruption` of a value that lives; what reading and
    /// writing gives. The file that was begun is gone then.
    pub fn run(
        &self,
        id: FileId,
        mut walks: Vec<Living>,
        segments: &[FileId],
        expected_bytes: u64,
    ) -> Result<ValueFileMeta> {
        let uid = TableUid(self.env.random_u128());
        let mut writer = ValueFileWriter::rewrite(
            self.store,
            id,
            uid,
            expected_bytes,
            segments,
            Some(&self.io),
        )?;
        let mut yielder = Yielder::new(self.env.as_ref());
        let mut until_look = VALUES_PER_LOOK;
        while let Some(least) = least_of(&walks) {
            let walk = &mut walks[least];
            if let Some((name, entry)) = walk.current() {
                writer.add_moved(name, &entry)?;
                yielder.worked(entry.key.len() + entry.value.len());
            }
            walk.advance()?;
            until_look -= 1;
            if until_look == 0 {
                until_look = VALUES_PER_LOOK;
                if (self.is_cancelled)() {
                    return Err(Error::Closed);
                }
            }
        }
        let meta = writer.finish()?;
        if !is_planted(PlantedBug::InstallValuesBeforeSync) {
            self.store.sync(LEVEL_MAX)?;
        }
        Ok(meta)
    }
}

impl std::fmt::Debug for Rewrite<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rewrite").field("store", &self.store).finish_non_exhaustive()
    }
}

/// The walk that stands on the least key; the newest version of it first.
fn least_of(walks: &[Living]) -> Option<usize> {
    let standing = walks.iter().enumerate().filter_map(|(index, walk)| {
        let (_, entry) = walk.current()?;
        Some((entry.key, std::cmp::Reverse(entry.seqno), index))
    });
    standing.min().map(|(_, _, index)| index)
}
