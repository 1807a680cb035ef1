//! What requests of an object store cost, and what lies in it: an estimate, in dollars.
//!
//! # Why
//! A database whose lower levels lie in an object store trades local disk for requests, and
//! requests are billed. How many there were says little to whoever pays: an upload costs as much as
//! a dozen reads, a delete nothing, and bytes kept for a month may cost more than all of them. So
//! what was counted is multiplied by a sheet of prices, wherever it is shown.
//!
//! # How
//! ```text
//!   RequestCounts ─┐
//!                  ├─► Bill, an estimate
//!   PriceSheet ────┘
//!      ▲
//!      ├── built in (`builtin.rs`), by name or by the scheme of the store's URL
//!      └── the text of a file (`text.rs`)
//! ```
//! All of it is pure. Amounts are whole millionths of a millionth of a dollar (`dollars.rs`), so
//! that they add up.
//!
//! # What the estimate is not
//! * An invoice: there is no free tier in it, no discount for large amounts, no tax, and no price
//!   of another part of the world than the one that the sheet names.
//! * Exact about failures: every request is counted, a failed and a repeated one as well. Some
//!   services charge for none that failed on their side.
//! * About other users of the store: only what this process asked for is in it.

mod bill;
mod builtin;
mod dollars;
mod sheet;
#[cfg(test)]
mod tests;
mod text;

pub use bill::{Bill, CloudCost};
pub use dollars::Dollars;
pub use sheet::{PriceSheet, VolumePrices};
