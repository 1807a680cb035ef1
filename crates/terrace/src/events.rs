//! What a database does in the background, told to the program as it happens.
//!
//! A [`Listener`] is given to a database by [`Options::listener`](crate::Options::listener). It
//! is told of flushes, compactions, stops of writers, failures of background work, and whatever
//! else [`EventKind`] names. Nothing is told on the way of a single read or write, so listeners
//! cost those nothing.
//!
//! Rules for a listener:
//!
//! * It is called on background threads, and on a thread of the program that flushes or compacts
//!   itself. Two threads may call it at once, and the later event first: [`Event::at`] orders them.
//! * It returns soon, since the work that it is told of waits for it. What takes time goes into a
//!   queue of the program's own.
//! * It calls nothing of the database that told it: the thread may hold what that call would wait
//!   for.
//! * If it panics, the panic is caught and logged, the work goes on, and it is told nothing more.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use terrace::Db;
//! use terrace::events::{Event, EventKind, Listener};
//!
//! #[derive(Default)]
//! struct FlushedBytes(AtomicU64);
//!
//! impl Listener for FlushedBytes {
//!     fn on(&self, event: &Event) {
//!         if let EventKind::FlushEnded(flush) = &event.kind {
//!             self.0.fetch_add(flush.row_bytes, Ordering::Relaxed);
//!         }
//!     }
//! }
//!
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! let flushed = Arc::new(FlushedBytes::default());
//! let db = Db::options().listener(flushed.clone()).open(directory.path().join("fruit"))?;
//! db.put("apple", "red")?;
//! db.admin().flush()?;
//! assert!(flushed.0.load(Ordering::Relaxed) > 0);
//! # Ok(())
//! # }
//! ```

pub use terrace_engine::events::{
    CutRecord, Event, EventKind, FlushRecord, InstallRecord, Listener, Listeners, MergeRecord,
    MoveRecord, OpenProgress, OpenStep,
};
pub use terrace_engine::store::{CompactionRecord, StallCause, Work};
