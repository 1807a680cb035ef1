//! Ranges whose lower levels lie in an object store.

mod far_tables;
mod feed;

use super::*;
use crate::options::CloudOptions;

/// Small options, with all levels from `first_level` on in a directory that is an object store.
pub fn in_store(options: Options, first_level: u8) -> Options {
    let cloud = CloudOptions {
        first_level: Some(first_level),
        ..CloudOptions::new("file:///store", CloudOptions::LOCAL_BYTES_MIN)
    };
    Options { cloud: Some(cloud), ..options }
}
