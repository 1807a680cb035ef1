use std::fmt;

use terrace_env::{Latch, Mutex, SetOnce, WaitFactory};

use crate::Result;
use crate::cloud::CloudFeed;

/// Edits that wait beyond these are dropped: a snapshot of the version takes their place.
const EDITS_WAITING_MAX: usize = 1024;
const BYTES_WAITING_MAX: usize = 4 << 20;

/// A snapshot is fed after so many objects, each of which a reader asks for one after the other.
const OBJECTS_PER_SNAPSHOT: u32 = 64;

/// A snapshot is fed once the edits since the last one outweigh it, from this size on.
const EDITS_OUTWEIGH_BYTES: usize = 64 << 10;

/// An object of the feed takes so many bytes of edits, or one edit that is larger.
const OBJECT_BYTES: usize = 1 << 20;

/// The feed in the object store, which goes behind the local manifest: what the manifest has waits
/// here until a job feeds it.
pub struct FeedBehind {
    waiting: Latch<Waiting>,
    turn: Mutex<Fed>,
    wake: SetOnce<Box<dyn Fn() + Send + Sync>>,
}

/// What waits, in its order. All of it is in the local manifest.
#[derive(Debug, Default)]
struct Waiting {
    snapshot: Option<Vec<u8>>,
    edits: Vec<Vec<u8>>,
    edits_bytes: usize,
    /// Some edits were dropped, so that only a snapshot helps.
    lacks_edits: bool,
}

/// What is fed next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Snapshot(Vec<u8>),
    Edits(Vec<Vec<u8>>),
    /// The version, as a snapshot.
    Version,
    Nothing,
}

/// What was fed.
struct Fed {
    feed: CloudFeed,
    snapshot_bytes: usize,
    /// Since the newest snapshot.
    objects: u32,
    edits_bytes: usize,
}

impl Waiting {
    fn add_edit(&mut self, edit: Vec<u8>) {
        if self.lacks_edits {
            return;
        }
        self.edits_bytes += edit.len();
        self.edits.push(edit);
        if self.edits.len() > EDITS_WAITING_MAX || self.edits_bytes > BYTES_WAITING_MAX {
            *self = Waiting { lacks_edits: true, ..Waiting::default() };
        }
    }

    fn begin_with(&mut self, snapshot: Vec<u8>) {
        *self = Waiting { snapshot: Some(snapshot), ..Waiting::default() };
    }

    fn take(&mut self) -> Next {
        if let Some(snapshot) = self.snapshot.take() {
            return Next::Snapshot(snapshot);
        }
        if self.lacks_edits {
            return Next::Version;
        }
        let mut bytes = 0;
        let mut count = 0;
        while let Some(edit) = self.edits.get(count)
            && (count == 0 || bytes + edit.len() <= OBJECT_BYTES)
        {
            bytes += edit.len();
            count += 1;
        }
        if count == 0 {
            return Next::Nothing;
        }
        self.edits_bytes -= bytes;
        Next::Edits(self.edits.drain(..count).collect())
    }
}

impl Fed {
    fn is_snapshot_due(&self) -> bool {
        self.objects >= OBJECTS_PER_SNAPSHOT
            || self.edits_bytes > self.snapshot_bytes.max(EDITS_OUTWEIGH_BYTES)
    }

    fn feed_snapshot(&mut self, snapshot: &[u8]) -> Result<()> {
        (self.snapshot_bytes, self.objects, self.edits_bytes) = (snapshot.len(), 0, 0);
        self.feed.begin(snapshot, false).map(drop)
    }

    fn feed_edits(&mut self, edits: &[Vec<u8>]) -> Result<()> {
        self.objects += 1;
        self.edits_bytes += edits.iter().map(Vec::len).sum::<usize>();
        self.feed.append(edits, false).map(drop)
    }

    /// Whether objects of the feed were collected.
    fn collect(&mut self) -> Result<bool> {
        let before = self.feed.collected().feed;
        let newest = self.feed.newest_snapshot().unwrap_or(before);
        Ok(self.feed.collect_below(newest)? > before)
    }
}

