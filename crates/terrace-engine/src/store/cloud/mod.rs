//! What an open range does with its object store: the tier below the waterline.
//!
//! # Why
//! `placement/far/` reads and writes tables there. Here they meet the range: which store it is, and
//! when it is asked no more.
//!
//! # Invariants
//! 1. The local manifest is what the running owner reads, and names what lies in the store.
//! 2. A table is whole in the store before any manifest names it.
//! 3. A range whose tables lie in a store opens only with it.
//!
//! Begin at `tier.rs` (the store, opened on demand) and `mount.rs` (what an open does).

mod mount;
mod tier;

pub use tier::CloudTier;
