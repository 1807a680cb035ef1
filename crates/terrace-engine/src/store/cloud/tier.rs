use std::fmt;
use std::sync::Arc;

use terrace_base::{Epoch, LogPosition, SeqNo};
use terrace_env::atomic::{AtomicU64, Ordering};
use terrace_env::{SetOnce, SharedEnv};

use crate::Result;
use crate::cloud::format::Author;
use crate::cloud::{CloudStore, PriceSheet};
use crate::options::CloudOptions;
use crate::store::cloud::{Archive, FarCollector, FeedBehind, OutlivingLog, TakeOver};
use crate::version::{CloudEdit, FeedAuthors, LogBehind, VersionEdit};

/// The object store of a range, if it has one: that of its options, or the one that its manifest
/// names. Opened when it is first asked for.
pub struct CloudTier {
    env: SharedEnv,
    options: SetOnce<CloudOptions>,
    store: SetOnce<Arc<CloudStore>>,
    authors: SetOnce<FeedAuthors>,
    epoch: SetOnce<Epoch>,
    log: SetOnce<OutlivingLog>,
    log_before: SetOnce<LogBehind>,
    archive: SetOnce<Archive>,
    /// The greatest number that this open has found, in tables and in the log.
    found_through: SetOnce<SeqNo>,
    /// The log of this directory is kept from here on, for the feed still says that it lies on a
    /// volume.
    kept_from: AtomicU64,
    behind: SetOnce<Arc<FeedBehind>>,
    collector: SetOnce<FarCollector>,
    taken_over: SetOnce<TakeOver>,
}

impl CloudTier {
    /// The store that the options name, if they do. Nothing is asked of it yet.
    #[must_use]
    pub fn new(env: &SharedEnv, options: Option<CloudOptions>) -> Arc<CloudTier> {
        let of_range = SetOnce::new();
        if let Some(options) = options {
            of_range.get_or_set(options);
        }
        Arc::new(CloudTier {
            env: Arc::clone(env),
            options: of_range,
            store: SetOnce::new(),
            authors: SetOnce::new(),
            epoch: SetOnce::new(),
            log: SetOnce::new(),
            log_before: SetOnce::new(),
            archive: SetOnce::new(),
            found_through: SetOnce::new(),
            kept_from: AtomicU64::new(u64::MAX),
            behind: SetOnce::new(),
            collector: SetOnce::new(),
            taken_over: SetOnce::new(),
        })
    }

    /// Without options, the store is the one that these edits of the manifest name.
    pub fn find_in(&self, edits: &[VersionEdit]) {
        let named = edits.iter().filter_map(|edit| edit.range.cloud.as_ref()).next_back();
        if let Some(CloudEdit { url, .. }) = named.filter(|cloud| !cloud.url.is_empty()) {
            self.options.get_or_set(CloudOptions::as_it_is(url));
        }
    }

    /// What the range asks of it; `None` if it has no store.
    #[must_use]
    pub fn options(&self) -> Option<&CloudOptions> {
        self.options.get()
    }

    /// Its URL; empty if the range has no store.
    #[must_use]
    pub fn url(&self) -> &str {
        self.options().map_or("", |options| &options.url)
    }

    /// What the store charges, for estimates.
    #[must_use]
    pub fn prices(&self) -> PriceSheet {
        self.options().map_or_else(PriceSheet::default, CloudOptions::price_sheet)
    }

    /// The store. No request is made.
    ///
    /// Errors: no store has such a URL; the environment's.
    pub fn store(&self) -> Result<&Arc<CloudStore>> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let objects = self.env.objects().open(self.url())?;
        let store = Arc::new(CloudStore::new(&self.env, objects));
        Ok(self.store.get_or_set(store))
    }

    /// What the manifest says of the store from this open on; nothing if the range is only read.
    #[must_use]
    pub fn to_edit(&self) -> Option<CloudEdit> {
        let authors = *self.authors.get()?;
        Some(CloudEdit { authors, url: self.url().to_string() })
    }

    pub(super) fn draw_authors(&self, authors: FeedAuthors, epoch: Epoch) {
        self.authors.get_or_set(authors);
        self.epoch.get_or_set(epoch);
    }

    /// In whose name this open writes to the store; nothing if the range is only read.
    pub(super) fn author(&self) -> Option<Author> {
        let nonce = self.authors.get()?.own;
        Some(Author { epoch: *self.epoch.get()?, nonce })
    }

    /// Where the log went on behind the newest moment that this open has found there.
    pub(super) fn log_before(&self) -> Option<LogBehind> {
        self.log_before.get().copied()
    }

    pub(super) fn note_log(&self, log: Option<LogBehind>) {
        if let Some(log) = log {
            self.log_before.get_or_set(log);
        }
    }

    /// This open has everything up to this number.
    pub fn note_found(&self, through: SeqNo) {
        self.found_through.get_or_set(through);
    }

    pub(super) fn found_through(&self) -> Option<SeqNo> {
        self.found_through.get().copied()
    }

    /// The log that this open has found on a volume, and that goes on elsewhere, is kept from a
    /// position on until a moment is in the feed.
    pub(super) fn keep_log_before(&self, from: LogPosition) {
        self.kept_from.store(from.0, Ordering::SeqCst);
    }

    pub(super) fn let_go_of_log_before(&self) {
        self.kept_from.store(u64::MAX, Ordering::SeqCst);
    }

    /// Whoever takes the range over needs what an earlier open wrote from here on.
    pub(super) fn log_before_is_kept_from(&self) -> LogPosition {
        LogPosition(self.kept_from.load(Ordering::SeqCst))
    }

    /// The log that outlives the machine, once this open writes it.
    #[must_use]
    pub fn outliving_log(&self) -> Option<&OutlivingLog> {
        self.log.get()
    }

    pub(super) fn set_log(&self, log: OutlivingLog) {
        self.log.get_or_set(log);
    }

    /// The archive of the database, once this open writes the log in the store.
    #[must_use]
    pub fn archive(&self) -> Option<&Archive> {
        self.archive.get()
    }

    pub(super) fn set_archive(&self, archive: Archive) {
        self.archive.get_or_set(archive);
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

    /// Whether the feed in the store says whose the database is, so that what earlier owners have
    /// left on a volume need not be theirs any more.
    pub fn decides_owner(&self) -> bool {
        let is_mirrored = self.options().is_some_and(|options| options.mirror.is_some());
        is_mirrored || self.taken_over().is_some()
    }

    /// What this open has taken over, if anything.
    #[must_use]
    pub fn taken_over(&self) -> Option<&TakeOver> {
        self.taken_over.get()
    }

    pub(super) fn set_taken_over(&self, taken: TakeOver) {
        self.taken_over.get_or_set(taken);
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
