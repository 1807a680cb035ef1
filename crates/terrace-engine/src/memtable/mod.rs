//! The volatile sorted buffer that writes go to first: an ordered tree with nodes as wide as cache
//! lines over an arena that is addressed by offsets.
//!
//! # Why
//! Every write inserts here and every read looks here, so what counts is cache misses. A skiplist
//! makes one for every step of a search; this tree makes one for each 8 to 16 children, three
//! lines at a time, all of which are asked for at once.
//!
//! *Source:* the nodes are in the manner of Masstree's (Mao, Kohler, Morris: Cache Craftiness for
//! Fast Multicore Key-Value Storage, EuroSys 2012, section 4): 8 bytes of key as a number, and a
//! permutation word that publishes an insertion in one store.
//! *Differs:* readers never look twice at a leaf, because full nodes are copied and not emptied;
//! no trie of trees, because each node leaves out the bytes that its keys share.
//!
//! # Invariants
//! 1. The tree has one slot for each user key, whatever the number of its versions. The slot
//!    points to the newest version, each version to the next older one, so that an overwritten key
//!    costs no slot and a walk never steps over dead versions.
//! 2. Versions of a key descend strictly by number, in whatever order they came.
//! 3. Bytes of an entry are complete before its offset is published, and never change after; only
//!    its link to the next older version does.
//! 4. Slots of a node are used once. A full node is copied into two and stays as it was.
//! 5. Whatever was inserted before a read began, the read finds. The proof is in `tree.rs`.
//! 6. An insert that has a reservation never finds the arena full. The sums are in `charge.rs`.
//!
//! ```text
//!                  inner   │ prefix of separator, its entry │ child │ …      4 cache lines
//!                        ╱         │          ╲
//!      leaf ⇄ leaf ⇄ leaf   │ prefix of key, newest version │ …               3 cache lines
//!                                   │
//!             entry #9 ─older→ entry #7 ─older→ entry #2                      8-byte units
//! ```
//!
//! Start reading at [`Memtable`]; then `node.rs`, `tree.rs` (readers), `insert.rs` (the writer).

mod arena;
mod charge;
mod cursor;
mod entry;
mod facade;
mod insert;
mod logged;
mod node;
mod pin;
mod spare;
mod tree;

pub use charge::Reservation;
pub use cursor::{MemtableCursor, MemtableStream};
pub use facade::{Found, Memtable};
pub use logged::{LoggedByNumber, LoggedValue};
pub use pin::PinnedVersion;
pub use spare::SpareMemory;

#[cfg(all(test, terrace_loom))]
mod models;
#[cfg(test)]
mod tests;
