//! What survives a killed process and a power cut, and how to ask for more.
//!
//! A write is acknowledged when its call returns `Ok`. What that promises is the [`Durability`] of
//! the database, unless the write says otherwise:
//!
//! | class | when a write is acknowledged | a killed process loses | a power cut loses |
//! |---|---|---|---|
//! | [`Buffered`](Durability::Buffered) (the default) | it is in the kernel's pages | nothing | what the kernel had not written yet |
//! | [`Interval`](Durability::Interval) | likewise; synced at least so often | nothing | what was written within that time |
//! | [`Sync`](Durability::Sync) | it is on the disk | nothing | nothing |
//! | [`Durable`](Durability::Durable) | the object store has it as well | nothing | nothing, nor the loss of the machine |
//!
//! What a power cut takes is always the *end* of the order of writes, over all keyspaces, and never
//! a hole in it. A [`Batch`] is there after a crash as a whole, or not at all.
//!
//! A database of a weak class can be strict where it matters:
//!
//! ```
//! use terrace::{Batch, Db, WriteOptions};
//!
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! let db = Db::open(directory.path().join("shop"))?;
//! db.put("basket:7", "1 bicycle")?; // survives a killed process
//!
//! // This one survives a power cut, too, and so does everything that was written before it.
//! db.put_with("order:1", "1 bicycle", &WriteOptions::new().sync())?;
//!
//! // Many writes, and one wait for the disk at the end.
//! let mut batch = Batch::new();
//! for number in 2..100 {
//!     batch.put(&db, format!("order:{number}"), "1 bell");
//! }
//! db.write(&batch)?;
//! db.sync()?;
//! # Ok(())
//! # }
//! ```
//!
//! Writers that wait for the disk at the same time share one sync: with more threads, more writes
//! are synced in a second.
//!
//! # When the machine is lost
//! A database with an object store ([`Layout::cloud`]) can bring its log there
//! ([`CloudOptions::log`], with [`CloudOptions::mirror`]). A write of the class
//! [`Durable`](Durability::Durable) is acknowledged when the store has it, with all before it:
//! whoever opens the database from an empty directory, with [`CloudOptions::take_over`], finds it.
//! Others see such a write before that, once it is on the local disk. An ingest is durable with the
//! next write that is, or with [`Db::sync`] in a database of this class: both wait until the store
//! has a moment with it. While the store is away, such writes wait.
//!
//! # When something fails
//! * **The disk is full**: writes answer [`NoSpace`](ErrorKind::NoSpace), and nothing of them is
//!   kept. Reads go on. When there is space again, writing goes on by itself.
//! * **A sync fails**: what the disk holds is in doubt. The write answers
//!   [`Unknown`](ErrorKind::Unknown), later ones [`Poisoned`](ErrorKind::Poisoned). Open the
//!   database again: what is durable is there.
//! * **Stored bytes are damaged**: reads answer [`Corruption`](ErrorKind::Corruption) with the file
//!   and the offset ([`Error::damage`]), never a wrong value and never a false "not there". Other
//!   keys can be read. [`check`] looks for damage, [`repair`] salvages what is left.
//!
//! # Copies
//! [`Backups`] keeps backups in a directory, best on another disk: each is whole, each shares with
//! the one before it what both have, and any of them can be verified and restored. Bytes are
//! compared with their checksums as they are copied.
//!
//! [`Db::checkpoint`] makes one copy at one moment by hard links, quickly, while writers go on. It
//! opens like any other database. It shares its bytes with the original, and so their damage: it is
//! for experiments and exports, and does not replace a backup.
//!
//! # Files of other versions
//! Each file bears the version of its format, and a version of Terrace reads everything that an
//! earlier one wrote. It refuses what a later one wrote ([`Unsupported`](ErrorKind::Unsupported))
//! and changes nothing then.
//!
//! [`Durability`]: crate::Durability
//! [`Layout::cloud`]: crate::Layout::cloud
//! [`CloudOptions::log`]: crate::CloudOptions::log
//! [`CloudOptions::mirror`]: crate::CloudOptions::mirror
//! [`CloudOptions::take_over`]: crate::CloudOptions::take_over
//! [`Db::sync`]: crate::Db::sync
//! [`Batch`]: crate::Batch
//! [`ErrorKind`]: crate::ErrorKind
//! [`Error::damage`]: crate::Error::damage
//! [`Db::checkpoint`]: crate::Db::checkpoint
//! [`Backups`]: crate::Backups
//! [`check`]: crate::check
//! [`repair`]: crate::repair

#[cfg(doc)]
use crate::{Durability, ErrorKind};
