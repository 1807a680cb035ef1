use std::path::Path;
use std::sync::Arc;

use terrace_base::{Epoch, FileId, LogPosition, RowId, SeqNo};
use terrace_env::{Latch, SharedEnv};

use super::database::{decode_edits, place_of, whole_edits};
use super::left_out::{self, LeftOut};
use super::take_over::{self, TakeOver};
use crate::cloud::format::Extent;
use crate::cloud::{CloudFeed, CloudNames, FedState, FeedTaker};
use crate::options::CloudOptions;
use crate::process::Process;
use crate::store::cloud::mirror::Mirror;
use crate::store::cloud::{CloudTier, FarCollector, FeedBehind};
use crate::store::follow::version_in_store;
use crate::version::format::encode_edit;
use crate::version::{
    FeedAuthors, FeedMark, FeedNews, FeedPosition, FeedStore, LoadedFeed, LocalManifests,
    LogBehind, VersionEdit, VersionFeed,
};
use crate::{Error, Result};

/// The feed of a range: the local manifest first, and the feed in its object store behind it, if it
/// has one.
///
/// Whoever opens the range looks at the store before anything else. It must hold what this
/// directory wrote last, or what the directory had found there; else the database was written from
/// elsewhere since, and the directory is an older copy. An empty directory goes on with the
/// database that the store has, and so does an older copy if it is told to (`take_over.rs`).
#[derive(Debug)]
pub struct CloudFeeds {
    process: Arc<Process>,
    env: SharedEnv,
    local: LocalManifests,
    tier: Arc<CloudTier>,
    loaded: Latch<Loaded>,
    /// What the feed came to when this open looked at it, until it takes it.
    known: Latch<Option<FedState>>,
}

/// What the local manifest says, as far as it matters here.
#[derive(Clone, Copy, Debug, Default)]
struct Loaded {
    database: Option<u128>,
    authors: Option<FeedAuthors>,
    progress: Progress,
    /// What the feed held when this open looked at it; `None` before.
    seen: Option<Seen>,
}

/// Which content a feed had, and whose. The default is that of one without a database.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    author: u128,
    epoch: Epoch,
    /// Its newest snapshot, and how many edits there are from there on.
    content: (Option<u64>, usize),
    /// Where its log goes on behind its newest moment.
    log: Option<LogBehind>,
}

impl Seen {
    fn of(state: &FedState) -> Seen {
        let FedState { mark, edits, .. } = state;
        let content = (mark.newest_snapshot(), edits.len());
        Seen { author: mark.nonce(), epoch: mark.epoch(), content, log: None }
    }

    fn with_log(self, edits: &[VersionEdit]) -> Seen {
        Seen { log: LogBehind::newest_in(edits), ..self }
    }
}

/// How far a range has come. None of it ever goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    seqno: SeqNo,
    row: RowId,
    log: LogPosition,
    /// The greatest id of a file. A compaction may change nothing else, and what it writes may have
    /// lower ids than what was installed before.
    file: Option<FileId>,
    /// How many edits were installed; `None` if an earlier version of Terrace wrote them.
    edits: Option<u64>,
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
            let values = edit.values.added.iter().map(|meta| meta.id);
            let files = tree.tables().map(|table| table.id).chain(values).map(Some);
            progress.file = files.fold(progress.file, Option::max);
            progress.edits = progress.edits.max(edit.range.edit_count);
        }
        progress
    }

    fn is_behind(&self, other: &Progress) -> bool {
        let is_behind_in_data = self.seqno < other.seqno || self.row < other.row;
        let is_behind_in_edits =
            matches!((self.edits, other.edits), (Some(own), Some(other)) if own < other);
        is_behind_in_data || self.log < other.log || self.file < other.file || is_behind_in_edits
    }
}

impl CloudFeeds {
    /// Puts the store of `tier` behind the manifests of a directory.
    pub fn new(process: &Arc<Process>, local: LocalManifests, tier: &Arc<CloudTier>) -> CloudFeeds {
        let (process, env) = (Arc::clone(process), Arc::clone(process.env()));
        CloudFeeds {
            process,
            env,
            local,
            tier: Arc::clone(tier),
            loaded: Latch::default(),
            known: Latch::default(),
        }
    }

    fn dir(&self) -> &Path {
        &self.local.dir
    }

