//! Object stores over HTTP: S3 and what speaks like it, Google Cloud Storage, Azure.
//!
//! # Why
//! The clients of these stores are asynchronous, and try a failed request again by themselves. The
//! engine is neither: its calls block, and a conditional put that is repeated behind its back would
//! meet itself and hear that the name is taken.
//!
//! # How
//! ```text
//!   thread ─► CloudStore ─► task on the runtime of this room ─► client ─► WatchedService ─► HTTP
//!      ▲                      │                                               │
//!      └── channel ◄── result ┘◄──────── Answer: status, or how it broke ◄────┘
//! ```
//! * The runtime has two threads. It starts at the first open, and ends with the environment and
//!   the last store that was opened by it.
//! * Nothing is tried again here. A connection has 5 seconds to be made, a request 60 from its
//!   begin to the end of its answer: time for 64 MiB at 9 Mbit/s.
//! * Credentials and endpoints are taken from the variables of the process that begin with `AWS_`,
//!   `GOOGLE_` or `AZURE_`: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`,
//!   `AWS_ENDPOINT`, and `AWS_ALLOW_HTTP=true` for one without TLS.
//! * TLS is rustls with the cryptography of `ring`, unless the program has installed another
//!   provider for its process.
//!
//! # Invariants
//! 1. An error is made from the status of the answer, or from how the connection broke, in words of
//!    this room. Texts of the client, which may show URLs, are dropped.
//! 2. A status of 500 and above, a timeout and a broken connection leave open whether the request
//!    was done; what refuses a request (4xx but 408) says that it was not.
//!
//! Start reading at `store.rs`; what an answer means is in `answer.rs`.

mod answer;
mod runtime;
mod service;
mod store;

pub(crate) use store::CloudStores;

#[cfg(test)]
mod tests;
