use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use terrace_env::{CacheFile, Latch, PlantedBug, SetOnce, is_planted};

use super::super::format::{
    BucketShape, HEADER_BYTES, RECORD_BYTES, SlotRecord, checksum_of, encode_header,
};
use super::super::{CacheDirectory, failed, read_whole};
use super::slots::{BlockName, Kept, Slots};
use crate::Result;
use crate::process::{Charge, MemoryPool};
use crate::table::ByteInterval;

/// One bucket: a file of slots, and what lies in them. The file is opened, or made, when there is
/// something to find or to keep.
#[derive(Debug)]
pub(super) struct Bucket {
    dir: Arc<CacheDirectory>,
    name: String,
    database: u128,
    shape: BucketShape,
    /// `None` once opened if the file can be neither read nor made.
    opened: SetOnce<Option<Opened>>,
    /// Bytes of the file.
    bytes: AtomicU64,
    capacity: AtomicU32,
    /// Somebody opens the file, or has opened it.
    opening: AtomicBool,
    /// A write has failed: nothing is put here before the bound has changed.
    is_failing: AtomicBool,
    memory: Charge,
}

#[derive(Debug)]
struct Opened {
    file: Arc<dyn CacheFile>,
    slots: Latch<Slots>,
}

impl Bucket {
    /// A bucket whose file has `bytes`, if there is one.
    pub fn new(
        dir: &Arc<CacheDirectory>,
        name: String,
        database: u128,
        shape: BucketShape,
        bytes: Option<u64>,
        memory: &MemoryPool,
    ) -> Bucket {
        Bucket {
            dir: Arc::clone(dir),
            name,
            database,
            shape,
            opened: SetOnce::new(),
            bytes: AtomicU64::new(bytes.unwrap_or(0)),
            capacity: AtomicU32::new(shape.slot_count),
            opening: AtomicBool::new(false),
            is_failing: AtomicBool::new(false),
            memory: memory.charge(0),
        }
    }

    /// Bytes that the file takes; what lies between the records and the first slot, and records of
    /// slots that were never used, take none.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The bytes of all pieces in a row, if each is here.
    pub fn get(
        &self,
        table: u128,
        pieces: &[ByteInterval],
        waits: bool,
        damaged: &AtomicU64,
    ) -> Option<Vec<u8>> {
        let opened = self.find_opened(waits)?;
        let kept: Vec<Kept> = {
            let mut slots = opened.slots.lock();
            let found = pieces.iter().map(|piece| slots.find(name_of(table, piece.offset)));
            found.collect::<Option<_>>()?
        };
        let mut all = vec![0; pieces.iter().map(|piece| piece.bytes).sum()];
        let mut rest = all.as_mut_slice();
        for (piece, kept) in pieces.iter().zip(&kept) {
            let (bytes, behind) = rest.split_at_mut(piece.bytes);
            rest = behind;
            match self.read(opened, table, piece.offset, *kept, bytes, waits) {
                Some(true) => {}
                Some(false) => {
                    // If it is not there any more, its slot was taken while it was read.
                    let name = name_of(table, piece.offset);
                    if opened.slots.lock().drop_block(name, *kept) {
                        damaged.fetch_add(1, Ordering::Relaxed);
                    }
                    return None;
                }
                None => return None,
            }
        }
        (!all.is_empty()).then_some(all)
    }

    /// Whether the slot has the bytes of this piece; `None` if they cannot be had without waiting.
    fn read(
        &self,
        opened: &Opened,
        table: u128,
        offset: u64,
        kept: Kept,
        bytes: &mut [u8],
        waits: bool,
    ) -> Option<bool> {
        if kept.bytes as usize != bytes.len() {
            return Some(false);
        }
        let at = self.shape.slot_at(kept.slot);
        let is_whole = read_whole(opened.file.as_ref(), at, bytes, waits)?;
        let fits = is_planted(PlantedBug::UncheckedCache)
            || is_planted(PlantedBug::ValidBeforeBytes)
            || checksum_of(table, offset, bytes) == kept.checksum;
        Some(is_whole && fits)
    }

