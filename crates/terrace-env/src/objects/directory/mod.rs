//! A directory as an object store: what a database uses that has no other, and tests.
//!
//! # Why
//! Whoever embeds the engine shall not need a server for its lower levels. Any file system can be
//! one, if an object appears whole, once, and stays after a power cut.
//!
//! # How
//! ```text
//!   DIR/feed/17                 the object `feed/17`: parts of a name are directories
//!   DIR/.writers/1f…/LOCK       held by one open store
//!   DIR/.writers/1f…/3.part     an object that is being written by it
//!
//!   put             write 3.part, sync it ─► rename it to its name ─► sync the directory
//!   put_if_absent   write 3.part, sync it ─► link it to its name   ─► sync the directory
//! ```
//! A link to a name that exists fails, in one step: that is what makes a put conditional. No object
//! has a name with a part that begins with a dot, so a list never shows what is being written.
//!
//! # Invariants
//! 1. A name has bytes that were synced before, all of one put.
//! 2. Only the holder of its lock writes to a directory of `.writers`; whoever gets the lock of one
//!    removes what its last holder, which is gone, has left there.
//! 3. When a put was answered, be it with [`Put::Taken`](crate::Put::Taken), the name is durable.
//!
//! # Differs
//! From the other stores: no object `a` beside an object `a/b`, and a part of a name has at most
//! 255 bytes. Parts of an upload may have any size. [`begin_get`](crate::ObjectStore::begin_get)
//! reads when it is waited for.
//!
//! Start reading at `store.rs`.

mod list;
mod store;

pub(crate) use store::{SCHEME, open};

#[cfg(test)]
mod tests;
