//! The Redis-protocol listener: any Redis client can use a Terrace database, and gets ordered
//! commands besides.
//!
//! ```no_run
//! use terrace_server::{ServerOptions, serve};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let db = terrace::Db::open("data")?;
//! serve(db, ServerOptions::default(), |address| println!("listening on {address}"))?;
//! # Ok(())
//! # }
//! ```
//!
//! # How a request travels
//! ```text
//! socket ── bytes ──► Decoder ── request ──► command ── Db, without waiting ──► Replies ──► socket
//!                                               │ NeedsIo, WouldBlock, or a long scan
//!                                               ▼
//!                                     a thread that may wait
//!                               (with the rest of the pipeline, in order)
//! ```
//! A read from memory costs no hop between threads; one that needs the disk costs one. The rooms:
//! [`protocol`] (bytes, no I/O), `command` (what requests mean), `session` (one connection without
//! its socket), `connection` and `server` (sockets), `net` (the only contact with tokio, sockets,
//! clocks and signals).
//!
//! # Bounds
//! What clients declare reserves no memory ([`protocol`]). All connections share a budget; above a
//! soft bound on waiting replies a connection is not parsed further, and one that does not take
//! them is cut. Before authentication the bounds are far tighter. There is no scripting and no
//! command whose work is unbounded on the network's threads. `MATCH` patterns take linear time.
//! Bounds and defaults: [`ServerOptions`], [`protocol::DecodeLimits`].
//!
//! # Commands
//! Those of Redis that work on strings and on keys (`COMMAND LIST` names them), with Redis's
//! replies and error texts, and four that need the order of keys:
//! ```text
//! RANGE start end [REV] [LIMIT n] [KEYS]     key, value, key, value ... (KEYS: keys only)
//! RANGECOUNT start end                       how many keys
//! RANGESIZE start end                        about how many bytes, and how many entries
//! RANGEDEL start end                         OK, at the same cost for one key as for all
//! ```
//! `start` is inclusive, `end` exclusive, `-` stands before every key and `+` past every key; `REV`
//! gives the same keys from the last to the first. A reply is of one moment, however long it is.
//!
//! Not there: scripts, modules, `KEYS` (use `SCAN`, or `RANGE` with `KEYS`) and transactions (use
//! `MSET`, or pipelines). `SCAN` cursors are remembered by the server in bounded number, and are
//! refused after a restart.
//!
//! # Keyspaces
//! `SELECT 0` to `SELECT 15` choose a keyspace of the database by its number; 0 is `default`, which
//! the library and the command line use unless told otherwise. Any keyspace is chosen by its name:
//! ```text
//! KEYSPACE LIST           the names of all keyspaces
//! KEYSPACE SIZES          for each of them: name, about how many bytes, about how many entries
//! KEYSPACE STATS [name]   what each, or one, was asked since the start: names of figures, numbers
//! KEYSPACE USE name       goes on in this one, as by SELECT; NOKEYSPACE if there is none
//! KEYSPACE MAKE name      makes one, durably; 1 if it was made, 0 if it was there
//! KEYSPACE DROP name      drops one with all its keys; 1 if it was there, 0 if not
//! ```
//! `FLUSHALL` empties all of them. In `CLIENT LIST` a keyspace without a number is `db=-1`.
//!
//! # Operators' commands
//! A server that was started with a directory for them ([`ServerOptions::operator_dir`]) makes
//! copies and backups of its database in there while it runs, compacts it and checks it:
//! ```text
//! CHECKPOINT name                          a copy of the database, in DIR/checkpoints/name
//! BACKUP [CREATE [IN series] [FULL] [LINK] [RATE bytes] [KEEP count]]
//!                                          a backup, in DIR/backups/series ("main" unless told)
//! BACKUP LIST [IN series]                  number, seconds since 1970, bytes, last write of each
//! BACKUP VERIFY number [IN series] [JSON]  reads everything in one, and says what is damaged
//! BACKUP DELETE number [IN series]         what it shares with others stays theirs
//! COMPACT [start end]                      of the keyspace that is selected, all or an interval
//! CHECK [JSON]                             reads every table, and says what is damaged
//! OPERATION STATUS                         what runs, how far it is, how the last one ended
//! OPERATION CANCEL id                      ends a checkpoint or a backup early
//! ```
//! The reply comes when the work is done. One operation runs at a time, on a thread of its own, and
//! a second one gets `BUSY`; the section `operation` of `INFO` shows the same as `OPERATION
//! STATUS`. Names are 1 to 64 letters, digits, `.`, `-` and `_`, the first one a letter or a digit.
//! If the client goes away, the work goes on to its end; a shutdown ends copies and backups early,
//! and what was half made is no copy.
//!
//! # Errors of the store
//! | code | meaning | what to do |
//! |---|---|---|
//! | `ERR` | the request is wrong: a key or value over the bounds, for example | change it |
//! | `NOSPACE` | the disk is full; nothing was written or lost | free space, then write again |
//! | `IOERR` | a call to the operating system failed, or writes are refused since one did | see the text; reopen the database |
//! | `UNKNOWN` | the write may or may not be found after the next start | read the key after a restart |
//! | `CORRUPTION` | stored bytes are damaged; other keys can be read | run `terrace check` |
//! | `READONLY` | the database was opened for reading | open it for writing |
//! | `LOADING` | the database is being opened; the connection ends | ask again in a moment |
//! | `SHUTDOWN` | the server is stopping | ask again later |
//! | `BUSY` | another operation runs | see `OPERATION STATUS` |
//! | `CANCELLED` | the operation was ended by `OPERATION CANCEL`; there is no copy | |
//! | `NOBACKUPS` | there is no such series of backups | make one with `BACKUP` |
//!
//! If a reply in pieces fails after it has begun, the connection is cut: there is no way to put an
//! error into the middle of an array.

mod budget;
mod clients;
mod command;
mod connection;
mod cursors;
mod glob;
mod loading;
mod local;
mod net;
mod operations;
mod options;
mod password;
pub mod protocol;
mod server;
mod session;
mod shared;

pub use local::{LocalServer, LocalSession};
pub use net::raise_file_limit;
pub use options::{DEFAULT_PORT, OptionsError, ServerOptions};
pub use password::Password;
pub use server::{Listening, ServeError, Server, serve, serve_opening};

/// The version of Redis whose commands and texts are followed, as clients ask for it.
pub(crate) const REDIS_VERSION: &str = "7.0.0";
