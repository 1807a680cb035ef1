use std::fmt;
use std::sync::Arc;

use terrace_base::{EntryKind, EntryRef, MemtableId, SeqNo};
use terrace_env::Latch;
use terrace_env::atomic::{AtomicU64, Ordering};

use super::arena::Arena;
use super::charge::{self, Budget, Reservation};
use super::cursor::{MemtableCursor, MemtableStream};
use super::entry::{Stored, entry_bytes};
use super::insert::Inserted;
use super::logged::{LoggedValue, LoggedValues};
use super::spare::SpareMemory;
use super::tree::{Tree, Writer};
use crate::range_tombstone::{Fragments, RangeTombstoneSet};

/// Entries of a batch that are inserted in one turn at the latch: enough that the latch costs
/// nothing, few enough that others do not wait.
const CHUNK_ENTRIES: usize = 16;

/// The recent versions of keys, in memory and in order: one writer at a time, any number of
/// readers, which wait for no other thread.
///
/// **What readers may rely on.** A read that begins after the inserts of all entries up to a
/// number were done, and were made known to it (by the publication of that number), finds every
/// entry up to that number. It may find younger ones, too; the read point is what hides them.
///
/// **Range tombstones** are inserted like other entries but stand beside the tree: gets, cursors
/// and streams do not apply them and do not show them.
pub struct Memtable {
    id: MemtableId,
    tree: Tree,
    latch: Latch<Writer>,
    budget: Budget,
    counts: Counts,
    range_tombstones: RangeTombstoneSet,
    logged: LoggedValues,
}

/// What [`Memtable::get`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found<'a> {
    /// The newest version of the key at or below the read point.
    pub entry: Option<EntryRef<'a>>,
    /// Whether the key has a version above the read point.
    pub saw_newer: bool,
}

/// Changed under the latch, read by anyone.
#[derive(Default)]
struct Counts {
    keys: AtomicU64,
    entries: AtomicU64,
    key_bytes: AtomicU64,
    value_bytes: AtomicU64,
    /// The complement of the least number, so that 0 says that there is none.
    least_seqno_complement: AtomicU64,
    /// One more than the greatest number.
    greatest_seqno_end: AtomicU64,
}

impl Memtable {
    /// An empty memtable. Its address space is taken at once, its memory as it fills.
    ///
    /// `arena_bytes`: for the entries and the nodes of the tree together. An empty tree takes
    /// [`Memtable::FIXED_BYTES`] of them.
    ///
    /// # Panics
    /// If `arena_bytes` is below [`Memtable::FIXED_BYTES`] or not below 32 GiB.
    #[must_use]
    pub fn new(id: MemtableId, arena_bytes: usize) -> Memtable {
        Memtable::over(id, Arena::new(arena_bytes), usize::MAX)
    }

    /// As [`Memtable::new`], in memory of one that has gone, if `spares` have any; and its own goes
    /// there. At first only `limit_bytes` of the arena may be taken, or [`Memtable::FIXED_BYTES`]
    /// if that is more: see [`Memtable::raise_limit`].
    #[must_use]
    pub fn reusing(
        id: MemtableId,
        arena_bytes: usize,
        limit_bytes: usize,
        spares: &Arc<SpareMemory>,
    ) -> Memtable {
        Memtable::over(id, Arena::reusing(arena_bytes, Some(spares)), limit_bytes)
    }

    fn over(id: MemtableId, arena: Arena, limit_bytes: usize) -> Memtable {
        let limit_bytes = limit_bytes.clamp(Memtable::FIXED_BYTES, arena.capacity_bytes());
        let budget = Budget::new(limit_bytes);
        Memtable {
            id,
            tree: Tree::new(arena),
            latch: Latch::new(Writer::new()),
            budget,
            counts: Counts::default(),
            range_tombstones: RangeTombstoneSet::new(),
            logged: LoggedValues::default(),
        }
    }

    /// What an empty memtable takes of its arena, in bytes.
    pub const FIXED_BYTES: usize = charge::FIXED_BYTES;

    /// The arena that a memtable needs so that [`Memtable::reserve`] of `bytes` succeeds while it
    /// is empty. Pure.
    #[must_use]
    pub fn arena_bytes_for(bytes: usize) -> usize {
        Memtable::FIXED_BYTES + bytes
    }

    /// The memtable's name in the log.
    #[must_use]
    pub fn id(&self) -> MemtableId {
        self.id
    }

