//! An open goes on after what a replay found.

use std::sync::Arc;

use terrace_base::LogPosition;
use terrace_env::atomic::{AtomicBool, AtomicU64};
use terrace_env::{Env, Latch};

use super::carry::{Carried, carried_from, is_loose};
use super::retire::Retired;
use super::room::{Preparation, Recyclable};
use super::sink::LocalLog;
use super::sizing::Sizing;
use super::store::LocalLogStore;
use super::tail::Tail;
use crate::ids::FileIds;
use crate::wal::place::SegmentFiles;
use crate::wal::replay::{Replayed, SegmentFile, SegmentSpan};
use crate::{Error, Result};

impl LocalLog {
    /// Makes durable what was read, and begins a segment whose header says durably where the log
    /// goes on, so that a torn tail is cut off for ever; then deletes the files that belong to no
    /// segment of the chain.
    pub(super) fn open(
        store: &LocalLogStore,
        database: u128,
        ids: &Arc<FileIds>,
        replayed: &Replayed,
        reserved_bytes: u64,
    ) -> Result<LocalLog> {
        let env = &store.env;
        let files = SegmentFiles::new(store, database);
        let found = &replayed.segments[..replayed.segments.len() - replayed.empty_count];
        sync_media(env.as_ref(), replayed, found)?;
        let end = found.last().map_or(replayed.end, |last| last.end);
        let sizing = Sizing::new(files.segment_bytes, end, env.now());
        let log = LocalLog {
            database,
            retired: Retired::of(replayed.retired.clone()),
            reserved_bytes: files.reserved_bytes(reserved_bytes),
            ids: Arc::clone(ids),
            tail: Latch::new(Tail::empty()),
            durable: AtomicU64::new(end.0),
            was_synced: AtomicBool::new(false),
            synced_bytes: AtomicU64::new(u64::MAX),
            sync_turn: env.waits().mutex(()),
            prepare_turn: env.waits().mutex(Preparation::new(sizing)),
            recyclable_bytes: AtomicU64::new(0),
            files,
            directories: replayed.directories.clone(),
        };
        log.begin(replayed, found)?;
        Ok(log)
    }

    /// Goes on behind what was found, in one of the files that nobody needs if it must: a full disk
    /// must not keep a range from being opened. What is left of them is deleted.
    fn begin(&self, replayed: &Replayed, found: &[SegmentSpan]) -> Result<()> {
        let mut preparation = self.prepare_turn.lock();
        let emptied = replayed.segments[found.len()..].iter().map(|segment| segment.file);
        let recyclable = |file: SegmentFile| Recyclable::at(replayed.path(file), file.bytes);
        let unused = replayed.stale.iter().copied().chain(emptied).map(recyclable);
        let (retired, unused) = unused.partition(|file| self.is_retired(&file.path));
        let retired: Vec<Recyclable> = retired;
        let (from, carried) =
            self.carry_if_there_is_space(replayed, found, unused, &mut preparation)?;
        let is_left = |index: usize| index == 0 || found[index].base < from;
        let (left, replaced) = found.split_at((0..found.len()).take_while(|i| is_left(*i)).count());
        {
            let mut tail = self.tail.lock();
            let cut = |span: &SegmentSpan| SegmentSpan { end: span.end.min(from), ..*span };
            tail.replayed.extend(left.iter().map(cut));
            for (segment, offset) in carried {
                tail.go_on_in(segment, offset, self.files.segment_bytes);
            }
        }
        let unused = std::mem::take(&mut preparation.recyclable).into_iter();
        let replaced = replaced.iter().map(|span| recyclable(span.file));
        self.let_go_of(unused.chain(retired).chain(replaced), &mut preparation)?;
        self.forget_unnamed(replayed)
    }

    /// Whether a segment is an ordinary file, for all that is known: one that was on a medium which
    /// the options do not name any more may have been one.
    fn is_file(&self, replayed: &Replayed, span: &SegmentSpan) -> bool {
        let is_here = replayed.directories[span.file.directory] == self.files.dir;
        span.file.directory == 0 || !(self.files.is_memory() && is_here)
    }

    /// Writes again what may never have reached the disk, and begins a segment; from which position
    /// on. On a disk that is too full for that it is synced only, which helps unless a sync has
    /// failed before.
    fn carry_if_there_is_space(
        &self,
        replayed: &Replayed,
        found: &[SegmentSpan],
        mut unused: Vec<Recyclable>,
        preparation: &mut Preparation,
    ) -> Result<(LogPosition, Carried)> {
        let end = found.last().map_or(replayed.end, |last| last.end);
        let from = if found.is_empty() {
            end
        } else {
            carried_from(found, replayed.settled, |span| self.is_file(replayed, span))
        };
        // What was copied before is in one of these files too, and needed if the copies are not
        // durable.
        if !found.iter().any(|span| is_loose(span, replayed.settled)) {
            preparation.recyclable.append(&mut unused);
        }
        let carried = self.carry(replayed, found, from, preparation);
        preparation.recyclable.append(&mut unused);
        match carried {
            Err(Error::NoSpace(error)) if from < end => {
                crate::program_log::warn!(%error, "the end of the log cannot be written again, and is synced where it lies");
                for span in found {
                    self.files.env.fs().sync_file(&replayed.path(span.file))?;
                }
                Ok((end, self.carry(replayed, found, end, preparation)?))
            }
            carried => Ok((from, carried?)),
        }
    }
}

/// What was read on persistent memory may not be durable, and is now to be built upon.
fn sync_media(env: &dyn Env, replayed: &Replayed, found: &[SegmentSpan]) -> Result<()> {
    for span in found.iter().filter(|span| span.file.directory != 0) {
        env.fs().sync_file(&replayed.path(span.file))?;
    }
    Ok(())
}