impl FeedBehind {
    /// Goes on behind what `feed` has, which begins with a snapshot of this many bytes.
    pub fn new(waits: &WaitFactory, feed: CloudFeed, snapshot_bytes: usize) -> FeedBehind {
        let fed = Fed { feed, snapshot_bytes, objects: 0, edits_bytes: 0 };
        FeedBehind { waiting: Latch::default(), turn: waits.mutex(fed), wake: SetOnce::new() }
    }

    /// Whom to call when something waits. Called once, when the range is put together.
    pub fn set_wake(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.wake.get_or_set(Box::new(wake));
    }

    /// The local manifest has another edit.
    pub fn add_edit(&self, edit: Vec<u8>) {
        self.waiting.lock().add_edit(edit);
        self.call();
    }

    /// A new local manifest begins with this snapshot, which replaces all that waits.
    pub fn begin_with(&self, snapshot: Vec<u8>) {
        self.waiting.lock().begin_with(snapshot);
        self.call();
    }

    fn call(&self) {
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    /// Feeds one object, or collects what the feed does not need any more; `false` if nothing was
    /// left to do. `with_version` hands over the version as a snapshot, while nothing is installed.
    ///
    /// Errors: `Fenced`, and then always; the environment's, after which nothing is lost and the
    /// next call goes on.
    pub fn feed_one(
        &self,
        with_version: impl FnOnce(&mut dyn FnMut(Vec<u8>)) -> Result<()>,
    ) -> Result<bool> {
        let mut turn = self.turn.lock();
        if turn.feed.resume()?.is_some() {
            return Ok(true);
        }
        let mut next = self.waiting.lock().take();
        if matches!(&next, Next::Edits(_)) && turn.is_snapshot_due() {
            next = Next::Version;
        }
        if next == Next::Version {
            with_version(&mut |snapshot| self.waiting.lock().begin_with(snapshot))?;
            next = self.waiting.lock().take();
        }
        match next {
            Next::Snapshot(snapshot) => turn.feed_snapshot(&snapshot)?,
            Next::Edits(edits) => turn.feed_edits(&edits)?,
            Next::Version | Next::Nothing => return turn.collect(),
        }
        Ok(true)
    }

    /// Whether the feed in the store has all that the local manifest had when this was called.
    pub fn has_fed_all(&self) -> bool {
        let turn = self.turn.lock();
        let waiting = self.waiting.lock();
        !turn.feed.is_pending()
            && waiting.snapshot.is_none()
            && waiting.edits.is_empty()
            && !waiting.lacks_edits
    }
}

impl fmt::Debug for FeedBehind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FeedBehind").field("waiting", &*self.waiting.lock()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edits(waiting: &mut Waiting) -> usize {
        match waiting.take() {
            Next::Edits(edits) => edits.len(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn several_edits_share_an_object() {
        let mut waiting = Waiting::default();
        for bytes in [10, 20, OBJECT_BYTES, 5] {
            waiting.add_edit(vec![0; bytes]);
        }
        assert_eq!([edits(&mut waiting), edits(&mut waiting), edits(&mut waiting)], [2, 1, 1]);
        assert_eq!(waiting.take(), Next::Nothing);
        assert_eq!(waiting.edits_bytes, 0);
    }

    #[test]
    fn a_snapshot_replaces_what_waits() {
        let mut waiting = Waiting::default();
        waiting.add_edit(vec![1]);
        waiting.begin_with(vec![2]);
        waiting.add_edit(vec![3]);
        assert_eq!(waiting.take(), Next::Snapshot(vec![2]));
        assert_eq!(waiting.take(), Next::Edits(vec![vec![3]]));
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut waiting = Waiting::default();
        for _ in 0..3 * EDITS_WAITING_MAX {
            waiting.add_edit(vec![1]);
        }
        assert!(waiting.edits.is_empty());
        assert_eq!([waiting.take(), waiting.take()], [Next::Version, Next::Version]);
        waiting.begin_with(vec![2]);
        waiting.add_edit(vec![3]);
        assert_eq!(waiting.take(), Next::Snapshot(vec![2]));
        assert_eq!(waiting.take(), Next::Edits(vec![vec![3]]));
        waiting.add_edit(vec![0; BYTES_WAITING_MAX + 1]);
        assert_eq!(waiting.take(), Next::Version);
    }
}
