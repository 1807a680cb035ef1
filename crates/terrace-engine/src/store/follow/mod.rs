//! Following a range that a writer has open in another process: its state at one moment after the
//! other, each of them whole.
//!
//! # Why
//! A process that only looks must not wait until the writer closes, and must not hold it up. It
//! takes no lock and writes nothing. It opens what the manifest names, reads the log into memtables
//! of its own, and on each call catches up: it reads what has come since, of both.
//!
//! # One look, one moment
//! ```text
//!   first look     manifest: a version, whose files are opened
//!   log            records behind the mark, into memtables
//!   second look    manifest: is it still that log, and are there no tables with newer numbers?
//!                    yes: version and memtables belong together, and are shown
//!                    no: once more, with the newer version
//! ```
//! *The log after the manifest.* What the version's tables hold had been published before the
//! version was installed, so all records up to it were complete, and the log is read beyond them.
//! The other way about, tables would show a write without the earlier ones that were in memory
//! still.
//!
//! *The manifest after the log.* Records that were read from a segment after its release may lack
//! some; so may those that stand behind an ingest, whose entries are in tables that the first
//! version does not name. Both need an edit, and the edit is durable first. What an open does to
//! the log without an edit, `wal/follow.rs` notices.
//!
//! *Files that vanish.* The writer removes a file when a durable edit says so. So an error counts
//! only if the manifest has not gone on meanwhile; and what is open stays readable without a name.
//!
//! # Moments
//! Each catch-up that finds something makes a new [`Store`], which only reads, and never changes:
//! snapshots, iterators and handles of the one before go on showing that one's moment, for the
//! writer knows nothing of them and keeps no old version for their sake. Memtables, and
//! open tables as long as the manifest goes on, are shared by the moments: the memtables grow, but
//! each moment has its own newest number.
//!
//! # What does not work
//! A container of L0, whose pages the writer uses again in place, and a log or tables on a medium
//! of their own, which another process has claimed: `Unsupported`.
//!
//! Begin at [`Follower`]; `tail.rs` has the memtables.
//!
//! *Source:* the secondary instances of RocksDB. *Differs:* there a secondary may read a file that
//! was removed, or lack the writes of a log that was, until it catches up again.

mod tail;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::cloud::CloudNames;
use crate::drange::{Active, Boundaries, Division, DrangeMap};
use crate::memtable::SpareMemory;
use crate::options::{CloudOptions, L0Options, Options, Research};
use crate::process::{PoolName, Process};
use crate::store::Store;
use crate::store::cloud::{ArchivedLog, CloudTier, NoLog, StoreFeed, StoreMoment, choose_database};
use crate::store::follow::tail::Tail;
use crate::store::open::close::Closer;
use crate::store::open::opening::{Held, Opening, Pieces, RecoveryReport};
use crate::store::open::seams::Seams;
use crate::store::sequencer::Sequencer;
use crate::store::view::{DrangeView, View};
use crate::table::ReadMode;
use crate::version::{FeedMark, FeedNews, LoadedFeed, Version, VersionEdit, manifest_path};
use crate::wal::{LogMark, LogStore, ReadOn};
use crate::{Error, Result};
use terrace_base::{Corruption, KeyRange, SeqNo, WallTime};

/// How often a catch-up begins anew because the writer was faster.
const ROUNDS_MAX: u32 = 1000;

/// A range that another process writes, followed from one moment to the next.
pub struct Follower {
    opening: Opening,
    /// The newest version that was looked at, and where in the feed it stands.
    newest: Arc<Version>,
    feed: FeedMark,
    /// What the log holds beside it.
    tail: Tail,
    shown: Moment,
    store: Store,
    /// The log of a state out of an archive.
    archived: Option<Arc<ArchivedLog>>,
}

/// What a store of a [`Follower`] shows.
struct Moment {
    version: Arc<Version>,
    mark: Option<LogMark>,
    seqno: SeqNo,
}

impl Follower {
    /// Opens the range in `dir` beside whoever writes it, as it is now. Takes no lock, writes
    /// nothing, and starts no thread. Of the options, those of writing and of the layout mean
    /// nothing.
    ///
    /// Where lower levels of the range lie in an object store, its owner may delete a table there
    /// while it is still shown here: reads answer `Outdated` then, until the next
    /// [`Follower::catch_up`].
    ///
    /// Cost: as an open for reading; all tables are opened.
    ///
    /// Errors: `Invalid` (nothing there; another merge operator), `Unsupported` (of a later
    /// version; its L0 or its log lie where they cannot be followed), `Corruption`, `Io`.
    pub fn open(process: &Arc<Process>, dir: &Path, options: Options) -> Result<Follower> {
        let options = looking(options);
        let seams = Seams::local(process, dir, &options);
        Follower::open_with(process, dir, options, seams)
    }

