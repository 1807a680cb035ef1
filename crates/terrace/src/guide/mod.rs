//! A guide, in pages that can be read one by one. It holds no code, only text.
//!
//! | page | what it is about |
//! |---|---|
//! | [`durability`] | what survives a killed process and a power cut, and how to ask for more |
//! | [`keyspaces`] | several sets of keys in one database, and writes over them |
//! | [`scans`] | order, ranges, iterators and cursors, snapshots, pages |
//! | [`counting`] | changing what is there: updates, conditional writes, merges, expiry |
//! | [`filters`] | what compactions drop or change on their way |
//! | [`transactions`] | reads and writes that happen as if nobody else were there |
//! | `asynchronous` (with the feature `tokio`) | tasks that do not wait, streams, writes that nobody waits for |
//! | [`tuning`] | memory, disk, compression, bulk loads, what to look at first |
//! | [`coming_from`] | RocksDB, fjall, redb, sled: what is called how here |
//!
//! Programs to begin with stand in the folder `examples` of the package: `hello`, `counter`,
//! `index` (two keyspaces kept in step), `transfer` (transactions), `pages` (a listing that does
//! not change while it is read), `bulk_load`, `cache` (with expiry), `queue`, `merge_operator`,
//! `checkpoint`, `backup`, `figures`, `metrics` (for Prometheus), `web` (a web
//! service, with the feature `tokio`).
//!
//! # Limits
//! | what | at most |
//! |---|---|
//! | a key | 64 KiB ([`limits::KEY_BYTES_MAX`](crate::limits::KEY_BYTES_MAX)) |
//! | a value | 64 MiB ([`limits::VALUE_BYTES_MAX`](crate::limits::VALUE_BYTES_MAX)) |
//! | a batch | 128 MiB ([`limits::BATCH_BYTES_MAX`](crate::limits::BATCH_BYTES_MAX)) |
//! | keyspaces | some 64,000 |
//! | processes | one that writes and any number of [secondaries](crate::Secondary), or any number that read |
//!
//! The library runs on 64-bit Linux.

#[cfg(feature = "tokio")]
pub mod asynchronous;
pub mod coming_from;
pub mod counting;
pub mod durability;
pub mod filters;
pub mod keyspaces;
pub mod scans;
pub mod transactions;
pub mod tuning;
