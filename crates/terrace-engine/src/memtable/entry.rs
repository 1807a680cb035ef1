//! The bytes of one version in the arena, and the chain of a key's versions.
//!
//! ```text
//! offset  0        8        16       20       24 (32 with expiry)
//!         │ seqno  │ meta   │ older  │ jump   │ expiry? │ key │ value │ to a multiple of 8
//!         │ u64    │ u64    │ u32    │ u32    │ u64     │
//!
//! meta    bits 0..20 key bytes · 20..28 kind · 28 has an expiry · 29..35 depth · 35.. value bytes
//! ```
//!
//! Integers are in the machine's own order: these bytes never leave it.
//!
//! `older` points to the next older version of the key; the chain descends strictly by number.
//! Versions may arrive out of order, so `older` is the one word that changes after an entry is
//! published. `jump` points about [`JUMP_DEPTH`] versions further down, to the last version
//! whose depth is a multiple of it (its *landmark*): an old snapshot finds its version of a key
//! that is overwritten all the time in n / 64 steps. A jump only ever passes over versions that
//! are newer than where it lands, so it is right whatever was inserted in between.

#![allow(unsafe_code)]

use terrace_base::limits::{STORED_KEY_BYTES_MAX, VALUE_BYTES_MAX};
use terrace_base::{EntryKind, EntryRef, Expiry, SeqNo};
use terrace_env::atomic::{AtomicU32, Ordering};

use super::arena::{Arena, Offset, UNIT_BYTES};

/// Number of versions of a key from one landmark to the next.
const JUMP_DEPTH: u64 = 64;
/// Number of single steps down a chain before a jump is tried: short chains do not pay for looking
/// at the landmark.
const STEPS_BEFORE_JUMP: u32 = 4;

const SEQNO_AT: usize = 0;
const META_AT: usize = 8;
const OLDER_AT: usize = 16;
// 20 and 24: an atomic word has four bytes, but more in a model.
const JUMP_AT: usize = OLDER_AT + size_of::<AtomicU32>();
const BODY_AT: usize = (JUMP_AT + 4).next_multiple_of(UNIT_BYTES);
const EXPIRY_BYTES: usize = 8;

const KIND_SHIFT: u32 = 20;
const EXPIRY_BIT: u64 = 1 << 28;
const DEPTH_SHIFT: u32 = 29;
const VALUE_SHIFT: u32 = 35;

const _: () = assert!(STORED_KEY_BYTES_MAX < 1 << KIND_SHIFT);
const _: () = assert!(VALUE_BYTES_MAX < 1 << (64 - VALUE_SHIFT));
const _: () = assert!(JUMP_DEPTH == 1 << (VALUE_SHIFT - DEPTH_SHIFT));

/// Bytes that an entry takes in the arena.
#[inline]
pub(super) fn entry_bytes(key_bytes: usize, value_bytes: usize, has_expiry: bool) -> usize {
    let expiry_bytes = if has_expiry { EXPIRY_BYTES } else { 0 };
    (BODY_AT + expiry_bytes + key_bytes + value_bytes).next_multiple_of(UNIT_BYTES)
}

/// An entry in the arena whose bytes are complete.
///
/// `Invariant:` made only by [`Stored::write`] and, from an offset that such an entry left in a
/// node or a chain, by [`Stored::at`].
#[derive(Clone, Copy)]
pub(super) struct Stored<'a> {
    arena: &'a Arena,
    offset: Offset,
}

