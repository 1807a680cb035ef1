//! Tests of the bytes of plans, and of filters.

mod filter;
mod golden;
