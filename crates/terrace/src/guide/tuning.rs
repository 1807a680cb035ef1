//! Memory, disk, compression, bulk loads, what to look at first.
//!
//! The defaults serve a machine with a few cores and gigabytes. Measure before changing one.
//!
//! ```
//! use terrace::{Compression, Db};
//!
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! let db = Db::options()
//!     .cache_bytes(1 << 30)
//!     .memory_bytes(3 << 30)
//!     .compression(Compression::Lz4)
//!     .open(directory.path().join("big"))?;
//! # db.close()
//! # }
//! ```
//!
//! | option | default | raise it | lower it |
//! |---|---|---|---|
//! | [`cache_bytes`](Options::cache_bytes) | 256 MiB | reads wait for the disk, and there is memory | the kernel's pages do as well |
//! | [`memory_bytes`](Options::memory_bytes) | the cache and 1.75 GiB | writers wait for flushes | the process must stay small |
//! | [`memtable_bytes`](Options::memtable_bytes) | 64 MiB | the disk writes too much | starts after a crash take too long |
//! | [`background_threads`](Options::background_threads) | one a core, at most 4 | compactions fall behind | writers need the cores |
//! | [`background_io_limit`](Options::background_io_limit) | none | | compactions slow reads, or other programs, down |
//!
//! [`Plan`] computes sizes from what a database will hold; `terrace plan` shows them with reasons.
//! [`TierPlan`](crate::TierPlan) also says what should lie in an object store, what a month of that
//! costs and what speaks against other layouts, for a mix of operations and what is wanted;
//! `terrace plan --rate`.
//!
//! The cache, the limits and the number of threads can be changed while the database is open
//! ([`Admin::set`](crate::Admin::set), `CONFIG SET` of the server); all else takes an open.
//!
//! # Compression
//! Tables are not compressed unless the program asks for it. LZ4 costs little and halves much of
//! what programs store; Zstandard makes it smaller still, and reads slower. A codec is a feature of
//! this crate: `lz4` is on by default, `zstd` builds C sources and is not. A table can be read
//! only by a program that was built with its codec; one without it answers
//! [`Unsupported`](ErrorKind::Unsupported), and says which feature is missing. Changing the option
//! changes new tables; the old ones follow as they are compacted.
//!
//! # Loading much at once
//! Sorted data go in by [`Keyspace::ingest`]: past log and memtables, at the speed of the disk, and
//! all at once. Unsorted data go in by batches of some hundred entries.
//!
//! # Small values, large values
//! A value of up to 24 bytes is read without an allocation. A larger one that a `get` gives keeps
//! the block or memtable alive that it lies in: drop it soon, or copy it ([`Value::into_vec`]).
//! [`View::look`] reads a value in its place.
//!
//! # Walks over much
//! A walk over the whole database need not push out of the cache what others read:
//! [`ReadOptions::no_cache_fill`]. Where the disk is slow, [`ReadOptions::readahead`] asks it for
//! what comes next.
//!
//! ```
//! use terrace::ReadOptions;
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! # let db = terrace::Db::open(directory.path())?;
//! # db.put("key", "value")?;
//! let aside = db.with(ReadOptions::new().no_cache_fill().readahead(1 << 20));
//! assert_eq!(aside.iter().keys().count(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Beside other programs
//! [`Options::background_io_limit`] bounds what flushes and compactions write a second. It makes
//! compactions last longer, and no write: as soon as one would be slowed down for lack of a flush
//! or a compaction, that one goes on as fast as the disk takes it. A limit below what the writes
//! need over hours is therefore exceeded; the figures say how long each kind of work waited for it.
//!
//! # What to look at
//! * [`Db::admin`]`().stats()` shows what the database did and holds: what writers waited for, how
//!   often the cache had the block, write amplification.
//! * What went wrong stands first in them: writes that were refused, by the cause; background work
//!   that fails and is tried again, with its last error; and how old the oldest snapshot is, which
//!   keeps what was overwritten since.
//! * `explain_get` and `explain_scan` say where an answer came from, what was stepped over, and in
//!   sum how many sources, filters and blocks the read touched (`totals`).
//! * `stats().reads` has the averages of that: sources, tables, filters and blocks for each get,
//!   sources and keys for each scan. Tables and keys are counted exactly; the others come from the
//!   reads that are sampled, one in about 1,024: let some 100,000 go by before you trust them.
//! * `slow_operations` has the slowest operations of the last minutes, and what each waited for.
//! * `metrics` has the same figures and the latencies of operations, as text for Prometheus.
//! * [`View::approximate_size`] says about how much an interval holds, without reading it.
//! * A [`Listener`](crate::events::Listener) is told of flushes, compactions and stops of writers.
//! * With the feature `tracing`, whatever is worth a look goes to the log of the program. With
//!   `serde`, all figures are `Serialize`.
//!
//! [`Plan`]: crate::Plan
//! [`Keyspace::ingest`]: crate::Keyspace::ingest
//! [`Value::into_vec`]: crate::Value::into_vec
//! [`View::look`]: crate::View::look
//! [`View::approximate_size`]: crate::View::approximate_size
//! [`Db::admin`]: crate::Db::admin
//! [`ErrorKind`]: crate::ErrorKind

#[cfg(doc)]
use crate::{ErrorKind, Options, ReadOptions};
