//! What clients do, as data: lists of operations, their text form, and generators that vary their
//! shape.
//!
//! # Why
//! A test that is a program finds what its author thought of, and a failing one cannot be made
//! smaller. A list of operations can be drawn at random, run under any options, cut in half by the
//! reducer, printed into a report and kept as a regression.
//!
//! Read `operation.rs` for what there is, `text.rs` for how it is written, `shape.rs` and
//! `generate.rs` for how it is drawn; `coverage.rs` counts what was reached.

mod coverage;
mod generate;
mod operation;
mod shape;
mod text;

pub use coverage::{Coverage, SHAPES};
pub use generate::Generator;
pub use operation::{
    Change, Condition, How, Operation, Reading, Slot, Value, batch_of, numbers_of,
};
pub use shape::{KeyForm, Purpose, SPACES, Shape, ValueForm, Weights};
pub use text::ParseError;
