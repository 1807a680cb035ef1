//! Which block lies in which slot of a bucket, and which one goes for another. Pure.
//!
//! ```text
//!   (table, offset) ──► slot     proven   newer ⇄ older      were found since they came
//!                        │                          │ too many
//!                        │       tried    newer ⇄ older      the oldest is the first to go
//!                        └── valid: its bytes are there
//! ```
//! A block that is wanted takes the lowest empty slot, and only if there is none the slot of the
//! block that was read longest ago of those that are tried. So what a compaction has dropped is
//! used again before anything that may still be read goes, and the file is no longer than it has to
//! be.
//!
//! A block comes as one that is tried, and is proven once it is found. At most four of five slots
//! are for those: the one that was read longest ago of them is tried anew when there are more. So
//! blocks that are read once do not displace those that are read often.
//!
//! A block that nobody has asked for, but that came with one, takes an empty slot or none, and is
//! the first to go.
//!
//! *Differs* from RocksMash (TACO 2022), section 3.2, which has one order of last reads. The second
//! one is of segmented LRU (Karedla and others, 1994).

use std::collections::HashMap;

use crate::cache::FixedHash;

/// No slot.
const NONE: u32 = u32::MAX;

/// What a block is called here: the low half of its table's number, and where it lies in the table.
/// Two that are called the same, which is unlikely, are told apart by their checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockName {
    pub table: u64,
    pub offset: u64,
}

impl BlockName {
    /// Mixed into 64 bits.
    fn key(self) -> u64 {
        let mixed = u128::from(self.table ^ self.offset.rotate_left(29)) * 0x9e37_79b9_7f4a_7c15;
        (mixed as u64) ^ ((mixed >> 64) as u64)
    }
}

/// A block in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    pub slot: u32,
    pub bytes: u32,
    pub checksum: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    name: BlockName,
    bytes: u32,
    checksum: u32,
    newer: u32,
    older: u32,
    state: State,
    /// It was found since it came.
    is_proven: bool,
    /// Somebody has asked for it, now or before.
    is_asked: bool,
}

/// Those of one order of last reads.
#[derive(Clone, Copy, Debug)]
struct Order {
    newest: u32,
    oldest: u32,
}

/// At most so many of a hundred slots have blocks that are proven.
const PROVEN_PERCENT: u64 = 80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    /// Somebody writes its bytes.
    Claimed,
    Valid,
}

const EMPTY: Slot = Slot {
    name: BlockName { table: 0, offset: 0 },
    bytes: 0,
    checksum: 0,
    newer: NONE,
    older: NONE,
    state: State::Empty,
    is_proven: false,
    is_asked: true,
};

/// The slots of a bucket.
#[derive(Debug)]
pub struct Slots {
    by_key: HashMap<u64, u32, FixedHash>,
    slots: Vec<Slot>,
    tried: Order,
    proven: Order,
    proven_count: u32,
    /// No slot below this is empty.
    empty_from: u32,
    capacity: u32,
}

impl Slots {
    /// None is taken, of `capacity`.
    #[must_use]
    pub fn new(capacity: u32) -> Slots {
        Slots {
            by_key: HashMap::with_hasher(FixedHash),
            slots: Vec::new(),
            tried: Order { newest: NONE, oldest: NONE },
            proven: Order { newest: NONE, oldest: NONE },
            proven_count: 0,
            empty_from: 0,
            capacity,
        }
    }

    /// Puts a block back where an earlier open has left it, as the one that was read last; not
    /// beyond the capacity, and not twice.
    pub fn restore(&mut self, name: BlockName, kept: Kept) {
        if kept.slot >= self.capacity || self.by_key.contains_key(&name.key()) {
            return;
        }
        self.reach(kept.slot);
        if self.slots[kept.slot as usize].state == State::Empty {
            self.take(name, kept, State::Valid);
            self.link_newest(kept.slot);
        }
    }

    /// A block whose bytes are there; from now on the one that was read last, and proven.
    pub fn find(&mut self, name: BlockName) -> Option<Kept> {
        let slot = self.slot_of(name)?;
        let Slot { bytes, checksum, state, .. } = self.slots[slot as usize];
        if state != State::Valid {
            return None;
        }
        self.unlink(slot);
        let found = &mut self.slots[slot as usize];
        (found.is_proven, found.is_asked) = (true, true);
        self.link_newest(slot);
        self.bound_proven();
        Some(Kept { slot, bytes, checksum })
    }

