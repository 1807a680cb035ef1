//! Order, ranges, iterators and cursors, snapshots, pages.
//!
//! Keys are ordered bytewise, shorter ones before their continuations: `"a" < "aa" < "b"`. Numbers
//! keep their order in big-endian form (`7_u64.to_be_bytes()`); a number with a sign does with its
//! highest bit flipped. A key of several parts needs a separator that the parts do not contain, or
//! parts of fixed length.
//!
//! # Which keys
//! Whatever reads an interval takes the ranges of the language, or a [`Prefix`]:
//!
//! ```
//! use terrace::{Db, Prefix};
//!
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! let db = Db::open(directory.path().join("fruit"))?;
//! for fruit in ["apple", "apricot", "banana", "cherry"] {
//!     db.put(fruit, "ripe")?;
//! }
//! assert_eq!(db.range("b"..).count(), 2);
//! assert_eq!(db.range("apple"..="banana").count(), 3);
//! assert_eq!(db.prefix("ap").count(), 2);
//! assert!(db.last()?.is_some_and(|(fruit, _)| fruit == "cherry"));
//! db.delete_range(Prefix("ap"))?;
//! assert_eq!(db.iter().count(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! # Iterator or cursor
//! [`View::iter`], [`View::range`] and [`View::prefix`] give an [`Iter`]: an iterator of the
//! language, from both ends, whose rows are copies. Each row is a `Result`, since a disk may fail:
//! `for row in … { let (key, value) = row?; … }`, or collect into a `Result<Vec<_>>`.
//! [`Iter::keys`] leaves the values where they are.
//!
//! [`View::cursor`] gives a [`Cursor`]: it stands between keys, goes both ways, seeks, and copies
//! nothing. A long scan over small rows is faster with it.
//!
//! ```
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! # let db = terrace::Db::open(directory.path())?;
//! # db.put("user:1", "Ada")?;
//! let mut bytes = 0;
//! let mut cursor = db.cursor("user:"..);
//! while let Some(row) = cursor.next()? {
//!     bytes += row.value.len();
//! }
//! # assert_eq!(bytes, 3);
//! # Ok(())
//! # }
//! ```
//!
//! Both show the keys as they were when they were made, whatever is written meanwhile. Keep neither
//! for hours: what they may still show is not cleared away.
//!
//! # Snapshots
//! A [`Snapshot`] is a moment of the whole database. [`Keyspace::at`] gives any keyspace as it was
//! then. Since a keyspace and a keyspace of the past are both a [`View`], a function takes either:
//!
//! ```
//! use std::ops::Bound::{Excluded, Included};
//! use terrace::{Db, Key, Result, View};
//!
//! /// The `count` last keys of a prefix that come before `before`.
//! fn page(view: &View, prefix: &str, before: &[u8], count: usize) -> Result<Vec<Key>> {
//!     let range = (Included(prefix.as_bytes()), Excluded(before));
//!     view.range(range).keys().rev().take(count).collect()
//! }
//!
//! # fn main() -> Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! let db = Db::open(directory.path().join("shop"))?;
//! let orders = db.keyspace("orders")?;
//! orders.put("2026-11-01", "1 bicycle")?;
//! let snapshot = db.snapshot();
//! orders.put("2026-11-02", "1 bell")?;
//! assert_eq!(page(&orders.at(&snapshot), "2026-11-", b"2026-12", 10)?.len(), 1);
//! assert_eq!(page(&orders, "2026-11-", b"2026-12", 10)?.len(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! # From another process
//! Reports and exports need not run in the process that writes. A [`Secondary`] opens the database
//! beside it, without its lock, and shows one moment until it is told to
//! [catch up](crate::Secondary::catch_up): then everything that had been acknowledged before.
//!
//! ```
//! # use terrace::{Db, Options};
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! # let writer = Db::open(directory.path())?;
//! let mut secondary = Options::new().open_secondary(directory.path())?;
//! # writer.put("order:1", "1 bicycle")?;
//! if secondary.catch_up()? {
//!     println!("{} orders so far", secondary.prefix("order:").count());
//! }
//! # assert_eq!(secondary.prefix("order:").count(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # What a scan costs
//! Deleted and overwritten keys are stepped over until compactions drop them; `explain_scan` of
//! [`Db::admin`] counts them, and how many sources it merged: memtables, what overlaps in L0, and
//! levels. A queue that is taken from at its front has many of them there: begin
//! behind the last key that was taken.
//!
//! [`Prefix`]: crate::Prefix
//! [`Iter`]: crate::Iter
//! [`Iter::keys`]: crate::Iter::keys
//! [`Cursor`]: crate::Cursor
//! [`Snapshot`]: crate::Snapshot
//! [`View`]: crate::View
//! [`View::iter`]: crate::View::iter
//! [`View::range`]: crate::View::range
//! [`View::prefix`]: crate::View::prefix
//! [`View::cursor`]: crate::View::cursor
//! [`Keyspace::at`]: crate::Keyspace::at
//! [`Db::admin`]: crate::Db::admin
//! [`Secondary`]: crate::Secondary
