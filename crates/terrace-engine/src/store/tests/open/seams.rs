//! Another implementation can stand behind every seam.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use terrace_base::KeyRange;

use crate::Error;
use crate::compaction::{
    CompactionExecutor, CompactionOutcome, CompactionPlan, IsCancelled, LocalExecutor,
};
use crate::l0::triangle::Container;
use crate::l0::{
    Absorbed, Cut, CutBounds, CutEnd, Cuts, Fill, FlushInput, L0, L0Policy, L0State, LiveRows,
    PlainL0, PlainOptions,
};
use crate::placement::{FarTables, RowDirectory};
use crate::process::BackgroundIo;
use crate::store::Seams;
use crate::store::cloud::CloudTier;
use crate::store::tests::*;
use crate::table::{MemoryTableStore, TableShape, TableStore};
use crate::version::{FeedStore, MemoryFeed, TableOpener};
use crate::wal::MemoryLog;

/// An executor that gets its plans as bytes, as one on another machine does.
#[derive(Debug)]
struct ByteExecutor {
    inner: LocalExecutor,
    plans: Mutex<Vec<usize>>,
}

impl CompactionExecutor for ByteExecutor {
    fn run(
        &self,
        plan: &CompactionPlan,
        is_cancelled: IsCancelled<'_>,
    ) -> Result<CompactionOutcome> {
        let bytes = plan.encode();
        let arrived = CompactionPlan::decode(&bytes).expect("a plan survives its journey");
        assert_eq!(arrived, *plan);
        for length in 0..bytes.len() {
            assert!(CompactionPlan::decode(&bytes[..length]).as_ref() != Ok(plan));
        }
        self.plans.lock().expect("one thread at a time").push(bytes.len());
        self.inner.run(&arrived, is_cancelled)
    }
}

/// An L0 that lets only its oldest rows go, one cut at a time.
#[derive(Debug)]
struct OldestFirstL0(PlainL0);

#[derive(Debug)]
struct OldestFirstState(Arc<dyn L0State>);

impl L0 for OldestFirstL0 {
    fn absorb(&self, input: FlushInput<'_, '_>) -> Result<Absorbed> {
        self.0.absorb(input)
    }

    fn empty(&self) -> Arc<dyn L0State> {
        Arc::new(OldestFirstState(self.0.empty()))
    }
}

impl L0State for OldestFirstState {
    fn with(&self, content: LiveRows) -> Arc<dyn L0State> {
        Arc::new(OldestFirstState(self.0.with(content)))
    }

    fn installed(&self) {
        self.0.installed();
    }

    fn content(&self) -> &LiveRows {
        self.0.content()
    }

    fn policy(&self) -> &dyn L0Policy {
        self
    }
}

impl L0Policy for OldestFirstState {
    fn propose_cuts<'a>(&'a self, _: &'a CutBounds) -> Cuts<'a> {
        let oldest = self.rows().last().map(|oldest| Cut {
            slice: oldest.span(),
            through: oldest.meta.id,
            pressure: self.pressure(),
            end: CutEnd::Unbounded,
        });
        Cuts::ByPrice(oldest.into_iter().collect())
    }

    fn divides_cuts(&self) -> bool {
        self.0.policy().divides_cuts()
    }

    fn wants_open_rows(&self) -> bool {
        self.0.policy().wants_open_rows()
    }

    fn due_bytes(&self) -> u64 {
        self.0.policy().due_bytes()
    }

    fn fill(&self) -> Fill {
        self.0.policy().fill()
    }

    fn pressure(&self) -> f64 {
        self.0.policy().pressure()
    }
}

/// A range none of whose parts is a local one.
struct Elsewhere {
    feed: MemoryFeed,
    log: MemoryLog,
    tables: Arc<MemoryTableStore>,
    executor: Option<Arc<ByteExecutor>>,
}

