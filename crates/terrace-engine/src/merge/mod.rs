//! Merge operators: writes that say how a value changes, without reading it first.
//!
//! # Why
//! A counter that is read, raised and put back costs a read a write, and writers of one key wait
//! for each other. A *merge* writes only the *operand* ("+1"), as blindly as a put. What a reader
//! sees is *folded* from the newest value and the operands above it by the range's one
//! [`MergeOperator`]; flushes and compactions fold for good.
//!
//! ```text
//!   key k     #9 operand "+1" ┐ newest
//!             #7 operand "+5" │  a reader at 9 or above sees full("10", ["+5", "+1"]) = "16",
//!             #4 value  "10"  ┘  one at 7 or 8 "15", one at 4 to 6 "10"
//! ```
//!
//! # What lies under an operand
//! The *base* is the next older entry of the key that is no operand. A value is its own base. A
//! tombstone, a range tombstone that covers the key, an expired value, and nothing at all are
//! no base: the operator then starts from nothing. A delete therefore takes the operands below it
//! along, and operands above it begin anew.
//!
//! # Expiry
//! An operand carries no expiry of its own. Over a value that expires, it lives on when the value
//! is gone: until that moment the key shows what was folded over the value, with the value's
//! expiry; from that moment on, what the operands make of nothing. (An operand that was
//! acknowledged after the moment must not be lost, and entries do not say when they were written;
//! so all of them stay.) That is why nothing is folded for good over a value that will expire
//! later. A put replaces value, operands and expiry alike.
//!
//! # Names
//! Operators are known by name, never as closures: the manifest holds the name of the range's
//! operator, and so does every compaction plan. The range keeps the name for ever; opening it with
//! another one is refused, since the stored operands would mean something else. A range that has
//! no operator yet takes the first one that it is opened with, and refuses merges until then.
//!
//! # Invariants
//! 1. Folding for good changes no read: it takes place within one stripe of read points, and over
//!    a base that is known: in the same stripe, or known to be nothing.
//! 2. The operator is asked about each operand before it is written; a batch with one that it
//!    refuses is not written at all. It can still fail later: over a value that it cannot read, or
//!    at an operand that an older build took.
//! 3. An operator that fails loses nothing. Reads of the key answer [`Error::Merge`], and an
//!    iterator goes on behind it; flushes and compactions keep the operands as they are; a put or a
//!    delete sets the key right.
//! 4. No two operands of a key with the same number are ever both counted: a replay puts a record
//!    into one memtable as a whole, so that no entry comes into two rows.
//!
//! *Source:* merge operators as in RocksDB; blind writes of deltas as in bLSM (Sears, Ramakrishnan:
//! bLSM: A General Purpose Log Structured Merge Tree, SIGMOD 2012).
//! *Differs:* the operator's name is in the manifest; expiry is defined; a failure is an error of
//! the read and never stops a compaction.
//!
//! Start with [`MergeOperator`]; `stack.rs` folds, `compaction/fold.rs` and
//! `store/read/operands.rs` say when; `store/write/operands.rs` checks.
//!
//! [`Error::Merge`]: crate::Error::Merge

mod builtin;
mod operator;
mod registry;
mod stack;

pub use builtin::{AddI64, AddI64Le, Append, Max};
pub use operator::{MergeError, MergeFailure, MergeOperator, OperandError};
pub use registry::MergeOperators;
pub(crate) use registry::is_operator_name;
pub use stack::{combine, fold};
