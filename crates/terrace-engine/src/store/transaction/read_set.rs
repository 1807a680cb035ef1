//! What a transaction has read: keys, and intervals as far as they were walked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use terrace_base::{KeyRange, SeqNo};

use super::intervals::Intervals;
use crate::store::read_points::ReadPoint;
use crate::store::{Inner, Snapshot};
use crate::{Error, Result};

/// Bytes that a noted key takes beside its own, about.
const POINT_BYTES: usize = 48;

/// Bytes that a walk takes beside its keys, about.
const WALK_BYTES: usize = 192;

/// What a transaction has read at its snapshot: keys, whether or not they were found, and
/// intervals as far as they were walked. [`Store::write_if_unchanged`] looks whether any of it was
/// written since.
///
/// What is noted twice, or lies in a noted interval, takes memory once. The memory is bounded.
///
/// [`Store::write_if_unchanged`]: crate::store::Store::write_if_unchanged
pub struct ReadSet {
    snapshot: Snapshot,
    /// Keeps the number, and the moment of expiry by which jobs may judge, as they are.
    _point: ReadPoint,
    points: BTreeSet<Box<[u8]>>,
    /// Of walks that have ended.
    intervals: Intervals,
    walks: BTreeMap<WalkId, Walk>,
    next_walk: u64,
    /// Of points and walks.
    bytes: usize,
    bytes_max: usize,
}

/// A walk through an interval that a read set follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WalkId(u64);

/// How far a walk went from both ends of its interval.
#[derive(Debug)]
struct Walk {
    range: KeyRange,
    /// From the start on.
    front: Reach,
    /// From the end back.
    back: Reach,
}

#[derive(Debug)]
enum Reach {
    /// Nothing was shown yet.
    Nothing,
    /// This key was shown.
    Through(Vec<u8>),
    /// There was nothing more to show.
    All,
}

impl Walk {
    fn bytes(&self) -> usize {
        let of = |reach: &Reach| match reach {
            Reach::Through(key) => key.len(),
            Reach::Nothing | Reach::All => 0,
        };
        let range = self.range.start().len() + self.range.end().map_or(0, <[u8]>::len);
        WALK_BYTES + range + of(&self.front) + of(&self.back)
    }

    /// What was walked over, the last keys shown included.
    fn seen(&self) -> impl Iterator<Item = KeyRange> {
        let front = match &self.front {
            Reach::Nothing => None,
            Reach::Through(last) => {
                let above = [last.as_slice(), &[0]].concat();
                Some(KeyRange::new(self.range.start(), Some(above)))
            }
            Reach::All => Some(self.range.clone()),
        };
        let end = || self.range.end().map(<[u8]>::to_vec);
        let back = match &self.back {
            Reach::Nothing => None,
            Reach::Through(first) => Some(KeyRange::new(first.clone(), end())),
            Reach::All => Some(self.range.clone()),
        };
        front.into_iter().chain(back)
    }
}

impl ReadSet {
    /// The bytes of memory that a read set may take unless another bound is given.
    pub const BYTES_MAX: usize = 64 << 20;

    /// Nothing yet, of what `snapshot` shows.
    #[must_use]
    pub fn new(snapshot: &Snapshot) -> ReadSet {
        ReadSet::bounded(snapshot, ReadSet::BYTES_MAX)
    }

    /// As [`ReadSet::new`], of at most `bytes_max` bytes of memory.
    #[must_use]
    pub fn bounded(snapshot: &Snapshot, bytes_max: usize) -> ReadSet {
        ReadSet {
            snapshot: snapshot.clone(),
            _point: snapshot.hold_moment(),
            points: BTreeSet::new(),
            intervals: Intervals::default(),
            walks: BTreeMap::new(),
            next_walk: 0,
            bytes: 0,
            bytes_max,
        }
    }

    /// The snapshot that is read.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The number of the snapshot.
    #[must_use]
    pub fn seqno(&self) -> SeqNo {
        self.snapshot.seqno()
    }

