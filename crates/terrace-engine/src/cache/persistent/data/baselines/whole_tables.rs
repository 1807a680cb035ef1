//! Whole tables, those that are read most often for their size.
//!
//! ```text
//!   table   heat (reads, of which a part is forgotten again and again)   local
//!     a     ▇▇▇▇▇▇▇▇▇                                                      ▪
//!     b     ▇▇▇▇▇▇                                                         ▪     as many as fit
//!     c     ▇▇▇▇▇                                                          ·
//!     d     ▇                                                              ·
//! ```
//! Every so many reads it is chosen which tables are wanted. One that is wanted comes whole when
//! it is read next, or while a compaction writes it; for it those go that are wanted no more.
//!
//! *Source:* Mutant (SoCC 2018), as RocksMash (TACO 2022) uses it in section 4.1. *Differs:* time
//! is counted in reads, so that a run that is slower forgets no more. The read that finds a table
//! wanted fetches it and waits for that, where Mutant has a thread that moves tables. A
//! compaction's output has the heat of a read for each block of it that was read of the inputs. The
//! bytes are those that the cache may take, and not a price.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_env::{CacheFile, Latch};

use super::super::super::format::checksum_of;
use super::super::super::{CacheDirectory, failed, read_whole};
use super::super::{Bringer, Design};
use super::{create_file, file_name};
use crate::Result;
use crate::process::{Charge, MemoryPool};
use crate::table::ByteInterval;

/// After so many reads it is chosen anew.
const READS_PER_CHOICE: u64 = 256;

/// At each choice one part in so many of the heat is forgotten.
const FORGOTTEN_DIVISOR: u64 = 32;

/// The heat of a read, so that a part of it can be forgotten.
const HEAT_OF_READ: u64 = 1 << 10;

/// A table that is here counts as hotter by one in so many, since it costs something to change.
const STAYS_DIVISOR: u64 = 4;

/// A table is checked in pieces of this size.
const PIECE_BYTES: usize = 4096;

/// Whole tables on the local disk.
#[derive(Debug)]
pub struct WholeTables {
    dir: Arc<CacheDirectory>,
    state: Latch<State>,
    memory: Charge,
}

#[derive(Debug, Default)]
struct State {
    heat: BTreeMap<u128, TableHeat>,
    kept: BTreeMap<u128, Arc<Kept>>,
    wanted: BTreeSet<u128>,
    /// Those that somebody brings.
    coming: BTreeSet<u128>,
    reads: u64,
    next_number: u64,
    bytes_max: u64,
}

#[derive(Clone, Debug, Default)]
struct TableHeat {
    heat: u64,
    /// The size of the table; 0 if it is not known yet.
    bytes: u64,
    /// Where the blocks begin that were read.
    offsets: BTreeSet<u64>,
}

/// A table that is here.
#[derive(Debug)]
struct Kept {
    number: u64,
    file: Arc<dyn CacheFile>,
    bytes: u64,
    /// Of each piece.
    checksums: Vec<u32>,
}

