//! The process: what its ranges share.
//!
//! A process owns the environment, the block cache and the pool of background threads, and may
//! hold many ranges; an embedded database uses one.

mod pool;

use std::fmt;
use std::sync::Arc;

use terrace_env::SharedEnv;

use crate::Result;
use crate::cache::BlockCache;
use crate::options::ProcessOptions;

pub use pool::{JobPool, PoolJob};

/// What the ranges of a process share. Dropping it waits for its background threads.
pub struct Process {
    env: SharedEnv,
    cache: Arc<BlockCache>,
    pool: JobPool,
}

impl Process {
    /// Starts the background threads.
    pub fn start(env: SharedEnv, options: &ProcessOptions) -> Result<Arc<Process>> {
        let cache = Arc::new(BlockCache::new(options.cache_bytes));
        let pool = JobPool::start(&env, options)?;
        Ok(Arc::new(Process { env, cache, pool }))
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

    /// The background threads.
    #[must_use]
    pub fn pool(&self) -> &JobPool {
        &self.pool
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("pool", &self.pool).finish_non_exhaustive()
    }
}
