//! Changing what is there: updates, conditional writes, merges, expiry.
//!
//! | wish | call | reads first |
//! |---|---|---|
//! | set, whatever is there | [`Keyspace::put`] | no |
//! | a new value out of the old one | [`Keyspace::update`] | yes |
//! | a new value if the old one is as expected | [`Keyspace::compare_and_swap`] | yes |
//! | several keys of a keyspace that belong together | [`Keyspace::update_many`] | yes |
//! | several keys, keyspaces, scans | [transactions](super::transactions) | yes |
//! | add, append, keep the greatest | [`Keyspace::merge`] | no |
//!
//! No other write of the key comes between the read and the write of such a call, whatever thread
//! or handle it comes from.
//!
//! ```
//! use terrace::{Cas, Db};
//!
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! let db = Db::open(directory.path().join("cluster"))?;
//! // Who comes first leads; `None` is a key that is not there.
//! match db.compare_and_swap("leader", None, Some(b"me"))? {
//!     Cas::Swapped => println!("it is me"),
//!     Cas::Mismatch(leader) => println!("it is {leader:?}"),
//! }
//! // The closure gets the old value and gives the new one; `None` deletes.
//! let longer = db.update("name", |old| Some([old.unwrap_or(b"Ada"), b"!"].concat()))?;
//! assert!(longer.is_some_and(|name| name == "Ada!"));
//! # Ok(())
//! # }
//! ```
//!
//! # Merges
//! A merge writes an *operand* and reads nothing, so that many threads add to one counter without
//! waiting for each other. What the operands make of the value is found when the key is read, and
//! compactions do it for good. How a keyspace merges is chosen by name, once: by one of the
//! [built-in](crate::merge) operators, or by a [`MergeOperator`] of the program's own, which every
//! program that opens the database has to bring along. An operand that the operator refuses is
//! refused at the write.
//!
//! Merges fit what is written far more often than read. A key that is read each time it is changed
//! is better updated.
//!
//! # Expiry
//! An entry can go by itself: [`WriteOptions::ttl`] for one write, [`Batch::put_ttl`] for an entry
//! of a batch, [`KeyspaceOptions::ttl`] for all that a keyspace gets and does not say otherwise.
//! From that moment on, by the clock of the machine, no read shows it. Its space comes back by
//! compaction. An update keeps the expiry of what it changes; a put has its own, or none.
//!
//! [`Keyspace::put`]: crate::Keyspace::put
//! [`Keyspace::update`]: crate::Keyspace::update
//! [`Keyspace::update_many`]: crate::Keyspace::update_many
//! [`Keyspace::compare_and_swap`]: crate::Keyspace::compare_and_swap
//! [`Keyspace::merge`]: crate::Keyspace::merge
//! [`MergeOperator`]: crate::MergeOperator
//! [`WriteOptions::ttl`]: crate::WriteOptions::ttl
//! [`Batch::put_ttl`]: crate::Batch::put_ttl
//! [`KeyspaceOptions::ttl`]: crate::KeyspaceOptions::ttl