    /// The size of the arena, in bytes.
    #[must_use]
    pub fn arena_bytes(&self) -> usize {
        self.tree.arena().capacity_bytes()
    }

    /// How many bytes of the arena may be taken.
    #[must_use]
    pub fn limit_bytes(&self) -> usize {
        self.budget.limit_bytes()
    }

    /// Lets `limit_bytes` of the arena be taken, or all of it if that is less; never fewer than
    /// before. Memtables that share an allowance begin with little of it and grow.
    pub fn raise_limit(&self, limit_bytes: usize) {
        self.budget.raise_limit(limit_bytes.min(self.arena_bytes()));
    }

    /// The bytes of the arena that are used or reserved.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.budget.taken_bytes()
    }

    /// Whether nothing was inserted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entry_count() == 0
    }

    /// How many entries were inserted: all versions, and range tombstones.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.counts.entries.load(Ordering::Relaxed)
    }

    /// How many keys have a version here. Range tombstones do not count.
    #[must_use]
    pub fn key_count(&self) -> u64 {
        self.counts.keys.load(Ordering::Relaxed)
    }

    /// The bytes of all entries' keys.
    #[must_use]
    pub fn key_bytes(&self) -> u64 {
        self.counts.key_bytes.load(Ordering::Relaxed)
    }

    /// The bytes of all entries' values (of range tombstones: their ends).
    #[must_use]
    pub fn value_bytes(&self) -> u64 {
        self.counts.value_bytes.load(Ordering::Relaxed)
    }

    /// The least number that was inserted.
    #[must_use]
    pub fn least_seqno(&self) -> Option<SeqNo> {
        let complement = self.counts.least_seqno_complement.load(Ordering::Relaxed);
        (complement != 0).then_some(SeqNo(!complement))
    }

    /// As [`Memtable::least_seqno`], for the lookup index, which knows nothing of range tombstones:
    /// a memtable that has one is never skipped. [`SeqNo::MAX`] if it is empty.
    #[must_use]
    #[inline]
    pub fn least_indexed(&self) -> SeqNo {
        if self.has_range_tombstones() {
            return SeqNo::ZERO;
        }
        self.least_seqno().unwrap_or(SeqNo::MAX)
    }

    /// The greatest number that was inserted.
    #[must_use]
    pub fn greatest_seqno(&self) -> Option<SeqNo> {
        self.counts.greatest_seqno_end.load(Ordering::Relaxed).checked_sub(1).map(SeqNo)
    }

    /// The most bytes that inserting one entry takes, its share of the nodes included. What an
    /// insert does not need of them goes back with the reservation. The space for several entries
    /// is the sum of the spaces for each.
    #[must_use]
    pub fn space_for(key_bytes: usize, value_bytes: usize) -> usize {
        charge::insert_bytes_max(key_bytes, value_bytes)
    }

    /// Sets `bytes` of the arena aside for inserts, or returns `None` if they are not there.
    /// Waits for nobody.
    #[must_use]
    pub fn reserve(&self, bytes: usize) -> Option<Reservation<'_>> {
        self.budget.reserve(bytes)
    }

    /// Inserts one entry.
    ///
    /// Entries may come in any order of their numbers. An entry whose key has a version with the
    /// same number is left out, so that a replay may insert an entry twice. For a range tombstone
    /// the key is the start and the value the exclusive end; an interval without keys is left
    /// out.
    ///
    /// The bytes are copied before the latch is taken. Nothing is allocated (but by a range
    /// tombstone, which is kept on the heap and charged to the arena all the same) and nothing
    /// can fail. Cost: one descent, whatever the number of versions.
    ///
    /// # Panics
    /// If the reservation is another memtable's, or less than [`Memtable::space_for`] the entry
    /// is left of it; if key or value are longer than the limits of `terrace_base`; if the number
    /// is [`SeqNo::MAX`].
    #[inline]
    pub fn insert(&self, reservation: &mut Reservation<'_>, entry: EntryRef<'_>) {
        let mut tally = Tally::default();
        let stored = self.store(reservation, &entry, &mut tally);
        let mut writer = self.latch.lock();
        if let Some(stored) = stored {
            tally.add(self.tree.insert(&mut writer, stored), &entry);
        }
        self.counts.add(&mut writer, &tally);
        drop(writer);
        reservation.spend(tally.spent_bytes);
    }

    /// Inserts the entries of a batch, as [`Memtable::insert`] does one. The latch is taken once
    /// for every 16 entries.
    ///
    /// # Panics
    /// As [`Memtable::insert`], for any of the entries; then those before it may be inserted.
    pub fn insert_all<'e>(
        &self,
        reservation: &mut Reservation<'_>,
        entries: impl IntoIterator<Item = EntryRef<'e>>,
    ) {
        let mut entries = entries.into_iter();
        let Some(first) = entries.next() else { return };
        let Some(second) = entries.next() else { return self.insert(reservation, first) };
        let mut entries = [first, second].into_iter().chain(entries).peekable();
        while entries.peek().is_some() {
            let mut tally = Tally::default();
            let mut chunk = [None; CHUNK_ENTRIES];
            for (slot, entry) in chunk.iter_mut().zip(&mut entries) {
                let stored = self.store(reservation, &entry, &mut tally);
                *slot = stored.map(|stored| (stored, entry));
            }
            let mut writer = self.latch.lock();
            for (stored, entry) in chunk.into_iter().flatten() {
                tally.add(self.tree.insert(&mut writer, stored), &entry);
            }
            self.counts.add(&mut writer, &tally);
            drop(writer);
            reservation.spend(tally.spent_bytes);
        }
    }

    /// Copies an entry into the arena, for the tree; a range tombstone goes to its set instead.
    #[inline]
    fn store(
        &self,
        reservation: &Reservation<'_>,
        entry: &EntryRef<'_>,
        tally: &mut Tally,
    ) -> Option<Stored<'_>> {
        assert!(entry.seqno < SeqNo::MAX, "no write has the last number");
        assert!(reservation.is_from(&self.budget), "the reservation is another memtable's");
        let needed_bytes = Memtable::space_for(entry.key.len(), entry.value.len());
        assert!(
            tally.reserved_bytes + needed_bytes <= reservation.bytes(),
            "an insert needs more than was reserved for it"
        );
        tally.reserved_bytes += needed_bytes;
        if entry.kind == EntryKind::RangeTombstone {
            self.store_range_tombstone(entry, tally);
            return None;
        }
        let stored = Stored::write(self.tree.arena(), entry);
        tally.spent_bytes +=
            entry_bytes(entry.key.len(), entry.value.len(), entry.expiry.is_some());
        Some(stored)
    }

    #[cold]
    fn store_range_tombstone(&self, entry: &EntryRef<'_>, tally: &mut Tally) {
        if entry.key < entry.value {
            self.range_tombstones.insert(entry.key, entry.value, entry.seqno);
            tally.count(entry);
            tally.spent_bytes += Memtable::space_for(entry.key.len(), entry.value.len());
        }
    }

    /// Notes where the log has values that are inserted here.
    ///
    /// # Panics
    /// If less than [`LoggedValue::BYTES`] for each is left of the reservation.
    pub fn note_logged(
        &self,
        reservation: &mut Reservation<'_>,
        values: impl IntoIterator<Item = LoggedValue>,
    ) {
        self.logged.add(values.into_iter().inspect(|_| reservation.spend(LoggedValue::BYTES)));
    }

    /// Where the log has large values of the memtable, in no order, as far as that was noted.
    #[must_use]
    pub fn logged(&self) -> Vec<LoggedValue> {
        self.logged.list()
    }

    /// At most `parts - 1` keys, ascending, that divide the keys into parts of about equal number.
    /// Found near the root: the cost grows with `parts`, not with the keys.
    #[must_use]
    pub fn dividing_keys(&self, parts: usize) -> Vec<Vec<u8>> {
        // A level of 16 nodes a part: one node more or less is a small share of it.
        let firsts = self.tree.first_keys(16 * parts);
        let at = |part: usize| firsts[part * firsts.len() / parts].to_vec();
        let mut keys: Vec<_> = (1..parts).filter(|_| !firsts.is_empty()).map(at).collect();
        keys.dedup();
        keys.retain(|key| !key.is_empty());
        keys
    }

    /// The newest version of `key` at or below the read point, and whether there is one above.
    ///
    /// Takes no lock and allocates nothing; the entry is borrowed from the arena. Cost: one
    /// descent, and for versions above the read point a step each, for many of them 1/64 of one.
    #[inline]
    #[must_use]
    pub fn get(&self, key: &[u8], read_point: SeqNo) -> Found<'_> {
        let Some(newest) = self.tree.newest(key) else {
            return Found { entry: None, saw_newer: false };
        };
        Found {
            entry: newest.at_or_below(read_point).map(Stored::entry),
            saw_newer: newest.seqno() > read_point,
        }
    }

    /// The newest version of `key` of all, published or not: what a conditional write is checked
    /// against. Costs as much as [`Memtable::get`].
    #[inline]
    #[must_use]
    pub fn newest(&self, key: &[u8]) -> Option<EntryRef<'_>> {
        self.tree.newest(key).map(Stored::entry)
    }

    /// The versions of `key` at or below the read point, newest first. Cost: a get, and a step for
    /// each.
    pub fn versions(&self, key: &[u8], read_point: SeqNo) -> impl Iterator<Item = EntryRef<'_>> {
        let newest = self.tree.newest(key).and_then(|newest| newest.at_or_below(read_point));
        std::iter::successors(newest, |version| version.older()).map(Stored::entry)
    }

    /// Goes down to all of `keys` in step, so that the cache misses on their ways overlap: reads
    /// of them right after find the lines there.
    pub fn warm(&self, keys: &[&[u8]]) {
        self.tree.warm(keys);
    }

    /// A cursor at a read point.
    #[must_use]
    pub fn cursor(self: &Arc<Self>, read_point: SeqNo) -> MemtableCursor {
        MemtableCursor::new(Arc::clone(self), read_point)
    }

    /// A stream of every version, for a flush. Meant for memtables that nobody inserts into any
    /// more, safe on all.
    #[must_use]
    pub fn stream(self: &Arc<Self>) -> MemtableStream {
        MemtableStream::new(Arc::clone(self))
    }

    /// The range tombstones, as [`RangeTombstoneSet::snapshot`] gives them: one atomic load if
    /// there are none.
    #[inline]
    #[must_use]
    pub fn range_tombstones(&self) -> Arc<Fragments> {
        self.range_tombstones.snapshot()
    }

    /// Whether there are range tombstones: one atomic load.
    #[inline]
    #[must_use]
    pub fn has_range_tombstones(&self) -> bool {
        !self.range_tombstones.is_empty()
    }

    /// The number of the newest range tombstone at or below the read point that covers `key`.
    /// One atomic load if there are none.
    #[inline]
    #[must_use]
    pub fn newest_covering(&self, key: &[u8], read_point: SeqNo) -> Option<SeqNo> {
        self.range_tombstones.newest_covering(key, read_point)
    }

    #[inline]
    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }
}