    /// Opens a database that lies in the object store at `url`, as its owner has mirrored it there,
    /// beside that owner and on any machine. `database` is its id, if there are several.
    /// [`Follower::catch_up`] brings it to the newest moment that was fed; a checkpoint, or a state
    /// out of the archive, stays as it is.
    ///
    /// A pin in the store keeps what is shown, as long as `catch_up` is called every few minutes;
    /// after a quarter of an hour without it, reads may answer `Outdated`. Iterators and snapshots
    /// that outlive the follower are not kept.
    ///
    /// Cost: two readings of the feed and some four requests; tables are opened when they are read.
    /// A state out of the archive costs a few for each pin, and the log that leads to it, up to
    /// half a gigabyte, which is in memory then.
    ///
    /// Errors: `Invalid` (no database, or no such checkpoint or state there), `Unsupported` (the
    /// owner does not mirror the database), `Corruption`, `Io`.
    pub fn open_store(
        process: &Arc<Process>,
        url: &str,
        database: Option<u128>,
        moment: StoreMoment,
        options: Options,
    ) -> Result<Follower> {
        let env = process.env();
        let cloud = Some(CloudOptions::as_it_is(url));
        let options = looking(Options { cloud, ..options });
        let tier = CloudTier::new(env, options.cloud.clone());
        let store = Arc::clone(tier.store()?);
        let names = CloudNames::new(choose_database(&store, database)?);
        let feed = StoreFeed::new(env, &store, names, moment);
        let (dir, archived) = (feed.dir(), feed.archived());
        let seams = seams_in_store(process, &tier, feed, &options);
        let follower = Follower::open_with(process, &dir, options, seams)?;
        Ok(Follower { archived, ..follower })
    }

    /// The time of the state that is shown, of one out of an archive: all records until then are in
    /// it, by the owner's clock. `None` if that was not read of the log.
    #[must_use]
    pub fn gathered(&self) -> Option<WallTime> {
        self.archived.as_ref()?.gathered()
    }

    /// As [`Follower::open`], with other sides of the seams. Errors: also `Unsupported` if such a
    /// log cannot be read while it is written.
    pub fn open_with(
        process: &Arc<Process>,
        dir: &Path,
        options: Options,
        seams: Seams,
    ) -> Result<Follower> {
        let options = looking(options);
        options.validate()?;
        let Some(news) = seams.feeds.news(None)? else {
            return Err(Error::invalid(format!(
                "{} holds no database; check the path, or create one there",
                dir.display()
            )));
        };
        let opening = Opening::after_edits(process, dir, options, seams, &news.edits)?;
        let version = Arc::new(fold(&opening, &Version::empty(opening.l0.as_ref()), &news)?);
        refuse_media(&version)?;
        opening.mount_far(&version)?;
        let pool = process.memory().pool(PoolName::Memtables);
        let mut tail = Tail::new(&opening.ids, opening.options.memtable_bytes, pool);
        let (mut newest, mut feed) = (version, news.mark);
        let version = current(&opening, &mut newest, &mut feed, &mut tail)?;
        let (shown, store) = show(&opening, &version, &tail)?;
        opening.feeds.shows(&store.inner.versions.current());
        Ok(Follower { opening, newest, feed, tail, shown, store, archived: None })
    }

    /// The range as it was at the last catch-up. Only reads; never changes, and may be kept.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Brings [`Follower::store`] up to date; whether there was anything new. On return it shows
    /// every write that was acknowledged before the call, each one together with all that came
    /// before it. After an error it shows what it showed before.
    ///
    /// Cost: a listing of the directory and a look at each file of the log, twice, and what came
    /// since; if the writer was opened anew meanwhile, the whole log.
    ///
    /// Errors: `Outdated` (the directory holds something else by now; the writer was faster a
    /// thousand times), `Unsupported`, `Corruption`, `Io`.
    pub fn catch_up(&mut self) -> Result<bool> {
        let Follower { opening, newest, feed, tail, .. } = self;
        let version = current(opening, newest, feed, tail)?;
        let is_same =
            Arc::ptr_eq(&version, &self.shown.version) && self.tail.mark == self.shown.mark;
        if is_same {
            return Ok(false);
        }
        let (moment, store) = show(&self.opening, &version, &self.tail)?;
        if moment.seqno < self.shown.seqno {
            return Err(Error::Outdated(format!(
                "the database in {} ends at write {} by now, and ended at {} before: an older copy \
                 has taken its place; open it again",
                self.opening.dir.display(),
                moment.seqno.0,
                self.shown.seqno.0
            )));
        }
        (self.shown, self.store) = (moment, store);
        self.opening.feeds.shows(&self.store.inner.versions.current());
        Ok(true)
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Follower({} at {:?})", self.opening.dir.display(), self.shown.seqno)
    }
}

