//! Tests of the bytes of plans.

mod golden;
