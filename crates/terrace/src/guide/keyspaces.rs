//! Several sets of keys in one database, and writes over them.
//!
//! A [`Keyspace`] is a set of keys of its own, with a name, inside one [`Db`]. All of them share
//! one log, one order of writes, one cache and one directory. So a batch, a snapshot, a
//! transaction, an ingest and a checkpoint span them, and an empty keyspace costs next to nothing.
//!
//! ```
//! use std::time::Duration;
//! use terrace::{Batch, Db, KeyspaceOptions, merge};
//!
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! let db = Db::open(directory.path().join("app"))?;
//! let users = db.keyspace("users")?; // made now, if it is missing
//! let by_email = db.keyspace("by_email")?;
//!
//! // Some things are kept with a keyspace: for how long entries stay, and how they merge.
//! let a_day = KeyspaceOptions::new().ttl(Duration::from_secs(86_400));
//! let sessions = db.keyspace_with("sessions", a_day)?;
//! let counting = KeyspaceOptions::new().merge_operator(merge::ADD_I64_LE);
//! let visits = db.keyspace_with("visits", counting)?;
//!
//! // All or nothing, over all of them.
//! let mut batch = Batch::new();
//! batch
//!     .put(&users, "1", "ada@example.org")
//!     .put(&by_email, "ada@example.org", "1")
//!     .put(&sessions, "a81c", "1")
//!     .merge(&visits, "1", 1i64.to_le_bytes());
//! db.write(&batch)?;
//! assert_eq!(db.keyspaces()?, ["by_email", "default", "sessions", "users", "visits"]);
//! # Ok(())
//! # }
//! ```
//!
//! * The database itself is the keyspace `default`: `db.put(…)` writes there.
//! * A handle is cheap: clone it, share it between threads, keep it in a struct. [`Db::keyspace`]
//!   waits for the disk when it makes one, so ask once and not for each write.
//! * Sorted data go into several keyspaces at once by [`Ingest::add_to`]: rows and the index of
//!   them, each in its own order, and no crash leaves one without the other.
//! * A name is 1 to 255 bytes of UTF-8 without control characters.
//! * [`Db::drop_keyspace`] takes away everything under a name in one atomic write; the space comes
//!   back by compaction. [`Keyspace::clear`] empties one that stays.
//! * The names `1` to `1023` are there always. They are the databases of a Terrace server: what
//!   `SELECT 3` writes there is the keyspace `3` here.
//! * [`Keyspace::stats`] says what one was asked since the open: keys read, put and deleted, bytes,
//!   iterators, conflicts, all of them counted. [`Admin::keyspaces`] has those of all, and
//!   [`Admin::metrics`] shows them to a collector, labelled with the name.
//!
//! # One keyspace, or prefixes?
//! Keys that are scanned together belong in one keyspace, with a prefix if they are of several
//! kinds ([`View::prefix`] goes over one prefix exactly). Keyspaces are better where the parts have
//! different merge operators or lives, or are dropped as a whole. Keyspaces divide the keys, not
//! the resources: they have one memtable size, one compression and one cache together. Where those
//! should differ, open two databases; [`Options::open_beside`] has them share memory and threads.
//!
//! [`Db`]: crate::Db
//! [`Keyspace`]: crate::Keyspace
//! [`Db::keyspace`]: crate::Db::keyspace
//! [`Db::drop_keyspace`]: crate::Db::drop_keyspace
//! [`Keyspace::clear`]: crate::Keyspace::clear
//! [`Ingest::add_to`]: crate::Ingest::add_to
//! [`Keyspace::stats`]: crate::Keyspace::stats
//! [`Admin::keyspaces`]: crate::Admin::keyspaces
//! [`Admin::metrics`]: crate::Admin::metrics
//! [`View::prefix`]: crate::View::prefix
//! [`Options::open_beside`]: crate::Options::open_beside
