//! Where a table finds its cached blocks without a look-up in the cache.

use std::sync::{Arc, Weak};

use terrace_env::{Latch, LatchGuard};

/// A slot for each data block of one open table: a reference to the block while the cache holds it.
///
/// A slot is a cache of the cache: what it says is right or it says nothing. Which blocks stay is
/// the cache's affair alone; see the invariants of the [room](super).
#[derive(Debug, Default)]
pub struct BlockSlots {
    slots: Box<[Slot]>,
}

/// Half a cache line, so that none lies in two.
#[derive(Debug, Default)]
#[repr(align(32))]
struct Slot {
    kept: Latch<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    block: Option<Arc<[u8]>>,
    /// In which turn of the cache the block was last looked up there.
    turn: u32,
}

impl BlockSlots {
    /// Slots for `count` blocks, all of them empty.
    #[must_use]
    pub fn new(count: usize) -> BlockSlots {
        BlockSlots { slots: (0..count).map(|_| Slot::default()).collect() }
    }

    /// Bytes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.slots.len() * size_of::<Slot>()
    }

    /// The block with this index, if it was looked up in this turn of the cache. Nobody waits here:
    /// if another thread is at the slot, nothing is known.
    #[inline]
    pub(super) fn get(&self, index: usize, turn: u32) -> Option<Arc<[u8]>> {
        let kept = self.slots.get(index)?.kept.try_lock()?;
        if kept.turn == turn { kept.block.clone() } else { None }
    }

    /// Whether it keeps the block with this index, or somebody is at the slot. The cache is not
    /// told.
    pub fn is_kept(&self, index: usize) -> bool {
        let Some(slot) = self.slots.get(index) else { return false };
        slot.kept.try_lock().is_none_or(|kept| kept.block.is_some())
    }

    /// A look at the block with this index, of whatever turn. Nobody waits here either, and the
    /// cache is not told. Readers of the block look it up in the cache meanwhile, and who puts or
    /// clears it waits: to be let go soon.
    #[inline]
    pub fn peek(&self, index: usize) -> Option<BlockPeek<'_>> {
        let kept = self.slots.get(index)?.kept.try_lock()?;
        Some(BlockPeek { kept })
    }

    /// Keeps `block`; whether it was there already. Another one that was there goes.
    pub(super) fn put(&self, index: usize, block: &Arc<[u8]>, turn: u32) -> bool {
        let Some(slot) = self.slots.get(index) else { return true };
        let mut kept = slot.kept.lock();
        kept.turn = turn;
        if kept.block.as_ref().is_some_and(|there| Arc::ptr_eq(there, block)) {
            return true;
        }
        let before = kept.block.replace(Arc::clone(block));
        drop(kept);
        drop(before);
        false
    }

    /// Forgets `block` if that is what the slot holds.
    pub(super) fn clear(&self, index: usize, block: &Arc<[u8]>) {
        let Some(slot) = self.slots.get(index) else { return };
        let mut kept = slot.kept.lock();
        let gone = kept.block.take_if(|there| Arc::ptr_eq(there, block));
        drop(kept);
        drop(gone);
    }

    /// The blocks that are kept, with their indexes.
    pub(super) fn kept(&self) -> impl Iterator<Item = (usize, Arc<[u8]>)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| Some((index, slot.kept.lock().block.clone()?)))
    }
}

/// A look at what a slot holds, which keeps it as it is.
pub struct BlockPeek<'a> {
    kept: LatchGuard<'a, Kept>,
}

impl BlockPeek<'_> {
    /// The first byte of the block, if there is one. It lies in one line with the block's count.
    #[inline]
    pub fn first_byte(&self) -> Option<u8> {
        self.kept.block.as_ref()?.first().copied()
    }
}

/// The slot of one block, as the cache knows it. It does not keep the table's slots alive.
#[derive(Clone, Debug)]
pub(super) struct SlotOf {
    slots: Weak<BlockSlots>,
    index: u32,
}

impl SlotOf {
    /// The slot with this index; none if there is no such slot.
    pub fn new(slots: &Arc<BlockSlots>, index: usize) -> Option<SlotOf> {
        let count = slots.slots.len();
        (index < count).then(|| SlotOf { slots: Arc::downgrade(slots), index: index as u32 })
    }

    /// Whether it is this one.
    pub fn is(&self, slots: &Arc<BlockSlots>, index: usize) -> bool {
        std::ptr::eq(self.slots.as_ptr(), Arc::as_ptr(slots)) && self.index as usize == index
    }

    /// Whether the table was closed.
    pub fn is_gone(&self) -> bool {
        self.slots.strong_count() == 0
    }

    /// Forgets `block` if that is what the slot holds.
    pub fn clear(&self, block: &Arc<[u8]>) {
        if let Some(slots) = self.slots.upgrade() {
            slots.clear(self.index as usize, block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peek_sees_the_block_and_nobody_waits_for_it() {
        let slots = BlockSlots::new(2);
        let block: Arc<[u8]> = Arc::from(&b"block"[..]);
        assert!(!slots.put(1, &block, 7));
        let peek = slots.peek(1).expect("nobody is at the slot");
        assert_eq!(peek.first_byte(), Some(b'b'));
        assert!(slots.peek(1).is_none() && slots.get(1, 7).is_none());
        assert_eq!(slots.peek(0).expect("another slot").first_byte(), None);
        drop(peek);
        assert!(slots.get(1, 7).is_some_and(|got| Arc::ptr_eq(&got, &block)));
        assert!(slots.peek(2).is_none(), "there is no such slot");
    }
}
