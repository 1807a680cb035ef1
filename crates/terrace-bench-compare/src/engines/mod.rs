//! How each engine is set up. All get the same memory and the same durability, and none compresses.

mod fjall;
mod fjall_transactions;
mod lmdb;
mod paced_store;
pub mod raw_file;
mod redb;
pub mod rocksdb;
mod rocksdb_transactions;
pub mod slatedb;
mod terrace;
pub use terrace::{COMPACTION_WRITTEN, TABLE_MEMORY};

use std::path::Path;

use ::terrace::{CompactionRecord, DataCacheStats, RequestCounts, ValueLogOptions};
use serde_json::Value;
use terrace_bench::{Store, StoreError};

use crate::cells::Setup;

/// An engine that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// Terrace, through its library.
    Terrace,
    /// Terrace with a value log.
    TerraceValues,
    /// RocksDB, tuned.
    Rocksdb,
    /// RocksDB, tuned, with blob files.
    RocksdbBlobs,
    /// RocksDB as it comes, but for its memory and compression.
    RocksdbDefault,
    /// fjall.
    Fjall,
    /// LMDB, mapped, without syncs of its own.
    Lmdb,
    /// redb.
    Redb,
    /// SlateDB on a local directory.
    Slatedb,
}

impl Engine {
    /// All of them.
    pub const ALL: [Engine; 9] = [
        Engine::Terrace,
        Engine::Rocksdb,
        Engine::Fjall,
        Engine::RocksdbDefault,
        Engine::TerraceValues,
        Engine::RocksdbBlobs,
        Engine::Lmdb,
        Engine::Redb,
        Engine::Slatedb,
    ];

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Terrace => "terrace",
            Engine::TerraceValues => "terrace-values",
            Engine::Rocksdb => "rocksdb",
            Engine::RocksdbBlobs => "rocksdb-blobs",
            Engine::RocksdbDefault => "rocksdb-default",
            Engine::Fjall => "fjall",
            Engine::Lmdb => "lmdb",
            Engine::Redb => "redb",
            Engine::Slatedb => "slatedb",
        }
    }

    /// What it is and how it is set up, for the record.
    pub fn options(self) -> &'static str {
        match self {
            Engine::Terrace => terrace::OPTIONS,
            Engine::TerraceValues => terrace::VALUE_LOG,
            Engine::Rocksdb => rocksdb::TUNED,
            Engine::RocksdbBlobs => rocksdb::BLOBS,
            Engine::RocksdbDefault => rocksdb::DEFAULT,
            Engine::Fjall => fjall::OPTIONS,
            Engine::Lmdb => lmdb::OPTIONS,
            Engine::Redb => redb::OPTIONS,
            Engine::Slatedb => slatedb::OPTIONS,
        }
    }

    /// Whether it has optimistic transactions.
    pub fn has_transactions(self) -> bool {
        matches!(self, Engine::Terrace | Engine::Rocksdb | Engine::RocksdbDefault | Engine::Fjall)
    }

    /// Opens a new store in an empty directory.
    pub fn open(self, dir: &Path, setup: &Setup) -> Result<Box<dyn Peer>, StoreError> {
        use rocksdb_transactions::RocksDbTransactions;
        Ok(match self {
            Engine::Rocksdb if setup.transactions => {
                Box::new(RocksDbTransactions::open(dir, setup, true)?)
            }
            Engine::RocksdbDefault if setup.transactions => {
                Box::new(RocksDbTransactions::open(dir, setup, false)?)
            }
            Engine::Fjall if setup.transactions => {
                Box::new(fjall_transactions::FjallTransactions::open(dir, setup)?)
            }
            Engine::Terrace => Box::new(terrace::open(dir, setup, None)?),
            Engine::TerraceValues => {
                Box::new(terrace::open(dir, setup, Some(ValueLogOptions::default()))?)
            }
            Engine::Rocksdb => Box::new(rocksdb::RocksDb::open(dir, setup, true)?),
            Engine::RocksdbBlobs => Box::new(rocksdb::RocksDb::open_with_blobs(dir, setup, None)?),
            Engine::RocksdbDefault => Box::new(rocksdb::RocksDb::open(dir, setup, false)?),
            Engine::Fjall => Box::new(fjall::Fjall::open(dir, setup)?),
            Engine::Lmdb => Box::new(lmdb::Lmdb::open(dir, setup)?),
            Engine::Redb => Box::new(redb::Redb::open(dir, setup)?),
            Engine::Slatedb => Box::new(slatedb::SlateDb::open(dir, setup)?),
        })
    }
}

/// Memtables that share a store's memory of memtables, the active one among them.
pub const MEMTABLES: u64 = 4;

/// A moment of a store that stays as it is until this is dropped.
pub trait Held {}

impl<T> Held for T {}

/// A store that can also come to rest.
pub trait Peer: Store {
    /// Writes out memtables and waits until nothing more is to be compacted.
    fn settle(&self) -> Result<(), StoreError>;

    /// The bytes of tables that were written since it was opened; `None` if it does not tell.
    fn table_bytes(&self) -> Option<u64> {
        None
    }

    /// Those of them that went to the disk, where some did not.
    fn disk_bytes(&self) -> Option<u64> {
        self.table_bytes()
    }

    /// The last compactions; none if it does not tell.
    fn compactions(&self) -> Vec<CompactionRecord> {
        Vec::new()
    }

    /// The requests to its object store since it was opened; `None` if it has none or does not
    /// tell.
    fn requests(&self) -> Option<RequestCounts> {
        None
    }

    /// What reads have found in its cache on the local disk since it was opened; `None` if it has
    /// none or does not tell.
    fn near_reads(&self) -> Option<DataCacheStats> {
        None
    }

    /// The bytes of its log behind the newest moment in its object store, or that a replay would
    /// read if it stores no moments; `None` if it does not tell.
    fn kept_log_bytes(&self) -> Option<u64> {
        None
    }

    /// Pins what it holds at this moment, as for a reader that takes long, until the answer is
    /// dropped.
    ///
    /// Errors: that it has no snapshots here.
    fn hold(&self) -> Result<Box<dyn Held + '_>, StoreError> {
        Err("it has no snapshots here".into())
    }

    /// What else it says of itself, for the record.
    fn facts(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
}
