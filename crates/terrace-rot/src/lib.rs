//! Damaged disks: what rots, tears, goes astray and lies; planted, and judged.
//!
//! # Why
//! A store answers for years from bytes that nobody looks at. Whether damage to them is noticed
//! cannot be argued, only tried: each fault here is planted in the files of a real range, and the
//! check, the repair and the open of the damaged range are held against what was written.
//!
//! ```text
//!   seed ─► specimen ─► fault ─► damaged disk ─┬─► check    finds it, or the bytes are dead
//!            range and   flip, page, swap,     ├─► repair   a subset of what was written, and
//!            history     stale file, …         │            every missing key in its report
//!                                              └─► open     right answers or refusals
//! ```
//!
//! # What is promised
//! 1. On a range that was closed cleanly, every changed byte is found, or provably dead: no reader
//!    ever comes there ([`dead`] says which bytes those are, and why).
//! 2. After a crash, what stands above the last recorded durable position of the log may be torn
//!    or damaged; nobody can tell. A check lists the place; the open keeps a prefix of the writes.
//! 3. No answer is ever wrong: a read gives what was written last, or refuses.
//! 4. A disk that lies about its syncs sets a range back to a prefix of its writes at worst, or
//!    the open refuses: never a hole.
//!
//! Start with [`specimen`], then [`fault`], then [`judge`]; [`decoder`] flips every bit of small
//! specimens of each format, and [`campaign`] strings everything together for tests and soaks.

pub mod campaign;
pub mod dead;
pub mod decoder;
pub mod durable;
pub mod fault;
pub mod history;
pub mod judge;
pub mod lies;
pub mod specimen;
