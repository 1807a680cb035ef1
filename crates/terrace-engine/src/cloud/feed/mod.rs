//! The version feed in the store: who owns the database, and what it comes to.
//!
//! # Why
//! Two machines may believe to own one database. There is no lock in a store; there are numbers,
//! each of which can be created once. Whoever creates the next one decides what stands there.
//!
//! # Picture
//! ```text
//!  feed/  1      2         3      4      5      6         7 …
//!         fence  snapshot  edits  edits  fence  snapshot  edits
//!         └──── epoch 1 ──────────────┘  └──── epoch 2 ─────────►
//!                          the owner of epoch 1 wants 5 next, finds it taken, and is fenced
//! ```
//!
//! # Invariants
//! 1. Numbers are dense from the start of a reading to the end of the feed. A number never gets
//!    other bytes: what was sent without an answer is sent again until it is created or taken.
//! 2. An opener reads from a snapshot to the first missing number, creates that as its fence, and
//!    then looks whether the newest snapshot that it read is still there. Numbers are collected in
//!    ascending order, so if it is, the missing number had not been collected; if it is gone, the
//!    opener begins anew. Readers look in the same way before they believe an end.
//! 3. Fences are never collected: the number that a fenced owner wants next stays taken.
//! 4. A snapshot of which a put may still land is collected by a stone in its place. Otherwise it
//!    could come again where all around it is gone, and an opener whose list lacks the newer
//!    snapshots would take it for the start, and the gap behind it for the end. The first snapshot
//!    of a feed leaves a stone in any case, for those that find no snapshot at all.
//! 5. Edits may come again in that way, so no end is believed because edits stand before it.
//! 6. What has a lower epoch than something before it came too late, and is skipped by all.
//! 7. A snapshot replaces all before it, for whoever follows as well: it may hold edits that were
//!    never fed, because the owner has left them out once the snapshot was to come.
//!
//! Begin at `reading.rs` (how the feed is read) and `owner.rs` (how it is written).

mod databases;
mod objects;
mod owner;
mod reading;
#[cfg(test)]
mod tests;

pub use self::databases::find_databases;
pub use self::owner::{CloudFeed, FeedTaker};
pub use self::reading::{FedState, FeedMark};
