use std::fmt;
use std::path::Path;
use std::sync::Arc;

use terrace_env::SharedEnv;

use crate::compaction::{CompactionExecutor, LocalExecutor};

use crate::ids::FileIds;
use crate::l0::triangle::{Container, ContainerKind, CutSize, TriangleL0, TriangleOptions};
use crate::l0::{L0, PlainL0, PlainOptions};
use crate::options::{L0Kind, L0Options, Options};
use crate::placement::{FarTables, RoutedTables, RowDirectory};
use crate::process::{BackgroundIo, IoClass, Process, TableIo};
use crate::store::cloud::{CloudFeeds, CloudLogs, CloudTier};
use crate::table::{LocalTableStore, TableShape, TableStore};
use crate::version::{FeedStore, LocalManifests, TableOpener};
use crate::wal::{LocalLogStore, LogMedium, LogStore};

/// What stands behind the seams of a range: where its log, its feed, its tables and L0 live, and
/// who compacts.
pub struct Seams {
    /// The version feed.
    pub feeds: Arc<dyn FeedStore>,
    /// The log.
    pub log: Arc<dyn LogStore>,
    /// The tables, and how they are opened.
    pub opener: Arc<TableOpener>,
    /// Makes L0, which takes its file ids from the epoch that the open raises.
    pub l0: MakeL0,
    /// Who does the work of compactions.
    pub executor: Arc<dyn CompactionExecutor>,
    /// What of that obeys the limit of background work.
    pub io: Arc<BackgroundIo>,
    /// The object store for the levels below the waterline, if the range has one.
    pub cloud: Arc<CloudTier>,
}

/// Makes the L0 of a range whose epoch gives out these file ids.
pub type MakeL0 = Box<dyn FnOnce(&Arc<FileIds>) -> Arc<dyn L0> + Send>;

impl Seams {
    /// Everything in one local directory and in this process.
    #[must_use]
    pub fn local(process: &Arc<Process>, dir: &Path, options: &Options) -> Seams {
        let env = process.env();
        let tables: Arc<dyn TableStore> =
            Arc::new(LocalTableStore::new(Arc::clone(env), dir.to_path_buf()));
        Seams::with_tables(process, dir, options, tables)
    }

    /// As [`Seams::local`], but the tables are in `tables`.
    #[must_use]
    pub fn with_tables(
        process: &Arc<Process>,
        dir: &Path,
        options: &Options,
        tables: Arc<dyn TableStore>,
    ) -> Seams {
        let env = Arc::clone(process.env());
        let dir = dir.to_path_buf();
        let cache = Arc::clone(process.cache());
        let container = Container::new(&env, &dir);
        let (rows, far) = (RowDirectory::new(&env), FarTables::new(&env));
        let routed = RoutedTables::new(tables, Arc::clone(&rows), Arc::clone(&far));
        let tables: Arc<dyn TableStore> = Arc::new(routed);
        let io = Arc::new(BackgroundIo::new(process.io_limit()));
        let flushes = TableIo::new(&io, IoClass::Flush);
        let l0 = make_l0(&env, &tables, &container, flushes, options);
        let opener = Arc::new(TableOpener { store: tables, cache, container, rows, far });
        let executor = LocalExecutor::new(&env, Arc::clone(&opener))
            .with_operators(options.merge_operators.clone())
            .with_filter(options.compaction_filter.clone())
            .with_heat(!options.research.near_drops)
            .with_blocks(!options.research.cache_drops)
            .limited_by(TableIo::new(&io, IoClass::Compaction));
        let cloud = CloudTier::new(&env, options.cloud.clone());
        let local_log = LocalLogStore {
            env: Arc::clone(&env),
            dir: dir.clone(),
            segment_bytes: options.log_segment_bytes,
            medium: LogMedium::of(options),
        };
        Seams {
            feeds: feeds_of(process, &dir, options, &cloud),
            log: Arc::new(CloudLogs::new(&cloud, local_log, options.listeners.clone())),
            l0,
            executor: Arc::new(executor),
            opener,
            io,
            cloud,
        }
    }
}

/// The feed of the range in this directory. One that is only read has no part in the store's.
fn feeds_of(
    process: &Arc<Process>,
    dir: &Path,
    options: &Options,
    cloud: &Arc<CloudTier>,
) -> Arc<dyn FeedStore> {
    let local = LocalManifests { env: Arc::clone(process.env()), dir: dir.to_path_buf() };
    if options.read_only {
        return Arc::new(local);
    }
    Arc::new(CloudFeeds::new(process, local, cloud))
}

/// Makes the L0 of these options, whose files go to `tables`.
fn make_l0(
    env: &SharedEnv,
    tables: &Arc<dyn TableStore>,
    container: &Arc<Container>,
    io: TableIo,
    options: &Options,
) -> MakeL0 {
    let (env, container) = (Arc::clone(env), Arc::clone(container));
    let tables = Arc::clone(tables);
    // A row is one table, however large the flush.
    let shape = TableShape { table_bytes: u64::MAX, table: options.table };
    let kind = match options.l0_kind() {
        L0Kind::Plain | L0Kind::PmemMemtable => {
            let options = PlainOptions {
                rows_per_cut: options.l0_rows_per_cut,
                rows_slow: options.l0_rows_slow,
                rows_stop: options.l0_rows_stop,
                room: options.row_medium().map(|(_, bytes)| bytes),
                takes_all: options.research.l0_cut_all,
                shape,
            };
            return Box::new(move |ids| {
                Arc::new(PlainL0::new(&env, tables, Arc::clone(ids), options).limited_by(io))
            });
        }
        L0Kind::Container => ContainerKind::Triangle,
        L0Kind::Matrix => ContainerKind::Matrix,
    };
    let start_percent = options.l0_start_percent;
    let options = TriangleOptions { kind, start_percent, cut_size: cut_size(options), shape };
    Box::new(move |ids| {
        let l0 = TriangleL0::new(&env, container, tables, Arc::clone(ids), options);
        Arc::new(l0.limited_by(io))
    })
}

/// A cut takes at most one part in this number of the container.
const CUTS_PER_CONTAINER: u64 = 8;

/// How large a cut out of a container is: from half of it to what one table meets in a full level
/// below (TriangleKV, §3.2), or what the options say, or the part of the container that leaves
/// something to the others.
fn cut_size(options: &Options) -> CutSize {
    let asked = match options.cut_bytes {
        0 => options.level_ratio.saturating_mul(options.table_bytes),
        bytes => bytes,
    };
    let max = match options.l0 {
        L0Options::Container { bytes, .. } => asked.min(bytes / CUTS_PER_CONTAINER).max(1),
        L0Options::Plain { .. } => asked.max(1),
    };
    CutSize { min: max.div_ceil(2), max }
}

impl fmt::Debug for Seams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seams")
            .field("feeds", &self.feeds)
            .field("log", &self.log)
            .field("opener", &self.opener)
            .finish_non_exhaustive()
    }
}
