//! Reads and writes over several keys that happen as if nobody else were there.
//!
//! A [`Transaction`] reads every keyspace as it was when it began, and its own writes with it. Its
//! commit writes all or nothing, and only if nothing that it read was written meanwhile; otherwise
//! it answers [`Conflict`](ErrorKind::Conflict) with the key, and nothing happened.
//! [`Db::transaction`] begins anew then, until it commits:
//!
//! ```
//! use terrace::{Db, Error};
//!
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! let db = Db::open(directory.path().join("theatre"))?;
//! let (seats, guests) = (db.keyspace("seats")?, db.keyspace("guests")?);
//! let got_it = db.transaction(|tx| {
//!     if tx.contains_key(&seats, "4A")? {
//!         return Ok::<_, Error>(false);
//!     }
//!     tx.put(&seats, "4A", "Ada").put(&guests, "Ada", "4A");
//!     Ok(true)
//! })?;
//! assert!(got_it);
//! # Ok(())
//! # }
//! ```
//!
//! * The closure may run more than once: it changes nothing outside of the database. Its error is
//!   the answer, and undoes what it wrote.
//! * Committed transactions are serializable, and what they walked over counts as read: a key that
//!   appears where an iterator found none is a conflict.
//! * It holds up nobody. Writes without a transaction go on, and one that changes what was read is
//!   a conflict for the transaction, not for the write.
//! * [`Transaction::savepoint`] marks a point to go back to; dropping a transaction undoes it.
//!
//! # What fits which task
//! | task | call |
//! |---|---|
//! | writes that belong together and rest on no read | [`Batch`] |
//! | one key, out of its own old value | [`Keyspace::update`], [`Keyspace::compare_and_swap`] |
//! | a counter that many threads add to | [`Keyspace::merge`] |
//! | several keys, or keyspaces, or a scan, that decide what is written | a transaction |
//! | reads alone, at one moment | [`Db::snapshot`] |
//!
//! Transactions that meet at one key all the time repeat their work; there an update is better.
//!
//! [`Transaction`]: crate::Transaction
//! [`Transaction::savepoint`]: crate::Transaction::savepoint
//! [`Db::transaction`]: crate::Db::transaction
//! [`Db::snapshot`]: crate::Db::snapshot
//! [`Batch`]: crate::Batch
//! [`Keyspace::update`]: crate::Keyspace::update
//! [`Keyspace::compare_and_swap`]: crate::Keyspace::compare_and_swap
//! [`Keyspace::merge`]: crate::Keyspace::merge

#[cfg(doc)]
use crate::ErrorKind;