    /// A slot for a block, whose bytes are to be written there; `None` if it has one, or there is
    /// room for none. Whose slot it was is forgotten; whether that was a block.
    pub fn claim(&mut self, name: BlockName, bytes: u32, checksum: u32) -> Option<(u32, bool)> {
        if self.by_key.contains_key(&name.key()) {
            return None;
        }
        let (slot, evicts) = match self.first_empty() {
            Some(slot) => (slot, false),
            None if self.tried.oldest != NONE => (self.tried.oldest, true),
            None if self.proven.oldest != NONE => (self.proven.oldest, true),
            None => return None,
        };
        if evicts {
            self.clear(slot);
        }
        self.take(name, Kept { slot, bytes, checksum }, State::Claimed);
        self.link_newest(slot);
        Some((slot, evicts))
    }

    /// As [`Slots::claim`], of a block that nobody has asked for: only an empty slot, in which it
    /// is the next to go.
    pub fn claim_empty(&mut self, name: BlockName, bytes: u32, checksum: u32) -> Option<u32> {
        if self.by_key.contains_key(&name.key()) {
            return None;
        }
        let slot = self.first_empty()?;
        self.take(name, Kept { slot, bytes, checksum }, State::Claimed);
        self.slots[slot as usize].is_asked = false;
        self.link_oldest(slot);
        Some(slot)
    }

    /// How many slots are empty.
    #[must_use]
    pub fn empty_count(&self) -> u32 {
        // No more names than slots.
        self.capacity.saturating_sub(self.by_key.len() as u32)
    }

    /// The bytes of a block are where it has claimed a slot; `false` if the slot was taken from it
    /// meanwhile.
    pub fn filled(&mut self, name: BlockName, kept: Kept) -> bool {
        let is_there = self.is(name, kept);
        if is_there {
            self.slots[kept.slot as usize].state = State::Valid;
        }
        is_there
    }

    /// A block is no good there; `false` if it is there no more.
    pub fn drop_block(&mut self, name: BlockName, kept: Kept) -> bool {
        let is_there = self.is(name, kept);
        if is_there {
            self.clear(kept.slot);
        }
        is_there
    }

    /// The blocks of a table are the next to go, unless they are read until then.
    pub fn age_table(&mut self, table: u64) {
        for slot in 0..self.slots.len() as u32 {
            let found = &self.slots[slot as usize];
            if found.state == State::Valid && found.name.table == table {
                self.unlink(slot);
                self.slots[slot as usize].is_proven = false;
                self.link_oldest(slot);
            }
        }
    }

    /// Nothing of a table is wanted any more; how many blocks that were.
    pub fn drop_table(&mut self, table: u64) -> u64 {
        self.clear_where(|_, found| found.name.table == table)
    }