/// The seams of a range of which only the store is there: tables, and the log of a state out of an
/// archive.
fn seams_in_store(
    process: &Arc<Process>,
    tier: &Arc<CloudTier>,
    feed: StoreFeed,
    options: &Options,
) -> Seams {
    let dir = feed.dir();
    let log: Arc<dyn LogStore> = match feed.archived() {
        Some(archived) => archived,
        None => Arc::new(NoLog),
    };
    Seams {
        feeds: Arc::new(feed),
        log,
        cloud: Arc::clone(tier),
        ..Seams::local(process, &dir, options)
    }
}

/// The version that these edits of a database in an object store make. No table of it is opened.
///
/// Errors: `Corruption`; the environment's.
pub(in crate::store) fn version_in_store(
    process: &Arc<Process>,
    tier: &Arc<CloudTier>,
    names: CloudNames,
    edits: &[VersionEdit],
) -> Result<Version> {
    let options = looking(Options { cloud: tier.options().cloned(), ..Options::default() });
    let feed = StoreFeed::new(process.env(), tier.store()?, names, StoreMoment::Newest);
    let dir = feed.dir();
    let seams = seams_in_store(process, tier, feed, &options);
    let opening = Opening::after_edits(process, &dir, options, seams, edits)?;
    let loaded = LoadedFeed { edits: edits.to_vec(), ..LoadedFeed::default() };
    loaded.fold(&dir, opening.l0.as_ref(), &opening.context)
}

/// The options without what concerns writing, and where that goes.
fn looking(options: Options) -> Options {
    Options {
        read_only: true,
        create_if_missing: false,
        error_if_exists: false,
        l0: L0Options::PLAIN,
        log_path: None,
        log_volume: None,
        drange_boundaries: Vec::new(),
        research: Research::default(),
        ..options
    }
}

/// Looks until a version and what was read of the log belong together; that version. The newest one
/// may be newer.
fn current(
    opening: &Opening,
    newest: &mut Arc<Version>,
    feed: &mut FeedMark,
    tail: &mut Tail,
) -> Result<Arc<Version>> {
    for _ in 0..ROUNDS_MAX {
        look(opening, newest, feed)?;
        let (version, looked) = (Arc::clone(newest), *feed);
        let read = read(opening, &version, tail);
        look(opening, newest, feed)?;
        match read {
            Err(error) if *feed == looked => return Err(error),
            Ok(true) if belongs(&version, newest) => {
                return Ok(version);
            }
            _ => {}
        }
    }
    Err(Error::Outdated(format!(
        "the writer of {} was faster {ROUNDS_MAX} times in a row; open it again when it writes less",
        opening.dir.display()
    )))
}

/// Whether what was read of the log beside `version` is all that belongs to it, if `now` is the
/// version after that: nothing of the log was released, and no table has come with newer numbers.
fn belongs(version: &Version, now: &Version) -> bool {
    version.epoch() == now.epoch()
        && version.log_start() == now.log_start()
        && version.greatest_seqno() == now.greatest_seqno()
}

/// Reads what the feed holds that is not known yet.
fn look(opening: &Opening, newest: &mut Arc<Version>, feed: &mut FeedMark) -> Result<()> {
    let gone = |what: &str| {
        let dir = opening.dir.display();
        Error::Outdated(format!("{dir} {what} by now; open it again"))
    };
    let news = opening.feeds.news(Some(*feed))?;
    let news = news.ok_or_else(|| gone("holds no database"))?;
    if news.edits.is_empty() {
        return Ok(());
    }
    let before = match news.begins_anew {
        true => Version::empty(opening.l0.as_ref()),
        false => Version::clone(newest),
    };
    let version = fold(opening, &before, &news)?;
    if version.database() != newest.database() {
        return Err(gone("holds another database"));
    }
    if version.epoch() < newest.epoch() {
        return Err(gone("holds an older copy of the database"));
    }
    refuse_media(&version)?;
    (*newest, *feed) = (Arc::new(version), news.mark);
    Ok(())
}

