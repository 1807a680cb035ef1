//! What the data cache is compared with: what others keep of far tables on the local disk.
//!
//! | design | kept | what goes | after a compaction | whose |
//! |---|---|---|---|---|
//! | `cache_files.rs` | blocks, in files in the order of arrival | the file used longest ago | stale blocks stay until their file goes | RocksDB's persistent cache |
//! | `whole_tables.rs` | whole tables | the table read least often | outputs have the heat of their inputs | Mutant |
//!
//! None of them is of use besides: see `options/research.rs`. They promise what the cache promises,
//! that it changes no answer and causes no error. Neither survives a restart.

mod cache_files;
#[cfg(test)]
mod tests;
mod whole_tables;

use std::sync::Arc;

use terrace_env::CacheFile;

use super::super::{CacheDirectory, FoundFile};
use super::Design;
use super::buckets::Buckets;
use crate::Result;
use crate::options::NearDesign;
use crate::process::MemoryPool;
use cache_files::CacheFiles;
use whole_tables::WholeTables;

const PREFIX: &str = "baseline-";

/// The design that a baseline asks for. `none`: buckets without room.
pub(super) fn design_of(
    design: NearDesign,
    dir: &Arc<CacheDirectory>,
    memory: &MemoryPool,
    none: Buckets,
) -> Box<dyn Design> {
    match design {
        NearDesign::Buckets | NearDesign::None => Box::new(none),
        NearDesign::FileLru => Box::new(CacheFiles::new(dir, memory)),
        NearDesign::WholeTables => Box::new(WholeTables::new(dir, memory)),
    }
}

/// Removes what a baseline of an earlier open has left.
pub(super) fn remove_files(dir: &CacheDirectory, found: &[FoundFile]) {
    let of_baselines = found.iter().filter(|file| file.name.starts_with(PREFIX));
    of_baselines.for_each(|file| dir.remove(&file.name));
}

/// Makes a file of a baseline, in the place of one that an earlier open has left.
fn create_file(dir: &CacheDirectory, number: u64) -> Result<Arc<dyn CacheFile>> {
    dir.make()?;
    let name = file_name(number);
    dir.remove(&name);
    Ok(dir.env.fs().open_cache(&dir.file(&name))?)
}

/// The name of a file of a baseline.
fn file_name(number: u64) -> String {
    format!("{PREFIX}{number:08}.data")
}
