//! The same database for programs on tokio: [`AsyncDb`] → [`AsyncKeyspace`] → [`AsyncView`].
//!
//! ```
//! use terrace::asynchronous::AsyncDb;
//!
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! # let path = directory.path().join("fruit");
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
//! # runtime.block_on(async {
//! let db = AsyncDb::open(path).await?;
//! db.put("apple", "red").await?;
//! assert!(db.get("apple").await?.is_some_and(|color| color == "red"));
//!
//! let mut rows = db.range("a".."c");
//! while let Some(row) = rows.next().await {
//!     let (fruit, color) = row?;
//!     println!("{} is {}", fruit.escape_ascii(), color.escape_ascii());
//! }
//! db.close().await
//! # })
//! # }
//! ```
//!
//! # How a call waits
//! ```text
//!   call ── tried on this thread, without waiting ──► answer
//!               │ it would wait: for the disk, a sync, the pace of background work
//!               ▼
//!         one of tokio's blocking threads ──► answer
//! ```
//! What is in memory costs no hop between threads; what waits costs one, and keeps no task of the
//! runtime from running. At most 64 calls of an [`AsyncDb`] and its clones wait on such threads at
//! a time; further ones stand in line as tasks do, without a thread.
//!
//! # Futures that are dropped
//! A read that is dropped has read, or not. A write whose future is dropped before it answered may
//! have been done, may be done soon, or is never done; all of it or nothing. What must be known is
//! to be awaited, in a task of its own if need be (`tokio::spawn`).
//!
//! # What is not here
//! Everything else is called by [`AsyncDb::run`], [`AsyncKeyspace::run`] and [`AsyncView::run`],
//! which take a closure over the [`Db`], the [`Keyspace`] or the [`View`] to a blocking thread:
//! transactions, updates, ingests, backups, whatever an operator asks for. They are as cancellable
//! as any thread is: not at all.
//!
//! All of it has to be called within a runtime of tokio, of either kind.
//!
//! [`Db`]: crate::Db
//! [`Keyspace`]: crate::Keyspace
//! [`View`]: crate::View

mod db;
mod keyspace;
mod rows;
mod view;
mod waiting;

pub use db::AsyncDb;
pub use keyspace::AsyncKeyspace;
pub use rows::Rows;
pub use view::AsyncView;