    /// Where the blocks of a table begin that somebody has asked for and that are here, in no
    /// order.
    pub fn offsets_of(&self, table: u64) -> impl Iterator<Item = u64> + '_ {
        let valid = self.slots.iter().filter(|slot| slot.state == State::Valid && slot.is_asked);
        valid.filter(move |slot| slot.name.table == table).map(|slot| slot.name.offset)
    }

    /// From now on there are so many slots: blocks beyond go, whenever they were read.
    pub fn set_capacity(&mut self, capacity: u32) -> u64 {
        self.capacity = capacity;
        let dropped = self.clear_where(|slot, _| slot >= capacity);
        self.slots.truncate(capacity as usize);
        self.empty_from = self.empty_from.min(capacity);
        self.bound_proven();
        dropped
    }

    /// How many slots the file must have room for.
    #[must_use]
    pub fn extent(&self) -> u32 {
        let last = self.slots.iter().rposition(|slot| slot.state != State::Empty);
        last.map_or(0, |last| last as u32 + 1)
    }

    /// How many blocks are here.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.by_key.len()
    }

    /// About how many bytes of memory this takes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let of_slots = self.slots.capacity() * size_of::<Slot>();
        let of_keys = self.by_key.capacity() * (size_of::<(u64, u32)>() + 1);
        (of_slots + of_keys) as u64
    }

    fn slot_of(&self, name: BlockName) -> Option<u32> {
        let slot = *self.by_key.get(&name.key())?;
        (self.slots[slot as usize].name == name).then_some(slot)
    }

    /// Whether a slot is this very block's.
    fn is(&self, name: BlockName, kept: Kept) -> bool {
        let slot = self.slots.get(kept.slot as usize);
        slot.is_some_and(|slot| {
            slot.state != State::Empty && slot.name == name && slot.checksum == kept.checksum
        })
    }

    fn first_empty(&mut self) -> Option<u32> {
        let known = self.slots.len() as u32;
        let is_empty = |slot: &u32| self.slots[*slot as usize].state == State::Empty;
        let found = (self.empty_from..known).find(is_empty).unwrap_or(known);
        self.empty_from = found;
        if found >= self.capacity {
            return None;
        }
        self.reach(found);
        Some(found)
    }

    fn reach(&mut self, slot: u32) {
        let count = self.slots.len().max(slot as usize + 1);
        self.slots.resize(count, EMPTY);
    }

    fn take(&mut self, name: BlockName, kept: Kept, state: State) {
        let Kept { slot, bytes, checksum } = kept;
        self.slots[slot as usize] = Slot { name, bytes, checksum, state, ..EMPTY };
        self.by_key.insert(name.key(), slot);
    }

    fn clear(&mut self, slot: u32) {
        self.unlink(slot);
        let name = std::mem::replace(&mut self.slots[slot as usize], EMPTY).name;
        self.by_key.remove(&name.key());
        self.empty_from = self.empty_from.min(slot);
    }

    fn clear_where(&mut self, is_gone: impl Fn(u32, &Slot) -> bool) -> u64 {
        let mut cleared = 0;
        for slot in 0..self.slots.len() as u32 {
            let found = &self.slots[slot as usize];
            if found.state != State::Empty && is_gone(slot, found) {
                self.clear(slot);
                cleared += 1;
            }
        }
        cleared
    }

    /// The blocks that are proven and were read longest ago are tried anew if they are too many.
    fn bound_proven(&mut self) {
        let most = (u64::from(self.capacity) * PROVEN_PERCENT).div_ceil(100);
        while u64::from(self.proven_count) > most {
            let slot = self.proven.oldest;
            self.unlink(slot);
            self.slots[slot as usize].is_proven = false;
            self.link_newest(slot);
        }
    }

    /// The order that a slot belongs to.
    fn order_of(&mut self, slot: u32) -> &mut Order {
        match self.slots[slot as usize].is_proven {
            true => &mut self.proven,
            false => &mut self.tried,
        }
    }

    fn link_newest(&mut self, slot: u32) {
        self.proven_count += u32::from(self.slots[slot as usize].is_proven);
        let before = std::mem::replace(&mut self.order_of(slot).newest, slot);
        let linked = &mut self.slots[slot as usize];
        (linked.newer, linked.older) = (NONE, before);
        match before {
            NONE => self.order_of(slot).oldest = slot,
            _ => self.slots[before as usize].newer = slot,
        }
    }

    fn link_oldest(&mut self, slot: u32) {
        self.proven_count += u32::from(self.slots[slot as usize].is_proven);
        let before = std::mem::replace(&mut self.order_of(slot).oldest, slot);
        let linked = &mut self.slots[slot as usize];
        (linked.newer, linked.older) = (before, NONE);
        match before {
            NONE => self.order_of(slot).newest = slot,
            _ => self.slots[before as usize].older = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        self.proven_count -= u32::from(self.slots[slot as usize].is_proven);
        let Slot { newer, older, .. } = self.slots[slot as usize];
        match newer {
            NONE => self.order_of(slot).newest = older,
            _ => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.order_of(slot).oldest = newer,
            _ => self.slots[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    //! Goal: blocks come and go as the picture says. Method: by hand; `tests.rs` has a model.

    use super::*;

    fn name(table: u64, offset: u64) -> BlockName {
        BlockName { table, offset }
    }

    /// Puts a block there, bytes and all; its slot.
    pub fn put(slots: &mut Slots, name: BlockName) -> Option<u32> {
        let (slot, _) = slots.claim(name, 1, 7)?;
        assert!(slots.filled(name, Kept { slot, bytes: 1, checksum: 7 }));
        Some(slot)
    }

    /// The same of a block that nobody has asked for.
    pub fn put_spare(slots: &mut Slots, name: BlockName) -> Option<u32> {
        let slot = slots.claim_empty(name, 1, 7)?;
        assert!(slots.filled(name, Kept { slot, bytes: 1, checksum: 7 }));
        Some(slot)
    }

    #[test]
    fn empty_slots_are_taken_before_anything_goes() {
        let mut slots = Slots::new(3);
        for offset in 0..3 {
            assert_eq!(put(&mut slots, name(1, offset)), Some(offset as u32));
        }
        assert!(slots.find(name(1, 0)).is_some());
        assert_eq!(put(&mut slots, name(2, 9)), Some(1), "that was read longest ago");
        assert_eq!(slots.drop_table(1), 2);
        assert_eq!(put(&mut slots, name(2, 8)), Some(0), "the lowest empty one");
        assert_eq!(slots.extent(), 2);
        assert!(slots.find(name(2, 9)).is_some());
    }

    #[test]
    fn blocks_that_are_read_once_do_not_displace_those_that_are_found() {
        let mut slots = Slots::new(5);
        (0..5).for_each(|offset| assert!(put(&mut slots, name(1, offset)).is_some()));
        assert!((0..3).all(|offset| slots.find(name(1, offset)).is_some()));
        (0..100).for_each(|offset| assert!(put(&mut slots, name(2, offset)).is_some()));
        assert!((0..3).all(|offset| slots.find(name(1, offset)).is_some()));
        // Of five, four are proven at most: the one read longest ago of these is tried anew.
        assert!(slots.find(name(2, 98)).is_some() && slots.find(name(2, 99)).is_some());
        assert_eq!(put(&mut slots, name(3, 0)), Some(0));
        assert!(slots.find(name(1, 0)).is_none() && slots.find(name(1, 1)).is_some());
    }

    #[test]
    fn what_nobody_has_asked_for_displaces_nothing_and_goes_first() {
        let mut slots = Slots::new(3);
        assert_eq!(put(&mut slots, name(1, 0)), Some(0));
        assert_eq!((put_spare(&mut slots, name(1, 1)), slots.empty_count()), (Some(1), 1));
        assert_eq!(put_spare(&mut slots, name(1, 1)), None, "it is there");
        assert_eq!((put_spare(&mut slots, name(1, 2)), slots.empty_count()), (Some(2), 0));
        assert_eq!(put_spare(&mut slots, name(1, 3)), None, "there is no room");
        assert_eq!(
            slots.offsets_of(1).collect::<Vec<_>>(),
            [0],
            "a compaction heeds what was read"
        );
        assert!(slots.find(name(1, 2)).is_some(), "it is asked for, which proves it");
        assert_eq!(slots.offsets_of(1).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(put(&mut slots, name(2, 0)), Some(1), "before what was read longer ago");
        assert_eq!(put(&mut slots, name(2, 1)), Some(0));
        assert!(slots.find(name(1, 2)).is_some());
        assert_eq!((slots.set_capacity(2), slots.empty_count()), (1, 0));
    }

    #[test]
    fn blocks_of_a_table_that_is_compacted_go_first() {
        let mut slots = Slots::new(4);
        for (table, offset) in [(1, 0), (2, 0), (1, 1), (2, 1)] {
            put(&mut slots, name(table, offset));
        }
        slots.age_table(2);
        assert!(slots.find(name(2, 0)).is_some(), "which is read once more");
        assert_eq!(put(&mut slots, name(3, 0)), Some(3));
        assert_eq!(put(&mut slots, name(3, 1)), Some(0));
        assert!(slots.find(name(2, 0)).is_some() && slots.find(name(2, 1)).is_none());
    }

    #[test]
    fn a_block_is_found_once_its_bytes_are_there() {
        let mut slots = Slots::new(1);
        let (slot, _) = slots.claim(name(1, 1), 5, 7).unwrap();
        assert_eq!(slots.find(name(1, 1)), None);
        assert_eq!(slots.claim(name(1, 1), 5, 7), None, "somebody writes it");
        assert_eq!(slots.claim(name(1, 2), 6, 8), Some((slot, true)), "and loses its slot");
        let late = Kept { slot, bytes: 5, checksum: 7 };
        assert!(!slots.filled(name(1, 1), late), "so that it comes too late");
        assert!(!slots.drop_block(name(1, 1), late));
        let kept = Kept { slot, bytes: 6, checksum: 8 };
        assert!(slots.filled(name(1, 2), kept));
        assert_eq!(slots.find(name(1, 2)), Some(kept));
        assert!(slots.drop_block(name(1, 2), kept));
        assert_eq!((slots.find(name(1, 2)), slots.count(), slots.extent()), (None, 0, 0));
    }

    #[test]
    fn what_an_earlier_open_left_is_put_back() {
        let mut slots = Slots::new(4);
        let kept = |slot| Kept { slot, bytes: 1, checksum: 2 };
        slots.restore(name(1, 1), kept(2));
        slots.restore(name(1, 2), kept(2));
        slots.restore(name(1, 1), kept(3));
        slots.restore(name(1, 3), kept(4));
        assert_eq!((slots.count(), slots.extent()), (1, 3));
        assert_eq!(slots.find(name(1, 1)), Some(kept(2)));
        assert_eq!(put(&mut slots, name(5, 5)), Some(0));
    }
}
