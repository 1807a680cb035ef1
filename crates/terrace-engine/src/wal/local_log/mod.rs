//! The log in local files; see the picture in the [room's door](super).
//!
//! * [`segment`](mod@segment): one file of the log, and how a record gets into it
//! * `tail`: where the next record goes
//! * [`sizing`](mod@sizing): how large segments are, and how many wait to be used (pure)
//! * `room`: files are made for segments, used again, and given back
//! * `retire`: a segment that tables name values of becomes a value file where it lies
//! * `begin`: an open goes on after what a replay found
//! * `carry`: what may never have reached the disk is written again before that
//! * `sink`: the log as writers see it
//!
//! # Small when small
//! A log that is hardly written to takes hardly any space: its first segment has 64 KiB, and the
//! next ones are as large as the rate of writes asks for, up to the option's size. A spare is
//! prepared when half of a small segment is used, and a file that is released waits for its next
//! use only if the rate of writes asks for it. A close cuts the last segment off behind its last
//! record.

mod begin;
mod carry;
mod retire;
mod room;
mod segment;
mod sink;
mod sizing;
mod store;
mod tail;
#[cfg(test)]
mod testing;

pub use sink::LocalLog;
pub use store::LocalLogStore;

pub(super) use room::Recyclable;
pub(super) use segment::{segment_id, segment_path};
