use std::path::Path;

use rocksdb::statistics::Ticker;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DataBlockIndexType, FlushOptions, Options,
    ReadOptions, WaitForCompactOptions, WriteOptions,
};
use serde_json::Value;
use terrace_bench::{Counters, Store, StoreError};

use super::{Held, MEMTABLES, Peer};
use crate::cells::Setup;

pub(super) const TUNED: &str = "10-bit full filters, dynamic level sizes, jobs = cores, 4 write \
     buffers, hyper clock cache with index and filter blocks in it and those of L0 pinned, hash \
     index in data blocks, pinned gets, no compression, no blob files";
pub const BLOBS: &str = "tuned, and blob files for values of 512 bytes and more, in the same cache; their garbage \
     collection moves what lives in the older half of the files as compactions meet it, and compacts \
     what points there once 30 % of that half is dead";
pub const AT_PROPORTIONS: &str = "as it comes, but for the cache, compression, the sizes of the write \
     buffer, of tables (as large) and of the first level (four of them), and levels of fixed sizes";
pub(super) const DEFAULT: &str = "as it comes, but for the cell's cache and write buffer memory";

/// The shortest value that goes to a blob file: between the sizes that the experiments have.
const BLOB_BYTES_MIN: u64 = 512;

pub struct RocksDb {
    db: DB,
    options: Options,
    write: WriteOptions,
}

impl RocksDb {
    pub(super) fn open(dir: &Path, setup: &Setup, tuned: bool) -> Result<RocksDb, StoreError> {
        RocksDb::open_with(dir, setup, tuned, Options::default())
    }

    /// As it comes, with a write buffer of a fourth of the memory, which is a fourth of the first
    /// level. Flushes and compactions write at most this number of bytes in a second.
    pub fn open_at_proportions(
        dir: &Path,
        setup: &Setup,
        write_bytes_per_s: Option<u64>,
    ) -> Result<RocksDb, StoreError> {
        let mut options = limited(write_bytes_per_s)?;
        options.set_level_compaction_dynamic_level_bytes(false);
        options.set_max_bytes_for_level_base(setup.memtable_bytes);
        options.set_target_file_size_base(setup.memtable_bytes / MEMTABLES);
        RocksDb::open_with(dir, setup, false, options)
    }

    /// Tuned, with blob files; flushes and compactions write at most this number of bytes in a
    /// second.
    pub fn open_with_blobs(
        dir: &Path,
        setup: &Setup,
        write_bytes_per_s: Option<u64>,
    ) -> Result<RocksDb, StoreError> {
        let mut options = limited(write_bytes_per_s)?;
        options.set_enable_blob_files(true);
        options.set_min_blob_size(BLOB_BYTES_MIN);
        options.set_blob_compression_type(DBCompressionType::None);
        options.set_enable_blob_gc(true);
        options.set_blob_gc_age_cutoff(0.5);
        options.set_blob_gc_force_threshold(0.3);
        RocksDb::open_with(dir, setup, true, options)
    }

    /// Tuned; flushes and compactions write at most this number of bytes in a second.
    pub fn open_limited(
        dir: &Path,
        setup: &Setup,
        write_bytes_per_s: Option<u64>,
    ) -> Result<RocksDb, StoreError> {
        RocksDb::open_with(dir, setup, true, limited(write_bytes_per_s)?)
    }

    fn open_with(
        dir: &Path,
        setup: &Setup,
        tuned: bool,
        options: Options,
    ) -> Result<RocksDb, StoreError> {
        let options = set_up(setup, tuned, options)?;
        let mut write = WriteOptions::default();
        write.set_sync(setup.sync);
        Ok(RocksDb { db: DB::open(&options, dir)?, options, write })
    }
}

