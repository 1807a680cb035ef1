//! The table store seam: where tables live.
//!
//! Local directories, storage nodes and object stores stand behind it. What crosses it: a table is
//! written front to back as a stream, read as a list of byte intervals with a ticket to wait on,
//! and deleted. Its place is an opaque [`TableLocation`] that only the store can read.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{Corruption, FileId, LEVEL_MAX, LevelNo};

use super::placed::PlacedBlock;
use crate::Result;
use crate::placement::TableLocation;

/// What is read at once of a table that is read as a whole, in bytes, where a read costs little.
pub(super) const READ_AHEAD_BYTES: u64 = 256 * 1024;

/// A byte interval of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteInterval {
    /// Offset of the first byte.
    pub offset: u64,
    /// How many bytes.
    pub bytes: usize,
}

impl ByteInterval {
    /// Checks that the interval lies inside a table of `table_bytes` bytes: what every store does
    /// before it allocates a buffer. Errors: [`Error::Corruption`](crate::Error::Corruption).
    pub fn check_inside(self, table_bytes: u64, table_name: &Path) -> Result<()> {
        match self.offset.checked_add(self.bytes as u64) {
            Some(end) if end <= table_bytes => Ok(()),
            _ => Err(self.too_short(table_name).into()),
        }
    }

    /// The damage of a table that ends inside this interval.
    #[must_use]
    pub fn too_short(self, table_name: &Path) -> Corruption {
        let detail = format!("the table ends before the {} bytes that lie here", self.bytes);
        Corruption::new(table_name, self.offset, detail)
    }
}

/// A place where tables live. All methods may be called by many threads at once.
pub trait TableStore: Send + Sync + fmt::Debug {
    /// Begins a table for `level` (0: a row of L0), by which the store may choose the place.
    /// `expected_bytes` is reserved if the store can, so that lack of space shows early; 0 means
    /// unknown. The id has never been used before.
    fn create(
        &self,
        id: FileId,
        level: LevelNo,
        expected_bytes: u64,
    ) -> Result<Box<dyn TableWriter>>;

    /// Begins a value file, as [`TableStore::create`] begins a table of the deepest level. The name
    /// is made durable by [`TableStore::sync`] of that level.
    fn create_values(&self, id: FileId, expected_bytes: u64) -> Result<Box<dyn TableWriter>> {
        self.create(id, LEVEL_MAX, expected_bytes)
    }

    /// Takes a file of the log as the value file with this id, by a second name for it, or finds
    /// that it was taken before; the name is made durable by [`TableStore::sync`] of the deepest
    /// level. `None` if the store cannot: then values have to be copied.
    fn adopt_values(&self, _id: FileId, _file: &Path) -> Result<Option<Adopted>> {
        Ok(None)
    }

    /// Makes durable the names of the tables finished so far for `level`: called once a job, before
    /// the version edit that names them.
    fn sync(&self, level: LevelNo) -> Result<()>;

    /// Opens a table for reading.
    fn open(&self, location: &TableLocation) -> Result<Arc<dyn TableFile>>;

    /// Gives a table a second name, the file `to`, which does not exist: for checkpoints. The two
    /// names share the bytes, and deleting one leaves the other. Not durable before the directory
    /// of `to` is synced. `false` if that cannot be done, since the table is no file or `to` lies
    /// on another file system: then it has to be copied.
    fn link(&self, location: &TableLocation, to: &Path) -> Result<bool>;

    /// Deletes a table that no version names any more. One that is already gone is no error.
    fn delete(&self, location: &TableLocation) -> Result<()>;

    /// Whether a table of this level would be put where this one lies, so that it may become one as
    /// it is.
    fn keeps(&self, location: &TableLocation, level: LevelNo) -> bool {
        let _ = (location, level);
        true
    }

    /// Every table and value file in the store, finished or not, in the order of their ids: what no
    /// version names is garbage of an interrupted job. What others may share is not among them.
    fn list(&self) -> Result<Vec<(FileId, TableLocation)>>;
}

/// A file that a store [took](TableStore::adopt_values).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// Where it lies.
    pub location: TableLocation,
    /// Whether its name is new. An edit whose outcome is unknown may name one that is not.
    pub is_new: bool,
}

