use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use slatedb::config::{
    CompactionWorkerOptions, CompactorOptions, ObjectStoreCacheOptions, ScanOptions, Settings,
};
use slatedb::db_cache::foyer::{FoyerCache, FoyerCacheOptions};
use slatedb::db_cache::{DbCache, SplitCache};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::local::LocalFileSystem;
use slatedb::{Db, DbBuilder};
use terrace::RequestCounts;
use terrace_bench::clock::Moment;
use terrace_bench::{Counters, Store, StoreError};
use terrace_env::ObjectsProfile;
use tokio::runtime::Runtime;

use super::paced_store::{PacedStore, Requests};

use super::Peer;
use crate::cells::Setup;

pub(super) const OPTIONS: &str = "on a local directory as object store; writes are acknowledged in \
     memory and flushed each 100 ms, in the cell that syncs awaited until durable; blocks in a cache \
     of the cell's bytes, indexes and filters in one of 128 MiB beside it";

/// How it is set up on an emulated object store, for the record.
pub const FAR: &str = "all in the object store; writes are acknowledged in memory and flushed each \
     100 ms; blocks in a cache of the given size, indexes and filters in one of 128 MiB beside it; \
     looks for compactions and manifests each 500 ms, scans read 64 KiB ahead, by four requests at \
     once, and keep blocks";

/// The same with a cache on the local disk.
pub const NEAR: &str = "all in the object store; writes are acknowledged in memory and flushed each \
     100 ms; blocks in a cache of the given size, indexes and filters in one of 128 MiB beside it; \
     parts of objects of 16 KiB in a cache on the local disk, those of new tables too; looks for \
     compactions and manifests each 500 ms, scans read 64 KiB ahead, by four requests at once, and \
     keep blocks";

/// What its cache on the local disk keeps at once. By default it is 4 MiB, which is much of a table
/// here.
const PART_BYTES: usize = 16 << 10;

/// How often it looks for what its other parts have done. By default it is 5 s, in which a few
/// memtables of the size that they have here fill L0, and writers would wait for nothing else.
const POLL: Duration = Duration::from_millis(500);

/// What a scan asks for before it needs it, in bytes and in requests; by default nothing.
const SCAN_AHEAD_BYTES: usize = 64 << 10;
const SCAN_REQUESTS: usize = 4;

/// Comes to rest when it puts no more than this, but for its manifests, in longer than all its
/// parts need to hear of each other.
const REST_BYTES: u64 = 256 << 10;
const REST: Duration = Duration::from_secs(3);
const REST_MAX: Duration = Duration::from_secs(90);

/// Of indexes and filters, as by default.
const META_CACHE_BYTES: u64 = 128 << 20;

pub struct SlateDb {
    runtime: Runtime,
    db: Db,
    sync: bool,
    /// Of the emulated store, if there is one.
    requests: Option<Arc<Requests>>,
}

impl SlateDb {
    pub(super) fn open(dir: &Path, setup: &Setup) -> Result<SlateDb, StoreError> {
        let store = Arc::new(LocalFileSystem::new_with_prefix(dir)?);
        SlateDb::open_with(store, setup, None, None)
    }

    /// Opens it on a directory that answers as an object store of this profile would, with a cache
    /// in memory, and one on the local disk if `near` gives it a directory and bytes.
    ///
    /// Errors: its own.
    pub fn open_far(
        dir: &Path,
        setup: &Setup,
        profile: ObjectsProfile,
        near: Option<(PathBuf, usize)>,
    ) -> Result<SlateDb, StoreError> {
        std::fs::create_dir_all(dir)?;
        let store = PacedStore::new(LocalFileSystem::new_with_prefix(dir)?, profile);
        let requests = store.requests();
        SlateDb::open_with(Arc::new(store), setup, Some(requests), near)
    }

