//! Bulk: much data at one moment.
//!
//! # Why
//! A checkpoint, a backup and an ingest move whole files and not entries. They need one moment at
//! which no write is under way: they take the turn of flushes and hold every drange, briefly, and
//! do all that takes long before or after.
//!
//! # Invariants
//! 1. A checkpoint is a range at one number: whole, or not there.
//! 2. The tables of an ingest show all at once, newer than everything before them.

pub(super) mod checkpoint;
pub(super) mod copies;
pub(super) mod ingest;
mod ingested_values;
pub(super) mod restore;
mod rows;
pub(super) mod stored;
