//! Iterators: the live keys of an interval at one read point, in both directions.
//!
//! An iterator registers its number for as long as it lives, but pins a view only briefly: when a
//! newer view has let go of something that the pinned one keeps alive, the iterator goes on in the
//! newer one, at its own number, from its own key.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use terrace_base::{EntryKind, EntryRef, KeyRange, SeqNo, WallTime};

use super::read_path::unsupported;
use super::read_points::ReadPoint;
use super::view::View;
use super::{Inner, Store};
use crate::iter::{Cursor, MergingCursor, RunCursor};
use crate::range_tombstone::Fragments;
use crate::table::ReadMode;
use crate::{Error, Result};

/// What an iterator shows.
#[derive(Clone, Debug)]
pub struct IterOptions {
    /// The keys.
    pub range: KeyRange,
    /// Whether steps may wait for the disk; if not, they answer [`Error::NeedsIo`] where they
    /// would, and the iterator then stands nowhere.
    pub wait: bool,
}

impl Default for IterOptions {
    fn default() -> IterOptions {
        IterOptions { range: KeyRange::all(), wait: true }
    }
}

/// Steps that an iterator takes at least before it goes on in a newer view.
const STEPS_PER_VIEW: u32 = 64;

/// A position among the live keys of an interval, at one read point and one moment of expiry. A
/// new iterator stands nowhere until it is told to seek. After an error it stands nowhere too.
pub struct Iter {
    inner: Arc<Inner>,
    point: ReadPoint,
    now: WallTime,
    range: KeyRange,
    mode: ReadMode,
    view: Arc<View>,
    cursor: MergingCursor,
    tombstones: Vec<Arc<Fragments>>,
    steps: u32,
    is_placed: bool,
}

impl Store {
    /// The keys and values of an interval, as they are now.
    pub fn iter(&self, options: IterOptions) -> Result<Iter> {
        let now = self.inner.env.wall_time();
        let point = self.inner.read_points.register(&self.inner.sequencer, Some(now));
        Iter::new(&self.inner, point, now, options)
    }
}

impl Iter {
    pub(super) fn at(store: &Store, held: &ReadPoint, options: IterOptions) -> Result<Iter> {
        let now = store.inner.env.wall_time();
        let point = store.inner.read_points.register_again(held, Some(now));
        Iter::new(&store.inner, point, now, options)
    }

    fn new(
        inner: &Arc<Inner>,
        point: ReadPoint,
        now: WallTime,
        options: IterOptions,
    ) -> Result<Iter> {
        inner.check_open()?;
        let mode = if options.wait { ReadMode::Block } else { ReadMode::NoWait };
        let view = inner.view.load_full();
        let (cursor, tombstones) = sources(&view, &options.range, point.seqno(), mode)?;
        Ok(Iter {
            inner: Arc::clone(inner),
            point,
            now,
            range: options.range,
            mode,
            view,
            cursor,
            tombstones,
            steps: 0,
            is_placed: false,
        })
    }

    /// The number that the iterator reads at.
    #[must_use]
    pub fn seqno(&self) -> SeqNo {
        self.point.seqno()
    }