/// The version that news make of one. Errors: `Corruption`.
fn fold(opening: &Opening, before: &Version, news: &FeedNews) -> Result<Version> {
    let damaged = |misfit: String| {
        let path = manifest_path(&opening.dir, news.mark.end.id);
        Corruption::new(path, 0, format!("an edit does not fit: {misfit}"))
    };
    let mut version = before.clone();
    for edit in &news.edits {
        version = version.apply(edit, &opening.context).map_err(damaged)?;
    }
    match version.contradiction() {
        Some(misfit) => Err(damaged(misfit).into()),
        None => Ok(version),
    }
}

/// Refuses what cannot be followed: the writer changes pages in place, and what lies on a medium is
/// claimed by it.
fn refuse_media(version: &Version) -> Result<()> {
    let media = version.media();
    let refused = |what: &str| {
        Err(Error::Unsupported(format!(
            "{what}, and a secondary follows a database only that lies in its own directory, with a \
             plain L0; read it in the writer's process, or when that has closed it"
        )))
    };
    if media.container.is_some() || version.has_rows_in_pages() {
        return refused("L0 of the database lies in a container");
    }
    if media.row_directory.is_some() || version.has_tables_in_row_directory() {
        return refused("L0 of the database lies on a medium of its own");
    }
    if !media.log_directories.is_empty() {
        return refused("the log of the database lies on a medium of its own");
    }
    Ok(())
}

/// Opens what the version names, and reads the log on behind it; whether that is all of it.
fn read(opening: &Opening, version: &Version, tail: &mut Tail) -> Result<bool> {
    // What lies in an object store is opened when it is read: each would cost requests.
    for table in version.tables().filter(|table| !table.meta().location.is_far()) {
        table.reader(ReadMode::BLOCK)?;
    }
    let values = version.values().iter().filter(|file| !file.meta().location.is_far());
    values.into_iter().try_for_each(|file| file.open())?;
    tail.let_go_of(version);
    let (facts, mark) = (version.log_facts(), tail.mark);
    let outcome =
        opening.log.read_on(&facts, mark, u64::MAX, &mut |record| tail.add(version, &record));
    // What was added lies behind the mark, and would be added again.
    let outcome = outcome.inspect_err(|_| tail.clear())?;
    let is_whole = match outcome {
        ReadOn::To { mark, is_whole } => {
            tail.mark = mark;
            is_whole
        }
        ReadOn::Rewritten => {
            tail.clear();
            false
        }
    };
    tail.charge();
    Ok(is_whole)
}

/// A store that shows the version with what the log holds beside it.
fn show(opening: &Opening, version: &Arc<Version>, tail: &Tail) -> Result<(Moment, Store)> {
    let mut opening = opening.clone();
    opening.choose_operator(version)?;
    let env = Arc::clone(&opening.env);
    let seqno = version.greatest_seqno().max(tail.greatest_seqno);
    let end = tail.mark.map_or(version.log_start().position, |mark| mark.position);
    let memtables = tail.memtables();
    let views = DrangeView::new(KeyRange::all(), memtables.iter().cloned(), Vec::new());
    // One interval, and as many duplicates as there are memtables: any may hold the newest version.
    let division = Division::new(Boundaries::default(), &[memtables.len()]);
    let mut active = memtables.into_iter().map(|memtable| Active::new(memtable, end));
    let dranges = DrangeMap::new(env.as_ref(), division, || {
        active.next().expect("there are as many dranges as memtables")
    });
    let versions = opening.versions(Version::clone(version), None);
    let view = View::new(Arc::clone(dranges.boundaries()), vec![views], versions.current());
    let spares = Arc::new(SpareMemory::new(opening.options.memtable_bytes));
    let recovery =
        RecoveryReport { replayed_entries: tail.entry_count, log_end: end, ..Default::default() };
    // Nobody writes: no write is ever under way.
    let sequencer = Sequencer::with_slots(&env.waits(), seqno, end, 1);
    let held = Held::default();
    let pieces =
        Pieces { versions, log: None, end, sequencer, dranges, view, spares, recovery, held };
    let inner = opening.put_together(pieces);
    let moment = Moment { version: Arc::clone(version), mark: tail.mark, seqno };
    Ok((moment, Store { inner, _closer: Arc::new(Closer::of_nothing()) }))
}
