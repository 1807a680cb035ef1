//! Goal: while much is written, the files of released segments become the next ones, and none is
//! deleted and made again. Method: a log that grows at a steady rate and is released as flushes do,
//! the segments of a memtable at once; whoever listens to the disk counts the files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use terrace_base::Epoch;
use terrace_env::{Operation, SharedEnv, SimEnv, SimOptions};

use crate::Result;
use crate::ids::FileIds;
use crate::wal::{LocalLogStore, LogFacts, LogSink, LogStore};

const DIR: &str = "/log";

const SEGMENT_BYTES: u64 = 16 << 10;

/// A third of a segment with its header.
const RECORD_BYTES: usize = 4 << 10;

/// How many segments are released at once.
const SEGMENTS_PER_MEMTABLE: usize = 3;

/// Takes places for as much as a memtable holds, a segment in 60 ms.
fn fill(env: &SharedEnv, log: &dyn LogSink) -> Result<()> {
    for _ in 0..3 * SEGMENTS_PER_MEMTABLE {
        while log.take(RECORD_BYTES).is_none() {
            log.make_room(RECORD_BYTES)?;
        }
        if log.wants_preparation() {
            log.prepare()?;
        }
        env.sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[test]
fn the_segments_of_a_memtable_become_those_of_the_next_one() -> Result<()> {
    let counts: [Arc<AtomicUsize>; 2] = Default::default();
    let [created, removed] = counts.clone();
    let sim = SimOptions {
        on_io: Some(Box::new(move |point| {
            let is_segment = point.path.extension().is_some_and(|extension| extension == "log");
            match point.operation {
                Operation::Create if is_segment => created.fetch_add(1, Ordering::Relaxed),
                Operation::Remove if is_segment => removed.fetch_add(1, Ordering::Relaxed),
                _ => 0,
            };
        })),
        ..SimOptions::new(540)
    };
    SimEnv::run(sim, |env| {
        let env: SharedEnv = env;
        env.fs().create_dir_all(Path::new(DIR))?;
        let dir = PathBuf::from(DIR);
        let store = LocalLogStore {
            env: Arc::clone(&env),
            dir,
            segment_bytes: SEGMENT_BYTES,
            medium: None,
        };
        let replayed = store.replay(LogFacts::default(), &mut |_| Ok(()))?;
        let ids = Arc::new(FileIds::new(Epoch(1), 0));
        let log = store.begin(1, &ids, &replayed, 0)?;
        let seen = || counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        let mut settled = None;
        for memtable in 0..20 {
            let begun = log.end();
            fill(&env, log.as_ref())?;
            // The memtable before this one has been flushed meanwhile.
            log.release(begun)?;
            if memtable == 3 {
                settled = Some(seen());
            }
        }
        assert_eq!(Some(seen()), settled, "created and removed");
        let files = env.fs().list(Path::new(DIR))?.len();
        assert!(files <= 2 * SEGMENTS_PER_MEMTABLE + 2, "{files} files");
        Ok(())
    })
}
