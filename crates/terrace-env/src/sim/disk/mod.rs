//! A disk that knows what a power cut would leave of it.
//!
//! # Why
//! A store loses data when it acknowledges what only the system's memory holds, and no test on a
//! real disk notices. This disk keeps *written* and *synced* apart, for the bytes of each file and
//! for the names in each directory, so that a test can ask at any moment for the disk that the
//! next start would find.
//!
//! ```text
//!   DiskImage
//!     directories   path ─► names: synced + a list of unsynced changes = written
//!     inodes        id   ─► bytes: synced, written; both share the pages that are alike
//!
//!   crash(policy, seed)
//!     names   synced, then any of the unsynced changes in order
//!     size    synced … written
//!     bytes   synced, then any of the units in which written differs
//! ```
//!
//! # Invariants
//! 1. A clone shares everything; a write copies the page, the list of its chunk and the list of
//!    the file's chunks, and nothing of other files.
//! 2. What was synced is in every crashed disk, as is every unit that was synced and not written
//!    since.
//! 3. Everything is ordered; no result depends on an address or a hash order.
//!
//! # Differs from a real disk
//! A directory is durable as soon as it is made. A rename between directories is two changes. The
//! space of a removed file is free at once. After a power cut the unused part of a reservation is
//! given back.

mod content;
mod crash;
mod directory;
mod image;
mod inspect;

pub use crash::CrashPolicy;
pub(super) use directory::InodeId;
pub use image::DiskImage;

#[cfg(test)]
mod tests;
