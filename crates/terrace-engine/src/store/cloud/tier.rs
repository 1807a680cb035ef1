use std::fmt;
use std::sync::Arc;

use terrace_env::{SetOnce, SharedEnv};

use crate::Result;
use crate::cloud::CloudStore;
use crate::options::CloudOptions;
use crate::store::cloud::{FarCollector, FeedBehind};
use crate::version::FeedAuthors;

/// The object store of a range, as its options name it. Opened when it is first asked for.
pub struct CloudTier {
    env: SharedEnv,
    options: CloudOptions,
    store: SetOnce<Arc<CloudStore>>,
    authors: SetOnce<FeedAuthors>,
    behind: SetOnce<Arc<FeedBehind>>,
    collector: SetOnce<FarCollector>,
}

impl CloudTier {
    /// The store that the options name. Nothing is asked of it yet.
    #[must_use]
    pub fn new(env: &SharedEnv, options: CloudOptions) -> Arc<CloudTier> {
        let env = Arc::clone(env);
        Arc::new(CloudTier {
            env,
            options,
            store: SetOnce::new(),
            authors: SetOnce::new(),
            behind: SetOnce::new(),
            collector: SetOnce::new(),
        })
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

    /// Who may have written the newest content of the feed from this open on; none if the range is
    /// only read.
    #[must_use]
    pub fn authors(&self) -> Option<FeedAuthors> {
        self.authors.get().copied()
    }

    pub(super) fn draw_authors(&self, authors: FeedAuthors) {
        self.authors.get_or_set(authors);
    }

    /// The feed in the store, once this open owns it.
    #[must_use]
    pub fn behind(&self) -> Option<&Arc<FeedBehind>> {
        self.behind.get()
    }

    pub(super) fn set_behind(&self, behind: Arc<FeedBehind>) -> &Arc<FeedBehind> {
        self.behind.get_or_set(behind)
    }

    /// Who deletes what nobody needs, once this open owns the feed.
    #[must_use]
    pub fn collector(&self) -> Option<&FarCollector> {
        self.collector.get()
    }

    pub(super) fn set_collector(&self, collector: FarCollector) {
        self.collector.get_or_set(collector);
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
