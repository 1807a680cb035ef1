//! Whether a container of L0 lies where it slows writers down.
//!
//! A container on persistent memory takes a row at the speed of memory. In a file on the disk of
//! the data, the row waits for that disk, and cuts out of it compete with the compactions below: on
//! an emulated disk of 2017 fills of 4 KB values went at 0.55 times the speed of plain tables.
//! Nothing is wrong with such a range but its speed, so it opens, and its log of events and its
//! figures say so.

use std::path::Path;

use terrace_env::{Env, PmemMedium};

use crate::l0::triangle::Container;

/// Looks where the container lies, and warns if it is a file on the disk of `dir`, where the data
/// are.
pub(super) fn is_on_data_disk(env: &dyn Env, dir: &Path, container: &Container) -> bool {
    let Some(pages) = container.pages().filter(|pages| pages.medium() == PmemMedium::File) else {
        return false;
    };
    match env.fs().are_on_one_device(pages.path(), dir) {
        Ok(true) => {
            crate::program_log::warn!(
                container = %pages.path().display(),
                "the container of L0 is a file on the disk of the data, where plain tables are faster: \
                 open the database with a plain L0, or put the container on persistent memory"
            );
            true
        }
        Ok(false) => false,
        Err(error) => {
            crate::program_log::debug!(%error, "the disk of L0's container is not known");
            false
        }
    }
}