    /// What the feed holds, if this directory may go on from it.
    fn look(&self, loaded: &Loaded) -> Result<Seen> {
        if let Some(seen) = loaded.seen {
            return Ok(seen);
        }
        let store = self.tier.store()?;
        let Some(names) = loaded.database.map(CloudNames::new) else { return Ok(Seen::default()) };
        let Some(state) = CloudFeed::read(store, names)? else {
            let is_lost = loaded.authors.is_some_and(|authors| authors.before != 0);
            return if is_lost { Err(self.is_lost()) } else { Ok(Seen::default()) };
        };
        if self.is_behind(loaded, &state, names)? {
            let left_out = self.local.load()?.map_or_else(String::new, |local| {
                left_out::told(&self.left_out(names, self.dir(), &local))
            });
            return Err(take_over::is_behind(self.dir(), self.tier.url(), &left_out));
        }
        let edits = decode_edits(&state.edits, &place_of(store, names))?;
        Ok(self.note(state).with_log(&edits))
    }

    /// Whether what the feed comes to was written from elsewhere, after this directory.
    fn is_behind(&self, loaded: &Loaded, state: &FedState, names: CloudNames) -> Result<bool> {
        let found = state.mark.nonce();
        let is_known =
            loaded.authors.is_some_and(|authors| [authors.own, authors.before].contains(&found));
        let place = place_of(self.tier.store()?, names);
        let fed = Progress::of(&decode_edits(&state.edits, &place)?);
        Ok(!is_known || loaded.progress.is_behind(&fed))
    }

    /// What this directory goes on from, if it is not what its own manifest says: it has none, or
    /// is behind and is told to go on.
    fn load_from_store(
        &self,
        options: &CloudOptions,
        local: Option<&LoadedFeed>,
    ) -> Result<Option<(LoadedFeed, Seen)>> {
        let store = self.tier.store()?;
        let found = match local {
            None => take_over::choose(store, options)?,
            Some(local) => self.ahead_of(local)?,
        };
        let Some((names, state)) = found else { return Ok(None) };
        take_over::require_closed(store, &state, options)?;
        let loaded = take_over::loaded(store, names, &state);
        let mut loaded = loaded.map_err(take_over::of_incomplete)?;
        let mut taken = TakeOver { set_aside: None, left_out: None };
        if let Some(local) = local {
            taken = self.set_aside(names, local)?;
            take_over::use_local_tables(&self.env, self.dir(), &mut loaded.edits)?;
        }
        self.tier.set_taken_over(taken);
        let seen = self.note(state).with_log(&loaded.edits);
        Ok(Some((loaded, seen)))
    }

    /// This is what the feed comes to.
    fn note(&self, state: FedState) -> Seen {
        let seen = Seen::of(&state);
        *self.known.lock() = Some(state);
        seen
    }

    /// Sets aside what this directory holds, which has fallen behind.
    fn set_aside(&self, names: CloudNames, local: &LoadedFeed) -> Result<TakeOver> {
        let aside = take_over::set_aside(self.env.as_ref(), self.dir(), local);
        let aside = aside.map_err(|error| match error {
            Error::Unsupported(what) => {
                let left_out = left_out::told(&self.left_out(names, self.dir(), local));
                Error::Unsupported(format!("{what}{left_out}"))
            }
            error => error,
        })?;
        let left_out = self.left_out(names, &aside, local).unwrap_or_else(|error| {
            crate::program_log::warn!(
                directory = %aside.display(), %error,
                "how much of what was set aside is nowhere else could not be told"
            );
            None
        });
        Ok(TakeOver { set_aside: Some(aside), left_out })
    }

    /// What whoever took the database over did not have of it, of what `dir` holds: this directory,
    /// or where its files were set aside. `None` if that is nothing, or cannot be known.
    fn left_out(
        &self,
        names: CloudNames,
        dir: &Path,
        local: &LoadedFeed,
    ) -> Result<Option<LeftOut>> {
        let facts = left_out::log_facts(&local.edits);
        let through = CloudFeed::taken_through(self.tier.store()?, names, facts.epoch)?;
        let Some(through) = through else { return Ok(None) };
        let in_tables = Progress::of(&local.edits).seqno;
        LeftOut::count(&self.env, dir, facts, (through, in_tables))
    }

    /// What the feed comes to, if the directory that holds `local` is behind it.
    fn ahead_of(&self, local: &LoadedFeed) -> Result<Option<(CloudNames, FedState)>> {
        let loaded = Loaded::of(local);
        let Some(names) = loaded.database.map(CloudNames::new) else { return Ok(None) };
        let Some(state) = CloudFeed::read(self.tier.store()?, names)? else { return Ok(None) };
        Ok(self.is_behind(&loaded, &state, names)?.then_some((names, state)))
    }

