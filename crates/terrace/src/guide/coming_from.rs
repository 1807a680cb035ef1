//! RocksDB, fjall, redb, sled: what is called how here.
//!
//! | | RocksDB (crate `rocksdb`) | fjall | redb | sled | Terrace |
//! |---|---|---|---|---|---|
//! | open | `DB::open(&options, path)` | `Database::builder(path).open()` | `Database::create(path)` | `sled::open(path)` | [`Db::open(path)`](crate::Db::open), [`Db::options`](crate::Db::options) |
//! | part of it | column family | keyspace | table | tree | [`Keyspace`](crate::Keyspace) |
//! | several writes | `WriteBatch` | batch | write transaction | `Batch` | [`Batch`](crate::Batch), over keyspaces |
//! | range | `IteratorMode`, bounds in `ReadOptions` | `range`, `prefix` | `range` | `range`, `scan_prefix` | [`View::range`](crate::View::range), [`View::prefix`](crate::View::prefix) |
//! | backwards | `Direction::Reverse` | `.rev()` | `.rev()` | `.rev()` | `.rev()` |
//! | raw cursor | `raw_iterator` | – | – | – | [`Cursor`](crate::Cursor) |
//! | a moment | `snapshot` | `snapshot` | read transaction | – | [`Db::snapshot`](crate::Db::snapshot) |
//! | without a copy | `get_pinned` | `Slice` | `AccessGuard` | `IVec` | [`View::get`](crate::View::get), [`View::look`](crate::View::look) |
//! | transaction | `OptimisticTransactionDB`, `get_for_update` | `OptimisticTxDatabase` | write transaction | `transaction` | [`Db::transaction`](crate::Db::transaction), [`Db::begin`](crate::Db::begin) |
//! | conditional write | transactions | transactions | transactions | `compare_and_swap`, `update_and_fetch` | [`compare_and_swap`](crate::Keyspace::compare_and_swap), [`update`](crate::Keyspace::update) |
//! | merge | merge operator of a column family | – | – | merge operator | [`Keyspace::merge`](crate::Keyspace::merge) |
//! | delete a range | `delete_range` | – | `retain_in` | – | [`Keyspace::delete_range`](crate::Keyspace::delete_range) |
//! | expiry | a database with TTL | – | – | – | [`WriteOptions::ttl`](crate::WriteOptions::ttl), [`KeyspaceOptions::ttl`](crate::KeyspaceOptions::ttl) |
//! | compaction filter | `set_compaction_filter` | `Factory` of filters | – | – | [`Options::compaction_filter`](crate::Options::compaction_filter) |
//! | bulk load | `SstFileWriter`, `ingest_external_file` | sorted ingest | – | – | [`Keyspace::ingest`](crate::Keyspace::ingest) |
//! | copy | `Checkpoint` | – | – | `export` | [`Db::checkpoint`](crate::Db::checkpoint) |
//! | backups | `BackupEngine` | – | – | – | [`Backups`](crate::Backups) |
//! | read beside the writer | `open_cf_as_secondary`, `try_catch_up_with_primary` | – | – | – | [`Options::open_secondary`](crate::Options::open_secondary), [`Secondary::catch_up`](crate::Secondary::catch_up) |
//! | wait for the disk | `WriteOptions::set_sync`, `flush_wal` | `persist` | at each commit | `flush` | [`WriteOptions::sync`](crate::WriteOptions::sync), [`Db::sync`](crate::Db::sync) |
//!
//! # From RocksDB
//! * [`View::prefix`](crate::View::prefix) ends where the prefix does. No extractor is needed.
//! * A handle of a keyspace has the methods itself: `users.put(k, v)` where RocksDB has
//!   `db.put_cf(&users, k, v)`. Keyspaces need not be listed to open a database.
//! * A write survives a killed process by default, as with RocksDB's log; not a power cut
//!   ([durability](super::durability)).
//! * Keyspaces share their options but for the merge operator and the life of entries.
//! * `flush` of [`Admin`](crate::Admin) writes memtables to tables. What makes writes durable is
//!   [`Db::sync`](crate::Db::sync).
//! * Each read of a [`Transaction`](crate::Transaction) counts, as those by `get_for_update` do,
//!   and so does what its iterators walk over. Any database has transactions, beside plain writes.
//! * A [compaction filter](super::filters) is never asked about what a snapshot sees, as RocksDB's
//!   was before it gave repeatable snapshots up. It is not told the level.
//! * The order of keys is bytewise; there are no comparators.
//! * The counter that takes eight bytes is [`merge::ADD_I64_LE`](crate::merge::ADD_I64_LE).
//!
//! # From fjall
//! * `db.keyspace("users", options)` becomes [`db.keyspace("users")`](crate::Db::keyspace); the
//!   options that matter are those of the database.
//! * A row of an iterator is a pair of key and value; there is no guard to ask. Where the value is
//!   not wanted, there is [`Iter::keys`](crate::Iter::keys).
//! * Tables are not compressed by default; fjall's are.
//! * [`Db::sync`](crate::Db::sync) is fjall's `persist` with `SyncAll`.
//!
//! # From redb
//! * Keys and values are bytes. Numbers in the order of bytes are big-endian ones.
//! * A write is a call, not a transaction; several are a [`Batch`](crate::Batch), and what reads
//!   first is a [`Transaction`](crate::Transaction). Nobody waits for another's end: of two
//!   transactions that meet the second one to commit begins anew.
//! * A commit of redb is durable when it returns. To have that, open with
//!   [`Durability::Sync`](crate::Durability::Sync).
//! * A database is a directory, not a file.
//!
//! # From sled
//! * [`View::get`](crate::View::get) gives a [`Value`](crate::Value), which dereferences to bytes
//!   as `IVec` does. Unlike it, a large one keeps what it lies in alive: keep it briefly.
//! * `fetch_and_update` and `update_and_fetch` are [`Keyspace::update`](crate::Keyspace::update).
//! * What `watch_prefix` told has no counterpart yet.
