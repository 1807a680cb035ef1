use std::path::Path;
use std::sync::Arc;

use terrace_base::{Corruption, Epoch, FileId, LogPosition, RowId, SeqNo};
use terrace_env::{Latch, SharedEnv};

use crate::cloud::format::Extent;
use crate::cloud::{CloudFeed, CloudNames, FedState};
use crate::store::cloud::mirror::Mirror;
use crate::store::cloud::{CloudTier, FarCollector, FeedBehind};
use crate::version::format::{decode_edit, encode_edit};
use crate::version::{
    FeedAuthors, FeedMark, FeedNews, FeedPosition, FeedStore, LoadedFeed, LocalManifests,
    VersionEdit, VersionFeed,
};
use crate::{Error, Result};

/// The feed of a range: the local manifest first, and the feed in its object store behind it, if it
/// has one.
///
/// Whoever opens the range looks at the store before anything else. It must hold what this
/// directory wrote last, or what the directory had found there; else the database was written from
/// elsewhere since, and the directory is an older copy.
#[derive(Debug)]
pub struct CloudFeeds {
    env: SharedEnv,
    local: LocalManifests,
    tier: Arc<CloudTier>,
    loaded: Latch<Loaded>,
}

/// What the local manifest says, as far as it matters here.
#[derive(Clone, Copy, Debug, Default)]
struct Loaded {
    database: Option<u128>,
    authors: Option<FeedAuthors>,
    progress: Progress,
}

/// How far a range has come. None of it ever goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    seqno: SeqNo,
    row: RowId,
    log: LogPosition,
}

impl Progress {
    fn of<'a>(edits: impl IntoIterator<Item = &'a VersionEdit>) -> Progress {
        let mut progress = Progress::default();
        for edit in edits {
            let tree = &edit.tree;
            let rows = tree.rows_added.iter().map(|row| RowId(row.id.0 + 1)).chain(tree.next_row);
            progress.row = rows.fold(progress.row, RowId::max);
            progress.seqno = tree.greatest_seqno.unwrap_or_default().max(progress.seqno);
            let start = edit.log.start.map(|start| start.position);
            progress.log = start.unwrap_or_default().max(progress.log);
        }
        progress
    }

    fn is_behind(&self, other: &Progress) -> bool {
        self.seqno < other.seqno || self.row < other.row || self.log < other.log
    }
}

impl CloudFeeds {
    /// Puts the store of `tier` behind the manifests of a directory.
    pub fn new(env: &SharedEnv, local: LocalManifests, tier: &Arc<CloudTier>) -> CloudFeeds {
        let (env, tier) = (Arc::clone(env), Arc::clone(tier));
        CloudFeeds { env, local, tier, loaded: Latch::default() }
    }

    fn dir(&self) -> &Path {
        &self.local.dir
    }

    /// Whose content lies in the store, if this directory may go on from it; and the feed's epoch.
    fn look(&self, loaded: &Loaded) -> Result<(u128, Epoch)> {
        let store = self.tier.store()?;
        let Some(database) = loaded.database else { return Ok((0, Epoch(0))) };
        let Some(state) = CloudFeed::read(store, CloudNames::new(database))? else {
            let is_lost = loaded.authors.is_some_and(|authors| authors.before != 0);
            return if is_lost { Err(self.is_lost()) } else { Ok((0, Epoch(0))) };
        };
        let found = nonce_of(&state);
        let is_known =
            loaded.authors.is_some_and(|authors| [authors.own, authors.before].contains(&found));
        let names = CloudNames::new(database);
        if !is_known || loaded.progress.is_behind(&Progress::of(&decode_all(&state, names)?)) {
            return Err(self.is_older_copy());
        }
        Ok((found, state.mark.epoch()))
    }

    fn is_older_copy(&self) -> Error {
        Error::Fenced(format!(
            "the database in {} is an older copy: what lies in {} was written from elsewhere since. \
             Open the directory that wrote it last; this one is left as it is",
            self.dir().display(),
            self.tier.url()
        ))
    }

    fn is_lost(&self) -> Error {
        Error::invalid(format!(
            "{} holds nothing of the database in {}, which was fed to a store: check the URL, and \
             whether something else has deleted its objects",
            self.tier.url(),
            self.dir().display()
        ))
    }

