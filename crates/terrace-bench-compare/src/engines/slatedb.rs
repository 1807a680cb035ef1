use std::path::Path;
use std::sync::Arc;

use slatedb::config::Settings;
use slatedb::object_store::local::LocalFileSystem;
use slatedb::{Db, DbBuilder};
use terrace_bench::{Counters, Store, StoreError};
use tokio::runtime::Runtime;

use super::Peer;
use crate::cells::Setup;

pub(super) const OPTIONS: &str = "on a local directory as object store; writes are acknowledged in \
     memory and flushed each 100 ms, in the cell that syncs awaited until durable";

pub(super) struct SlateDb {
    runtime: Runtime,
    db: Db,
    sync: bool,
}

impl SlateDb {
    pub(super) fn open(dir: &Path, setup: &Setup) -> Result<SlateDb, StoreError> {
        let runtime = Runtime::new()?;
        let store = Arc::new(LocalFileSystem::new_with_prefix(dir)?);
        let settings = Settings {
            l0_sst_size_bytes: usize::try_from(setup.memtable_bytes / 4)?,
            max_unflushed_bytes: usize::try_from(setup.memtable_bytes)?,
            ..Settings::default()
        };
        let open = async { DbBuilder::new("bench", store).with_settings(settings).build().await };
        let db = runtime.block_on(open)?;
        Ok(SlateDb { runtime, db, sync: setup.sync })
    }
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
            let mut iter = self.db.scan(start.to_vec()..).await?;
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
        Ok(self.runtime.block_on(self.db.flush())?)
    }
}

impl Drop for SlateDb {
    fn drop(&mut self) {
        if let Err(error) = self.runtime.block_on(self.db.close()) {
            eprintln!("closing SlateDB: {error}");
        }
    }
}