    /// Whether a piece that begins there is here, as far as memory knows.
    pub fn has(&self, table: u128, offset: u64) -> bool {
        let Some(Some(opened)) = self.opened.get() else { return false };
        opened.slots.lock().find(name_of(table, offset)).is_some()
    }

    /// How many slots are empty; 0 if nothing is put here at the moment.
    pub fn empty_count(&self) -> u32 {
        match self.opened.get() {
            _ if self.is_failing.load(Ordering::Relaxed) => 0,
            Some(Some(opened)) => opened.slots.lock().empty_count(),
            Some(None) => 0,
            // What lies in a file that nobody has looked at yet is not known.
            None if self.bytes() > 0 => 0,
            None => self.capacity.load(Ordering::Relaxed),
        }
    }

    /// Keeps a piece; whether another one had to go, or `None` if it is not kept. With
    /// `only_empty` none has to, and the piece is the next that does.
    pub fn put(&self, table: u128, offset: u64, bytes: &[u8], only_empty: bool) -> Option<bool> {
        if self.is_failing.load(Ordering::Relaxed) {
            return None;
        }
        let opened = self.make_opened()?;
        let name = name_of(table, offset);
        let checksum = checksum_of(table, offset, bytes);
        let length = bytes.len() as u32;
        let (slot, evicts) = {
            let mut slots = opened.slots.lock();
            match only_empty {
                true => (slots.claim_empty(name, length, checksum)?, false),
                false => slots.claim(name, length, checksum)?,
            }
        };
        let kept = Kept { slot, bytes: length, checksum };
        if is_planted(PlantedBug::ValidBeforeBytes) {
            opened.slots.lock().filled(name, kept);
        }
        let record = SlotRecord { table, offset, bytes: length, checksum };
        let written = self.write(opened, slot, bytes, &record);
        if let Err(error) = written {
            opened.slots.lock().drop_block(name, kept);
            self.is_failing.store(true, Ordering::Relaxed);
            failed("a write", &error);
            return None;
        }
        self.bytes.fetch_max(self.shape.slot_at(slot) + bytes.len() as u64, Ordering::Relaxed);
        let mut slots = opened.slots.lock();
        self.memory.set(slots.memory_bytes());
        slots.filled(name, kept).then_some(evicts)
    }

    fn write(&self, opened: &Opened, slot: u32, bytes: &[u8], record: &SlotRecord) -> Result<()> {
        if self.bytes() == 0 {
            self.begin(&*opened.file)?;
        }
        opened.file.write_at(self.shape.slot_at(slot), bytes)?;
        Ok(opened.file.write_at(self.shape.record_at(slot), &record.encode())?)
    }

    /// What is here of a table goes first.
    pub fn age(&self, table: u128) {
        if let Some(Some(opened)) = self.opened.get() {
            opened.slots.lock().age_table(table as u64);
        }
    }

    /// Nothing of a table is wanted any more; how many pieces that were.
    pub fn forget(&self, table: u128) -> u64 {
        // What nobody has looked at since the open is forgotten when its slot is needed.
        let Some(Some(opened)) = self.opened.get() else { return 0 };
        let dropped = opened.slots.lock().drop_table(table as u64);
        if dropped > 0 {
            self.cut(opened);
        }
        dropped
    }

    pub fn offsets_of(&self, table: u128) -> Vec<u64> {
        let Some(opened) = self.find_opened(true) else { return Vec::new() };
        opened.slots.lock().offsets_of(table as u64).collect()
    }

