//! What an open range does with its object store: the tier below the waterline, and the version
//! feed that names what lies there.
//!
//! # Why
//! `placement/far/` reads and writes tables there. Here they meet the range: which store it is, and
//! when it is asked no more.
//!
//! # Invariants
//! 1. The local manifest is what the running owner reads, and names what lies in the store.
//! 2. A table is whole in the store before any manifest names it.
//! 3. A range whose tables lie in a store opens only with it.
//! 4. With a mirror, the store has all files that its feed names, those of the upper levels too.
//! 5. The feed in the store gets what the local manifest has, in its order and after it. What waits
//!    for that is bounded, and an owner that somebody else has fenced notices it there, or within
//!    two minutes if it feeds nothing and the store answers.
//! 6. A write of the class `durable` is acknowledged when a moment before it is in the feed, the
//!    local log has its record, and the store has it too, unless the log lies on a volume that
//!    outlives the machine: then the volume keeps it until a moment has it.
//! 7. A table is deleted only after the feed has the edit that drops it, and when no pin holds it.
//!
//! Begin at `tier.rs` (the store, opened on demand), `mount.rs` (what an open does with tables),
//! `feeds.rs` (whose database it is), `take_over.rs` (another directory goes on with it),
//! `left_out.rs` (what the one before had beyond that),
//! `behind.rs` (what is fed when), `outliving.rs`, `logs.rs` and `shipping.rs` (the log that
//! outlives the machine), `mirror.rs` (upper levels that the store has as well), `archive/` (states
//! of some time ago), `collect.rs` (what goes) and `fence_look.rs` (an owner that feeds nothing).
//! For those who have only the store: `follow.rs`, `database.rs` and `why_live.rs`.

mod archive;
mod behind;
mod collect;
mod database;
mod feeding;
mod feeds;
mod fence_look;
mod follow;
mod left_out;
mod logs;
mod mirror;
mod mount;
mod outliving;
mod shipping;
mod take_over;
mod tier;
mod why_live;

pub use archive::{ARCHIVE_BASES, ARCHIVE_LOG_BYTES_PER_BASE, Archive, ArchiveStats, ArchivedLog};
pub use behind::{FeedBehind, TakeMoment};
pub use collect::FarCollector;
pub use database::{CloudCheckpoint, CloudDatabase, choose_database, databases_in};
pub use feeds::CloudFeeds;
pub use follow::{NoLog, StoreFeed, StoreMoment};
pub use left_out::LeftOut;
pub use logs::CloudLogs;
pub use outliving::{LogOnVolume, OutlivingLog, VolumeLogStats};
pub use shipping::{LOG_OBJECT_BYTES, LOG_PATIENCE, LOG_WRITERS};
pub use take_over::TakeOver;
pub use tier::CloudTier;
pub use why_live::{LiveReason, WhyLive};
