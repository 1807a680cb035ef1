//! How a range and its process are set up. Plain data; each `validate` is the one place that judges
//! it.
//!
//! # Why
//! Whoever sets an option asks first whether it can be taken back. So options are divided by how
//! long they hold, one file each:
//!
//! * [`FormatOptions`] are fixed when a range is created, and its manifest keeps them.
//! * [`Options`] are those of one open range, and [`ProcessOptions`] those that all ranges of a
//!   process share. Each open may choose them anew.
//! * [`Setting`] is one of those of a process, given anew while it runs.
//! * [`Research`] has the baselines that papers are compared with. They are there to be measured.
//!
//! Within each, what changes behaviour stands before what changes performance.

mod cloud;
mod durability;
mod format;
mod l0;
mod process;
mod range;
mod research;
mod setting;
mod value_log;

pub use cloud::CloudOptions;
pub use durability::Durability;
pub use format::FormatOptions;
pub use l0::{L0Kind, L0Medium, L0Options};
pub use process::ProcessOptions;
pub(crate) use range::DRANGES_MAX;
pub use range::Options;
pub use research::{Baseline, NearDesign, Research};
pub use setting::Setting;
pub use value_log::ValueLogOptions;

use crate::{Error, Result};

/// `Invalid` with this text, unless something holds.
fn require(holds: bool, text: impl Into<String>) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::invalid(text.into())) }
}