/// What the entries of one turn at the latch add up to.
#[derive(Default)]
struct Tally {
    reserved_bytes: usize,
    spent_bytes: usize,
    keys: u64,
    entries: u64,
    key_bytes: u64,
    value_bytes: u64,
    least_seqno_complement: u64,
    greatest_seqno_end: u64,
}

impl Tally {
    #[inline]
    fn add(&mut self, inserted: Inserted, entry: &EntryRef<'_>) {
        match inserted {
            Inserted::NewKey(node_bytes) => {
                self.keys += 1;
                self.spent_bytes += node_bytes;
                self.count(entry);
            }
            Inserted::NewVersion => self.count(entry),
            // The copy stays in the arena, known to nobody.
            Inserted::Duplicate => {}
        }
    }

    #[inline]
    fn count(&mut self, entry: &EntryRef<'_>) {
        self.entries += 1;
        self.key_bytes += entry.key.len() as u64;
        self.value_bytes += entry.value.len() as u64;
        self.least_seqno_complement = self.least_seqno_complement.max(!entry.seqno.0);
        self.greatest_seqno_end = self.greatest_seqno_end.max(entry.seqno.0 + 1);
    }
}

impl Counts {
    /// The writer shows that nobody else changes them, so plain stores do.
    #[inline]
    fn add(&self, _writer: &mut Writer, tally: &Tally) {
        let add = |word: &AtomicU64, more: u64| {
            word.store(word.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        };
        let raise = |word: &AtomicU64, to: u64| {
            word.store(word.load(Ordering::Relaxed).max(to), Ordering::Relaxed);
        };
        add(&self.keys, tally.keys);
        add(&self.entries, tally.entries);
        add(&self.key_bytes, tally.key_bytes);
        add(&self.value_bytes, tally.value_bytes);
        raise(&self.least_seqno_complement, tally.least_seqno_complement);
        raise(&self.greatest_seqno_end, tally.greatest_seqno_end);
    }
}

impl fmt::Debug for Memtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memtable")
            .field("id", &self.id)
            .field("entries", &self.entry_count())
            .field("used_bytes", &self.used_bytes())
            .finish_non_exhaustive()
    }
}
