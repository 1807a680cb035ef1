//! The Redis protocol, without I/O: requests come out of received bytes, replies go into bytes.
//!
//! # Why not a crate
//! A request declares its sizes before it sends them, and servers have been killed by believing
//! them (CVE-2021-32675, CVE-2025-46686). The bounds here are part of decoding itself: nothing is
//! reserved because a client declared it, the bounds differ before and after authentication, and
//! the memory held is counted. The general crates decode into values of their own and leave those
//! bounds to whoever feeds them.
//!
//! # The bytes of a request
//! ```text
//! array     "*" count CRLF   then count times:   "$" length CRLF  <length bytes>  CRLF
//! inline    words CRLF       words parted by blanks, 'single' and "double \x41" quotes
//! ```
//! A request that does not begin with `*` is an inline one. An array of no arguments (or `*-1`)
//! is skipped in silence.
//!
//! # The bytes of a reply
//! ```text
//!                    RESP2              RESP3
//! simple             +text CRLF         the same
//! error              -CODE text CRLF    the same
//! integer            :number CRLF       the same
//! bulk               $length CRLF bytes CRLF        the same
//! null               $-1 CRLF           _ CRLF
//! array of n         *n CRLF ...        the same
//! map of n pairs     *2n CRLF ...       %n CRLF ...
//! set of n           *n CRLF ...        ~n CRLF ...
//! text for people    as bulk            =length CRLF txt: bytes CRLF
//! ```
//!
//! # Invariants
//! 1. Memory follows bytes *received*: the input buffer grows by at most what it already holds, or
//!    by 64 KiB if that is more, and never beyond what the request in hand is still missing. The
//!    table of arguments grows as arguments arrive, and counts in the bound on a request.
//! 2. Decoding costs time linear in the bytes received, however small the pieces: each position is
//!    looked at once (a header line of at most 32 bytes is looked at again in each piece).
//! 3. No input panics, and no arithmetic on declared numbers can wrap.
//!
//! Start reading in [`Decoder`].

mod client;
mod decode;
mod inline;
mod reply;

pub use client::{ReplyReader, Value, put_request};
pub use decode::{DecodeLimits, Decoder, Progress, ProtocolError, Request};
pub use reply::{Replies, Resp};