/// The tables that are wanted, each given as its number, heat and bytes: the hottest for their
/// size, as many as fit.
fn choose(tables: impl Iterator<Item = (u128, u64, u64)>, bytes_max: u64) -> BTreeSet<u128> {
    let mut tables: Vec<_> = tables.filter(|(_, heat, bytes)| *heat > 0 && *bytes > 0).collect();
    let colder = |one: &(u128, u64, u64), other: &(u128, u64, u64)| {
        let (own, others) = (u128::from(one.1) * u128::from(other.2), u128::from(other.1));
        (others * u128::from(one.2)).cmp(&own).then(one.0.cmp(&other.0))
    };
    tables.sort_unstable_by(colder);
    let mut left = bytes_max;
    let mut fits = |bytes: u64| {
        let rest = left.checked_sub(bytes);
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    tables.into_iter().filter(|(_, _, bytes)| fits(*bytes)).map(|(table, ..)| table).collect()
}

impl State {
    fn note(&mut self, table: u128, offset: u64) {
        let heat = self.heat.entry(table).or_default();
        heat.heat += HEAT_OF_READ;
        heat.offsets.insert(offset);
    }

    fn choose(&mut self) {
        let heat_of = |(table, known): (&u128, &TableHeat)| {
            let stays = if self.kept.contains_key(table) { known.heat / STAYS_DIVISOR } else { 0 };
            (*table, known.heat + stays, known.bytes)
        };
        self.wanted = choose(self.heat.iter().map(heat_of), self.bytes_max);
    }

    fn cool(&mut self) {
        self.reads = 0;
        self.heat.values_mut().for_each(|known| known.heat -= known.heat / FORGOTTEN_DIVISOR);
    }

    fn bytes(&self) -> u64 {
        self.kept.values().map(|kept| kept.bytes).sum()
    }

    /// Takes tables out until no more than `bytes` are left, those that `may_go` and are coldest
    /// first.
    fn shrink(&mut self, bytes: u64, may_go: impl Fn(&State, u128) -> bool) -> Vec<Arc<Kept>> {
        let mut gone = Vec::new();
        while self.bytes() > bytes {
            let heat = |table: &u128| self.heat.get(table).map_or(0, |known| known.heat);
            let coldest = self
                .kept
                .keys()
                .filter(|table| may_go(self, **table))
                .min_by_key(|table| heat(table));
            let Some(coldest) = coldest.copied() else { break };
            gone.extend(self.kept.remove(&coldest));
        }
        gone
    }
}

impl WholeTables {
    /// Nothing is here, and nothing is hot.
    pub fn new(dir: &Arc<CacheDirectory>, memory: &MemoryPool) -> WholeTables {
        WholeTables { dir: Arc::clone(dir), state: Latch::default(), memory: memory.charge(0) }
    }

    fn remove(&self, gone: &[Arc<Kept>]) -> u64 {
        gone.iter().for_each(|kept| self.dir.remove(&file_name(kept.number)));
        gone.len() as u64
    }

    fn write(&self, table: u128, number: u64, bytes: &[u8]) -> Result<Kept> {
        let file = create_file(&self.dir, number)?;
        file.write_at(0, bytes)?;
        let pieces = bytes.chunks(PIECE_BYTES).enumerate();
        let checksum = |(index, piece)| checksum_of(table, (index * PIECE_BYTES) as u64, piece);
        let checksums = pieces.map(checksum).collect();
        Ok(Kept { number, file, bytes: bytes.len() as u64, checksums })
    }

    /// Reads the pieces around an interval that lies in a table that is here.
    fn read(table: u128, kept: &Kept, interval: ByteInterval, waits: bool) -> Found {
        // The table was in memory, and the interval lies in it.
        let (start, table_bytes) = (interval.offset as usize, kept.bytes as usize);
        let first = start / PIECE_BYTES;
        let end = (start + interval.bytes).next_multiple_of(PIECE_BYTES).min(table_bytes);
        let mut bytes = vec![0; end - first * PIECE_BYTES];
        let at = (first * PIECE_BYTES) as u64;
        let Some(is_whole) = read_whole(kept.file.as_ref(), at, &mut bytes, waits) else {
            return Found::NotAtOnce;
        };
        let pieces = bytes.chunks(PIECE_BYTES).zip(&kept.checksums[first..]).enumerate();
        let mut fit = pieces.map(|(index, (piece, checksum))| {
            checksum_of(table, at + (index * PIECE_BYTES) as u64, piece) == *checksum
        });
        if !is_whole || !fit.all(|fits| fits) {
            return Found::Damaged;
        }
        let start = start - first * PIECE_BYTES;
        Found::Whole(bytes[start..start + interval.bytes].to_vec())
    }
}

/// What a read has found.
enum Found {
    Whole(Vec<u8>),
    /// The disk would have to be waited for.
    NotAtOnce,
    Damaged,
}

impl Design for WholeTables {
    fn get(
        &self,
        table: u128,
        interval: ByteInterval,
        waits: bool,
        damaged: &AtomicU64,
    ) -> Option<Vec<u8>> {
        let kept = {
            let mut state = self.state.lock();
            let kept = state.kept.get(&table).map(Arc::clone);
            if waits || kept.is_some() {
                state.note(table, interval.offset);
                state.reads += 1;
            }
            kept?
        };
        let end = interval.offset.checked_add(interval.bytes as u64);
        if interval.bytes == 0 || end.is_none_or(|end| end > kept.bytes) {
            return None;
        }
        match WholeTables::read(table, &kept, interval, waits) {
            Found::Whole(bytes) => return Some(bytes),
            Found::NotAtOnce => return None,
            Found::Damaged => {}
        }
        let is_there = {
            let mut state = self.state.lock();
            let is_same = state.kept.get(&table).is_some_and(|other| Arc::ptr_eq(other, &kept));
            is_same && state.kept.remove(&table).is_some()
        };
        if is_there {
            damaged.fetch_add(1, Ordering::Relaxed);
            self.remove(&[kept]);
        }
        None
    }

    fn has(&self, table: u128, _offset: u64) -> bool {
        self.state.lock().kept.contains_key(&table)
    }

    /// Keeps no block; one of a table that a compaction has written makes that hot.
    fn put(&self, table: u128, offset: u64, _bytes: &[u8], from: Bringer) -> Option<u64> {
        if from == Bringer::Compaction {
            self.state.lock().note(table, offset);
        }
        None
    }

    fn wants_whole(&self, table: u128, table_bytes: u64) -> bool {
        let mut state = self.state.lock();
        let Some(known) = state.heat.get_mut(&table) else { return false };
        let is_new = std::mem::replace(&mut known.bytes, table_bytes) == 0;
        let is_time = state.reads >= READS_PER_CHOICE;
        if is_new || is_time {
            state.choose();
        }
        if is_time {
            state.cool();
        }
        let is_wanted = state.wanted.contains(&table) && !state.kept.contains_key(&table);
        is_wanted && state.coming.insert(table)
    }

    fn put_whole(&self, table: u128, bytes: Option<&[u8]>) -> u64 {
        let Some(bytes) = bytes else {
            self.state.lock().coming.remove(&table);
            return 0;
        };
        let (gone, number) = {
            let mut state = self.state.lock();
            let left = state.bytes_max.saturating_sub(bytes.len() as u64);
            let gone = state.shrink(left, |state, table| !state.wanted.contains(&table));
            let has_room = state.bytes() <= left && state.bytes_max > 0;
            state.next_number += 1;
            (gone, has_room.then_some(state.next_number))
        };
        let evicted = self.remove(&gone);
        let written = number.map(|number| self.write(table, number, bytes));
        let mut state = self.state.lock();
        state.coming.remove(&table);
        let offset_count: usize = state.heat.values().map(|known| known.offsets.len()).sum();
        self.memory.set((offset_count * size_of::<u64>()) as u64);
        let kept = match written {
            Some(Ok(kept)) => Arc::new(kept),
            Some(Err(error)) => {
                failed("a table", &error);
                return evicted;
            }
            None => return evicted,
        };
        // Meanwhile the table may have been forgotten, and the room may be another one's.
        if state.heat.contains_key(&table) && state.bytes() + kept.bytes <= state.bytes_max {
            state.kept.insert(table, kept);
            return evicted;
        }
        drop(state);
        self.remove(&[kept]);
        evicted
    }

    fn forget(&self, table: u128) -> u64 {
        let gone = {
            let mut state = self.state.lock();
            state.heat.remove(&table);
            state.wanted.remove(&table);
            state.kept.remove(&table)
        };
        self.remove(gone.as_slice())
    }

    fn offsets_of(&self, table: u128) -> Vec<u64> {
        let state = self.state.lock();
        state
            .heat
            .get(&table)
            .map(|known| known.offsets.iter().copied().collect())
            .unwrap_or_default()
    }

    fn set_bytes_max(&self, bytes: u64) -> u64 {
        let gone = {
            let mut state = self.state.lock();
            state.bytes_max = bytes;
            state.shrink(bytes, |_, _| true)
        };
        self.remove(&gone)
    }

    fn bytes(&self) -> u64 {
        self.state.lock().bytes()
    }
}
