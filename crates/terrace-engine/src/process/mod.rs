//! The process: what its ranges share.
//!
//! A process owns the environment, the block cache, the account of its memory, the pool of
//! background threads and the limit of what they write, and may hold many ranges; an embedded
//! database uses one.

mod background_io;
mod io_limit;
mod memory;
mod pool;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_env::{Mutex, SharedEnv};

use crate::Result;
use crate::cache::BlockCache;
use crate::options::{ProcessOptions, Setting};

pub use background_io::{BackgroundIo, CallerWaits, TableIo};
pub use io_limit::{IoClass, IoLimit};
pub use memory::{Charge, Memory, MemoryPool, MemoryStats, PoolName, PoolStats};
pub use pool::{JobPool, PoolJob};

/// How many there have been. Not 0, which is nobody's number.
static STARTED: AtomicU64 = AtomicU64::new(1);

/// What the ranges of a process share. Dropping it waits for its background threads.
pub struct Process {
    number: u64,
    /// The options as they are now; who changes them has the lock.
    options: Mutex<ProcessOptions>,
    env: SharedEnv,
    cache: Arc<BlockCache>,
    memory: Memory,
    pool: JobPool,
    io_limit: Arc<IoLimit>,
    recovery_threads: usize,
}

impl Process {
    /// Starts the background threads. Errors: `Invalid` (an option); no more threads are to be had.
    pub fn start(env: SharedEnv, options: &ProcessOptions) -> Result<Arc<Process>> {
        options.validate()?;
        let cache = Arc::new(BlockCache::new(options.cache_bytes));
        let pool = JobPool::start(&env, options)?;
        let memory = Memory::new(options.memory_bytes, &cache);
        let io_limit = Arc::new(IoLimit::new(&env, options.background_io_limit));
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let recovery_threads = options.recovery_thread_count(env.parallelism());
        Ok(Arc::new(Process {
            number,
            options: env.waits().mutex(options.clone()),
            env,
            cache,
            memory,
            pool,
            io_limit,
            recovery_threads,
        }))
    }

    /// Different from those of all others that this program started; says nothing else.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Gives one of the options anew, to all ranges of the process.
    ///
    /// Errors: those of [`ProcessOptions::validate`]; no more threads are to be had.
    pub fn set(&self, setting: Setting) -> Result<()> {
        let mut options = self.options.lock();
        let mut changed = options.clone();
        setting.put_into(&mut changed);
        changed.validate()?;
        match setting {
            Setting::BackgroundIoLimit(limit) => self.io_limit.set_bytes_per_second(limit),
            Setting::CacheBytes(bytes) => self.cache.set_capacity_bytes(bytes),
            Setting::MemoryBytes(bytes) => self.memory.set_limit_bytes(bytes),
            Setting::BackgroundThreads(count) => self.pool.set_compaction_threads(count)?,
        }
        *options = changed;
        Ok(())
    }

    /// Those of the options that can change, as they are now.
    #[must_use]
    pub fn settings(&self) -> [Setting; 4] {
        Setting::all_of(&self.options.lock())
    }

    /// The outside world.
    #[must_use]
    pub fn env(&self) -> &SharedEnv {
        &self.env
    }

    /// The block cache.
    #[must_use]
    pub fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// What memory is taken for.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The background threads.
    #[must_use]
    pub fn pool(&self) -> &JobPool {
        &self.pool
    }

    /// How many bytes a second background work may write.
    #[must_use]
    pub fn io_limit(&self) -> &Arc<IoLimit> {
        &self.io_limit
    }

    /// With how many threads each open replays the log, at least 1.
    #[must_use]
    pub fn recovery_threads(&self) -> usize {
        self.recovery_threads
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("pool", &self.pool).finish_non_exhaustive()
    }
}
