//! Segments that stay: what was written to them once is where it will be read.
//!
//! A segment whose values tables name becomes a value file by a second name for its file (see
//! `vlog/log_homes.rs`). The log goes on as if nothing had happened: it replays the segment as long
//! as memtables need it, and deletes it under its own name then. All that it must not do is to use
//! the file again.

use std::path::Path;
use std::sync::Arc;

use terrace_base::{FileId, LogPosition};
use terrace_env::{PlantedBug, is_planted};

use super::room::Recyclable;
use super::segment::{Segment, segment_id};
use super::sink::LocalLog;
use crate::Result;
use crate::wal::format::SEGMENT_HEADER_BYTES;
use crate::wal::sink::FinishedSegment;

impl LocalLog {
    /// See [`LogSink::finished`](crate::wal::LogSink::finished).
    pub(super) fn finished_segments(&self, from: LogPosition) -> Vec<FinishedSegment> {
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

    /// What is kept of a segment whose records end at `end` and that was released. Only who may be
    /// retired is held open until it is known whether it was.
    pub(super) fn released(&self, segment: &Arc<Segment>, end: LogPosition) -> Recyclable {
        let file = Arc::clone(&segment.file);
        let released = self.files.recyclable(segment.path.clone(), Arc::clone(&file));
        if !self.is_retired(&segment.path) {
            return released;
        }
        let end = end.0.saturating_sub(segment.header.base.0) + SEGMENT_HEADER_BYTES;
        Recyclable { ended: Some((file, end)), ..released }
    }

    /// Whether a file of the log is a value file too.
    pub(super) fn is_retired(&self, path: &Path) -> bool {
        id_of(path).is_some_and(|id| self.retired.lock().contains(&id))
            && !is_planted(PlantedBug::ReuseRetiredSegment)
    }

    /// Deletes a file that is a value file under its name of the log. What is unused behind its
    /// records is given back, if this log wrote it.
    pub(super) fn let_retired_go(&self, file: &Recyclable) -> Result<()> {
        let path = &file.path;
        if let Some((file, end)) = &file.ended {
            // Nobody reads the log here any more: no header has to say where it ends.
            file.cut(*end)?;
        }
        self.files.env.fs().remove(path)?;
        if let Some(id) = id_of(path) {
            self.retired.lock().remove(&id);
        }
        Ok(())
    }
}

/// The id of the segment at a path.
fn id_of(path: &Path) -> Option<FileId> {
    segment_id(&path.file_name()?.to_string_lossy())
}
