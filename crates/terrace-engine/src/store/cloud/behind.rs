use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::{CodecError, LogPosition, SeqNo};
use terrace_env::{Latch, Mutex, PlantedBug, SetOnce, WaitFactory, is_planted};

use super::OutlivingLog;
use super::mirror::{Mirror, as_mirrored, count_missing};
use crate::cloud::CloudFeed;
use crate::cloud::format::Extent;
use crate::placement::FarName;
use crate::version::format::{decode_edit, encode_edit};
use crate::version::{LogBehind, RangeEdit, TableOpener, Version, VersionEdit};
use crate::{Error, Result};

/// Edits that wait beyond these are dropped: a snapshot of the version takes their place.
const EDITS_WAITING_MAX: usize = 1024;
const BYTES_WAITING_MAX: usize = 4 << 20;

/// A snapshot is fed after so many objects, each of which a reader asks for one after the other.
const OBJECTS_PER_SNAPSHOT: u32 = 64;

/// Most tests come to what happens at a snapshot more often.
const OBJECTS_AT_FIRST: u32 = if cfg!(test) { 6 } else { OBJECTS_PER_SNAPSHOT };

/// A snapshot is fed once the edits since the last one outweigh it, from this size on.
const EDITS_OUTWEIGH_BYTES: usize = 64 << 10;

/// An object of the feed takes so many bytes of edits, or one edit that is larger.
const OBJECT_BYTES: usize = 1 << 20;

/// What is fed from.
pub trait FeedSource {
    /// Hands over the newest version as a snapshot, while nothing is installed.
    fn with_version(&self, take: TakeVersion<'_>) -> Result<()>;

    /// As [`FeedSource::with_version`], of a version whose tables hold all records of the log below
    /// a position, and none from there on.
    fn with_moment(&self, take: TakeMoment<'_>) -> Result<()>;

    /// The log that outlives the machine, if the range has one, which goes on behind each moment.
    fn log(&self) -> Option<&OutlivingLog>;

    /// How much of the range there is beside its tables now, if the next moment is to be fed, of
    /// which the last one was at that time. `may_hurry`: whether it helps those who wait for one.
    fn due_moment(&self, last: Option<Duration>, may_hurry: bool) -> Option<Extent>;

    /// A moment is in the feed.
    fn moment_is_fed(&self) {}

    /// Opens the files of a version.
    fn opener(&self) -> &TableOpener;

    /// Whether to go on with what takes long.
    fn goes_on(&self) -> bool;
}

/// Takes a version as a snapshot.
pub type TakeVersion<'a> = &'a mut dyn FnMut(&VersionEdit, &Arc<Version>);

/// Takes a version as a snapshot, and the greatest number and the log position that its tables hold
/// everything up to.
pub type TakeMoment<'a> = &'a mut dyn FnMut(&VersionEdit, &Arc<Version>, Moment);

/// The greatest number and the log position up to which a version holds everything.
pub type Moment = (SeqNo, LogPosition);

/// The feed in the object store, which goes behind the local manifest: what the manifest has waits
/// here until a job feeds it.
///
/// With a mirror, an object of the feed leads to one moment of the range after the other, and the
/// files of that version on the local disk are stored before it, so that whoever reads the feed up
/// to there finds them.
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
    /// Something was taken from here, and is not in the feed yet.
    is_under_way: bool,
    done: FeedDone,
    /// The next snapshot says so.
    first_pin: u64,
}

/// How far the feed in the store is.
#[derive(Clone, Debug, Default)]
pub struct FeedDone {
    /// The greatest number that is there.
    pub number: u64,
    /// Pins below this number count no more, as the newest snapshot says.
    pub first_pin: u64,
    /// Mirrored files that the version up to there does not name, each with the number of the
    /// object that drops it.
    pub dropped: Vec<(FarName, u64)>,
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
    mirror: Option<Mirror>,
    snapshot_bytes: usize,
    /// Since the newest snapshot.
    objects: u32,
    objects_per_snapshot: u32,
    edits_bytes: usize,
    /// The version that the newest object leads to, if its files were mirrored.
    version: Option<Arc<Version>>,
    /// Whether the feed names files that only the local disk has.
    lacks_files: bool,
    /// When the newest moment was taken that was fed.
    moment: Option<Duration>,
    /// What the moment under way says of the log that outlives the machine.
    log: Option<LogBehind>,
    /// Whether the feed may still say of the log what an earlier owner had said.
    says_of_log: bool,
}

impl Waiting {
    fn add_edit(&mut self, edit: Vec<u8>) {
        if self.lacks_edits {
            return;
        }
        self.edits_bytes += edit.len();
        self.edits.push(edit);
        if self.edits.len() > EDITS_WAITING_MAX || self.edits_bytes > BYTES_WAITING_MAX {
            self.lose_edits();
        }
    }

    fn lose_edits(&mut self) {
        self.clear();
        self.lacks_edits = true;
    }

    fn begin_with(&mut self, snapshot: Vec<u8>) {
        self.clear();
        self.snapshot = Some(snapshot);
    }

