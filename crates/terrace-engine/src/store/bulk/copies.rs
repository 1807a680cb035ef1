//! How the files of one range come into the directory of another: by a second name, or by copying
//! and comparing with what the version knows of their bytes.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use terrace_base::{Corruption, LogPosition};
use terrace_env::SharedEnv;

use crate::ids::FileIds;
use crate::process::{IoClass, IoLimit};
use crate::store::bulk::stored::Stored;
use crate::table::{ByteInterval, LocalTableStore, TableFile, TableStore};
use crate::version::{FeedStore, LocalManifests, LogEdit, VersionEdit};
use crate::vlog::SegmentDamage;
use crate::wal::LogStart;
use crate::{Error, Result};

/// Bytes that are copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// How long a copy waits for its rate between two looks at whether it is to go on.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How a copy of a range comes by its bytes.
#[derive(Clone, Debug, Default)]
pub struct CopyOptions {
    /// An earlier copy, in the directory of a closed range: tables that both have share their
    /// bytes with it, where links reach.
    pub earlier: Option<PathBuf>,
    /// Whether tables may share their bytes with the source, where links reach. If not, damage to
    /// the source's files later on is none to the copy's.
    pub shares_source: bool,
    /// How many bytes a second are copied at most.
    pub bytes_per_second: Option<u64>,
}

/// Files on their way into a new directory.
pub(super) struct Copies<'a> {
    env: &'a SharedEnv,
    options: &'a CopyOptions,
    dir: &'a Path,
    pub target: LocalTableStore,
    limit: IoLimit,
}

impl<'a> Copies<'a> {
    pub fn new(env: &'a SharedEnv, dir: &'a Path, options: &'a CopyOptions) -> Copies<'a> {
        let target = LocalTableStore::new(Arc::clone(env), dir.to_path_buf());
        let limit = IoLimit::new(env, options.bytes_per_second);
        Copies { env, options, dir, target, limit }
    }

    /// How they get there.
    pub fn options(&self) -> &'a CopyOptions {
        self.options
    }

    /// Where a file goes.
    pub fn path_of(&self, stored: Stored<'_>) -> PathBuf {
        let location = stored.location_in_copy();
        self.dir.join(String::from_utf8_lossy(location.bytes()).as_ref())
    }

    /// Gives the file of an earlier copy a second name, if that one has the same.
    pub fn share_with_earlier(&self, stored: Stored<'_>) -> bool {
        let Some(earlier) = &self.options.earlier else { return false };
        let store = LocalTableStore::new(Arc::clone(self.env), earlier.clone());
        let location = stored.location_in_copy();
        let Ok(file) = store.open(&location) else { return false };
        // Ids are counted anew by whoever opened a copy: only the uid tells files apart. What the
        // file holds was verified when it was copied, unless it was shared there, too.
        stored.is(file) && store.link(&location, &self.path_of(stored)).unwrap_or(false)
    }

    /// Copies a file byte for byte, and makes sure that it is the one that the version names.
    pub fn copy(
        &self,
        file: &dyn TableFile,
        stored: Stored<'_>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<()> {
        let damage = |found: SegmentDamage| Corruption::new(file.name(), found.offset, found.what);
        if !stored.may_have(file.bytes()) {
            return Err(Corruption::new(file.name(), 0, "the file has another length").into());
        }
        let mut writer = stored.create(&self.target)?;
        let mut verifier = stored.verifier();
        let mut offset = 0;
        while offset < stored.bytes() {
            if !progress(offset) {
                return Err(Error::Cancelled);
            }
            let bytes = (stored.bytes() - offset).min(COPY_BYTES) as usize;
            let piece = file.read(&[ByteInterval { offset, bytes }]).wait()?.pop();
            let piece = piece.unwrap_or_default();
            verifier.add(&piece).map_err(damage)?;
            self.keep_to_rate(bytes as u64, &mut || progress(offset))?;
            writer.append(&piece)?;
            offset += bytes as u64;
        }
        verifier.finish().map_err(damage)?;
        writer.finish().map(|_| ())
    }

    /// Waits until so many bytes may be written.
    ///
    /// Errors: `Cancelled`, as soon as `go_on` says no.
    fn keep_to_rate(&self, bytes: u64, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let go_on = RefCell::new(go_on);
        let is_cancelled = Cell::new(false);
        let cancelled = || {
            is_cancelled.set(is_cancelled.get() || !(go_on.borrow_mut())());
            is_cancelled.get()
        };
        self.limit.pass_looking(IoClass::Compaction, bytes, &cancelled, LOOK_EVERY);
        if is_cancelled.get() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Makes a range of the directory: with an identity of its own, so that no log segment of the
    /// source fits it, the epoch of `ids`, which is above that of the source, and no log. The last
    /// step: on return it is durable.
    pub fn become_range(&self, mut snapshot: VersionEdit, ids: &FileIds) -> Result<()> {
        snapshot.range.epoch = Some(ids.epoch());
        snapshot.range.database = Some(self.env.random_u128());
        snapshot.range.log_behind = None;
        let start = Some(LogStart { segment: None, position: LogPosition(0) });
        snapshot.log = LogEdit { start, ..LogEdit::default() };
        let feeds = LocalManifests { env: Arc::clone(self.env), dir: self.dir.to_path_buf() };
        drop(feeds.begin(ids.next(), &snapshot)?);
        Ok(())
    }
}