    /// Takes the feed in the store, of which this epoch is the owner's from now on, if it is as it
    /// was when this open had looked at it.
    fn take(&self, names: CloudNames, authors: FeedAuthors, epoch: Epoch) -> Result<CloudFeed> {
        let store = self.tier.store()?;
        let changed =
            |state: &FedState| nonce_of(state) != authors.before || state.mark.epoch() >= epoch;
        let may_take = |state: &FedState| match changed(state) {
            false => Ok(()),
            true => Err(Error::Fenced(format!(
                "the database in {} was opened from elsewhere at the same time, as {} says; see \
                 that only one opens it",
                self.dir().display(),
                self.tier.url()
            ))),
        };
        let (feed, _) = CloudFeed::open(store, names, authors.own, epoch, may_take)?;
        assert_eq!(feed.epoch(), epoch, "the feed's owner has the range's epoch");
        Ok(feed)
    }
}

/// Who wrote what the feed comes to.
fn nonce_of(state: &FedState) -> u128 {
    state.mark.author().map_or(0, |author| author.nonce)
}

fn decode_all(state: &FedState, names: CloudNames) -> Result<Vec<VersionEdit>> {
    let decoded = state.edits.iter().map(|edit| decode_edit(edit));
    decoded.collect::<std::result::Result<_, _>>().map_err(|error| {
        let feed = names.feed_prefix();
        Corruption::from_codec(Path::new(&feed), 0, &error).into()
    })
}

impl FeedStore for CloudFeeds {
    fn load(&self) -> Result<Option<LoadedFeed>> {
        let loaded = self.local.load()?;
        if let Some(LoadedFeed { edits, .. }) = &loaded {
            let ranges = || edits.iter().map(|edit| &edit.range);
            *self.loaded.lock() = Loaded {
                database: ranges().filter_map(|range| range.database).next_back(),
                authors: ranges()
                    .filter_map(|range| Some(range.cloud.as_ref()?.authors))
                    .next_back(),
                progress: Progress::of(edits),
            };
        }
        Ok(loaded)
    }

    fn news(&self, mark: Option<FeedMark>) -> Result<Option<FeedNews>> {
        self.local.news(mark)
    }

    /// Errors: also `Fenced` if the directory is an older copy; `Invalid` if the store has lost the
    /// database; what the store answers.
    fn next_epoch(&self, epoch: Epoch) -> Result<Epoch> {
        if self.tier.options().is_none() {
            return self.local.next_epoch(epoch);
        }
        let loaded = *self.loaded.lock();
        let (before, fed) = self.look(&loaded)?;
        self.tier.draw_authors(FeedAuthors { own: self.env.random_u128(), before });
        self.local.next_epoch(epoch.max(fed))
    }

    /// The first time in an open, the feed in the store is fenced before the local manifest changes
    /// and begins with the same snapshot right after that: nothing is acknowledged before both are
    /// there.
    fn begin(&self, id: FileId, snapshot: &VersionEdit) -> Result<Box<dyn VersionFeed>> {
        if self.tier.options().is_none() {
            return self.local.begin(id, snapshot);
        }
        let encoded = encode_edit(snapshot);
        if let Some(behind) = self.tier.behind() {
            let local = self.local.begin(id, snapshot)?;
            behind.begin_with(encoded);
            return Ok(Box::new(FedManifest { local, behind: Arc::clone(behind) }));
        }
        let range = &snapshot.range;
        let (Some(database), Some(epoch), Some(cloud)) =
            (range.database, range.epoch, &range.cloud)
        else {
            return Err(Error::Poisoned("a snapshot does not say whose it is".to_string()));
        };
        let names = CloudNames::new(database);
        let mut feed = self.take(names, cloud.authors, epoch)?;
        let local = self.local.begin(id, snapshot)?;
        feed.begin(&encoded, Extent::Some)?;
        let waits = self.env.waits();
        let store = self.tier.store()?;
        let is_mirrored = self.tier.options().is_some_and(|options| options.mirror.is_some());
        let collector = FarCollector::new(&waits, store, names, &feed, snapshot, is_mirrored);
        self.tier.set_collector(collector);
        let mirror = is_mirrored.then(|| Mirror::new(epoch, snapshot));
        let behind = FeedBehind::new(&waits, feed, snapshot, mirror);
        let behind = Arc::clone(self.tier.set_behind(Arc::new(behind)));
        Ok(Box::new(FedManifest { local, behind }))
    }
}

/// A local manifest whose edits the feed in the store gets, too.
#[derive(Debug)]
struct FedManifest {
    local: Box<dyn VersionFeed>,
    behind: Arc<FeedBehind>,
}

impl VersionFeed for FedManifest {
    fn append(&mut self, edit: &VersionEdit) -> Result<()> {
        self.local.append(edit)?;
        self.behind.add_edit(encode_edit(edit));
        Ok(())
    }

    fn end(&self) -> FeedPosition {
        self.local.end()
    }

    fn wants_snapshot(&self) -> bool {
        self.local.wants_snapshot()
    }
}