    /// Goes to the first live key at or above `key` (and within the interval).
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.is_placed = false;
        self.renew_view()?;
        self.cursor.seek(key.max(self.range.start()))?;
        self.settle(true)
    }

    /// Goes to the first live key of the interval.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.seek(b"")
    }

    /// Goes to the last live key below `bound` (and within the interval); to the last of the
    /// interval if there is no bound.
    pub fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<()> {
        self.is_placed = false;
        self.renew_view()?;
        let bound = match (bound, self.range.end()) {
            (Some(bound), Some(end)) => Some(bound.min(end)),
            (bound, end) => bound.or(end),
        };
        self.cursor.seek_back(bound)?;
        self.settle(false)
    }

    /// Goes to the next live key; past the last one the iterator stands nowhere.
    #[expect(clippy::should_implement_trait, reason = "the word for it in every ordered store")]
    pub fn next(&mut self) -> Result<()> {
        self.step(true)
    }

    /// Goes to the previous live key; before the first one the iterator stands nowhere.
    pub fn prev(&mut self) -> Result<()> {
        self.step(false)
    }

    /// The entry that the iterator stands on: a value, never a tombstone.
    #[must_use]
    pub fn entry(&self) -> Option<EntryRef<'_>> {
        if self.is_placed { self.cursor.entry() } else { None }
    }

    fn step(&mut self, forward: bool) -> Result<()> {
        let Some(entry) = self.entry() else {
            return Err(Error::invalid("the iterator stands nowhere: seek first"));
        };
        if self.steps >= STEPS_PER_VIEW && self.holds_up() {
            let key = entry.key.to_vec();
            self.is_placed = false;
            self.renew_view()?;
            if !forward {
                self.cursor.seek_back(Some(&key))?;
                return self.settle(false);
            }
            self.cursor.seek(&key)?;
            if self.cursor.entry().is_none_or(|entry| entry.key != key) {
                return self.settle(true);
            }
        }
        self.steps += 1;
        self.is_placed = false;
        if forward {
            self.cursor.next()?
        } else {
            self.cursor.prev()?
        }
        self.settle(forward)
    }

    /// Whether the pinned view keeps alive what is wanted gone.
    fn holds_up(&self) -> bool {
        self.view.removals != self.inner.removals.load(Ordering::Acquire)
    }

    /// Goes on in the current view if the pinned one keeps alive what is wanted gone.
    fn renew_view(&mut self) -> Result<()> {
        if !self.holds_up() {
            return Ok(());
        }
        let view = self.inner.view.load_full();
        (self.cursor, self.tombstones) =
            sources(&view, &self.range, self.point.seqno(), self.mode)?;
        self.view = view;
        self.steps = 0;
        Ok(())
    }

    /// Steps over what is hidden until the cursor stands on a live key of the interval, or past
    /// its end.
    fn settle(&mut self, forward: bool) -> Result<()> {
        while let Some(entry) = self.cursor.entry() {
            if !self.range.contains(entry.key) {
                return Ok(());
            }
            if !self.is_hidden(&entry) {
                if entry.kind != EntryKind::Value {
                    return Err(unsupported(entry.kind));
                }
                self.is_placed = true;
                return Ok(());
            }
            if forward { self.cursor.next()? } else { self.cursor.prev()? }
        }
        Ok(())
    }

    fn is_hidden(&self, entry: &EntryRef<'_>) -> bool {
        let point = self.point.seqno();
        entry.kind == EntryKind::Tombstone
            || entry.expiry.is_some_and(|expiry| expiry.is_expired(self.now))
            || self.tombstones.iter().any(|fragments| {
                let covering = fragments.newest_covering(entry.key, point);
                covering.is_some_and(|covering| covering > entry.seqno)
            })
    }
}

/// Everything in a view that may hold keys of `range`: a merged cursor, and the range tombstones.
fn sources(
    view: &View,
    range: &KeyRange,
    read_point: SeqNo,
    mode: ReadMode,
) -> Result<(MergingCursor, Vec<Arc<Fragments>>)> {
    let mut cursors: Vec<Box<dyn Cursor + Send>> = Vec::new();
    let mut tombstones = Vec::new();
    for drange in view.dranges.iter().filter(|drange| drange.keys.overlaps(range)) {
        for memtable in drange.memtables() {
            cursors.push(Box::new(memtable.cursor(read_point)));
            tombstones.push(memtable.range_tombstones());
        }
    }
    cursors.extend(view.version.l0.cursors(range, read_point, mode)?);
    for (_, run) in view.version.runs().filter(|(_, run)| !run.is_empty()) {
        cursors.push(Box::new(RunCursor::new(run.clone(), read_point, mode)));
    }
    for table in view.version.tables_with_range_tombstones() {
        if table.span().overlaps(range) {
            let clip = &table.meta().clip;
            let fragments = Arc::clone(table.reader(mode)?.range_tombstones());
            let whole = *clip == KeyRange::all();
            tombstones.push(if whole { fragments } else { Arc::new(fragments.clip(clip)) });
        }
    }
    tombstones.retain(|fragments| !fragments.is_empty());
    Ok((MergingCursor::new(cursors), tombstones))
}

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Iter over {:?} at {:?}", self.range, self.seqno())
    }
}
