use terrace_base::{EntryRef, SeqNo};
use terrace_env::{PlantedBug, is_planted};

use super::sources::Source;
use crate::Result;
use crate::iter::{Cursor, FirstBytes, MergingCursor};
use crate::table::BlockWalk;

/// How many steps a source takes alone before it is worth asking whether it may go on so.
const STEPS_BEFORE: u32 = 2;
/// After how many more steps it is asked again. A memtable never may.
const STEPS_BETWEEN: u32 = 32;

/// What a scan goes through: its sources, merged. Where one of them has a part of a block to
/// itself, this is [walked](BlockWalk) without a look at the others, or at the scan's end.
///
/// ```text
///   block of a table   a  b  c  d  e  f  g  h        keys of the others: e, k
///                      ╰─── walk ───╯
/// ```
///
/// Whoever scans begins a walk when the cursor has taken a step to a value that is shown as it is,
/// and may then go on by [`ScanCursor::walk_on`]. Any other move ends the walk.
pub(in crate::store) struct ScanCursor {
    merged: MergingCursor<Source>,
    /// Lent by the source in front.
    walk: Option<BlockWalk>,
}

impl ScanCursor {
    pub(super) fn new(merged: MergingCursor<Source>) -> ScanCursor {
        ScanCursor { merged, walk: None }
    }

    /// Without a source.
    pub(super) fn nothing() -> ScanCursor {
        ScanCursor::new(MergingCursor::with_room_for(0))
    }

    /// As [`Cursor::renew`].
    pub(super) fn renew(&mut self, read_point: SeqNo) -> bool {
        // What was lent need not come back: its source stands nowhere from now on.
        self.walk = None;
        self.merged.renew(read_point)
    }

    /// Goes to the next key, if it lies in the walk. Otherwise nothing moves, and no walk is on.
    #[inline]
    pub(super) fn walk_on(&mut self) -> bool {
        let Some(walk) = &mut self.walk else { return false };
        let is_on = walk.step();
        if !is_on {
            self.give_back();
        }
        is_on
    }

    /// Begins a walk, if the source in front has taken some steps alone, and has more keys to
    /// itself which are below `end`. No walk is on.
    #[inline]
    pub(super) fn begin_walk(&mut self, end: Option<&[u8]>) {
        if self.merged.steps_alone() % STEPS_BETWEEN == STEPS_BEFORE {
            self.try_walk(end);
        }
    }

    #[inline(never)]
    fn try_walk(&mut self, end: Option<&[u8]>) {
        let Some((source, next)) = self.merged.alone_in_front() else { return };
        let Some(table) = source.in_blocks().filter(|table| table.may_lend()) else { return };
        let next = next.map(FirstBytes::least_key);
        let next = next.as_deref().filter(|_| !is_planted(PlantedBug::WalkForgetsOthers));
        let end = end.filter(|_| !is_planted(PlantedBug::WalkForgetsEnd));
        self.walk = table.lend([next, end]);
        if self.walk.is_none() {
            self.go_on();
        }
    }

    /// Lets a walk begin at the next step, if the source in front stays there.
    fn go_on(&mut self) {
        self.merged.count_alone_from(STEPS_BEFORE - 1);
    }

    /// Ends the walk, if one is on.
    #[inline]
    pub(super) fn end_walk(&mut self) {
        if self.walk.is_some() {
            self.give_back();
        }
    }

    #[inline(never)]
    fn give_back(&mut self) {
        if let Some(walk) = self.walk.take()
            && let Some((source, _)) = self.merged.alone_in_front()
            && let Some(table) = source.in_blocks()
        {
            table.take_back(walk);
            self.go_on();
        }
    }

    /// What is merged, with no walk on.
    #[inline]
    pub(super) fn merged(&mut self) -> &mut MergingCursor<Source> {
        self.end_walk();
        &mut self.merged
    }

    /// As [`Cursor::next`] or [`Cursor::prev`], where no walk is on.
    #[inline]
    pub(super) fn step(&mut self, forward: bool) -> Result<bool> {
        if forward { self.merged.next() } else { self.merged.prev() }
    }

    /// As [`Cursor::plain_key`], where no walk is on.
    #[inline]
    pub(super) fn plain_key(&self) -> Option<&[u8]> {
        self.merged.plain_key()
    }

    /// As [`Cursor::entry`].
    #[inline]
    pub(super) fn entry(&self) -> Option<EntryRef<'_>> {
        match &self.walk {
            Some(walk) => Some(walk.entry()),
            None => self.merged.entry(),
        }
    }

    #[cfg(test)]
    pub(super) fn is_walking(&self) -> bool {
        self.walk.is_some()
    }

    /// How many sources are merged.
    pub(super) fn source_count(&self) -> usize {
        self.merged.source_count()
    }

    /// Index of the source that has the newest entry of the current key.
    pub(super) fn source(&self) -> Option<usize> {
        self.merged.source()
    }
}