/// A table being written. Dropping it before [`TableWriter::finish`] abandons the table.
pub trait TableWriter: Send {
    /// Appends bytes; builders append large pieces. After an error the table is of no use.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// The bytes of this interval, which were or will be appended, are a block that will be read
    /// soon. The default does nothing: only a store that keeps what is read near needs to know.
    fn keep_near(&mut self, _interval: ByteInterval) {}

    /// Makes the content durable and returns where it lies.
    fn finish(self: Box<Self>) -> Result<TableLocation>;
}

/// A finished table, open for reading by many threads at once.
pub trait TableFile: Send + Sync + fmt::Debug {
    /// Starts reading the intervals; the ticket gives one buffer for each, in their order and of
    /// exactly their size. An interval beyond the end of the table is an error.
    fn read(&self, intervals: &[ByteInterval]) -> ReadTicket;

    /// As [`TableFile::read`] of a block that a get or a cursor looks into: a store that keeps what
    /// is read near may have it, and may keep those around it too.
    fn read_block(&self, block: &PlacedBlock<'_>) -> ReadTicket {
        self.read(&[block.interval()])
    }

    /// Where the blocks begin that were read lately and are kept near, ascending; none in a store
    /// that keeps none apart.
    fn near_blocks(&self) -> Vec<u64> {
        Vec::new()
    }

    /// What is kept near of the table will soon be of no use: it goes before other blocks.
    fn age_near_blocks(&self) {}

    /// Reads one interval if that can be done without waiting for a device; `None` if not.
    fn try_read(&self, interval: ByteInterval) -> Result<Option<Vec<u8>>>;

    /// Begins to make an interval readable without waiting, if the store can; whether it did shows
    /// only in how long the reads take. The default does nothing.
    fn prefetch(&self, interval: ByteInterval) {
        let _ = interval;
    }

    /// Whether a read of what is not near costs a request, which takes long whatever it reads.
    fn is_far(&self) -> bool {
        false
    }

    /// Whether a block can be had without a request, or is being read already.
    fn is_near(&self, block: ByteInterval) -> bool {
        let _ = block;
        true
    }

    /// Begins to read what a reader will probably come to, if the store can. Waits for nothing;
    /// whether it did shows only in how long the reads take. The default does nothing.
    fn ask_for(&self, interval: ByteInterval) {
        let _ = interval;
    }

    /// How many bytes a reader that goes on from block to block should ask for at once.
    fn piece_bytes(&self) -> u64 {
        READ_AHEAD_BYTES
    }

    /// Takes a buffer back that came from a read and is done with. Nobody has to give any back.
    fn give_back(&self, buffer: Vec<u8>) {
        drop(buffer);
    }

    /// The size of the table in bytes.
    fn bytes(&self) -> u64;

    /// What to call the table in an error: a path, or an address.
    fn name(&self) -> PathBuf;
}

/// The outcome of a read that may still be under way.
pub struct ReadTicket(ReadState);

enum ReadState {
    Ready(Result<Vec<Vec<u8>>>),
    Pending(Box<dyn FnOnce() -> Result<Vec<Vec<u8>>> + Send>),
}

impl ReadTicket {
    /// A read that is already complete, as local ones are.
    #[must_use]
    pub fn ready(outcome: Result<Vec<Vec<u8>>>) -> ReadTicket {
        ReadTicket(ReadState::Ready(outcome))
    }

    /// A read under way; `wait` blocks until it is complete.
    #[must_use]
    pub fn pending(wait: Box<dyn FnOnce() -> Result<Vec<Vec<u8>>> + Send>) -> ReadTicket {
        ReadTicket(ReadState::Pending(wait))
    }

    /// Blocks until the read is complete: one buffer an interval, in order.
    pub fn wait(self) -> Result<Vec<Vec<u8>>> {
        match self.0 {
            ReadState::Ready(outcome) => outcome,
            ReadState::Pending(wait) => wait(),
        }
    }

    /// The buffers, if the read is complete and went well.
    pub(super) fn if_ready(self) -> Option<Vec<Vec<u8>>> {
        match self.0 {
            ReadState::Ready(outcome) => outcome.ok(),
            ReadState::Pending(_) => None,
        }
    }
}

impl fmt::Debug for ReadTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadTicket")
    }
}
