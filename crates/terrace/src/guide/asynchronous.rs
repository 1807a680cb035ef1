//! Programs on tokio: calls that do not keep a task's thread waiting. (Feature `tokio`.)
//!
//! The database itself is synchronous: a call of [`Db`] returns when it is done. That suits
//! threads. A task of an async runtime must not wait in such a call, since other tasks wait with
//! it; and a hop to another thread for each call would cost more than most calls do.
//!
//! [`Db::asynchronous`] gives a handle that does neither: each call is tried without waiting first,
//! and only what would wait moves to a thread that may.
//!
//! ```
//! use terrace::Db;
//!
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! # let path = directory.path().join("shop");
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
//! # runtime.block_on(async {
//! let db = Db::open(path)?.asynchronous();
//! let orders = db.keyspace("orders").await?;
//! orders.put("2026-11-24", "1 bicycle").await?;
//! assert!(orders.contains_key("2026-11-24").await?);
//!
//! // A walk is a stream. It reads ahead a little, and never more than is taken.
//! let mut rows = orders.prefix("2026-").rev();
//! while let Some(row) = rows.next().await {
//!     let (day, order) = row?;
//!     println!("{}: {}", day.escape_ascii(), order.escape_ascii());
//! }
//!
//! // Whatever is not there by itself: as a closure, on a thread that may wait.
//! let copy = directory.path().join("copy");
//! db.run(move |db| db.checkpoint(copy)).await?;
//! # db.close().await
//! # })
//! # }
//! ```
//!
//! # What waits, and what does not
//! | call | at once | on another thread |
//! |---|---|---|
//! | get, first, short ranges | what is in memtables and in the block cache | what is on the disk |
//! | put, delete, merge, batches | of the classes `Buffered` and `Interval`, while there is room | of the class `Sync`; while writers are slowed down |
//! | longer ranges | | in batches, one ahead |
//! | transactions, updates, `sync`, copies, `run` | | always |
//!
//! At most 64 calls of one handle and its clones wait on threads at a time; the others stand in
//! line as tasks. A server that must not let everybody stand in line bounds its own requests, as it
//! does for any other resource.
//!
//! # Writes that nobody waits for any more
//! A future can be dropped at any `await`, by a timeout or a client that has gone. A write that was
//! dropped before it answered is done as a whole or not at all, and which of the two is not known;
//! it may be done a little later. Where that matters, let the write run in a task of its own, and
//! wait for the task:
//!
//! ```
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
//! # runtime.block_on(async {
//! # let db = terrace::asynchronous::AsyncDb::open(directory.path()).await?;
//! let writing = tokio::spawn({
//!     let db = db.clone();
//!     async move { db.put("order:1", "1 bicycle").await }
//! });
//! // If this is dropped, the write goes on to its end.
//! writing.await.expect("it does not panic")?;
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! # What it costs
//! A call that answers at once costs what the synchronous one costs, and some tens of nanoseconds
//! for the future and the runtime's fairness. One that moves costs a hop to a thread and back, ten
//! to thirty microseconds: little beside a sync of a disk, and the reason why a loop of many small
//! synced writes belongs into one [`Batch`], or into one closure of [`AsyncDb::run`].
//!
//! The example `web` is a small web service on axum.
//!
//! [`Db`]: crate::Db
//! [`Db::asynchronous`]: crate::Db::asynchronous
//! [`Batch`]: crate::Batch
//! [`AsyncDb::run`]: crate::asynchronous::AsyncDb::run