/// These options, and what the cell and the tuning want.
pub(super) fn set_up(
    setup: &Setup,
    tuned: bool,
    mut options: Options,
) -> Result<Options, StoreError> {
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::None);
    options.enable_statistics();
    options.set_statistics_level(rocksdb::statistics::StatsLevel::ExceptHistogramOrTimers);
    let buffer_bytes = setup.memtable_bytes / MEMTABLES;
    options.set_write_buffer_size(usize::try_from(buffer_bytes)?);
    let mut tables = BlockBasedOptions::default();
    let cache_bytes = usize::try_from(setup.cache_bytes)?;
    if tuned {
        let cores = i32::try_from(std::thread::available_parallelism()?.get())?;
        options.set_max_write_buffer_number(i32::try_from(MEMTABLES)?);
        options.increase_parallelism(cores);
        options.set_level_compaction_dynamic_level_bytes(true);
        options.set_max_bytes_for_level_base(setup.memtable_bytes);
        options.set_target_file_size_base(buffer_bytes);
        options.set_memtable_prefix_bloom_ratio(0.02);
        options.set_memtable_whole_key_filtering(true);
        let cache = Cache::new_hyper_clock_cache(cache_bytes, 0);
        tables.set_block_cache(&cache);
        options.set_blob_cache(&cache);
        tables.set_bloom_filter(10.0, false);
        tables.set_cache_index_and_filter_blocks(true);
        tables.set_pin_l0_filter_and_index_blocks_in_cache(true);
        tables.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
        tables.set_format_version(6);
    } else {
        tables.set_block_cache(&Cache::new_lru_cache(cache_bytes));
    }
    options.set_block_based_table_factory(&tables);
    Ok(options)
}

/// Options by which flushes and compactions write at most `write_bytes_per_s` bytes in a second.
fn limited(write_bytes_per_s: Option<u64>) -> Result<Options, StoreError> {
    /// What it asks for by default: a tenth of a second's bytes at a time, and compactions give way
    /// to flushes but for one time in ten.
    const REFILL_US: i64 = 100_000;
    const FAIRNESS: i32 = 10;
    let mut options = Options::default();
    if let Some(rate) = write_bytes_per_s {
        options.set_ratelimiter(i64::try_from(rate)?, REFILL_US, FAIRNESS);
    }
    Ok(options)
}

impl Store for RocksDb {
    fn get(&self, key: &[u8]) -> Result<Option<usize>, StoreError> {
        Ok(self.db.get_pinned(key)?.map(|value| value.len()))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        Ok(self.db.put_opt(key, value, &self.write)?)
    }

    fn scan(&self, start: &[u8], count: u64) -> Result<u64, StoreError> {
        let mut iter = self.db.raw_iterator_opt(ReadOptions::default());
        iter.seek(start);
        let mut found = 0;
        while found < count && iter.item().is_some() {
            found += 1;
            if found < count {
                iter.next();
            }
        }
        iter.status()?;
        Ok(found)
    }

    fn counters(&self) -> Option<Counters> {
        let ticker = |ticker| self.options.get_ticker_count(ticker);
        let tables = ticker(Ticker::FlushWriteBytes) + ticker(Ticker::CompactWriteBytes);
        Some(Counters {
            user_bytes: ticker(Ticker::BytesWritten),
            written_bytes: tables + ticker(Ticker::WalFileBytes),
        })
    }
}

impl Peer for RocksDb {
    fn settle(&self) -> Result<(), StoreError> {
        let mut flush = FlushOptions::default();
        flush.set_wait(true);
        self.db.flush_opt(&flush)?;
        Ok(self.db.wait_for_compact(&WaitForCompactOptions::default())?)
    }

    fn table_bytes(&self) -> Option<u64> {
        let ticker = |ticker| self.options.get_ticker_count(ticker);
        Some(ticker(Ticker::FlushWriteBytes) + ticker(Ticker::CompactWriteBytes))
    }

    fn hold(&self) -> Result<Box<dyn Held + '_>, StoreError> {
        Ok(Box::new(self.db.snapshot()))
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        let property = |name: &str| self.db.property_int_value(name).ok().flatten();
        vec![
            ("value_file_count", property("rocksdb.num-blob-files").into()),
            ("value_file_bytes", property("rocksdb.total-blob-file-size").into()),
        ]
    }
}
