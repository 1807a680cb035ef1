//! What several databases of a program share.

use std::fmt;
use std::sync::Arc;

use terrace_engine::process::Process;
use terrace_env::RealEnv;

use crate::{Options, Result, Setting};

/// The block cache, the limits of memory and of background I/O, and the background threads, for
/// several databases of a program; made by [`Options::share`], and given by [`Options::shared`].
/// Clones are the same.
///
/// ```
/// use terrace::Db;
///
/// # fn main() -> terrace::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// let shared = Db::options().cache_bytes(64 << 20).background_threads(2).share()?;
/// let options = Db::options().shared(&shared);
/// let users = options.open(directory.path().join("users"))?;
/// let orders = options.open(directory.path().join("orders"))?;
/// orders.put("1", "paid")?;
/// assert_eq!(users.get("1")?, None);
/// assert_eq!(users.admin().stats().cache_limit_bytes, 64 << 20);
/// # Ok(())
/// # }
/// ```
///
/// The threads end when this, its clones and all databases that were opened with it are gone.
/// [`Admin::set`](crate::Admin::set) of one of the databases changes what all of them share.
#[derive(Clone)]
pub struct SharedResources {
    pub(crate) process: Arc<Process>,
}

impl SharedResources {
    /// What is shared, as it is now: the limits, the cache and the number of threads.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        self.process.settings().to_vec()
    }
}

impl Options {
    /// Starts what databases can share, of the size that these options say: the cache
    /// ([`Options::cache_bytes`]), the limit of memory ([`Options::memory_bytes`]), that of
    /// background I/O ([`Options::background_io_limit`]) and the threads
    /// ([`Options::background_threads`]). Each database has memtables of its own under the limit.
    ///
    /// Errors: `Invalid` (an option), `Io` (no more threads are to be had).
    pub fn share(&self) -> Result<SharedResources> {
        self.validate()?;
        Ok(SharedResources { process: Process::start(RealEnv::new(), &self.process())? })
    }

    /// Opens databases with what is shared, whatever these options say of its size.
    #[must_use]
    pub fn shared(self, shared: &SharedResources) -> Options {
        Options { shared: Some(shared.clone()), ..self }
    }
}

impl fmt::Debug for SharedResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedResources").field(&self.process.settings()).finish()
    }
}