    fn open_with(
        store: Arc<dyn ObjectStore>,
        setup: &Setup,
        requests: Option<Arc<Requests>>,
        near: Option<(PathBuf, usize)>,
    ) -> Result<SlateDb, StoreError> {
        let runtime = Runtime::new()?;
        let mut settings = Settings {
            l0_sst_size_bytes: usize::try_from(setup.memtable_bytes / 4)?,
            max_unflushed_bytes: usize::try_from(setup.memtable_bytes)?,
            ..Settings::default()
        };
        if requests.is_some() {
            let worker = CompactionWorkerOptions {
                compactions_poll_interval: POLL,
                ..CompactionWorkerOptions::default()
            };
            let compactor = CompactorOptions {
                poll_interval: POLL,
                worker: Some(worker),
                ..CompactorOptions::default()
            };
            settings.manifest_poll_interval = POLL;
            settings.compactor_options = Some(compactor);
        }
        if let Some((root, bytes)) = near {
            settings.object_store_cache_options = ObjectStoreCacheOptions {
                root_folder: Some(root),
                max_cache_size_bytes: Some(bytes),
                part_size_bytes: PART_BYTES,
                cache_on_flush: true,
                cache_on_compaction: true,
                ..ObjectStoreCacheOptions::default()
            };
        }
        let cache = SplitCache::new()
            .with_block_cache(Some(cache_of(setup.cache_bytes)))
            .with_meta_cache(Some(cache_of(META_CACHE_BYTES)));
        let builder = DbBuilder::new("bench", store).with_settings(settings);
        let open = async { builder.with_db_cache(Arc::new(cache), 0).build().await };
        let db = runtime.block_on(open)?;
        Ok(SlateDb { runtime, db, sync: setup.sync, requests })
    }

    fn scan_options(&self) -> ScanOptions {
        if self.requests.is_none() {
            return ScanOptions::default();
        }
        ScanOptions {
            read_ahead_bytes: SCAN_AHEAD_BYTES,
            cache_blocks: true,
            max_fetch_tasks: SCAN_REQUESTS,
            ..ScanOptions::default()
        }
    }

    /// Waits until its compactions have ended, as far as that is seen from what it puts.
    fn rest(requests: &Requests) {
        let (began, mut quiet_since) = (Moment::now(), Moment::now());
        let mut before = requests.counts().bytes_up();
        while Moment::now().since(quiet_since) < REST && Moment::now().since(began) < REST_MAX {
            std::thread::sleep(Duration::from_millis(100));
            let bytes = requests.counts().bytes_up();
            if bytes > before + REST_BYTES {
                (before, quiet_since) = (bytes, Moment::now());
            }
        }
    }
}

fn cache_of(bytes: u64) -> Arc<dyn DbCache> {
    let options = FoyerCacheOptions { max_capacity: bytes, ..FoyerCacheOptions::default() };
    Arc::new(FoyerCache::new_with_opts(options))
}

impl Store for SlateDb {
    fn get(&self, key: &[u8]) -> Result<Option<usize>, StoreError> {
        Ok(self.runtime.block_on(self.db.get(key))?.map(|value| value.len()))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.runtime.block_on(async {
            let written = self.db.put(key, value).await?;
            if self.sync {
                written.await_durable().await?;
            }
            Ok(())
        })
    }

    fn scan(&self, start: &[u8], count: u64) -> Result<u64, StoreError> {
        self.runtime.block_on(async {
            let options = self.scan_options();
            let mut iter = self.db.scan_with_options(start.to_vec().., &options).await?;
            let mut found = 0;
            while found < count && iter.next().await?.is_some() {
                found += 1;
            }
            Ok(found)
        })
    }

    fn counters(&self) -> Option<Counters> {
        None
    }
}

impl Peer for SlateDb {
    fn settle(&self) -> Result<(), StoreError> {
        self.runtime.block_on(self.db.flush())?;
        self.requests.iter().for_each(|requests| SlateDb::rest(requests));
        Ok(())
    }

    fn requests(&self) -> Option<RequestCounts> {
        self.requests.as_ref().map(|requests| requests.counts())
    }
}

impl Drop for SlateDb {
    fn drop(&mut self) {
        if let Err(error) = self.runtime.block_on(self.db.close()) {
            eprintln!("closing SlateDB: {error}");
        }
    }
}
