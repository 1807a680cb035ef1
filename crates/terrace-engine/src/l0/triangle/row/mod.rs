//! Rows: what one flush wrote into the container, sorted, read where it lies, given back page by
//! page.
//!
//! # Why
//! A table goes as a whole; a row of L0 loses one key slice after the other to cuts. So a row lies
//! in pages, and a page is free as soon as all that it holds is consumed. And where bytes are
//! addressed one by one, blocks bring nothing: a get asks the row's filter, searches 16-byte
//! elements and then touches the entry itself.
//!
//! # Parts
//! * [`mod@format`]: the bytes, with their pictures. Pure.
//! * [`RowBuilder`] writes a row; [`RowReader`] reads one. From a reader come gets, a [`RowCursor`]
//!   for reads at one read point, a [`RowStream`] of every version for cuts, and
//!   [`RowReader::verify`].
//! * [`hints`]: what a search in a newer row tells an older one. Pure.
//! * [`fences`]: between which keys each page lies, and so which pages are dead. Pure.
//!
//! # Invariants
//! 1. Entries are in internal order, each (key, number) once; the versions of a key are adjacent.
//! 2. A row never changes. Until a version edit names it, nothing does: a builder that was
//!    interrupted leaves pages that are free again at the next open. So no store needs an order
//!    among others, and nothing is published in the memory itself: everything is flushed, and one
//!    fence stands before the row is handed over.
//! 3. Every byte of a page of the row is under a checksum that covers the row's uid and the page's
//!    place in the row. Head and metadata are checked when the row is opened, a page of data at its
//!    first use.
//! 4. A page of data is given back only when [`Fences::is_dead`](fences::Fences::is_dead) says so
//!    of keys that a durable edit consumed, and that no pinned version shows. So a search for a
//!    live key never misses one, and what it compares with in a page that is gone is told by the
//!    fences.
//! 5. Readers hold the pages that they stand on; a page is another's when the last of them let go.
//!
//! *Source:* TriangleKV §3.1 (RowTable), §3.4. *Differs:* an element has the first bytes of a key
//! and not the key, which stands in the entry only; entries have numbers, kinds and versions, which
//! the search heeds; there are checksums; the fences, which the paper's page-wise freeing needs as
//! soon as a row is opened after a restart; the row's place is in the manifest, and not in a list
//! of rows on the memory itself, which would be a second truth; a row has a filter, since a key is
//! in few of the rows that a get would have to search, whatever the hints say.
//!
//! Start reading at [`mod@format`], then [`RowReader::get`].

mod builder;
mod cursor;
mod data_pages;
pub mod fences;
pub mod format;
pub mod hints;
mod open;
mod reader;
mod salvage;
mod search;
mod stream;
mod verify;

#[cfg(test)]
mod tests;

pub use builder::{BuiltRow, Predecessor, RowBuilder, RowError, RowResult};
pub use cursor::RowCursor;
pub use hints::{Hint, SearchTrail, SeekTrail};
pub use reader::{RowLocation, RowReader};
pub use salvage::{SalvagedRow, UnfitPage};
pub use stream::RowStream;
