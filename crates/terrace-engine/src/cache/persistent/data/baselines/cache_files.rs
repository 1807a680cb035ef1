//! Blocks in files in the order of their arrival, of which the one that was used longest ago goes.
//!
//! ```text
//!   filled now    │ b │ b │ ·   ·   · │   a block is appended when a read has brought it
//!   used lately   │ b │ × │ b │ b │ × │   a read of one block moves its file to the front
//!   used last     │ × │ b │ × │ b │ b │   all of it goes when there is no room
//! ```
//! What a compaction has made stale (×) stays until its file goes, and every block that is read
//! keeps all of its neighbours.
//!
//! *Source:* RocksDB's persistent cache, as RocksMash (TACO 2022) describes it in section 3.2,
//! figure 7a. *Differs:* a file has a sixteenth of the bytes, 8 MiB at most, so that there are
//! about as many of them at any size. The block is written by the read that brings it, not by a
//! thread behind a queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_env::{CacheFile, Latch};

use super::super::super::format::checksum_of;
use super::super::super::{CacheDirectory, failed, read_whole};
use super::super::{Bringer, Design};
use super::{create_file, file_name};
use crate::process::{Charge, MemoryPool};
use crate::table::ByteInterval;

/// A file has this part of all bytes.
const FILES: u64 = 16;

/// The most bytes of a file.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// An LRU of files of blocks.
#[derive(Debug)]
pub struct CacheFiles {
    dir: Arc<CacheDirectory>,
    state: Latch<State>,
    memory: Charge,
}

#[derive(Debug, Default)]
struct State {
    /// By table and offset.
    blocks: BTreeMap<(u128, u64), Place>,
    /// The one that was used longest ago first.
    files: Vec<BlockFile>,
    /// The number of the file that is filled.
    filling: Option<u64>,
    next_number: u64,
    /// Somebody makes the next file.
    is_making: bool,
    bytes_max: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    file: u64,
    at: u64,
    bytes: u32,
    checksum: u32,
    /// Its bytes are there.
    is_filled: bool,
}

#[derive(Debug)]
struct BlockFile {
    number: u64,
    file: Arc<dyn CacheFile>,
    bytes: u64,
}

/// Files that are no more wanted, and how many blocks went with them.
#[derive(Debug, Default)]
struct Gone {
    files: Vec<u64>,
    block_count: u64,
}

impl State {
    fn file_bytes(&self) -> u64 {
        (self.bytes_max / FILES).min(FILE_BYTES_MAX)
    }

    fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The file with this number, as the one that was used last.
    fn touch(&mut self, number: u64) -> Option<&mut BlockFile> {
        let index = self.files.iter().position(|file| file.number == number)?;
        let file = self.files.remove(index);
        self.files.push(file);
        self.files.last_mut()
    }

    /// Whether the file that is filled takes so many bytes more.
    fn has_room(&self, bytes: u64) -> bool {
        let filling = self.files.iter().find(|file| Some(file.number) == self.filling);
        filling.is_some_and(|file| file.bytes + bytes <= self.file_bytes())
    }

    /// Files go, those first that were used longest ago, until no more than `bytes` are left; not
    /// the file that is `kept`.
    fn shrink(&mut self, bytes: u64, kept: Option<u64>) -> Gone {
        let mut gone = Gone::default();
        let mut left = self.bytes();
        self.files.retain(|file| {
            let goes = left > bytes && Some(file.number) != kept;
            if goes {
                left -= file.bytes;
                gone.files.push(file.number);
            }
            !goes
        });
        if gone.files.is_empty() {
            return gone;
        }
        let before = self.blocks.len();
        self.blocks.retain(|_, place| !gone.files.contains(&place.file));
        gone.block_count = (before - self.blocks.len()) as u64;
        gone
    }

    /// A place at the end of the file that is filled, which has room.
    fn append(&mut self, key: (u128, u64), bytes: u32, checksum: u32) -> Option<Reserved> {
        let file = self.touch(self.filling?)?;
        let place = Place { file: file.number, at: file.bytes, bytes, checksum, is_filled: false };
        file.bytes += u64::from(bytes);
        let file = Arc::clone(&file.file);
        self.blocks.insert(key, place);
        Some(Reserved { place, file })
    }

    /// Forgets a block if it lies there; whether it did.
    fn drop_block(&mut self, key: (u128, u64), place: Place) -> bool {
        let is_there = self
            .blocks
            .get(&key)
            .is_some_and(|found| (found.file, found.at) == (place.file, place.at));
        if is_there {
            self.blocks.remove(&key);
        }
        is_there
    }
}

