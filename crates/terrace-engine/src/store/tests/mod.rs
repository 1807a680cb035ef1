//! Tests of whole ranges on the simulated environment.

mod bulk;
mod by_seed;
mod cloud;
mod follow;
mod model;
mod open;
mod read;
mod support;
mod transaction;
mod upkeep;
mod workload;
mod write;

use std::path::Path;
use std::sync::Arc;

use support::*;
use terrace_env::{SeededRng, SharedEnv, SimEnv, SimOptions};

use super::{Store, WriteOptions};
use crate::options::{L0Options, Options, ProcessOptions, Research};
use crate::process::Process;
use crate::{Result, WriteBatch};
