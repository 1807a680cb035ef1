//! Segments that stay: what was written to them once is where it will be read.
//!
//! A segment whose values tables name becomes a value file by a second name for its file (see
//! `vlog/log_homes.rs`). The log goes on as if nothing had happened: it replays the segment as long
//! as memtables need it, and deletes it under its own name then. All that it must not do is to use
//! the file again.
//!
//! # The rule
//! The log knows a segment as retired until its own name for the file is gone *durably*. Whoever
//! wants to delete the value file waits for that. Else a name of the log that came back after a
//! crash would be a file that nobody needs, and the log would write to it; a checkpoint may share
//! its bytes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use terrace_base::{FileId, LogPosition};
use terrace_env::atomic::{AtomicBool, Ordering};
use terrace_env::{Latch, PlantedBug, is_planted};

use super::room::{Preparation, Recyclable};
use super::segment::{Segment, segment_id};
use super::sink::LocalLog;
use crate::Result;
use crate::wal::replay::Replayed;
use crate::wal::sink::FinishedSegment;

/// The segments that are value files too.
#[derive(Debug, Default)]
pub(super) struct Retired {
    /// Those that the log may still have under its own name, with the bytes that stay of each.
    segments: Latch<BTreeMap<FileId, u64>>,
    /// Whether value files cannot have the files of this log.
    is_refused: AtomicBool,
    /// Whether the last flush that could leave values in the log did.
    is_usual: AtomicBool,
}

impl Retired {
    /// Those that a manifest names.
    pub fn of(segments: BTreeMap<FileId, u64>) -> Retired {
        Retired { segments: Latch::new(segments), ..Retired::default() }
    }

    pub fn add(&self, segment: &FinishedSegment) {
        self.is_usual.store(true, Ordering::Relaxed);
        self.segments.lock().insert(segment.id, segment.file_bytes());
    }

    /// The store did not take this one, and will take no other.
    pub fn refuse(&self, segment: FileId) {
        self.segments.lock().remove(&segment);
        self.is_refused.store(true, Ordering::Relaxed);
    }

    /// Whether a segment that is mostly large values is likely to stay.
    pub fn is_usual(&self) -> bool {
        self.is_usual.load(Ordering::Relaxed)
    }

    pub fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    pub fn contains(&self, segment: FileId) -> bool {
        self.segments.lock().contains_key(&segment)
    }

    /// How many bytes stay of the segment at a path, if it is one of them.
    fn bytes_of(&self, path: &Path) -> Option<u64> {
        self.segments.lock().get(&id_of(path)?).copied()
    }
}

impl LocalLog {
    /// See [`LogSink::finished`](crate::wal::LogSink::finished).
    pub(super) fn finished_segments(&self, from: LogPosition) -> Vec<FinishedSegment> {
        if self.retired.is_refused() {
            return Vec::new();
        }
        self.retired.is_usual.store(false, Ordering::Relaxed);
        let tail = self.tail.lock();
        let ends = tail.segments.iter().skip(1).map(|next| next.header.base);
        let finished = tail.segments.iter().zip(ends);
        let wanted = finished.filter(|(one, end)| *end > from && one.file.medium().is_none());
        let of = |(one, end): (&Arc<Segment>, LogPosition)| FinishedSegment {
            id: one.header.file_id,
            path: one.path.clone(),
            identity: one.header.identity,
            base: one.header.base,
            end,
            large_bytes: one.large_bytes(),
        };
        wanted.map(of).collect()
    }

    /// Keeps files that the log needs no more for later segments, or deletes them. Those that are
    /// value files go by their names of the log only.
    pub(super) fn let_go_of(
        &self,
        files: impl IntoIterator<Item = Recyclable>,
        preparation: &mut Preparation,
    ) -> Result<()> {
        let (retired, unused): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|file| self.is_retired(&file.path));
        // A file that cannot be removed holds up no other; the next open finds it.
        let mut outcome = Ok(());
        for file in unused {
            outcome = outcome.and(self.recycle(file, preparation));
        }
        outcome.and(self.unname(retired, preparation))
    }

    /// Whether a file of the log is a value file too.
    pub(super) fn is_retired(&self, path: &Path) -> bool {
        self.retired.bytes_of(path).is_some() && !is_planted(PlantedBug::ReuseRetiredSegment)
    }

    /// Deletes the names that the log has for files that are value files too, and gives back what
    /// is unused behind their records: nobody reads the log there any more, so no header has to say
    /// where it ends. A file that cannot be cut keeps its length. What cannot be removed is no
    /// trouble but for its space, which nobody gives back: it is told of once, and tried again.
    fn unname(&self, files: Vec<Recyclable>, preparation: &mut Preparation) -> Result<()> {
        let fs = self.files.env.fs();
        let mut gone = Vec::new();
        let tried_before = std::mem::take(&mut preparation.named);
        let first_tries = files.len();
        for (index, file) in files.into_iter().chain(tried_before).enumerate() {
            let bytes = self.retired.bytes_of(&file.path);
            let cut = bytes.map_or(Ok(()), |bytes| fs.cut(&file.path, bytes));
            if let Some(error) = cut.err().filter(|_| index < first_tries) {
                crate::program_log::warn!(%error, "the unused end of a value file cannot be given back");
            }
            match fs.remove(&file.path) {
                Ok(()) => gone.push(file.path),
                Err(error) if error.is_not_found() => gone.push(file.path),
                Err(error) => {
                    if index < first_tries {
                        crate::program_log::warn!(%error, "a segment of the log cannot be removed; its values stay until it can be");
                    }
                    preparation.named.push(file);
                }
            }
        }
        if let Some(dir) = gone.first().and_then(|path| path.parent()) {
            // Files are retired in the range's directory only.
            fs.sync_dir(dir)?;
            let mut segments = self.retired.segments.lock();
            for id in gone.iter().filter_map(|path| id_of(path)) {
                segments.remove(&id);
            }
        }
        Ok(())
    }

    /// Forgets those of which an open found no name of the log, but for what is still replayed:
    /// whoever removed them may not have made that durable.
    pub(super) fn forget_unnamed(&self, replayed: &Replayed) -> Result<()> {
        let is_there = |id: &FileId| replayed.path_of(*id).is_some();
        let has_unnamed = !self.retired.segments.lock().keys().all(is_there);
        if has_unnamed {
            self.files.env.fs().sync_dir(&self.directories[0])?;
            self.retired.segments.lock().retain(|id, _| is_there(id));
        }
        Ok(())
    }
}

/// The id of the segment at a path.
fn id_of(path: &Path) -> Option<FileId> {
    segment_id(&path.file_name()?.to_string_lossy())
}
