//! Where memtables are mapped that lie on a medium.
//!
//! Their file loses its name at once: what is in it goes with the process, and the log brings it
//! back.

use terrace_env::SharedEnv;

use super::Role;
use crate::Result;
use crate::memtable::SpareMemory;
use crate::options::Options;

/// The memtable that is written to, and the one that is flushed.
const MEMTABLES: u64 = 2;

/// The memory of the memtables of a range of this database.
///
/// Errors: the environment's.
pub(crate) fn spare_memory(
    env: &SharedEnv,
    options: &Options,
    database: u128,
) -> Result<SpareMemory> {
    let Some(medium) = options.memtable_medium().filter(|_| !options.read_only) else {
        return Ok(SpareMemory::new(options.memtable_bytes));
    };
    let (fs, path) = (env.fs(), medium.join(Role::Memtables.name(database)));
    let path = path.as_path();
    match fs.remove(path) {
        // A crash came before it lost its name.
        Ok(()) => {}
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    let bytes = SpareMemory::area_bytes(options.memtable_bytes, MEMTABLES);
    let area = fs.create_pmem(path, bytes)?;
    fs.remove(path)?;
    Ok(SpareMemory::on_medium(options.memtable_bytes, area))
}