/// Where the bytes of a block are to be written.
struct Reserved {
    place: Place,
    file: Arc<dyn CacheFile>,
}

impl CacheFiles {
    /// It has no file yet.
    pub fn new(dir: &Arc<CacheDirectory>, memory: &MemoryPool) -> CacheFiles {
        CacheFiles { dir: Arc::clone(dir), state: Latch::default(), memory: memory.charge(0) }
    }

    fn remove(&self, gone: &Gone) -> u64 {
        gone.files.iter().for_each(|number| self.dir.remove(&file_name(*number)));
        gone.block_count
    }

    /// Makes the file that is filled next, unless somebody else does.
    fn make_file(&self) {
        let number = {
            let mut state = self.state.lock();
            if std::mem::replace(&mut state.is_making, true) {
                return;
            }
            state.next_number += 1;
            state.next_number
        };
        let made =
            create_file(&self.dir, number).inspect_err(|error| failed("a cache file", error));
        let mut state = self.state.lock();
        state.is_making = false;
        if let Ok(file) = made {
            state.files.push(BlockFile { number, file, bytes: 0 });
            state.filling = Some(number);
        }
    }

    /// A place for a block that has none, and how many others went for it.
    fn reserve(&self, key: (u128, u64), bytes: u32, checksum: u32) -> Option<(Reserved, u64)> {
        let wanted = u64::from(bytes);
        {
            let state = self.state.lock();
            if state.blocks.contains_key(&key) || wanted > state.file_bytes() {
                return None;
            }
            if !state.has_room(wanted) {
                drop(state);
                self.make_file();
            }
        }
        let (reserved, gone) = {
            let mut state = self.state.lock();
            if state.blocks.contains_key(&key) || !state.has_room(wanted) {
                return None;
            }
            let (filling, left) = (state.filling, state.bytes_max.saturating_sub(wanted));
            let gone = state.shrink(left, filling);
            let reserved =
                if state.bytes() <= left { state.append(key, bytes, checksum) } else { None };
            (reserved, gone)
        };
        let evicted = self.remove(&gone);
        Some((reserved?, evicted))
    }
}

impl Design for CacheFiles {
    fn get(
        &self,
        table: u128,
        interval: ByteInterval,
        waits: bool,
        damaged: &AtomicU64,
    ) -> Option<Vec<u8>> {
        let key = (table, interval.offset);
        let (place, file) = {
            let mut state = self.state.lock();
            let place = *state.blocks.get(&key)?;
            if !place.is_filled || place.bytes as usize != interval.bytes {
                return None;
            }
            (place, Arc::clone(&state.touch(place.file)?.file))
        };
        let mut bytes = vec![0; interval.bytes];
        let is_whole = read_whole(file.as_ref(), place.at, &mut bytes, waits)?;
        if is_whole && checksum_of(table, interval.offset, &bytes) == place.checksum {
            return Some(bytes);
        }
        if self.state.lock().drop_block(key, place) {
            damaged.fetch_add(1, Ordering::Relaxed);
        }
        None
    }

    fn has(&self, table: u128, offset: u64) -> bool {
        self.state.lock().blocks.get(&(table, offset)).is_some_and(|place| place.is_filled)
    }

    fn put(&self, table: u128, offset: u64, bytes: &[u8], from: Bringer) -> Option<u64> {
        if from != Bringer::Read || bytes.is_empty() {
            return None;
        }
        let key = (table, offset);
        let length = u32::try_from(bytes.len()).ok()?;
        let checksum = checksum_of(table, offset, bytes);
        let (Reserved { place, file }, evicted) = self.reserve(key, length, checksum)?;
        if let Err(error) = file.write_at(place.at, bytes) {
            self.state.lock().drop_block(key, place);
            failed("a write", &error.into());
            return None;
        }
        let mut state = self.state.lock();
        if let Some(found) = state.blocks.get_mut(&key).filter(|found| **found == place) {
            found.is_filled = true;
        }
        self.memory.set((state.blocks.len() * size_of::<((u128, u64), Place)>()) as u64);
        Some(evicted)
    }

    /// A compaction does nothing for it.
    fn forget(&self, _table: u128) -> u64 {
        0
    }

    fn offsets_of(&self, _table: u128) -> Vec<u64> {
        Vec::new()
    }

    fn set_bytes_max(&self, bytes: u64) -> u64 {
        let gone = {
            let mut state = self.state.lock();
            state.bytes_max = bytes;
            state.shrink(bytes, None)
        };
        self.remove(&gone)
    }

    fn bytes(&self) -> u64 {
        self.state.lock().bytes()
    }
}