    /// Notes that `key` is read; to be called before anybody is told what it holds.
    ///
    /// Errors: `Invalid` if the read set would grow too large; then the key is not noted.
    pub fn note_key(&mut self, key: &[u8]) -> Result<()> {
        if self.points.contains(key) || self.intervals.contain(key) {
            return Ok(());
        }
        self.grow(POINT_BYTES + key.len())?;
        self.points.insert(key.into());
        Ok(())
    }

    /// Begins a walk through `range`, of which nothing was shown yet. Errors: as
    /// [`ReadSet::note_key`].
    pub fn begin_walk(&mut self, range: KeyRange) -> Result<WalkId> {
        let walk = Walk { range, front: Reach::Nothing, back: Reach::Nothing };
        self.grow(walk.bytes())?;
        let id = WalkId(self.next_walk);
        self.next_walk += 1;
        self.walks.insert(id, walk);
        Ok(id)
    }

    /// The walk shows `key` as the next from the front (`forward`) or from the back; `None`: there
    /// is nothing more. To be called before anybody is told. Errors: as [`ReadSet::note_key`].
    ///
    /// # Panics
    /// If the walk has ended.
    pub fn walk_to(&mut self, id: WalkId, forward: bool, key: Option<&[u8]>) -> Result<()> {
        let bytes_max = self.bytes_max.saturating_sub(self.intervals.bytes());
        let walk = self.walks.get_mut(&id).expect("the walk has not ended");
        let before = walk.bytes();
        let reach = if forward { &mut walk.front } else { &mut walk.back };
        match (reach, key) {
            (Reach::Through(last), Some(key)) => {
                last.clear();
                last.extend_from_slice(key);
            }
            (Reach::All, _) => {}
            (reach, Some(key)) => *reach = Reach::Through(key.to_vec()),
            (reach, None) => *reach = Reach::All,
        }
        self.bytes = self.bytes - before + walk.bytes();
        if self.bytes > bytes_max { Err(self.too_large()) } else { Ok(()) }
    }

    /// The walk goes no further: what it showed becomes one with what other walks did.
    pub fn end_walk(&mut self, id: WalkId) {
        let Some(walk) = self.walks.remove(&id) else { return };
        self.bytes -= walk.bytes();
        for range in walk.seen() {
            self.intervals.insert(&range);
        }
    }

    /// Whether nothing was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.ranges().is_empty()
    }

    /// The keys, in order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.points.iter().map(|key| &**key)
    }

    /// What was walked over.
    pub(super) fn ranges(&self) -> Vec<KeyRange> {
        if self.walks.is_empty() && self.intervals.len() == 0 {
            return Vec::new();
        }
        let walked = self.walks.values().flat_map(Walk::seen).filter(|range| !range.is_empty());
        self.intervals.iter().chain(walked).collect()
    }

    /// Errors: `Invalid` if the snapshot is of another range.
    pub(super) fn check_is_of(&self, inner: &Inner) -> Result<()> {
        if std::ptr::eq(self.snapshot.inner(), inner) {
            return Ok(());
        }
        Err(Error::invalid("the transaction read another database than it is to write to"))
    }

    fn grow(&mut self, bytes: usize) -> Result<()> {
        if self.bytes + self.intervals.bytes() + bytes > self.bytes_max {
            return Err(self.too_large());
        }
        self.bytes += bytes;
        Ok(())
    }

    #[cold]
    fn too_large(&self) -> Error {
        Error::invalid(format!(
            "the transaction has read {} keys and {} intervals, and may remember at most {} KiB of \
             them; read less in one transaction, walk through an interval in place of many single \
             keys, or read in a snapshot what needs no check",
            self.points.len(),
            self.intervals.len() + self.walks.len(),
            self.bytes_max >> 10
        ))
    }
}

impl fmt::Debug for ReadSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadSet")
            .field("seqno", &self.seqno())
            .field("keys", &self.points.len())
            .field("intervals", &(self.intervals.len() + self.walks.len()))
            .finish_non_exhaustive()
    }
}
