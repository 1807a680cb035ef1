//! What the background work of one range writes, under the limit of its process.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::io_limit::{IoClass, IoLimit};
use crate::placement::TableLocation;
use crate::table::{ByteInterval, TableWriter};
use crate::{Result, nanos};

/// The tables that a range writes in the background: they obey the limit, unless somebody waits
/// for them.
pub struct BackgroundIo {
    limit: Arc<IoLimit>,
    /// Which of the classes hold writers up.
    hurries: [AtomicBool; IoClass::COUNT],
    /// How many callers wait for a flush.
    callers: AtomicU64,
    /// Nothing waits any more: the range closes.
    has_ended: AtomicBool,
    waited_nanos: [AtomicU64; IoClass::COUNT],
}

impl BackgroundIo {
    /// Nothing is in a hurry yet.
    #[must_use]
    pub fn new(limit: &Arc<IoLimit>) -> BackgroundIo {
        BackgroundIo {
            limit: Arc::clone(limit),
            hurries: Default::default(),
            callers: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            waited_nanos: Default::default(),
        }
    }

    /// Whether writers are held up by flushes, and by compactions: then these do not wait. `true`
    /// if that is new, and the limit is to [look again](IoLimit::look_again), with no latch held.
    #[must_use]
    pub fn hurry(&self, flushes: bool, compactions: bool) -> bool {
        let mut is_new = false;
        for (class, now) in [(IoClass::Flush, flushes), (IoClass::Compaction, compactions)] {
            // Order: as `IoLimit::look_again` asks for, here and below.
            let before = self.hurries[class as usize].swap(now, Ordering::SeqCst);
            is_new |= now && !before;
        }
        is_new
    }

    /// A caller waits for a flush, or for the turn of one: none is held up until what this returns
    /// is dropped.
    #[must_use]
    pub fn hurry_flushes(&self) -> CallerWaits<'_> {
        self.callers.fetch_add(1, Ordering::SeqCst);
        self.limit.look_again();
        CallerWaits(self)
    }

    /// The range closes: nothing waits any more.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.limit.look_again();
    }

    /// How long background work of this class has waited for the limit, all threads together.
    #[must_use]
    pub fn waited(&self, class: IoClass) -> Duration {
        Duration::from_nanos(self.waited_nanos[class as usize].load(Ordering::Relaxed))
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> &Arc<IoLimit> {
        &self.limit
    }

    /// Waits until `bytes` may be written.
    fn pass(&self, class: IoClass, bytes: u64) {
        let waited = self.limit.pass(class, bytes, &|| {
            self.hurries[class as usize].load(Ordering::SeqCst)
                || class == IoClass::Flush && self.callers.load(Ordering::SeqCst) > 0
                || self.has_ended.load(Ordering::SeqCst)
        });
        self.waited_nanos[class as usize].fetch_add(nanos(waited), Ordering::Relaxed);
    }
}

impl fmt::Debug for BackgroundIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundIo").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// A caller waits for a flush; see [`BackgroundIo::hurry_flushes`].
#[derive(Debug)]
pub struct CallerWaits<'a>(&'a BackgroundIo);

impl Drop for CallerWaits<'_> {
    fn drop(&mut self) {
        self.0.callers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Who writes a table in the background.
#[derive(Clone, Debug)]
pub struct TableIo {
    io: Arc<BackgroundIo>,
    class: IoClass,
}

impl TableIo {
    /// Work of this class of a range.
    #[must_use]
    pub fn new(io: &Arc<BackgroundIo>, class: IoClass) -> TableIo {
        TableIo { io: Arc::clone(io), class }
    }

    /// The same writer, which obeys the limit.
    #[must_use]
    pub fn limited(&self, writer: Box<dyn TableWriter>) -> Box<dyn TableWriter> {
        Box::new(LimitedWriter { io: self.clone(), writer })
    }
}

struct LimitedWriter {
    io: TableIo,
    writer: Box<dyn TableWriter>,
}

impl TableWriter for LimitedWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.io.io.pass(self.io.class, bytes.len() as u64);
        self.writer.append(bytes)
    }

    fn keep_near(&mut self, interval: ByteInterval) {
        self.writer.keep_near(interval);
    }

    fn finish(self: Box<Self>) -> Result<TableLocation> {
        self.writer.finish()
    }
}