impl<'a> Stored<'a> {
    /// Copies an entry into the arena. Nobody else knows it yet, and it has no older version.
    #[inline]
    pub(super) fn write(arena: &'a Arena, entry: &EntryRef<'_>) -> Stored<'a> {
        assert!(entry.key.len() <= STORED_KEY_BYTES_MAX, "the key is too long");
        assert!(entry.value.len() <= VALUE_BYTES_MAX, "the value is too long");
        let has_expiry = entry.expiry.is_some();
        let bytes = entry_bytes(entry.key.len(), entry.value.len(), has_expiry);
        let offset = arena.allocate_entry(bytes);
        let meta = entry.key.len() as u64
            | (entry.kind as u64) << KIND_SHIFT
            | if has_expiry { EXPIRY_BIT } else { 0 }
            | (entry.value.len() as u64) << VALUE_SHIFT;
        // Safety: the arena handed out `bytes` bytes at `offset`, aligned to 8, to this call
        // alone; all the writes below lie inside them by the layout above, and no reference to
        // them exists before the offset is published.
        unsafe {
            let start = arena.pointer(offset);
            start.add(SEQNO_AT).cast::<u64>().write(entry.seqno.0);
            start.add(META_AT).cast::<u64>().write(meta);
            start.add(OLDER_AT).cast::<AtomicU32>().write(AtomicU32::new(0));
            start.add(JUMP_AT).cast::<u32>().write(0);
            let mut body = start.add(BODY_AT);
            if has_expiry {
                body.cast::<u64>().write(Expiry::to_stored(entry.expiry));
                body = body.add(EXPIRY_BYTES);
            }
            body.copy_from_nonoverlapping(entry.key.as_ptr(), entry.key.len());
            body.add(entry.key.len())
                .copy_from_nonoverlapping(entry.value.as_ptr(), entry.value.len());
        }
        arena.note_write(offset);
        Stored { arena, offset }
    }

    /// The entry at an offset; `None` for the null offset.
    ///
    /// # Safety
    /// `offset` is null or was read, with acquire or under the writer's latch, from a node or a
    /// chain of `arena`, or comes from [`Stored::offset`] of an entry of `arena`.
    #[inline]
    pub(super) unsafe fn at(arena: &'a Arena, offset: Offset) -> Option<Stored<'a>> {
        (offset != 0).then_some(Stored { arena, offset })
    }

    /// Whether it lies in this arena.
    pub(super) fn is_in(self, arena: &Arena) -> bool {
        std::ptr::eq(self.arena, arena)
    }

    #[inline]
    pub(super) fn offset(self) -> Offset {
        self.offset
    }

    #[inline]
    fn start(self) -> *mut u8 {
        // Safety: the invariant of the type: the arena handed the offset out.
        unsafe { self.arena.pointer(self.offset) }
    }

    #[inline]
    pub(super) fn seqno(self) -> SeqNo {
        self.arena.note_read(self.offset);
        // Safety: a complete entry begins with its number, aligned to 8, which never changes.
        SeqNo(unsafe { self.start().add(SEQNO_AT).cast::<u64>().read() })
    }

    #[inline]
    fn meta(self) -> u64 {
        self.arena.note_read(self.offset);
        // Safety: as for the number; `link` changes it only before the entry is published.
        unsafe { self.start().add(META_AT).cast::<u64>().read() }
    }

    #[inline]
    fn older_word(self) -> &'a AtomicU32 {
        // Safety: the word was initialised by `write`, is aligned to 4, lives as long as the
        // arena, and is only ever used as an atomic from then on.
        unsafe { &*self.start().add(OLDER_AT).cast::<AtomicU32>() }
    }

    #[inline]
    fn jump(self) -> Option<Stored<'a>> {
        self.arena.note_read(self.offset);
        // Safety: the word is complete like the rest, and holds null or the offset of a
        // published entry.
        unsafe { Stored::at(self.arena, self.start().add(JUMP_AT).cast::<u32>().read()) }
    }

    /// The next older version of the key.
    #[inline]
    pub(super) fn older(self) -> Option<Stored<'a>> {
        // Order: acquire, since a version may be linked in here after this one was published.
        let offset = self.older_word().load(Ordering::Acquire);
        // Safety: chains hold null or offsets of complete entries of the same arena.
        unsafe { Stored::at(self.arena, offset) }
    }

    /// The newest version of the key, from this one down, with a number of at most `seqno`.
    #[inline]
    pub(super) fn at_or_below(self, seqno: SeqNo) -> Option<Stored<'a>> {
        if self.seqno() <= seqno { Some(self) } else { self.neighbours(seqno).1 }
    }

    /// The versions of the key on either side of `seqno`, from this one down, whose number is
    /// above it: the oldest above, and the newest at or below.
    pub(super) fn neighbours(self, seqno: SeqNo) -> (Stored<'a>, Option<Stored<'a>>) {
        debug_assert!(self.seqno() > seqno);
        let mut above = self;
        let mut steps = 0;
        loop {
            steps += 1;
            let landmark = if steps > STEPS_BEFORE_JUMP { above.jump() } else { None };
            let is_above = |version: &Stored<'a>| version.seqno() > seqno;
            // The link is loaded once: a version may come in between at any time.
            let next = landmark.filter(is_above).or_else(|| above.older());
            match next {
                Some(next) if is_above(&next) => above = next,
                below => return (above, below),
            }
        }
    }

    /// Makes `older` the next older version of this entry, which nobody else knows yet.
    ///
    /// # Safety
    /// This entry is not published, and `older` is a version of the same key with a lower
    /// number.
    #[inline]
    pub(super) unsafe fn link_above(self, older: Stored<'a>) {
        debug_assert!(older.seqno() < self.seqno(), "a chain descends");
        let older_depth = older.depth();
        let landmark = if older_depth == 0 { Some(older) } else { older.jump() };
        let depth = (older_depth + 1) % JUMP_DEPTH;
        let meta = self.meta() | depth << DEPTH_SHIFT;
        // Safety: the entry is this thread's alone until it is published, and the words lie in
        // it, aligned, by the layout.
        unsafe {
            self.start().add(META_AT).cast::<u64>().write(meta);
            let jump = landmark.map_or(0, Stored::offset);
            self.start().add(JUMP_AT).cast::<u32>().write(jump);
        }
        self.arena.note_write(self.offset);
        // Order: the store that publishes this entry releases it.
        self.older_word().store(older.offset, Ordering::Relaxed);
    }

    /// Publishes `newcomer` as the next older version of this entry.
    #[inline]
    pub(super) fn set_older(self, newcomer: Stored<'a>) {
        // Order: release, so that whoever follows the link finds the newcomer complete.
        self.older_word().store(newcomer.offset, Ordering::Release);
    }

    /// The number of older versions when this one came, modulo [`JUMP_DEPTH`].
    #[inline]
    fn depth(self) -> u64 {
        self.meta() >> DEPTH_SHIFT & (JUMP_DEPTH - 1)
    }

    #[inline]
    fn body_at(meta: u64) -> usize {
        if meta & EXPIRY_BIT == 0 { BODY_AT } else { BODY_AT + EXPIRY_BYTES }
    }

    #[inline]
    fn key_bytes(meta: u64) -> usize {
        (meta & ((1 << KIND_SHIFT) - 1)) as usize
    }

    #[inline]
    pub(super) fn key(self) -> &'a [u8] {
        let meta = self.meta();
        // Safety: the key lies here by the layout, is complete, never changes, and the slice
        // does not cover the one word that does.
        unsafe {
            let key = self.start().add(Self::body_at(meta));
            std::slice::from_raw_parts(key, Self::key_bytes(meta))
        }
    }

    /// The entry as readers see it, borrowed from the arena.
    #[inline]
    pub(super) fn entry(self) -> EntryRef<'a> {
        let meta = self.meta();
        let value_at = Self::body_at(meta) + Self::key_bytes(meta);
        let value_bytes = (meta >> VALUE_SHIFT) as usize;
        // Safety: the value follows the key and never changes.
        let value = unsafe { std::slice::from_raw_parts(self.start().add(value_at), value_bytes) };
        let expiry = if meta & EXPIRY_BIT == 0 {
            None
        } else {
            // Safety: the bit says that the expiry lies here, aligned to 8.
            Expiry::from_stored(unsafe { self.start().add(BODY_AT).cast::<u64>().read() })
        };
        let kind = EntryKind::from_stored((meta >> KIND_SHIFT) as u8)
            .expect("`write` stored a valid kind, and memory keeps it");
        EntryRef { key: self.key(), seqno: self.seqno(), kind, expiry, value }
    }
}