    /// From now on there are so many slots; how many blocks went.
    pub fn set_capacity(&self, slots: u32) -> u64 {
        let slots = slots.min(self.shape.slot_count);
        let before = self.capacity.swap(slots, Ordering::Relaxed);
        self.is_failing.store(false, Ordering::Relaxed);
        match self.opened.get() {
            Some(Some(opened)) if before != slots => {
                let squeezed = opened.slots.lock().set_capacity(slots);
                self.cut(opened);
                squeezed
            }
            Some(_) => 0,
            None => {
                let bytes = if slots == 0 { 0 } else { self.shape.slot_at(slots) };
                if self.bytes() > bytes {
                    self.cut_at(bytes);
                }
                0
            }
        }
    }

    /// Gives back what lies behind the last slot that is used.
    fn cut(&self, opened: &Opened) {
        let extent = opened.slots.lock().extent();
        let bytes = if extent == 0 { 0 } else { self.shape.slot_at(extent) };
        if bytes < self.bytes() {
            self.cut_at(bytes);
        }
    }

    fn cut_at(&self, bytes: u64) {
        match self.dir.env.fs().cut(&self.dir.file(&self.name), bytes) {
            Ok(()) => self.bytes.store(bytes, Ordering::Relaxed),
            Err(error) => failed("a cut", &error.into()),
        }
    }

    /// The open file, if there is one.
    fn find_opened(&self, waits: bool) -> Option<&Opened> {
        match self.opened.get() {
            Some(opened) => opened.as_ref(),
            None if self.bytes() == 0 || !waits => None,
            None => self.make_opened(),
        }
    }

    /// The open file, which is made if there is none.
    fn make_opened(&self) -> Option<&Opened> {
        if let Some(opened) = self.opened.get() {
            return opened.as_ref();
        }
        // Nobody waits for somebody else who opens it.
        if self.capacity.load(Ordering::Relaxed) == 0 || self.opening.swap(true, Ordering::Relaxed)
        {
            return None;
        }
        let opened = self.open().inspect_err(|error| failed("a bucket", error)).ok();
        let opened = self.opened.get_or_set(opened).as_ref()?;
        let mut slots = opened.slots.lock();
        // The bound may have changed meanwhile.
        slots.set_capacity(self.capacity.load(Ordering::Relaxed));
        self.memory.set(slots.memory_bytes());
        Some(opened)
    }

    fn open(&self) -> Result<Opened> {
        self.dir.make()?;
        let file = self.dir.env.fs().open_cache(&self.dir.file(&self.name))?;
        let mut slots = Slots::new(self.capacity.load(Ordering::Relaxed));
        let records_end = self.shape.record_at(self.shape.slot_count) as usize;
        let mut front = vec![0; records_end];
        let count = file.read_at(0, &mut front)?;
        if count < HEADER_BYTES || front[..HEADER_BYTES] != encode_header(self.shape, self.database)
        {
            self.dir.env.fs().cut(&self.dir.file(&self.name), 0)?;
            self.bytes.store(0, Ordering::Relaxed);
            return Ok(Opened { file, slots: Latch::new(slots) });
        }
        let (records, _) = front[HEADER_BYTES..count].as_chunks::<RECORD_BYTES>();
        for (slot, record) in records.iter().enumerate() {
            let Some(record) = SlotRecord::decode(record, self.shape.slot_bytes) else { continue };
            let SlotRecord { table, offset, bytes, checksum } = record;
            slots.restore(name_of(table, offset), Kept { slot: slot as u32, bytes, checksum });
        }
        Ok(Opened { file, slots: Latch::new(slots) })
    }

    /// Writes the header of an empty bucket, which says that what comes after it is ours.
    fn begin(&self, file: &dyn CacheFile) -> Result<()> {
        file.write_at(0, &encode_header(self.shape, self.database))?;
        self.bytes.store(HEADER_BYTES as u64, Ordering::Relaxed);
        Ok(())
    }
}

fn name_of(table: u128, offset: u64) -> BlockName {
    BlockName { table: table as u64, offset }
}