    fn clear(&mut self) {
        (self.snapshot, self.edits_bytes, self.lacks_edits) = (None, 0, false);
        self.edits.clear();
    }

    fn is_empty(&self) -> bool {
        self.snapshot.is_none() && self.edits.is_empty() && !self.lacks_edits
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

    /// All that waits at once, which leads to the newest version.
    fn take_all(&mut self) -> Next {
        if self.is_empty() {
            return Next::Nothing;
        }
        let is_plain = self.snapshot.is_none() && !self.lacks_edits;
        let edits = std::mem::take(&mut self.edits);
        self.clear();
        if is_plain { Next::Edits(edits) } else { Next::Version }
    }
}

impl Fed {
    fn is_snapshot_due(&self) -> bool {
        self.lacks_files
            || self.objects >= self.objects_per_snapshot
            || self.edits_bytes > self.snapshot_bytes.max(EDITS_OUTWEIGH_BYTES)
    }

    fn feed_snapshot(&mut self, snapshot: &[u8], extent: Extent, first_pin: u64) -> Result<()> {
        (self.snapshot_bytes, self.objects, self.edits_bytes) = (snapshot.len(), 0, 0);
        self.feed.set_first_pin(first_pin);
        self.feed.begin(snapshot, extent).map(drop)
    }

    fn feed_edits(&mut self, edits: &[Vec<u8>], extent: Extent) -> Result<()> {
        self.objects += 1;
        self.edits_bytes += edits.iter().map(Vec::len).sum::<usize>();
        self.feed.append(edits, extent).map(drop)
    }

    /// Whether objects of the feed were collected.
    fn collect(&mut self) -> Result<bool> {
        let before = self.feed.collected().feed;
        let newest = self.feed.newest_snapshot().unwrap_or(before);
        Ok(self.feed.collect_below(newest)? > before)
    }
}

impl FeedBehind {
    /// Goes on behind what `feed` has, which begins with `snapshot`. Whether that is what the local
    /// manifest begins with: otherwise a snapshot of that is due next.
    pub fn new(
        waits: &WaitFactory,
        feed: CloudFeed,
        snapshot: &VersionEdit,
        mirror: Option<Mirror>,
        is_same: bool,
    ) -> FeedBehind {
        let lacks_files = mirror.is_some() && count_missing(std::slice::from_ref(snapshot)) > 0;
        let waiting = Waiting {
            lacks_edits: lacks_files || !is_same,
            done: FeedDone { number: feed.number(), ..FeedDone::default() },
            ..Waiting::default()
        };
        let snapshot_bytes = encode_edit(snapshot).len();
        let fed = Fed {
            feed,
            mirror,
            snapshot_bytes,
            objects: 0,
            objects_per_snapshot: OBJECTS_AT_FIRST,
            edits_bytes: 0,
            version: None,
            lacks_files,
            moment: None,
            log: None,
            says_of_log: snapshot.range.log_behind.is_some(),
        };
        FeedBehind { waiting: Latch::new(waiting), turn: waits.mutex(fed), wake: SetOnce::new() }
    }

