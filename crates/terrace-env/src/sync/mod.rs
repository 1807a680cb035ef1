//! Every wait of the engine.

mod latch;

pub use latch::{Latch, LatchGuard};