    fn is_contended(&self) -> Error {
        Error::Fenced(format!(
            "the database in {} was opened or written from elsewhere at the same time, as {} says; \
             see that only one has it open, and try again",
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
    fn take(
        &self,
        names: CloudNames,
        authors: FeedAuthors,
        epoch: Epoch,
    ) -> Result<(CloudFeed, FedState)> {
        let store = self.tier.store()?;
        let seen = self.loaded.lock().seen.unwrap_or_default();
        let may_take = |state: &FedState| {
            let now = Seen::of(state);
            let is_same = now.author == authors.before && now.content == seen.content;
            if is_same && now.epoch < epoch { Ok(()) } else { Err(self.is_contended()) }
        };
        let through = self.tier.found_through();
        let taker = FeedTaker { through, ..FeedTaker::new(authors.own, epoch) };
        let known = self.known.lock().take();
        let (feed, state) = CloudFeed::open(store, names, taker, known, may_take)?;
        assert_eq!(feed.epoch(), epoch, "the feed's owner has the range's epoch");
        Ok((feed, state))
    }

    /// What the feed came to before this owner, as a snapshot of its own, if that is a moment of
    /// the whole range: until this owner has fed one, whoever has only the store finds that one.
    fn moment_before(
        &self,
        names: CloudNames,
        state: &FedState,
        snapshot: &VersionEdit,
    ) -> Result<Option<VersionEdit>> {
        let edits = match whole_edits(state, &place_of(self.tier.store()?, names)) {
            Err(Error::Unsupported(_)) => return Ok(None),
            edits => edits?,
        };
        let version = version_in_store(&self.process, &self.tier, names, &edits)?;
        let mut before = version.to_snapshot();
        before.media = None;
        before.range.epoch = snapshot.range.epoch;
        before.range.cloud = snapshot.range.cloud.clone();
        Ok(Some(before))
    }
}

impl Loaded {
    fn of(loaded: &LoadedFeed) -> Loaded {
        let ranges = || loaded.edits.iter().map(|edit| &edit.range);
        let progress = Progress::of(&loaded.edits);
        // A manifest that was begun anew no longer names tables that went, and takes an id itself.
        let file = progress.file.max(Some(loaded.end.id));
        Loaded {
            database: ranges().filter_map(|range| range.database).next_back(),
            authors: ranges().filter_map(|range| Some(range.cloud.as_ref()?.authors)).next_back(),
            progress: Progress { file, ..progress },
            seen: None,
        }
    }
}

impl FeedStore for CloudFeeds {
    /// Errors: also `Invalid` if the store has a database that may be open elsewhere, or several;
    /// `Unsupported` if it has a part of it only; what the store answers.
    fn load(&self) -> Result<Option<LoadedFeed>> {
        let mut loaded = self.local.load()?;
        let mut seen = None;
        let options = self.tier.options();
        if let Some(options) = options.filter(|options| loaded.is_none() || options.take_over)
            && let Some((taken, of_feed)) = self.load_from_store(options, loaded.as_ref())?
        {
            (loaded, seen) = (Some(taken), Some(of_feed));
        }
        let facts = loaded.as_ref().map(Loaded::of).unwrap_or_default();
        *self.loaded.lock() = Loaded { seen, ..facts };
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
        let seen = self.look(&loaded)?;
        self.loaded.lock().seen = Some(seen);
        let epoch = self.local.next_epoch(epoch.max(seen.epoch))?;
        let authors = FeedAuthors { own: self.env.random_u128(), before: seen.author };
        self.tier.draw_authors(authors, epoch);
        self.tier.note_log(seen.log);
        Ok(epoch)
    }

    /// The first time in an open, the feed in the store is fenced before the local manifest changes
    /// and begins with the same snapshot right after that: nothing is acknowledged before both are
    /// there. With a mirror it begins with the moment that it came to before, if it was at one.
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
        let (mut feed, state) = self.take(names, cloud.authors, epoch)?;
        let is_mirrored = self.tier.options().is_some_and(|options| options.mirror.is_some());
        let before = match is_mirrored {
            true => self.moment_before(names, &state, snapshot)?,
            false => None,
        };
        let local = self.local.begin(id, snapshot)?;
        match &before {
            Some(before) => feed.begin(&encode_edit(before), Extent::Moment)?,
            None => feed.begin(&encoded, Extent::Some)?,
        };
        let waits = self.env.waits();
        let store = self.tier.store()?;
        let fed = before.as_ref();
        let collector = FarCollector::new(&waits, store, names, &feed, snapshot, fed, is_mirrored);
        self.tier.set_collector(collector);
        let mirror = is_mirrored.then(|| Mirror::new(epoch, snapshot, fed));
        let is_same = before.is_none();
        let behind = FeedBehind::new(&waits, feed, fed.unwrap_or(snapshot), mirror, is_same);
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