impl Elsewhere {
    fn open(&mut self, env: &SharedEnv) -> Result<Store> {
        let process = process(env)?;
        let tables: Arc<dyn TableStore> = Arc::<MemoryTableStore>::clone(&self.tables);
        let cache = Arc::clone(process.cache());
        let opener = Arc::new(TableOpener {
            store: Arc::clone(&tables),
            cache,
            container: Container::new(env, Path::new(DIR)),
            rows: RowDirectory::new(env),
            far: FarTables::new(env),
        });
        let executor = Arc::new(ByteExecutor {
            inner: LocalExecutor::new(env, Arc::clone(&opener)),
            plans: Mutex::default(),
        });
        self.executor = Some(Arc::clone(&executor));
        let l0_env = Arc::clone(env);
        let seams = Seams {
            feeds: Arc::new(self.feed.clone()),
            log: Arc::new(self.log.clone()),
            l0: Box::new(move |ids| {
                let options = PlainOptions {
                    rows_per_cut: 2,
                    rows_slow: 4,
                    rows_stop: 8,
                    room: None,
                    takes_all: false,
                    shape: TableShape { table_bytes: 4 << 10, table: small().table },
                };
                let plain = PlainL0::new(&l0_env, tables, Arc::clone(ids), options);
                Arc::new(OldestFirstL0(plain))
            }),
            opener,
            executor,
            io: Arc::new(BackgroundIo::new(process.io_limit())),
            cloud: CloudTier::new(env, None),
        };
        Store::open_with(&process, Path::new(DIR), small(), seams)
    }
}

#[test]
fn every_seam_takes_another_side() -> Result<()> {
    simulate(11, |env| {
        let mut elsewhere = Elsewhere {
            feed: MemoryFeed::default(),
            log: MemoryLog::default(),
            tables: Arc::new(MemoryTableStore::new()),
            executor: None,
        };
        let value = |index: u32| format!("{index}").repeat(30);
        for round in 0..4 {
            let store = elsewhere.open(env)?;
            assert_eq!(store.recovery().is_new, round == 0);
            for index in 0..200 {
                put(&store, &format!("{index:04}"), &value(index * 7 + round))?;
            }
            for index in 0..200 {
                let found = get(&store, &format!("{index:04}"))?;
                assert_eq!(found, Some(value(index * 7 + round)));
            }
            store.settle();
            assert!(store.check(&mut |_, _| ())?.is_clean());
        }
        let executor = elsewhere.executor.take().expect("it was opened");
        assert!(!executor.plans.lock().expect("one thread at a time").is_empty());
        assert!(!elsewhere.tables.list()?.is_empty());
        assert!(!elsewhere.log.records().is_empty());
        assert!(elsewhere.feed.load()?.is_some());
        let names = env.fs().list(Path::new(DIR)).map_err(Error::from)?;
        let names: Vec<_> = names.into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["LOCK"], "nothing but the lock is in the directory");
        Ok(())
    })
}

#[test]
fn a_cancelled_job_ends_and_leaves_nothing_behind() -> Result<()> {
    simulate(12, |env| {
        let store = open(env, &small())?;
        for index in 0..300 {
            put(&store, &format!("{index:04}"), &"v".repeat(100))?;
        }
        store.settle();
        let before = store.inner.context.opener.store.list()?.len();
        store.inner.jobs.cancel.store(true, Ordering::Release);
        for index in 0..300 {
            put(&store, &format!("{index:04}"), &"w".repeat(100))?;
        }
        let refused = store.compact(&KeyRange::all());
        assert!(matches!(refused, Err(Error::Closed) | Ok(())), "{refused:?}");
        store.inner.jobs.cancel.store(false, Ordering::Release);
        store.compact(&KeyRange::all())?;
        store.settle();
        assert!(store.inner.context.opener.store.list()?.len() <= before + 8);
        assert!(store.check(&mut |_, _| ())?.is_clean());
        Ok(())
    })
}