    /// A snapshot is fed as seldom as outside tests.
    #[cfg(test)]
    pub fn feed_snapshots_seldom(&self) {
        self.turn.lock().objects_per_snapshot = OBJECTS_PER_SNAPSHOT;
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
    /// left to do.
    ///
    /// Errors: `Fenced`, and then always; `Cancelled`; those of reading a file for the mirror; the
    /// environment's. Nothing is lost by them, and the next call goes on.
    pub fn feed_one(&self, source: &dyn FeedSource) -> Result<bool> {
        let mut turn = self.turn.lock();
        if turn.feed.resume()?.is_some() {
            self.note(&mut turn, source);
            return Ok(true);
        }
        let (next, extent) = match turn.mirror.is_some() {
            true => self.take_moment(&mut turn, source)?,
            false => (self.take(&mut turn, source)?, Extent::Some),
        };
        let first_pin = self.waiting.lock().first_pin;
        match next {
            Next::Snapshot(snapshot) => turn.feed_snapshot(&snapshot, extent, first_pin)?,
            Next::Edits(edits) => turn.feed_edits(&edits, extent)?,
            Next::Version | Next::Nothing => return turn.collect(),
        }
        self.note(&mut turn, source);
        Ok(true)
    }

    /// What is fed next, as the local manifest has it.
    fn take(&self, turn: &mut Fed, source: &dyn FeedSource) -> Result<Next> {
        let next = {
            let mut waiting = self.waiting.lock();
            let next = waiting.take();
            waiting.is_under_way = next != Next::Nothing;
            next
        };
        if next != Next::Version && !(matches!(next, Next::Edits(_)) && turn.is_snapshot_due()) {
            return Ok(next);
        }
        let mut next = Next::Nothing;
        let handed_over = source.with_version(&mut |snapshot, _| {
            self.waiting.lock().clear();
            next = Next::Snapshot(encode_edit(snapshot));
        });
        handed_over.inspect_err(|_| self.lose_what_was_taken())?;
        Ok(next)
    }

    /// What is fed next, if a moment is due: all that leads to it. Its files are in the store on
    /// return.
    fn take_moment(&self, turn: &mut Fed, source: &dyn FeedSource) -> Result<(Next, Extent)> {
        let nothing = (Next::Nothing, Extent::Some);
        let due = source.due_moment(turn.moment, !turn.lacks_files);
        let Some(extent) = due else { return Ok(nothing) };
        let is_snapshot_due = turn.is_snapshot_due();
        let mut taken = None;
        source.with_moment(&mut |snapshot, version, (seqno, position)| {
            let log = source.log().map(|log| log.moment_taken(seqno, position));
            let mut waiting = self.waiting.lock();
            let edits = match waiting.take_all() {
                Next::Edits(edits) if !is_snapshot_due => Some(edits),
                Next::Nothing if !is_snapshot_due => Some(Vec::new()),
                _ => None,
            };
            waiting.is_under_way = true;
            let snapshot = edits.is_none().then(|| snapshot.clone());
            taken = Some((edits.unwrap_or_default(), snapshot, Arc::clone(version), log));
        })?;
        let Some((edits, snapshot, version, log)) = taken else { return Ok(nothing) };
        let Some(mirror) = &mut turn.mirror else { return Ok(nothing) };
        let now = source.opener().far.now();
        let brought = mirror.bring(source.opener(), &version, &|| source.goes_on());
        brought.inspect_err(|_| self.lose_what_was_taken())?;
        turn.moment = Some(now);
        turn.lacks_files = version.has_rows_in_pages();
        let extent = if turn.lacks_files { Extent::Some } else { extent };
        turn.version = Some(version);
        // Behind a close there is nothing on a volume, and whoever goes on need not have it.
        let says = |log: &LogBehind| match log {
            LogBehind::OnVolume(_) => extent == Extent::Moment,
            LogBehind::InStore(_) | LogBehind::None => extent != Extent::Some,
        };
        turn.log = log.filter(says);
        let says_of_log = std::mem::replace(&mut turn.says_of_log, turn.log.is_some());
        let log_behind = turn.log.or(says_of_log.then_some(LogBehind::None));
        if let Some(mut snapshot) = snapshot {
            snapshot.range.log_behind = turn.log;
            return Ok((Next::Snapshot(encode_edit(&as_mirrored(snapshot))), extent));
        }
        let of_log = RangeEdit { log_behind, ..RangeEdit::default() };
        let of_log = log_behind.map(|_| encode_edit(&of_log.into()));
        let mirrored = edits.iter().map(|edit| Ok(encode_edit(&as_mirrored(decode_edit(edit)?))));
        let mirrored: std::result::Result<_, CodecError> = mirrored.collect();
        let mirrored = mirrored.map_err(|error| {
            Error::Poisoned(format!("an edit cannot be read that was just written: {error}"))
        })?;
        let mut mirrored: Vec<Vec<u8>> = mirrored;
        mirrored.extend(of_log);
        Ok((Next::Edits(mirrored), extent))
    }

    /// What was taken was not sent.
    fn lose_what_was_taken(&self) {
        let mut waiting = self.waiting.lock();
        waiting.lose_edits();
        waiting.is_under_way = false;
    }

    /// What was taken is in the feed.
    fn note(&self, turn: &mut Fed, source: &dyn FeedSource) {
        let number = turn.feed.number();
        if let (Some(log), Some(moment)) = (source.log(), turn.log.take()) {
            log.moment_fed(moment);
        }
        let version = turn.version.take();
        if version.is_some() && !turn.lacks_files {
            source.moment_is_fed();
        }
        let gone = match (&mut turn.mirror, version) {
            (Some(mirror), Some(version)) => mirror.let_go_of(&version),
            _ => Vec::new(),
        };
        let mut waiting = self.waiting.lock();
        waiting.is_under_way = false;
        waiting.done.number = number;
        waiting.done.first_pin = turn.feed.first_pin();
        waiting.done.dropped.extend(gone.into_iter().map(|name| (name, number)));
    }

    /// How far the feed in the store is, if it has all that the local manifest had when this was
    /// called; what was dropped is handed over.
    pub fn take_done(&self) -> Option<FeedDone> {
        let mut waiting = self.waiting.lock();
        let is_behind = !waiting.is_empty() || waiting.is_under_way;
        if is_behind && !is_planted(PlantedBug::CollectBeforeFed) {
            return None;
        }
        let done = waiting.done.clone();
        waiting.done.dropped.clear();
        Some(done)
    }

    /// The greatest number that the feed has; `None` while another one is being fed.
    pub fn number(&self) -> Option<u64> {
        let waiting = self.waiting.lock();
        (!waiting.is_under_way).then_some(waiting.done.number)
    }

    /// Whether something waits.
    pub fn is_behind(&self) -> bool {
        !self.waiting.lock().is_empty()
    }

    /// The next snapshot says that pins below this number count no more.
    pub fn set_first_pin(&self, first_pin: u64) {
        self.waiting.lock().first_pin = first_pin;
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
