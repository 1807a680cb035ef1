//! What compactions drop or change on their way.
//!
//! Some data become worthless by a rule and not by a moment: the sessions of accounts that were
//! closed, index entries of rows that are gone, values in a form that nobody writes any more. To
//! find and delete them is a scan and a write for each. A compaction comes by all of them in any
//! case, and a [`CompactionFilter`] says what becomes of each.
//!
//! ```
//! use std::collections::BTreeSet;
//! use std::sync::{Arc, RwLock};
//!
//! use terrace::filter::{CompactionFilter, Decision, Wants};
//! use terrace::Db;
//!
//! /// The first eight bytes of a key name the account.
//! #[derive(Debug)]
//! struct ClosedAccounts(Arc<RwLock<BTreeSet<u64>>>);
//!
//! impl CompactionFilter for ClosedAccounts {
//!     fn name(&self) -> &str {
//!         "closed-accounts"
//!     }
//!
//!     fn wants(&self, _key: &[u8]) -> Wants {
//!         Wants::Key // the value need not be read
//!     }
//!
//!     fn decide(&self, key: &[u8], _value: &[u8]) -> Decision {
//!         let Some(account) = key.first_chunk() else { return Decision::Keep };
//!         let closed = self.0.read().is_ok_and(|all| all.contains(&u64::from_be_bytes(*account)));
//!         if closed { Decision::Drop } else { Decision::Keep }
//!     }
//! }
//!
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! let closed = Arc::new(RwLock::new(BTreeSet::new()));
//! let db = Db::options()
//!     .compaction_filter("mails", ClosedAccounts(Arc::clone(&closed)))
//!     .open(directory.path())?;
//! let mails = db.keyspace("mails")?;
//! for account in 1u64..=3 {
//!     mails.put([account.to_be_bytes(), 7u64.to_be_bytes()].concat(), "Dear Ada, …")?;
//! }
//! closed.write().expect("nobody panics").insert(2);
//! // In time it goes by itself; who wants to have the space now asks for it.
//! db.admin().compact(&mails, ..)?;
//! assert_eq!(mails.iter().count(), 2);
//! assert_eq!(db.admin().stats().filtered_dropped_count, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Which means for which end
//! | what shall go | means |
//! |---|---|
//! | each entry some time after it was written | [expiry](super::counting#expiry): exact, nothing to program |
//! | all of a range or a keyspace, now | [`Keyspace::delete_range`], [`Db::drop_keyspace`] |
//! | what a rule finds worthless, some time | a filter |
//! | what must not be seen any more | a delete; a filter comes by when it comes by |
//!
//! # What can be relied on
//! * **Nobody sees it happen.** What a snapshot or a transaction sees is not filtered as long as it
//!   lives; an iterator goes on over what it began with. A snapshot that is held for long puts
//!   filters off, as it puts off the dropping of old versions.
//! * **It is a delete.** No older value comes back, whatever levels the versions of a key lie in,
//!   and after a crash a key shows either what it did before or what the filter made of it.
//! * **It is best effort.** An entry may be asked about several times, soon, or never as long as
//!   nothing around it is written. [`Admin::compact`] asks about everything.
//! * **It is not part of the database.** Whoever opens without the filter filters nothing. So give
//!   the same answer each time, or at least one that may come at any time.
//!
//! The module [`filter`](crate::filter) has the rules in full; merges, panics and values in the
//! value log among them. Figures: `filtered_dropped` and `filtered_changed` of the
//! [metrics](crate::Metrics).
//!
//! [`CompactionFilter`]: crate::CompactionFilter
//! [`Keyspace::delete_range`]: crate::Keyspace::delete_range
//! [`Db::drop_keyspace`]: crate::Db::drop_keyspace
//! [`Admin::compact`]: crate::Admin::compact
