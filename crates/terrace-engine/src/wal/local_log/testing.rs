//! A log over given files, for models and tests.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::{Epoch, LogPosition};
use terrace_env::atomic::{AtomicBool, AtomicU64};
use terrace_env::{Latch, LogFile, SharedEnv};

use super::retire::Retired;
use super::room::Preparation;
use super::segment::Segment;
use super::sink::LocalLog;
use super::sizing::Sizing;
use super::store::LocalLogStore;
use super::tail::{Spare, Tail};
use crate::ids::FileIds;
use crate::wal::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::wal::place::SegmentFiles;

impl LocalLog {
    /// A log that writes to the first of `files` and has the second one in spare, for models and
    /// tests. `uses` is the number of uses of files before these.
    pub(in crate::wal) fn of_files(files: Vec<Arc<dyn LogFile>>, uses: u64) -> LocalLog {
        let env: SharedEnv = terrace_env::RealEnv::new();
        let ids = Arc::new(FileIds::new(Epoch(1), uses));
        let dir = PathBuf::new();
        let store = LocalLogStore { env, dir, segment_bytes: 0, medium: None };
        let waits = terrace_env::WaitFactory::real();
        let mut spares = files
            .into_iter()
            .zip(u128::from(uses) + 1..)
            .map(|(file, identity)| Spare { id: ids.next(), identity, file, is_warm: false });
        let Some(Spare { id, identity, file, .. }) = spares.next() else { panic!("no file") };
        let base = LogPosition(0);
        let header = SegmentHeader {
            identity,
            file_id: id,
            predecessor: None,
            base,
            database: 0,
            segment_bytes: file.bytes(),
            durable: LogPosition(0),
        };
        let mut tail = Tail::empty();
        tail.spares.extend(spares.next());
        drop(spares);
        let first = Arc::new(Segment::new(header, file, PathBuf::new()));
        tail.go_on_in(first, SEGMENT_HEADER_BYTES, 0);
        let sizing = Sizing::new(0, base, Duration::ZERO);
        LocalLog {
            files: SegmentFiles::new(&store, 0),
            directories: Vec::new(),
            database: 0,
            retired: Retired::default(),
            reserved_bytes: 0,
            ids,
            tail: Latch::new(tail),
            durable: AtomicU64::new(0),
            was_synced: AtomicBool::new(false),
            synced_bytes: AtomicU64::new(u64::MAX),
            sync_turn: waits.mutex(()),
            prepare_turn: waits.mutex(Preparation::new(sizing)),
            recyclable_bytes: AtomicU64::new(0),
        }
    }
}
