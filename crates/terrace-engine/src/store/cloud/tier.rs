use std::fmt;
use std::sync::Arc;

use terrace_env::{SetOnce, SharedEnv};

use crate::Result;
use crate::cloud::CloudStore;
use crate::options::CloudOptions;

/// The object store of a range, as its options name it. Opened when it is first asked for.
pub struct CloudTier {
    env: SharedEnv,
    options: CloudOptions,
    store: SetOnce<Arc<CloudStore>>,
}

impl CloudTier {
    /// The store that the options name. Nothing is asked of it yet.
    #[must_use]
    pub fn new(env: &SharedEnv, options: CloudOptions) -> Arc<CloudTier> {
        Arc::new(CloudTier { env: Arc::clone(env), options, store: SetOnce::new() })
    }

    /// What the range asks of it.
    #[must_use]
    pub fn options(&self) -> &CloudOptions {
        &self.options
    }

    /// The store. No request is made.
    ///
    /// Errors: no store has such a URL; the environment's.
    pub fn store(&self) -> Result<&Arc<CloudStore>> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let objects = self.env.objects().open(&self.options.url)?;
        let store = Arc::new(CloudStore::new(&self.env, objects));
        Ok(self.store.get_or_set(store))
    }

    /// No failed request is tried again from now on: a close does not wait for a store that is
    /// away.
    pub fn stop(&self) {
        if let Some(store) = self.store.get() {
            store.stop();
        }
    }
}

impl fmt::Debug for CloudTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudTier").field("options", &self.options).finish_non_exhaustive()
    }
}
