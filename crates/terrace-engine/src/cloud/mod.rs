//! The cloud tier's protocol: what a database has in an object store beside its tables.
//!
//! # Why
//! The lower levels of a database may lie in an object store, which outlives the machine and which
//! several machines reach. So what says which objects are live has to lie there too, two machines
//! that believe to own one database must not damage it, and what nobody needs has to go without
//! anybody finding it missing.
//!
//! # Picture
//! ```text
//!   <database id>/proof                         that the store honours put-if-absent
//!   <database id>/feed/N                        the version feed, dense numbers
//!   <database id>/log/N                         the log behind the newest moment, dense numbers
//!   <database id>/table/EPOCH-COUNTER-UID       tables
//!   <database id>/value/EPOCH-COUNTER-PART      value segments
//!   <database id>/pin/N/held, …/fate            what a reader needs, or a checkpoint
//!   <database id>/pin/N/checkpoint              what the database was at some time
//! ```
//! Begin at `names.rs` (what is called how), `requests/` (how the store is asked), `feed/` (who
//! owns a database, and what it holds), `log/` (what a lost machine leaves) and `pins/` (what
//! readers and checkpoints need). What all of it costs is estimated in `prices/`.

mod feed;
pub mod format;
mod log;
mod names;
mod numbered;
mod pins;
mod prices;
mod requests;
#[cfg(test)]
mod tests;

pub use feed::{CloudFeed, FedState, FeedMark, FeedTaker, find_databases};
pub use log::{
    CloudLog, CloudLogStats, KeptNumbers, LogContent, LogObject, LogObjects, LogPiece, LogPoint,
    LogRecords, LogRun, LogWork, StoredRecord, decode_log, encode_fence, encode_stone, records_in,
};
pub use names::{CheckpointName, CloudName, CloudNames};
pub use pins::{
    Checkpoints, Held, PIN_STILL_MAX, PinCensus, PinSeen, ReaderPin, Removal, WatchedPins,
    pin_and_read,
};
pub use prices::{Bill, CloudCost, Dollars, PriceSheet, VolumePrices};
pub use requests::{
    CloudStore, Creation, ONE_PUT_BYTES_MAX, PART_BYTES, PendingGet, RequestCount, RequestCounts,
    RequestKind, RequestLimits, RetryPolicy, is_missing,
};
