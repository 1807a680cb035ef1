//! Transactions: what is a conflict, what is none, and histories of many at once.

mod conflicts;
mod crash;
mod expiry;
mod histories;
