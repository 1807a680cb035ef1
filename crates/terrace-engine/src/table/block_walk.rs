use terrace_base::{EntryRef, SeqNo};
use terrace_env::{PlantedBug, is_planted};

use super::block_place::BlockPlace;
use super::format::block::KeyBuffer;
use super::reader::entry_ref;

/// How many steps a walk must have before it to be worth its beginning.
const STEPS_MIN: usize = 3;

/// The rest of a block, taken out of the [`TableCursor`](super::TableCursor) that stands in it.
///
/// ```text
///   block      … d  e  f  g  h  k  m │ next block
///                   ▲           ▲
///               it stands      end: k and m are not below the bounds (i, say)
/// ```
///
/// Within it nobody has to be asked whether there is a next entry, or whose it is: the bounds are
/// the keys of other sources and the end of a scan, and are looked for once. It ends before
/// anything unusual too: another version of a key, a tombstone, an expiry, what is newer than the
/// read point, or does not decode. The cursor then goes on from where the walk has come to.
pub(crate) struct BlockWalk {
    pub(super) place: BlockPlace,
    pub(super) key: KeyBuffer,
    /// Where it ends at last.
    pub(super) end: usize,
    pub(super) read_point: SeqNo,
    /// Of an ingested table: the number of every entry.
    pub(super) number: Option<SeqNo>,
}

impl BlockWalk {
    /// Goes to the next entry, which is a value without expiry. `false` at its end; then it has
    /// not moved.
    #[inline]
    pub(crate) fn step(&mut self) -> bool {
        let BlockPlace { block, layout, entry_index, entry, .. } = &mut self.place;
        let to = *entry_index + 1;
        if to >= self.end {
            return false;
        }
        let view = layout.view(block);
        let Some(next) = view.usual_after(entry, to) else { return false };
        if next.seqno > self.read_point && !is_planted(PlantedBug::WalkShowsTooNew) {
            return false;
        }
        view.next_key_to(to, &next, &mut self.key);
        *entry = next;
        *entry_index = to;
        true
    }

    /// The entry that it stands on.
    #[inline]
    pub(crate) fn entry(&self) -> EntryRef<'_> {
        let found = entry_ref(self.key.key(), &self.place.entry, &self.place.block);
        EntryRef { seqno: self.number.unwrap_or(found.seqno), ..found }
    }
}

impl BlockPlace {
    /// Where a walk from here would end, if its keys are to be below all of these; `None` if it is
    /// not worth it.
    pub(super) fn walk_end(&self, bounds: [Option<&[u8]>; 2]) -> Option<usize> {
        let mut end = self.layout.count();
        for bound in bounds.into_iter().flatten() {
            if end <= self.entry_index + STEPS_MIN {
                return None;
            }
            // What does not decode is met by whoever steps there.
            end = end.min(self.view().seek(bound, SeqNo::MAX).ok()?.index);
        }
        (end > self.entry_index + STEPS_MIN).then_some(end)
    }
}
